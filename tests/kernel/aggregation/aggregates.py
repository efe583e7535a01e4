"""What the tests of aggregates share: a schema, user-defined aggregates, and a runner that remembers all output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl

from millstream.kernel.aggregation.aggregate import Aggregate, AggregateCall, resolve_aggregate
from millstream.kernel.batch import batch_schema
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.types import BIGINT, BOOLEAN, DOUBLE, STRING, Field, Schema, decimal

SCHEMA: Schema = (
    Field("k", STRING),
    Field("i", BIGINT),
    Field("x", DOUBLE),
    Field("d", decimal(10, 2)),
    Field("s", STRING),
    Field("b", BOOLEAN),
)
K, N, X, D, S, B = range(6)


def call(function: str, argument: int | None = None, *, distinct: bool = False) -> AggregateCall:
    argument_type = None if argument is None else SCHEMA[argument].type
    return AggregateCall(function, argument, distinct, resolve_aggregate(function, argument_type, distinct))


class Midrange:
    """A user-defined aggregate that cannot retract: half way between the least and the greatest."""

    def initialize(self) -> tuple[int, ...]:
        return ()

    def iterate(self, state: tuple[int, ...], batch: pl.Series) -> tuple[int, ...]:
        return (*state, *batch.drop_nulls())

    def terminate(self, state: tuple[int, ...]) -> float | None:
        return (min(state) + max(state)) / 2 if state else None


class Parity:
    """A user-defined aggregate that can: how many odd values there are."""

    def initialize(self) -> int:
        return 0

    def iterate(self, state: int, batch: pl.Series) -> int:
        return state + sum(int(value) % 2 for value in batch.drop_nulls())

    def retract(self, state: int, batch: pl.Series) -> int:
        return state - sum(int(value) % 2 for value in batch.drop_nulls())

    def terminate(self, state: int) -> int:
        return state


# Running an aggregate


def batch(rows: Sequence[tuple[Any, ...]], schema: Schema = SCHEMA, *, arrival: bool = False) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=batch_schema(schema, arrival=arrival), orient="row")


class Runner:
    """Feeds batches and remembers all that came out."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.state: State = NO_STATE
        self.frontier = -1
        self.rows: list[tuple[Any, ...]] = []

    def step(self, rows: pl.DataFrame, low: int) -> list[tuple[Any, ...]]:
        progress = Progress((self.frontier,), (low,))
        output, self.state = self.aggregate.step([rows], self.state, progress)
        assert list(output.schema.items()) == list(batch_schema(self.aggregate.schema).items())
        self.frontier = low
        self.rows += output.rows()
        return sorted(output.rows(), key=repr)

    def at(self, instant: int) -> Counter[tuple[Any, ...]]:
        bag: Counter[tuple[Any, ...]] = Counter()
        for *values, start, end, weight in self.rows:
            if start <= instant < end:
                bag[comparable(values)] += weight
        return Counter({row: copies for row, copies in bag.items() if copies})

    def rows_held(self) -> int:
        return sum(segment.height for segments in self.state.values() for segment in segments)


def comparable(values: Sequence[Any]) -> tuple[Any, ...]:
    """NaN is a value like any other here; 0.0 and -0.0 are told apart."""
    return tuple(repr(value) if isinstance(value, float) else value for value in values)


def simple(calls: Sequence[AggregateCall], keys: tuple[int, ...] = (), *, retractions: bool = True) -> Runner:
    return Runner(Aggregate(SCHEMA, keys, tuple(calls), retractions=retractions))


def row(k: str | None = None, i: int | None = None, x: float | None = None) -> tuple[Any, ...]:
    return (k, i, x, None, None, None)
