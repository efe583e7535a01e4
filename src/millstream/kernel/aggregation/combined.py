"""Aggregates of groups that were aggregated in parts before.

    A(t) = { (k, f1(B), ..) : k a key of R(t) },  B = all that the rows of R(t) with key k stand for

Each row has a part's totals in columns; those of the group are their sums, since totals are linear in the bag. What the
functions make of totals, and what is kept, is as in Aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from millstream.kernel.aggregation.accumulators import Accumulator, Totals
from millstream.kernel.aggregation.aggregate import Aggregate, Bools
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.exact_sum import normalized
from millstream.kernel.batch import value_column
from millstream.kernel.operator import State
from millstream.types import Schema, to_polars


class CellAggregate(Aggregate):
    """The aggregate of each cell, by which rows of many queries are grouped: its state is no single query's.

    A cell is there as long as a total of it is not 0. Totals may be negative: a row that is taken back lies in another
    cell than when it came where queries have come or gone meanwhile, and only in the sum over the cells of a query that
    was there all along, or has its past, it is 0.

    >>> total = AggregateCall("partial_sum", 1, False, BIGINT)
    >>> run = Run(CellAggregate(integers("cell", "v"), keys=(0,), calls=(total,)))
    >>> run.step(batch((6, 10, 0, 9, +1), (6, 20, 3, 6, +1)), to=4)
    (6, 10, [0, 3), +1)
    (6, 30, [3, INF), +1)
    """

    def _presence(self, totals: Totals, present: Bools) -> Bools:
        there = np.zeros(len(present), np.bool_)
        for total in totals.values():
            for part in normalized(total).parts:
                there |= part != 0
        return there

    def of_queries(self, state: State, queries: pl.Series) -> State:
        """All of it: queries that are gone, or not asked for, are in cells that do no harm."""
        return state


class CombinedAggregate(Aggregate):
    """Aggregate `calls` by the first columns, `keys` many, given columns of the rows with totals.

    `arguments` follow the keys in what the calls refer to; `sums` has the column with each total that they need. With
    `always` there is a row of a group wherever its key is, though no part has copies.

    >>> rows = integers("k", "copies", "sum")
    >>> calls = AggregateCall("count", None, False, BIGINT), AggregateCall("sum", 1, False, BIGINT)
    >>> sums = {Accumulator("copies"): 1, Accumulator("count", 1): 1, Accumulator("sum", 1): 2}
    >>> run = Run(CombinedAggregate(rows, 1, integers("v"), calls, sums))
    >>> run.step(batch((7, 2, 30, 0, 9, +1), (7, 1, 5, 3, 6, +1)), to=4)
    (7, 2, 30, [0, 3), +1)
    (7, 3, 35, [3, INF), +1)
    """

    def __init__(
        self,
        rows: Schema,
        keys: int,
        arguments: Schema,
        calls: tuple[AggregateCall, ...],
        sums: Mapping[Accumulator, int],
        *,
        always: bool = False,
    ) -> None:
        super().__init__((*rows[:keys], *arguments), tuple(range(keys)), calls)
        self.always = always
        self.plan.summed = tuple(replace(total, summed=sums[total]) for total in self.plan.summed)
        columns = sorted({sums[total] for total in self.plan.summed})
        self.plan.columns = {value_column(column): to_polars(rows[column].type) for column in columns}

    def _presence(self, totals: Totals, present: Bools) -> Bools:
        return np.ones(len(present), np.bool_) if self.always else super()._presence(totals, present)
