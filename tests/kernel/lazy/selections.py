"""Selections for many queries over rows (value, instant), which ask for values between two bounds or for one value."""

from __future__ import annotations

import polars as pl
from hypothesis import strategies as st

from millstream.kernel.relational.linear import Project
from millstream.kernel.scalar.expressions import Column, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("v", BIGINT), Field("t", BIGINT))
VALUE, INSTANT = Column(BIGINT, 0, "v"), Column(BIGINT, 1, "t")
LOW, HIGH = Parameter(BIGINT, 0), Parameter(BIGINT, 1)
BETWEEN = call("and", [call(">=", [VALUE, LOW]), call("<=", [VALUE, HIGH])])
PROJECTION = Project(SCHEMA, [VALUE, INSTANT])
Queries = dict[int, tuple[int, int]]  # the least and the greatest value that each wants

elements = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=30)


def selection(*, keyed: bool) -> GroupedSelection | KeyedSelection:
    if keyed:
        return KeyedSelection(SCHEMA, VALUE, {"q": call("=", [VALUE, LOW])})
    return GroupedSelection(SCHEMA, {"q": BETWEEN})


@st.composite
def queries(draw: st.DrawFn, *, keyed: bool) -> Queries:
    """By their numbers, which lie in several blocks."""
    bounds = {
        number: (draw(st.integers(0, 9)), draw(st.integers(0, 9)))
        for number in draw(st.lists(st.sampled_from([0, 1, 70, 1024, 5000]), unique=True))
    }
    return {number: (low, low if keyed else high) for number, (low, high) in bounds.items()}


def query_table(found: Queries) -> pl.DataFrame:
    rows = [(number, *bounds) for number, bounds in found.items()]
    return pl.DataFrame(rows, schema={"query": pl.Int64, "c0": pl.Int64, "c1": pl.Int64}, orient="row")


def wanted(rows: list[tuple[int, int]], bounds: tuple[int, int], first: int, last: int) -> list[tuple[int, int]]:
    """The rows of a query between two instants."""
    return sorted((v, t) for v, t in rows if bounds[0] <= v <= bounds[1] and first <= t <= last)
