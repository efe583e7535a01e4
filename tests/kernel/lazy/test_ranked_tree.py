"""A ranked tree says of every range of time what the aggregate says of its elements, to the bit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernel.aggregation.aggregate import Aggregate
from millstream.kernel.aggregation.aggregate_calls import AggregateCall, resolve_aggregate
from millstream.kernel.batch import END, START, WEIGHT, Batch, empty_batch, value_column
from millstream.kernel.lazy import owners
from millstream.kernel.lazy.owners import Owned, owned_by_lineage
from millstream.kernel.lazy.ranked_tree import (
    RankedTree,
    aggregate,
    aggregate_of_many,
    build_for_many,
    merged,
    timed_rows,
)
from millstream.kernel.lazy.tree_segments import FAN, TreeShape, counts_of, leaves_of, ranges_of_many, size_of
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.sharing.lineage import WORDS, bitmap
from millstream.types import BIGINT, DOUBLE, INT, STRING, DataType, Field, Schema, to_polars

KINDS: dict[DataType, st.SearchStrategy[object]] = {
    INT: st.none() | st.integers(-3, 3),
    BIGINT: st.none() | st.integers(-(2**60), 2**60),
    DOUBLE: st.none() | st.sampled_from([0.1, 1e300, -1e300, 1e-300, -0.0, 0.0, float("nan"), float("inf"), 3.5]),
    STRING: st.none() | st.sampled_from(["", "a", "b", "ab"]),
}
NUMBERS = ("count", "sum", "avg", "min", "max")
Rows = list[tuple[Any, ...]]


def shape_of(key: DataType | None, value: DataType, instants: int = 1) -> TreeShape:
    schema: Schema = (*([Field("k", key)] if key else []), Field("v", value))
    at = len(schema) - 1
    functions = NUMBERS if value != STRING else ("count", "min", "max")
    calls = [AggregateCall(f, at, False, resolve_aggregate(f, value, False)) for f in functions]
    return TreeShape(schema, 1 if key else 0, (AggregateCall("count", None, False, BIGINT), *calls), instants)


def frame(rows: Rows, shape: TreeShape) -> pl.DataFrame:
    """Value columns, then the instants."""
    fields = {value_column(i): to_polars(f.type) for i, f in enumerate(shape.schema)}
    instants = {value_column(len(fields) + n): pl.Int64() for n in range(shape.instants)}
    return pl.DataFrame(rows, schema={**fields, **instants}, orient="row")


def tree(rows: Rows, shape: TreeShape) -> pl.DataFrame:
    return RankedTree(shape, None).step([frame(rows, shape)], NO_STATE, Progress((-1,), (99,)))[0]


def expected(rows: Rows, shape: TreeShape, first: int, last: int, at: int) -> Batch:
    """By the aggregate itself, over the rows that are there at `at`."""
    times_of = [value_column(len(shape.schema) + n) for n in range(shape.instants)]
    inside = pl.all_horizontal(pl.col(*times_of).is_between(first, last))
    within = frame(rows, shape).filter(inside).drop(times_of)
    times = {START: at, END: at + 1, WEIGHT: 1}
    batch = within.with_columns(pl.Series(n, np.full(within.height, v, np.int64)) for n, v in times.items())
    batch = pl.concat([empty_batch(shape.schema), batch])
    operator = Aggregate(shape.schema, tuple(range(shape.keys)), shape.calls, retractions=False)
    found, _ = operator.step([batch], NO_STATE, Progress((-1,), (at,)))
    return found.filter((pl.col(START) <= at) & (pl.col(END) > at) & (pl.col(WEIGHT) > 0))


def bits(batch: Batch, width: int) -> list[str]:
    """Values with all their bits, whatever the order of groups."""
    return sorted(repr(row) for row in batch.select(value_column(i) for i in range(width)).iter_rows())


@st.composite
def cases(draw: st.DrawFn) -> tuple[TreeShape, list[Rows], int, int]:
    key, value = draw(st.none() | st.sampled_from([INT, STRING, DOUBLE])), draw(st.sampled_from(list(KINDS)))
    shape = shape_of(key, value, draw(st.integers(1, 2)))
    columns = [*([KINDS[key]] if key else []), KINDS[value], *[st.integers(0, 20)] * shape.instants]
    batches = draw(st.lists(st.lists(st.tuples(*columns), max_size=60), min_size=1, max_size=4))
    first = draw(st.integers(0, 20))
    return shape, batches, first, draw(st.integers(first, 21))


@settings(max_examples=60)
@given(cases())
def test_a_tree_answers_as_the_aggregate(case: tuple[TreeShape, list[Rows], int, int]) -> None:
    shape, batches, first, last = case
    trees = [found for rows in batches if (found := tree(rows, shape)).height]
    rows = [row for batch in batches for row in batch]
    right = bits(expected(rows, shape, first, last, 30), len(shape.result))
    assert bits(aggregate(trees, shape, first, last, 30), len(shape.result)) == right
    if trees:
        one = merged(trees, shape, 5)
        kept = [row for row in rows if min(row[-shape.instants :]) >= 5]
        assert (size_of(one) if one.height else 0) == len(kept)
        right = bits(expected(kept, shape, first, last, 30), len(shape.result))
        assert bits(aggregate([one] if one.height else [], shape, first, last, 30), len(shape.result)) == right


def owned(pairs: list[tuple[int, int]], *, in_cells: bool) -> Owned:
    """(row, query) by query, or from the bits of each row and block."""
    if not in_cells:
        row, query = (np.array([pair[n] for pair in pairs], np.int64) for n in (0, 1))
        return Owned(row, query)
    wanting: dict[tuple[int, int], list[int]] = {}
    for r, q in pairs:
        wanting.setdefault((r, q // 1024), []).append(q)
    words = [bitmap(np.array(queries)) for queries in wanting.values()]
    rows, blocks = (np.array([key[n] for key in wanting], np.int64) for n in (0, 1))
    return owned_by_lineage(rows, blocks, np.array(words, np.uint64).reshape(-1, WORDS))


@settings(max_examples=40)
@given(cases(), st.integers(0, 6), st.integers(0, 6) | st.none(), st.randoms(use_true_random=False))
def test_trees_of_many_queries_and_windows_answer_as_the_aggregate(
    case: tuple[TreeShape, list[Rows], int, int], one: int, other: int | None, random: Random
) -> None:
    """Queries want some of the rows each, which belong to cells of queries or to queries; elements may be in windows of
    different lengths."""
    shape, batches, at, _ = case
    lengths = [one, other][: shape.instants]
    longest = max(length for length in lengths if length is not None)
    if shape.instants > 1:
        shape = replace(shape, shifts=tuple(None if n is None else n - longest for n in lengths))
    trees, wanted = [], dict[int, Rows]()
    for rows in batches:
        pairs = [(r, q) for r in range(len(rows)) for q in (3, 4, 70, 1030) if random.random() < 0.7]
        timed = timed_rows(frame(rows, shape), shape)
        found = build_for_many(timed, shape, owned(pairs, in_cells=random.random() < 0.7))
        trees += [found] if found.height else []
        for r, q in pairs:
            wanted.setdefault(q, []).append(rows[r])
    with patch.object(owners, "FEW_CELLS", random.choice([0, 1024])):
        if random.random() < 0.5 and trees:
            trees = [merged(trees, shape, 0)]
    asked = np.array([3, 4, 5, 70, 1030])
    of_many = aggregate_of_many(trees, shape, at - longest, at, 30, asked)
    singly = [aggregate(trees, shape, at - longest, at, 30, number) for number in asked.tolist()]
    by_number = sorted(of_many.iter_rows(), key=lambda row: row[0])
    assert repr([row[1:] for row in by_number]) == repr([row for rows in singly for row in rows.iter_rows()])
    assert ((ranges_of_many(trees, shape, asked) > 0) == [number in wanted for number in asked.tolist()]).all()
    times_of = slice(-shape.instants, None)
    for number in asked.tolist():
        rows = wanted.get(number, [])
        here = [
            row
            for row in rows
            if all(t <= at and (n is None or t >= at - n) for t, n in zip(row[times_of], lengths, strict=True))
        ]
        right = bits(expected(here, shape, 0, at, 30), len(shape.result))
        assert bits(aggregate(trees, shape, at - longest, at, 30, number), len(shape.result)) == right
        assert sum(size_of(tree, number) for tree in trees) == len(rows)
        assert sum(leaves_of(tree, shape, number).height for tree in trees) == len(rows)
    counted = Counter[int]()
    for each in trees:
        counted.update(dict(zip(*(found.tolist() for found in counts_of(each)), strict=True)))
    assert counted == {number: len(rows) for number, rows in wanted.items()}


@pytest.mark.parametrize("count", [1, FAN, FAN + 1, FAN * FAN + 1, 5000])
@pytest.mark.parametrize("groups", [1, 7])
def test_all_levels(count: int, groups: int) -> None:
    """Every range of a tree of several levels, ends at and beside the borders of nodes."""
    shape = shape_of(INT if groups > 1 else None, DOUBLE)
    random = np.random.default_rng(count)
    values = random.choice([0.1, 1e16, -1e16, 2.5], count).tolist()
    rows: Rows = [(*([i % groups] if groups > 1 else []), value, i) for i, value in enumerate(values)]
    built = tree(rows, shape)
    ends = sorted({0, 1, FAN - 1, FAN, FAN + 1, FAN * FAN - 1, FAN * FAN, count // 2, count - 1, count})
    for first in ends:
        for last in ends:
            if first <= last:
                found = bits(aggregate([built], shape, first, last, count), len(shape.result))
                assert found == bits(expected(rows, shape, first, last, count), len(shape.result)), (first, last)
