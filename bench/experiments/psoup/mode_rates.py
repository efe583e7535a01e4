"""PSoup's data rates: how fast elements are taken in for many queries, in modes EAGER and LAZY, with queries indexed
(groups: one probe of the query table for all) and not (a plan each), for two window sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns, sampled
from bench.harness.pictures import grid

import millstream as ms
from millstream.language.bind_parameters import with_constants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALUES, BATCH = 256, 2_000
WINDOWS = (1_000, 100_000)
SIZES = (1, 10, 100, 1_000)
VARIANTS = {
    "EAGER, indexed": ("eager", "on"),
    "LAZY, indexed": ("lazy", "on"),
    "EAGER, not indexed": ("eager", "off"),
    "LAZY, not indexed": ("lazy", "off"),
}


def _run(mode: str, sharing: str, window: int, count: int, batches: int) -> Sample:
    random = np.random.default_rng(1)
    lows = random.integers(0, VALUES - 1, count)
    bounds = [(int(low), int(random.integers(low + 1, VALUES + 1))) for low in lows]
    template = f"SELECT * FROM R [RANGE {window}] WHERE a > ? AND a < ?"
    with ms.connect(engine="inprocess") as db:
        db.execute(f"CREATE STREAM R (k BIGINT, a INT, b INT) TIMESTAMP BY ts; SET sharing = '{sharing}'")
        if sharing == "on":
            db.register_many(template, bounds, mode=mode)
        else:
            for row in bounds:
                db.register(with_constants(template, row), mode=mode)

        def feed(number: int) -> None:
            ts = np.arange(number * BATCH, (number + 1) * BATCH)
            drawn = {c: random.integers(0, VALUES, BATCH).astype(np.int32) for c in "ab"}
            db.insert("R", pl.DataFrame({"k": ts, **drawn, "ts": ts}))

        feed(0)  # plans are made and indexes built

        def rest() -> int:
            for number in range(1, batches + 1):
                feed(number)
            return 0

        return sampled(rest, BATCH * batches)


def trials(settings: Settings) -> list[Trial]:
    def measure(window: int, count: int) -> list[Measurement]:
        batches = 2 if settings.quick or count >= 1_000 else 8
        runs = {name: partial(_run, *how, window, count, batches) for name, how in VARIANTS.items()}
        best = in_turns(runs, 1 if settings.quick else 2)
        return [Measurement(f"window {window:,}", name, count, sample) for name, sample in best.items()]

    sizes = SIZES[:3] if settings.quick else SIZES
    return [
        Trial(f"{count} queries, window {window}", partial(measure, window, count))
        for window in WINDOWS
        for count in sizes
    ]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for mode in ("EAGER", "LAZY"):
        case = f"window {WINDOWS[-1]:,}"
        indexed, not_indexed = (find(measurements, case, f"{mode}, {way}") for way in ("indexed", "not indexed"))
        if indexed and not_indexed:
            found.append(Bar(f"1,000 queries, {mode}, indexed, times as fast", indexed.rate / not_indexed.rate, 2.0))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    cases = dict.fromkeys(m.case for m in measurements)
    panels = [(f"{case}: elements/s", [m for m in measurements if m.case == case], _rate) for case in cases]
    grid(figure, panels, columns=2)


def _rate(measurement: Measurement) -> float:
    return measurement.rate


EXPERIMENT = Experiment("mode_rates", "elements taken in for many queries", trials, bars, draw)
