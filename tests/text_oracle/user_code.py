"""Functions and aggregates of users: what they are in Python, and what DuckDB is told instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
from tests.text_oracle.scalars import B, Construct, I, S, _c


def twice(x: pl.Series) -> pl.Series:
    return x.cast(pl.Int64) * 2


def either(x: pl.Series, y: pl.Series) -> pl.Series:
    return x.to_frame("x").with_columns(y.alias("y")).select(pl.coalesce("x", "y"))["x"]


def is_odd(x: pl.Series) -> pl.Series:
    return x.cast(pl.Int64).abs() % 2 == 1


class Spread:
    """The difference of the greatest and the least, computed anew when rows leave."""

    def initialize(self) -> list[int]:
        return []

    def iterate(self, state: list[int], column: pl.Series) -> list[int]:
        return [*state, *column.drop_nulls().to_list()]

    def terminate(self, state: list[int]) -> int | None:
        return max(state) - min(state) if state else None


class Tally:
    """The sum of all values, each raised by ten, which rows can leave."""

    def initialize(self) -> int:
        return 0

    def iterate(self, state: int, column: pl.Series) -> int:
        return state + sum(int(value) + 10 for value in column.drop_nulls().to_list())

    def retract(self, state: int, column: pl.Series) -> int:
        return state - sum(int(value) + 10 for value in column.drop_nulls().to_list())

    def terminate(self, state: int) -> int:
        return state


@dataclass(frozen=True)
class Declared:
    body: Callable[..., Any]
    returns: str
    construct: Construct


FUNCTIONS = {
    "twice": Declared(twice, "BIGINT", _c(I, (I,), "twice({0})", "(CAST({0} AS BIGINT) * 2)")),
    "either": Declared(either, "STRING", _c(S, (S, S), "either({0}, {1})", "COALESCE({0}, {1})")),
    "is_odd": Declared(is_odd, "BOOLEAN", _c(B, (I,), "is_odd({0})", "(abs(CAST({0} AS BIGINT)) % 2 = 1)")),
}
AGGREGATES = {
    "spread": Declared(Spread, "BIGINT", _c(I, (I,), "spread({0})", "(MAX({0}) - MIN({0}))")),
    "tally": Declared(Tally, "BIGINT", _c(I, (I,), "tally({0})", "COALESCE(SUM({0} + 10), 0)")),
}
