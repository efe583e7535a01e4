"""Aggregates of many queries over one window, conditions on two attributes: a thousand GROUP BYs, ten thousand global
aggregates, and one query alone."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns, with_more
from bench.harness.pictures import bars as draw_bars

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, INSTANTS, GROUPS, CONSTANTS, EPOCHS = 2_000, 20, 100, 100, 10  # a window is of so many epochs
CASES = {"GROUP BY": ("g, ", " GROUP BY g", 1_000), "global": ("", "", 10_000)}
BARS = {"GROUP BY": 15.0, "global": 20.0}
READS = 30


def _run(case: str, queries: int, epochs: int) -> Sample:
    """Epochs count once the window is full; what is not measured is declaring, and making the rows."""
    keys, grouping, _ = CASES[case]
    window = f"[RANGE {EPOCHS * INSTANTS}]"
    text = f"SELECT {keys}count(*), sum(v) FROM S {window} WHERE a > ? AND b < ?{grouping}"
    pairs = [(a, b) for a in range(CONSTANTS) for b in range(CONSTANTS)]
    random.Random(1).shuffle(pairs)
    rng, took, walls = np.random.default_rng(2), [0.0], [0.0]
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (g INT, a INT, b INT, v INT) TIMESTAMP BY ts")
        if queries == 1:
            members = [db.register(text.replace("?", str(CONSTANTS // 2)))]
        else:
            members = [*db.register_many(text, pairs[:queries])]
        for epoch in range(EPOCHS + epochs):
            most = {"g": GROUPS, "a": CONSTANTS + 1, "b": CONSTANTS + 1, "v": 1_000}
            drawn = {name: rng.integers(0, below, ROWS).astype(np.int32) for name, below in most.items()}
            rows = pl.DataFrame({**drawn, "ts": epoch * INSTANTS + np.arange(ROWS) * INSTANTS // ROWS})
            started = time.process_time(), time.perf_counter()
            db.insert("S", rows)
            if epoch >= EPOCHS:
                took.append(time.process_time() - started[0])
                walls.append(time.perf_counter() - started[1])
        reads = []
        for place in range(READS):
            started_reading = time.process_time()
            members[place * 7 % len(members)].result()
            reads.append(time.process_time() - started_reading)
    sample = Sample(elements=epochs * ROWS, cpu=sum(took), wall=sum(walls))
    return with_more(sample, read_ms=1e3 * median(reads), epoch_ms=1e3 * sum(took) / epochs)


def trials(settings: Settings) -> list[Trial]:
    epochs = EPOCHS // 2 if settings.quick else 3 * EPOCHS

    def measure(case: str) -> list[Measurement]:
        runs = {name: partial(_run, case, size, epochs) for name, size in (("alone", 1), ("many", CASES[case][2]))}
        best = in_turns(runs, 1 if settings.quick else 3)
        return [Measurement(case, name, CASES[case][2], sample) for name, sample in best.items()]

    return [Trial(case, partial(measure, case)) for case in CASES]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for case, (_, _, queries) in CASES.items():
        many, alone = (find(measurements, case, variant) for variant in ("many", "alone"))
        if many and alone:
            times, reading = (alone.rate / many.rate), many.sample.more["read_ms"] / alone.sample.more["read_ms"]
            found.append(Bar(f"{queries:,} of {case}, times one", times, BARS[case], at_most=True))
            found.append(Bar(f"reading one of {queries:,} of {case}, times one alone", reading, 3.0, at_most=True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.milliseconds * ROWS / 1e3, "ms of CPU time per epoch")


EXPERIMENT = Experiment(
    "shared_aggregates", "aggregates of many queries", trials, bars, draw, shown=("epoch_ms", "read_ms")
)
