"""From an insert to the answers, by how many rows it has and how many queries there are: in process, on Spark, and as
plain Spark micro-batches.

Databases are directories. A sample is the median of many inserts by the clock, and that of the processor time of this
process, which others on the machine leave as it is. What the syncs of a commit took in the same run is measured too,
since disks differ.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find
from bench.harness.pictures import grid
from bench.harness.plain_batches import MicroBatches, Question
from bench.harness.syncs import Syncs, timed_syncs
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import millstream as ms
from millstream.database import Database
from millstream.spark.session import embedded_session

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

BY_ROWS, BY_QUERIES = "rows per insert, three queries", "queries, 20 rows per insert"
ROWS = (1, 20, 100, 1_000, 10_000, 100_000, 1_000_000)
QUERIES = (1, 10, 100, 1_000, 10_000)
SMALL, KEYS = 20, 20
IN_PROCESS, ON_SPARK, PLAIN = "in process", "on Spark", "plain Spark"
VARIANTS = {IN_PROCESS: "inprocess", ON_SPARK: "spark"}
WANTED = {IN_PROCESS: 6.0, ON_SPARK: 10.0}  # milliseconds, without the syncs
STANDING = (
    "SELECT k, a FROM s WHERE a > 90",
    "SELECT k, COUNT(*) AS n, MAX(a) AS m FROM s [RANGE 100] GROUP BY k",
    "SELECT s.a, r.c FROM s [RANGE 100], r WHERE s.k = r.k AND s.b < 10",
)
TEMPLATE = "SELECT k, a FROM s WHERE a > ? AND b = ?"
COLUMNS = "k BIGINT, a BIGINT, b BIGINT, ts BIGINT"
Row = tuple[int, int, int, int]
Answered = Callable[[pl.DataFrame], float]  # takes rows in; how many seconds until they were answered


def batches(rows: int) -> Iterator[pl.DataFrame]:
    """Inserts of so many rows, two at each instant."""
    dice, first = np.random.default_rng(rows), 1
    while True:
        instants = first + np.arange(rows) // 2
        first = int(instants[-1]) + 1
        values = {name: dice.integers(0, most, rows) for name, most in (("k", KEYS), ("a", 100), ("b", 100))}
        yield pl.DataFrame({**values, "ts": instants})


def constants(queries: int) -> list[tuple[int, int]]:
    return [(number % 100, number // 100) for number in range(queries)]


@contextmanager
def streams(engine: str) -> Iterator[Database]:
    place = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    try:
        with ms.connect(place / "db", engine=engine) as db:
            db.execute("CREATE STREAM s (k BIGINT, a BIGINT, b BIGINT) TIMESTAMP BY ts")
            yield db
    finally:
        shutil.rmtree(place, ignore_errors=True)


def answering(db: Database, queries: Sequence[ms.Query | ms.Template]) -> Answered:
    """Inserts rows, of which small batches are tuples as programs have them, and asks all queries what has changed."""
    reached: int | None = None

    def answered(rows: pl.DataFrame) -> float:
        nonlocal reached
        taken = rows if rows.height > 1_000 else rows.rows()
        begun = time.perf_counter()
        db.insert("s", taken)
        for query in queries:
            query.changes(reached)
        seconds = time.perf_counter() - begun
        reached = int(rows["ts"][-1]) - 1
        return seconds

    return answered


def measured(answered: Answered, rows: int, count: int, syncs: Syncs) -> Sample:
    """The median of so many, after some that are not counted."""
    found, spent, coming = list[float](), list[float](), batches(rows)
    waits, times = list[float](), list[int]()
    for number in range(count + max(count // 4, 2)):
        taken = next(coming)
        syncs.reset()
        cpu = time.process_time()
        seconds = answered(taken)
        if number >= max(count // 4, 2):
            found.append(seconds)
            spent.append(time.process_time() - cpu)
            waits.append(syncs.seconds)
            times.append(syncs.count)
    slowest = sorted(found)[min(int(len(found) * 0.99), len(found) - 1)]
    median, cpu = statistics.median(found), max(statistics.median(spent), 1e-6)
    more = {"syncs_ms": 1e3 * statistics.median(waits), "syncs": statistics.median(times)}
    more = {"ms": 1e3 * median, "p99_ms": 1e3 * slowest, "cpu_ms": 1e3 * cpu, **more}
    return Sample(rows, cpu, median, more=more)


def of_rows(variant: str, rows: int, count: int) -> Sample:
    with streams(VARIANTS[variant]) as db, timed_syncs() as syncs:
        db.execute("CREATE TABLE r (k BIGINT, c BIGINT)")
        db.execute(f"INSERT INTO r VALUES {', '.join(f'({key}, {10 * key})' for key in range(KEYS))} AT 0")
        return measured(answering(db, [db.register(text) for text in STANDING]), rows, count, syncs)


def of_queries(variant: str, queries: int, count: int) -> Sample:
    with streams(VARIANTS[variant]) as db, timed_syncs() as syncs:
        template = db.register_many(TEMPLATE, constants(queries), template="alerts")
        return measured(answering(db, [template]), SMALL, count, syncs)


def standing_questions(spark: SparkSession) -> list[Question]:
    """The three queries, as plain as Spark has them: groups over all time, and a table that never changes."""
    table = spark.createDataFrame([(key, 10 * key) for key in range(KEYS)], "k BIGINT, c BIGINT")

    def grouped(stream: DataFrame) -> tuple[DataFrame, str]:
        return stream.groupBy("k").agg(f.count("*"), f.max("a")), "update"

    return [
        lambda stream: (stream.where("a > 90").select("k", "a"), "append"),
        grouped,
        lambda stream: (stream.where("b < 10").join(f.broadcast(table), "k").select("a", "c"), "append"),
    ]


def rules_question(spark: SparkSession, queries: int) -> Question:
    """One streaming job for all queries: the stream joined with the table of their constants."""
    rules = spark.createDataFrame([(n, *row) for n, row in enumerate(constants(queries))], "q INT, low INT, own INT")
    return lambda stream: (
        stream.join(f.broadcast(rules), f.expr("a > low AND b = own")).select("q", "k", "a"),
        "append",
    )


def plain(questions: Callable[[SparkSession], Sequence[Question]], rows: int, count: int) -> Sample:
    embedded, root = embedded_session(), Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    try:
        running = MicroBatches(embedded.session, root, COLUMNS, questions(embedded.session))
        try:
            return measured(running.answer, rows, count, Syncs())
        finally:
            running.stop()
    finally:
        embedded.stop()
        shutil.rmtree(root, ignore_errors=True)


def trials(settings: Settings) -> list[Trial]:
    rows, queries = (ROWS[:4], QUERIES[:4]) if settings.quick else (ROWS, QUERIES)

    def by_rows(size: int) -> list[Measurement]:
        count = _times(size, settings)
        found = {variant: of_rows(variant, size, count) for variant in VARIANTS}
        found[PLAIN] = plain(standing_questions, size, max(count // 10, 3))
        return [Measurement(BY_ROWS, variant, size, sample) for variant, sample in found.items()]

    def by_queries(size: int) -> list[Measurement]:
        count = _times(SMALL, settings)
        found = {variant: of_queries(variant, size, count) for variant in VARIANTS}
        found[PLAIN] = plain(lambda spark: [rules_question(spark, size)], SMALL, max(count // 10, 3))
        return [Measurement(BY_QUERIES, variant, size, sample) for variant, sample in found.items()]

    return [
        *(Trial(f"{size:,} rows", partial(by_rows, size)) for size in rows),
        *(Trial(f"{size:,} queries", partial(by_queries, size)) for size in queries),
    ]


def _times(rows: int, settings: Settings) -> int:
    most = 30 if settings.quick else 300
    return max(min(most, 1_000_000 // rows), 3)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for variant, most in WANTED.items():
        measurement = find(measurements, BY_ROWS, variant, SMALL)
        if measurement is not None:
            more = measurement.sample.more
            name = f"{SMALL} rows, three queries, {variant}"
            found.append(Bar(f"{name}: ms without syncs, median", more["ms"] - more["syncs_ms"], most, at_most=True))
            found.append(Bar(f"{name}: p99, times the median", more["p99_ms"] / more["ms"], 5.0, at_most=True))
            found.append(Bar(f"{name}: syncs", more["syncs"], 2.0, at_most=True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    def of(case: str) -> list[Measurement]:
        return [m for m in measurements if m.case == case]

    grid(
        figure,
        [
            ("median ms by rows per insert, three queries", of(BY_ROWS), lambda m: m.sample.more["ms"]),
            ("99 % are answered within, ms", of(BY_ROWS), lambda m: m.sample.more["p99_ms"]),
            ("median ms by queries, 20 rows per insert", of(BY_QUERIES), lambda m: m.sample.more["ms"]),
        ],
    )


EXPERIMENT = Experiment(
    "latency",
    "from an insert to the answers",
    trials,
    bars,
    draw,
    shown=("ms", "p99_ms", "cpu_ms", "syncs_ms", "syncs"),
)
