"""Many standing queries in one pipeline, beside plain Spark: the same files, the same session, in turns.

Plain Spark has two ways: one streaming job that joins the stream with a table of rules, or a job per question.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from bench.harness import plain_spark
from bench.harness.beside_spark import MILLSTREAM, SPARK, compare
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial
from bench.harness.pictures import times_wanted
from bench.workloads.files import source, wide_rows, write_files
from bench.workloads.rules import ATTRIBUTES, COLUMNS, TEMPLATE, Rule, rules

import millstream as ms
from millstream.spark.session import embedded_session

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

AT_ONCE, BY_FILE, SEPARATE = "1,000 queries, one trigger", "1,000 queries, a file per trigger", "50 queries"
ONE_BY_ONE = "1,000 queries of mixed shapes, each by a call of its own, one trigger"
WANTED = {AT_ONCE: 10.0, ONE_BY_ONE: 10.0, BY_FILE: 7.0, SEPARATE: 7.0}  # times plain Spark


def text(rule: Rule, size: int) -> str:
    """A rule as a query with the conditions only that it has."""
    bounds = [(name, rule[2 * place], rule[2 * place + 1]) for place, name in enumerate(ATTRIBUTES)]
    parts = [f"{name} > {low}" for name, low, _ in bounds if low >= 0]
    parts += [f"{name} < {high}" for name, _, high in bounds if high < 100]
    return f"SELECT COUNT(*) AS n FROM s [TUMBLE {size}] WHERE {' AND '.join(parts)}"


def in_bulk(db: ms.Database, queries: Sequence[Rule], size: int) -> Sequence[ms.Query]:
    return db.register_many(TEMPLATE.format(size), queries)


def one_by_one(db: ms.Database, queries: Sequence[Rule], size: int) -> Sequence[ms.Query]:
    return [db.register(text(rule, size)) for rule in queries]


def on_millstream(
    spark: SparkSession,
    place: Path,
    directory: Path,
    files: int | None,
    size: int,
    queries: Sequence[Rule],
    register: Callable[[ms.Database, Sequence[Rule], int], Sequence[ms.Query]] = in_bulk,
) -> tuple[float, int]:
    """The seconds to take all files in, and how many matches all queries counted together."""
    shutil.rmtree(place, ignore_errors=True)
    with ms.connect(place, spark=spark) as db:
        db.execute(source("s", COLUMNS, directory, files).format("idx"))
        registered = register(db, queries, size)

        def fed() -> int:
            db.run(until="idle")
            db.advance("s", to=size)
            return int(pc.sum(db.results(registered, at=size)["n"]).as_py())

        return plain_spark.measured(fed)


def trials(settings: Settings) -> list[Trial]:
    size = 200_000 if settings.quick else 1_000_000
    spark = embedded_session().session
    root = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    directory = write_files(root / "wide", wide_rows(size), 4)
    many, few = rules(1_000), rules(50)
    ours = partial(on_millstream, spark, root / "db", directory)
    theirs = partial(plain_spark.rules_join, spark, directory, root / "checkpoint")
    separate = partial(plain_spark.job_per_rule, spark, directory, root / "checkpoint", few)
    cases: list[tuple[str, Callable[[], tuple[float, int]], Callable[[], int]]] = [
        (AT_ONCE, lambda: ours(None, size, many), lambda: theirs(None, many)),
        (ONE_BY_ONE, lambda: ours(None, size, many, one_by_one), lambda: theirs(None, many)),
        (BY_FILE, lambda: ours(1, size, many), lambda: theirs(1, many)),
        (SEPARATE, lambda: ours(None, size, few), separate),
    ]
    return [Trial(name, partial(compare, name, size, mine, plain, settings)) for name, mine, plain in cases]


def ratios(measurements: Sequence[Measurement]) -> dict[str, float]:
    """How many times as fast as plain Spark; both must have counted the same."""
    found = {}
    for case in WANTED:
        pair = {m.variant: m.sample for m in measurements if m.case == case}
        if len(pair) == 2:
            if pair[MILLSTREAM].rows_out != pair[SPARK].rows_out:
                raise AssertionError(f"{case}: {pair[MILLSTREAM].rows_out} matches, and {pair[SPARK].rows_out}")
            found[case] = pair[SPARK].wall / pair[MILLSTREAM].wall
    return found


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return [Bar(f"{case}: times plain Spark", ratio, WANTED[case]) for case, ratio in ratios(measurements).items()]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    times_wanted(figure.subplots(), ratios(measurements), WANTED)


EXPERIMENT = Experiment("many_queries", "many queries in one pipeline, and plain Spark", trials, bars, draw)
