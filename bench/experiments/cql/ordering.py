"""First rows and OVER, through the whole engine in one process: the top ten of 10,000 groups, LAG, a running SUM.

A million elements in batches of 50,000 are measured, after the window was filled where there is one. What is wanted is
100,000 elements per second of processor time for each, and that a window ten times as large makes first rows at most
twice as expensive: of the rows in a window only those are kept that may still be among the first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns
from bench.harness.pictures import lines

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = 50_000
MEASURED = 1_000_000
GROUPS = 10_000
WINDOWS = (100_000, 1_000_000)
WANTED = 100_000  # elements per second
GROWTH = 2.0  # with a window ten times as large
QUERIES = {
    "top 10": "SELECT k, v FROM S [RANGE {window}] QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) <= 10",
    "LAG": "SELECT k, v, lag(v) OVER (PARTITION BY k ORDER BY t) AS l FROM S [RANGE {window}]",
    "running SUM": "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY t ROWS UNBOUNDED PRECEDING) AS s FROM S",
}


def trials(settings: Settings) -> list[Trial]:
    measured = 4 * BATCH if settings.quick else MEASURED
    cases = [("top 10", WINDOWS[0]), ("top 10", WINDOWS[1]), ("LAG", WINDOWS[0]), ("running SUM", 0)]
    return [_trial(case, BATCH if settings.quick and window else window, measured) for case, window in cases]


def _trial(case: str, window: int, measured: int) -> Trial:
    def measure() -> list[Measurement]:
        found = in_turns({case: lambda: _run(case, window, measured)}, repetitions=1)
        return [Measurement(case, name, window, sample) for name, sample in found.items()]

    return Trial(f"{case}, window {window:,}", measure)


def _run(case: str, window: int, measured: int) -> Sample:
    rng = np.random.default_rng(7)
    cpu = wall = 0.0
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (k BIGINT, v BIGINT, t BIGINT) TIMESTAMP BY t")
        db.register(QUERIES[case].format(window=window), name="q")
        for low in range(0, window + measured, BATCH):
            columns = {
                "k": rng.integers(0, GROUPS, BATCH),
                "v": rng.integers(0, 1_000_000, BATCH),
                "t": np.arange(low, low + BATCH),
            }
            rows = pl.DataFrame(columns)
            began, spent = time.perf_counter(), time.process_time()
            db.insert("S", rows)
            if low >= window:
                wall, cpu = wall + time.perf_counter() - began, cpu + time.process_time() - spent
    return Sample(measured, cpu, wall)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = [
        Bar(f"{m.case}, window {m.size:,}: elements/s", m.rate, WANTED) for m in measurements if m.size != WINDOWS[1]
    ]
    small, large = (find(measurements, "top 10", "top 10", window) for window in WINDOWS)
    if small is not None and large is not None:
        found.append(Bar("top 10: cost of a window ten times as large", small.rate / large.rate, GROWTH, True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.subplots()
    lines(axes, measurements, lambda m: m.nanoseconds)
    axes.set_xlabel("elements in the window", fontsize=8)
    axes.set_ylabel("ns per element", fontsize=8)
    axes.legend(fontsize=8, frameon=False)


EXPERIMENT = Experiment("ordering", "first rows and OVER", trials, bars, draw)
