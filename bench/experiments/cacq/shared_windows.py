"""Ten queries that join three streams over different windows: a join for each, or one that keeps the longest window."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns, with_more
from bench.harness.pictures import bars as draw_bars

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERIES, LONGEST, ELEMENTS, BATCH = 10, 10_000, 40_000, 4_000
KEYS = {"few keys": 2_000, "many keys": 20_000}
STREAMS = ("S", "T", "U")


def _run(keys: int, stem_window: int, elements: int) -> Sample:
    """One element per tick on each stream; what is not measured is declaring, and making the elements."""
    rng = np.random.default_rng(1)
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET join_plan = 'eddy'; SET stem_window = {stem_window}")
        db.execute("; ".join(f"CREATE STREAM {name} (a INT, b INT) TIMESTAMP BY ts" for name in STREAMS))
        for number in range(1, QUERIES + 1):
            window = f"[RANGE {number * LONGEST // QUERIES}]"
            origin = ", ".join(f"{name} {window}" for name in STREAMS)
            db.register(f"SELECT S.b, T.b, U.b FROM {origin} WHERE S.a = T.a AND T.a = U.a")
        cpu = wall = 0.0
        for low in range(0, elements, BATCH):
            for name in STREAMS:
                ts = np.arange(low, low + BATCH)
                drawn = {"a": rng.integers(0, keys, BATCH).astype(np.int32), "b": ts.astype(np.int32), "ts": ts}
                rows = pl.DataFrame(drawn)
                started = time.process_time(), time.perf_counter()
                db.insert(name, rows)
                cpu, wall = cpu + time.process_time() - started[0], wall + time.perf_counter() - started[1]
        state = {step: size for step, size in db.engine.reports.state_bytes().items() if step.startswith("stemjoin")}
    sample = Sample(elements=len(STREAMS) * elements, cpu=cpu, wall=wall)
    return with_more(sample, joins=len(state), MiB=sum(state.values()) / 2**20)


def trials(settings: Settings) -> list[Trial]:
    elements = ELEMENTS // 4 if settings.quick else ELEMENTS

    def measure(case: str) -> list[Measurement]:
        variants = {"a join each": 0, "one join": LONGEST}
        runs = {name: partial(_run, KEYS[case], window, elements) for name, window in variants.items()}
        best = in_turns(runs, 1 if settings.quick else 3)
        return [Measurement(case, name, LONGEST, sample) for name, sample in best.items()]

    return [Trial(case, partial(measure, case)) for case in KEYS]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    one, each = (find(measurements, "many keys", variant) for variant in ("one join", "a join each"))
    return [Bar("one join for ten windows, times as fast", one.rate / each.rate, 2.0)] if one and each else []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.rate / 1e3, "thousand elements/s")


EXPERIMENT = Experiment(
    "shared_windows", "ten joins of three streams over ten windows", trials, bars, draw, shown=("joins", "MiB")
)
