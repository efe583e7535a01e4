"""CACQ's Figure 7: twenty queries over more and more sources like S, each with one predicate on one of them.

As many elements come in batches of the same size however many sources there are: from one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns
from bench.harness.pictures import lines

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCES, QUERIES = (1, 2, 5, 10, 15, 20), 20
BATCHES, ROWS = 20, 20_000
CASE, SHARED, SEPARATE = "twenty queries", "grouped filters", "a plan each"
SHARING = {SHARED: "on", SEPARATE: "off"}


def predicates(sources: int) -> list[tuple[int, str, int]]:
    dice = np.random.default_rng(3)
    return [
        (int(dice.integers(sources)), ("<", ">", "<=", ">=")[dice.integers(4)], int(dice.integers(0, 100)))
        for _ in range(QUERIES)
    ]


def batches(sources: int, rows: int) -> list[tuple[int, pl.DataFrame]]:
    dice = np.random.default_rng(4)
    found = []
    for number in range(BATCHES):
        values = {name: dice.integers(0, 100, rows, dtype=np.int32) for name in "abcde"}
        found.append((number % sources, pl.DataFrame({**values, "ts": np.full(rows, number)})))
    return found


def run(sharing: str, sources: int, rows: int) -> Sample:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET sharing = '{SHARING[sharing]}'")
        for source in range(sources):
            db.execute(f"CREATE STREAM s{source} (a INT, b INT, c INT, d INT, e INT) TIMESTAMP BY ts")
        queries = [db.register(f"SELECT * FROM s{s} WHERE a {operator} {x}") for s, operator, x in predicates(sources)]
        for source in range(sources):
            db.insert(f"s{source}", [(0, 0, 0, 0, 0, 0)])  # what is made once is made
        given = batches(sources, rows)
        begun, clock = time.process_time(), time.perf_counter()
        for source, batch in given:
            db.insert(f"s{source}", batch)
        cpu, wall = time.process_time() - begun, time.perf_counter() - clock
        db.advance(to=BATCHES)
        return Sample(
            sum(batch.height for _, batch in given), cpu, wall, sum(query.stats()["rows"] for query in queries)
        )


def trials(settings: Settings) -> list[Trial]:
    rows = ROWS // 10 if settings.quick else ROWS
    return [_trial(sources, rows, settings) for sources in (SOURCES[::2] if settings.quick else SOURCES)]


def _trial(sources: int, rows: int, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        best = in_turns({name: partial(run, name, sources, rows) for name in SHARING}, 1 if settings.quick else 3)
        if len({sample.rows_out for sample in best.values()}) != 1:
            raise AssertionError(f"{sources} sources: answers differ")
        return [Measurement(CASE, name, sources, sample) for name, sample in best.items()]

    return Trial(f"{sources} sources", measure)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    """By twenty sources the paper's throughput had dropped by about a factor of two."""
    one, twenty = (find(measurements, CASE, SHARED, sources) for sources in (SOURCES[0], SOURCES[-1]))
    if one is None or twenty is None:
        return []
    return [Bar("20 sources: times the cost of one", twenty.nanoseconds / one.nanoseconds, 2.0, at_most=True)]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.subplots()
    lines(axes, measurements, lambda m: m.rate / 1e6)
    axes.set_xlabel("sources", fontsize=8)
    axes.set_ylabel("M elements/s", fontsize=8)
    axes.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment("many_sources", "twenty queries over 1 to 20 sources (CACQ, Figure 7)", trials, bars, draw)
