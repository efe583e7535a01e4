"""Elements of random groups and values, one per tick, in sliding windows: what aggregates are measured over."""

from __future__ import annotations

import numpy as np
import polars as pl

from millstream.kernel.aggregation.aggregate import AggregateCall, resolve_aggregate
from millstream.kernel.batch import END, INF, START, WEIGHT
from millstream.types import BIGINT, DOUBLE, Field, Schema

SCHEMA: Schema = (Field("key", BIGINT), Field("value", BIGINT), Field("x", DOUBLE))
ELEMENTS, GROUPS, BATCH = 2_000_000, 100, 100_000
MINUTE = 60_000  # ticks of a millisecond
WINDOW = 5 * MINUTE


def call(function: str, argument: int | None = None, *, distinct: bool = False) -> AggregateCall:
    kind = None if argument is None else SCHEMA[argument].type
    return AggregateCall(function, argument, distinct, resolve_aggregate(function, kind, distinct))


AVERAGE = (call("avg", 1), call("count"))


def stream(elements: int, groups: int, window: int, slide: int = 1) -> pl.DataFrame:
    """One element per tick with the interval that RANGE window SLIDE slide gives it."""
    ticks = np.arange(elements)
    random = np.random.default_rng(1)
    start = np.maximum(-(-ticks // slide) * slide, slide - 1)
    end = ((ticks + window) // slide + 1) * slide
    values = random.integers(0, 1_000_000, elements)
    columns = {"c0": random.integers(0, groups, elements), "c1": values, "c2": values / 1000}
    return pl.DataFrame(columns | {START: start, END: end, WEIGHT: np.ones_like(ticks), "arrival": ticks})


def with_retractions(rows: pl.DataFrame) -> pl.DataFrame:
    """The same relation said by negative rows, each in the place where it becomes known."""
    end = pl.col(END)
    ended = rows.filter(end < rows.height).with_columns(end.alias(START), -pl.col(WEIGHT), end.alias("arrival"))
    return pl.concat([rows, ended]).with_columns(pl.lit(INF, pl.Int64).alias(END)).sort("arrival", maintain_order=True)
