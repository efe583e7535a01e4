"""Sums of queries over cells fail exactly where one of them does not fit, whatever its cells come to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from millstream.errors import EvaluationError
from millstream.kernel.aggregation.accumulators import Accumulator
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.combined import CombinedAggregate
from millstream.kernel.batch import END, START, WEIGHT, Batch, value_columns
from millstream.kernel.examples import Run, column, integers, queries
from millstream.kernel.relational import compacted_cells
from millstream.kernel.relational.checked_cells import CheckedCellAggregate, MemberCheck
from millstream.kernel.relational.failures import Failing
from millstream.kernel.relational.linear import Project
from millstream.kernel.scalar.expressions import Column, Reported
from millstream.kernel.sharing.cells import CELL
from millstream.types import BIGINT, STRING, Field, decimal

QUERIES, STEPS = 4, 8
WIDE = decimal(38, 0)


def checked(*, lasting: bool) -> CheckedCellAggregate:
    """SELECT k, sum(v) .. GROUP BY k"""
    value = AggregateCall("sum", 5, False, BIGINT)
    calls = value, replace(value, type=STRING, gives_error=True)
    sums = {Accumulator("copies"): 2, Accumulator("count", 5): 3, Accumulator("sum", 5): 4}
    parts = (*integers("query", "k", "copies", "count"), Field("sum", WIDE))
    combined = CombinedAggregate(parts, 2, integers("v"), calls, sums)
    read = Reported(BIGINT, column(2), Column(STRING, 3, "error"))
    check = MemberCheck(Failing([read], carried=integers("query")), Project(integers("v"), [read]))
    totals = (
        AggregateCall("count", None, False, BIGINT),
        AggregateCall("partial_count", 3, False, BIGINT),
        AggregateCall("partial_sum", 3, False, WIDE),
    )
    cells = (*CELL, *integers("k", "v"))
    return CheckedCellAggregate(
        cells, (0, 1, 2), totals, retractions=True, lasting=lasting, combined=combined, checks=[check]
    )


def random_rows(random: np.random.Generator, at: int) -> Batch:
    count = 3
    lineages = [int(mask).to_bytes(8, "little") for mask in random.integers(1, 2**QUERIES, count)]
    start = random.integers(at, at + 2, count)
    columns = [
        pl.Series([0] * count),
        pl.Series(lineages),
        pl.Series(random.integers(0, 2, count)),
        pl.Series([int(sign) * 2**62 - 1 for sign in random.choice([1, -1, -1, 1, 0], count)]),
    ]
    named = [one.alias(name) for one, name in zip(columns, value_columns(4), strict=True)]
    intervals = {START: start, END: start + random.integers(1, 4, count), WEIGHT: np.ones(count, np.int64)}
    return pl.DataFrame([*named, *(pl.Series(name, values) for name, values in intervals.items())])


def first_overflow(rows: Batch, until: int) -> int | None:
    for instant in range(until + 1):
        sums: dict[tuple[int, int], int] = defaultdict(int)
        for _, lineage, key, value, start, end, weight in rows.iter_rows():
            for query in range(QUERIES):
                if start <= instant < end and int.from_bytes(lineage, "little") >> query & 1:
                    sums[query, key] += value * weight
        if any(not -(2**63) <= total < 2**63 for total in sums.values()):
            return instant
    return None


@pytest.mark.parametrize("seed", range(25))
def test_it_fails_in_the_step_in_which_a_sum_does_not_fit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_cells, "FAR_MORE", seed % 3)
    random = np.random.default_rng(seed)
    run = Run(checked(lasting=seed % 2 == 0), queries(of={query: [0] for query in range(QUERIES)}))
    arrived = []
    for step in range(STEPS):
        arrived.append(random_rows(random, 2 * step))
        if first_overflow(pl.concat(arrived), 2 * step + 1) is not None:
            with pytest.raises(EvaluationError, match=r"sum\(v\) does not fit into BIGINT"):
                run.step(arrived[-1], to=2 * step + 1)
            return
        run.step(arrived[-1], to=2 * step + 1)


def test_what_fails_before_the_first_instant_that_counts_does_not_count() -> None:
    operator = checked(lasting=False)
    operator.first = 3
    run = Run(operator, queries(of={1: [0]}))
    lineage = (2).to_bytes(8, "little")
    rows = {START: [0, 0, 2], END: [2, 2, 4], WEIGHT: [1, 1, 1]}
    values = dict(zip(value_columns(4), ([0] * 3, [lineage] * 3, [1] * 3, [2**62, 2**62, 5]), strict=True))
    run.step(pl.DataFrame({**values, **rows}), to=3)
    assert run.output.filter(pl.col(START) == 2).height
