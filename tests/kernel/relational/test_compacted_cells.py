"""Cells that are put together: what each query has of them stays the same at every instant."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl
import pytest

from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_columns
from millstream.kernel.examples import Run, integers, queries
from millstream.kernel.relational import compacted_cells
from millstream.kernel.relational.compacted_cells import CompactedCellAggregate
from millstream.kernel.sharing.cells import CELL
from millstream.types import BIGINT

QUERIES, STEPS = 5, 6


def random_rows(random: np.random.Generator, at: int) -> Batch:
    """Cells of some queries, keys and values; rows that stay, some that end, and some that take away."""
    count = 40
    lineages = [int(mask).to_bytes(8, "little") for mask in random.integers(1, 2**QUERIES, count)]
    key, value = (pl.Series(random.integers(0, most, count)) for most in (3, 9))
    start = random.integers(at, at + 3, count)
    end = np.where(random.random(count) < 0.7, INF, start + random.integers(1, 9, count))
    columns = [pl.Series([0] * count), pl.Series(lineages), key, value]
    named = [column.alias(name) for column, name in zip(columns, value_columns(4), strict=True)]
    intervals = {START: start, END: end, WEIGHT: random.choice([1, 1, 2, -1], count)}
    return pl.DataFrame([*named, *(pl.Series(name, values) for name, values in intervals.items())])


def sums(rows: Batch, query: int, instant: int) -> dict[int, int]:
    """The sum of a query by key, of rows of values or of totals."""
    found: dict[int, int] = defaultdict(int)
    for _, lineage, key, value, start, end, weight in rows.iter_rows():
        if start <= instant < end and int.from_bytes(lineage, "little") >> query & 1:
            found[key] += int(value) * weight
    return {key: value for key, value in found.items() if value}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("far_more", [0, 2])
def test_sums_of_queries_stay_the_same(seed: int, far_more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_cells, "FAR_MORE", far_more)
    random = np.random.default_rng(seed)
    total = AggregateCall("partial_sum", 3, False, BIGINT)
    operator = CompactedCellAggregate((*CELL, *integers("k", "v")), (0, 1, 2), (total,), retractions=True)
    run = Run(operator, queries(of={query: [0] for query in range(QUERIES)}))
    arrived, made = [], []
    for step in range(STEPS):
        arrived.append(random_rows(random, 3 * step))
        run.step(arrived[-1], to=3 * step + 2)
        made.append(run.output)
    rows, shown = pl.concat(arrived), pl.concat(made)
    for instant in range(3 * STEPS):
        for query in range(QUERIES):
            assert sums(shown, query, instant) == sums(rows, query, instant)


def test_queries_that_are_gone_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_cells, "FAR_MORE", 0)
    total = AggregateCall("partial_sum", 3, False, BIGINT)
    operator = CompactedCellAggregate((*CELL, *integers("k", "v")), (0, 1, 2), (total,), retractions=True)
    run = Run(operator, queries(of={1: [0]}))
    run.step(random_rows(np.random.default_rng(1), 0), to=30)
    held = {row[1] for row in run.output.filter(pl.col(WEIGHT) > 0).iter_rows() if row[-2] == INF and row[-3] == 30}
    assert held == {(2).to_bytes(8, "little")}
