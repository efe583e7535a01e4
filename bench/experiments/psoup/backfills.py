"""The past of late queries beside the same queries live: rows per second of a backfill with nothing else running."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find
from bench.harness.pictures import bars as draw_bars
from bench.harness.resident import processor_seconds

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = "k BIGINT, v BIGINT, x DOUBLE, ts TIMESTAMP"
SELECTIVE = "a selection"
QUERIES = {
    SELECTIVE: "SELECT k, v FROM s WHERE k = 7 AND v < 500",
    "sliding average": "SELECT k, AVG(v) AS a, COUNT(*) AS n FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY k",
    "average at every instant": "SELECT k, AVG(x) AS a FROM s [RANGE 30 SECONDS] GROUP BY k",
    "least and greatest": "SELECT k, MAX(v) AS most, MIN(x) AS least FROM s [RANGE 30 SECONDS] GROUP BY k",
    "distinct values": "SELECT k, COUNT(DISTINCT v) AS n FROM s [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY k",
    "join with itself": "SELECT ISTREAM(a.k, b.k) FROM s [RANGE 1 SECOND] a, s [RANGE 1 SECOND] b WHERE a.v = b.v",
    "EXCEPT": "SELECT k FROM s [RANGE 30 SECONDS] EXCEPT SELECT k FROM s [RANGE 10 SECONDS] WHERE v < 9000",
}
FEW, MANY = 100, 50_000  # keys
GROUPED = ("sliding average", "average at every instant")  # with many groups too
LIVE, LATE = "live", "late"
BATCH = 250_000
WITHIN = {"inprocess": 1.0, "spark": 3.0}  # seconds for a million rows of a selection


def trials(settings: Settings) -> list[Trial]:
    count = 1_000_000 // (10 if settings.quick else 1)
    cases = [(text, FEW) for text in QUERIES] + [(text, MANY) for text in GROUPED]
    return [
        Trial(case(query, keys, engine), partial(compared, query, keys, engine, count))
        for engine in WITHIN
        for query, keys in cases
    ]


def case(query: str, keys: int, engine: str) -> str:
    where = "in process" if engine == "inprocess" else "on Spark"
    return f"{query}, {keys:,} keys, {where}"


def rows(first: int, count: int, keys: int) -> pl.DataFrame:
    dice = np.random.default_rng(first)
    return pl.DataFrame(
        {
            "k": dice.integers(0, keys, count),
            "v": dice.integers(0, 10_000, count),
            "x": dice.random(count),
            "ts": pl.Series(np.arange(first, first + count) * 1_000).cast(pl.Datetime("us", "UTC")),
        }
    )


def compared(query: str, keys: int, engine: str, count: int) -> list[Measurement]:
    """The query is there before the rows, or comes after them; in either way it is the first one."""
    name, found, answers = case(query, keys, engine), [], []
    for variant in (LIVE, LATE):
        with tempfile.TemporaryDirectory(prefix="millstream-bench-") as place, ms.connect(place, engine=engine) as db:
            db.execute(f"CREATE STREAM s ({COLUMNS}) TIMESTAMP BY ts; SET background_rows = {count // 5}")
            standing = db.register(QUERIES[query]) if variant == LIVE else None
            batches = [rows(first, min(BATCH, count - first), keys) for first in range(0, count, BATCH)]
            begun, spent = time.perf_counter(), processor_seconds()
            for batch in batches:
                db.insert("s", batch)
            if standing is None:
                begun, spent = time.perf_counter(), processor_seconds()
                standing = db.register(QUERIES[query])
                standing.wait()
            taken, cpu = time.perf_counter() - begun, max(processor_seconds() - spent, 0.01)
            answers.append(sorted(standing.result().to_pylist(), key=repr))
        more = {"seconds": taken}
        found.append(Measurement(name, variant, count, Sample(count, cpu, taken, len(answers[-1]), more=more)))
    if answers[0] != answers[1]:
        raise AssertionError(f"{name}: {len(answers[0])} rows live, and {len(answers[1])} others late")
    return found


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for late in (m for m in measurements if m.variant == LATE):
        live = find(measurements, late.case, LIVE)
        if live is not None:
            found.append(Bar(f"{late.case}: rows per second of CPU, to live", late.rate / live.rate, 0.5))
    for engine, most in WITHIN.items():
        selective = find(measurements, case(SELECTIVE, FEW, engine), LATE)
        if selective is not None:
            name = f"{selective.case}: seconds for a late query"
            found.append(Bar(name, selective.sample.wall, most, at_most=True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.sample.cpu, "seconds of CPU")


EXPERIMENT = Experiment(
    "backfills", "the past of late queries beside the same queries live", trials, bars, draw, shown=("seconds",)
)
