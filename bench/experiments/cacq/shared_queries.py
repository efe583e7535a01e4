"""CACQ's Figure 6: elements of S against the number of random queries, all together and each by itself.

The paper's queries have a predicate on each of five attributes with probability 1/2, so that about a quarter of all
queries want an element: at 100,000 queries that is 24,000 bits of lineage set for each of them.

The operator is measured alone, and the same queries through the database, where they come by a call each or in bulk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
from bench.harness.experiment import (
    Bar,
    Experiment,
    Measurement,
    Sample,
    Settings,
    Trial,
    find,
    in_turns,
    sampled,
    with_more,
)
from bench.harness.operators import Stepping
from bench.harness.pictures import lines
from bench.workloads.shared_queries import SCHEMA, Queries, random_queries, stream

import millstream as ms
from millstream.kernel.batch import value_columns
from millstream.kernel.relational.linear import Filter
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.parameters import QUERIES, SHAPE, by_shape, with_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = {1: 400_000, 10: 400_000, 100: 400_000, 1_000: 200_000, 10_000: 40_000, 100_000: 8_192}
MOST_BY_THEMSELVES, MOST_ROWS_APART = 1_000, 20_000
TOGETHER, APART = "grouped filters", "a filter for each query"
WANTED = {1_000: 3.0, 10_000: 1.0, 100_000: 0.1}
OPERATOR, DATABASE = "random queries over S", "random queries in a database"
ONE_BY_ONE, IN_BULK = "a call for each query", "a call for each shape"
ROWS_INSERTED, WANTED_RATIO = 20_000, 1.2  # epochs cost the same, however queries came


def trials(settings: Settings) -> list[Trial]:
    sizes = [size for size in ROWS if size <= 1_000] if settings.quick else list(ROWS)
    return [*(_trial(size, settings) for size in sizes), _trial_of_database(100 if settings.quick else 1_000, settings)]


def _trial(size: int, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        queries, batch = random_queries(size), stream(ROWS[size] // (10 if settings.quick else 1))
        together = Stepping(queries.operator(), queries.state)
        # The index is made when the queries are registered, and learns on the way.
        made = sampled(lambda: together.step(batch), batch.height)
        runs = {TOGETHER: lambda: sampled(lambda: together.step(batch), batch.height)}
        if size <= MOST_BY_THEMSELVES:
            filters = _filters(queries)
            some = batch[:MOST_ROWS_APART]
            runs[APART] = lambda: sampled(lambda: sum(each.step(some) for each in filters), some.height)
        found = in_turns(runs, settings.repetitions)
        found[TOGETHER] = _with_making(found[TOGETHER], made)
        return [Measurement(OPERATOR, name, size, sample) for name, sample in found.items()]

    return Trial(f"{size:,} queries", measure)


def _trial_of_database(size: int, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        queries, batch = random_queries(size), stream(ROWS_INSERTED)
        rows = batch.select(value_columns(len(SCHEMA))).rename(dict(zip(batch.columns, _NAMES, strict=False)))
        runs = {name: partial(_inserted, queries, rows, name) for name in (ONE_BY_ONE, IN_BULK)}
        found = in_turns(runs, settings.repetitions)
        return [Measurement(DATABASE, name, size, sample) for name, sample in found.items()]

    return Trial(f"{size:,} queries in a database", measure)


_NAMES = [field.name for field in SCHEMA]


def _inserted(queries: Queries, rows: pl.DataFrame, way: str) -> Sample:
    """The rows of S are inserted at once; how long it took to register is said too."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"CREATE STREAM S ({', '.join(f'{name} BIGINT' for name in _NAMES)}) TIMESTAMP BY ts")
        tables = {name: pl.concat(found) for name, found in by_shape(queries.state[QUERIES]).items()}

        def register() -> int:
            for name, condition in queries.shapes.items():
                constants = tables[name].select(value_columns(tables[name].width - 2)).rows()
                if way == IN_BULK and constants:
                    db.register_many(f"SELECT * FROM S WHERE {_text(condition)}", constants)
                else:  # those without any condition have no constants, and are left out
                    for row in constants:
                        db.register(f"SELECT * FROM S WHERE {_text(with_values(condition, row))}")
            return 0

        registering = sampled(register, 0)
        arrow = rows.with_columns(ts=pl.lit(1)).to_arrow()
        sample = sampled(lambda: db.insert("S", arrow).accepted, rows.height)
        return with_more(sample, register_seconds=registering.cpu)


def _text(condition: Expression) -> str:
    return re.sub(r"\?\d+", "?", str(condition))


def _with_making(sample: Sample, made: Sample) -> Sample:
    return with_more(sample, index_seconds=max(made.cpu - sample.cpu, 0.0))


def _filters(queries: Queries) -> list[Stepping]:
    return [
        Stepping(Filter(SCHEMA, with_values(condition, row[1:])), {})
        for name, condition in queries.shapes.items()
        for rows in by_shape(queries.state[QUERIES])[name]
        for row in rows.drop(SHAPE).iter_rows()
    ]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = [(size, find(measurements, OPERATOR, TOGETHER, size)) for size in WANTED]
    made = [Bar(f"{size:,} queries, M elements/s", m.rate / 1e6, WANTED[size]) for size, m in found if m is not None]
    single, bulk = (find(measurements, DATABASE, way) for way in (ONE_BY_ONE, IN_BULK))
    if single is not None and bulk is not None:
        ratio = single.sample.cpu / bulk.sample.cpu
        made.append(Bar("an epoch of queries that came one by one, times in bulk", ratio, WANTED_RATIO, at_most=True))
    return made


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.subplots()
    lines(axes, [m for m in measurements if m.case == OPERATOR], lambda m: m.rate / 1e6)
    axes.set_xlabel("queries", fontsize=8)
    axes.set_ylabel("M elements/s", fontsize=8)
    axes.legend(fontsize=8, frameon=False)


EXPERIMENT = Experiment(
    "shared_queries",
    "random queries over one stream (CACQ, Figure 6)",
    trials,
    bars,
    draw,
    shown=("index_seconds", "register_seconds"),
)
