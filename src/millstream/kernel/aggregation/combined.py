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

from millstream.kernel.aggregation import accumulators
from millstream.kernel.aggregation.accumulators import Accumulator, Totals
from millstream.kernel.aggregation.aggregate import Aggregate, Bools, Int64s
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.exact_sum import grouped, normalized
from millstream.kernel.aggregation.group_table import close_integers
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import frame_of, one_zero, only, taken
from millstream.kernel.keys import first_of_equal
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

    def at(self, rows: Batch, instant: int) -> Batch:
        """What a step makes of rows that all hold at an instant, which is the only one asked for: without state, and
        in a fraction of the time."""
        owner, heads = self._groups_of(rows)
        sums = accumulators.contributions(rows, self.plan.summed)
        totals = accumulators.map_totals(sums, lambda limbs: grouped(limbs, owner, len(heads)))
        values = (
            accumulators.evaluate(call, totals, self.plan.schema, shown)
            for call, shown in zip(self.plan.calls, self.plan.shown, strict=True)
        )
        columns = [*taken([rows.get_column(name) for name in self.groups.inputs], heads), *values]
        named = [column.alias(value_column(index)) for index, column in enumerate(columns)]
        intervals = ((START, instant), (END, INF), (WEIGHT, 1))
        found = frame_of([*named, *(pl.Series(name, np.full(len(heads), value)) for name, value in intervals)])
        return only(found, self._presence(totals, np.zeros(len(heads), np.bool_)))

    def _groups_of(self, rows: Batch) -> tuple[Int64s, Int64s]:
        """The group of each row, and a row of each group."""
        columns = (one_zero(rows.get_column(name)) for name in self.groups.inputs)
        keys = frame_of([column for column in columns if not is_constant(column)])
        if not keys.width:
            return np.zeros(rows.height, np.int64), np.zeros(min(rows.height, 1), np.int64)
        if (close := close_integers(keys)) is not None:
            owner, distinct = close
            heads = np.zeros(distinct.height, np.int64)
            heads[owner] = np.arange(rows.height)
            return owner, heads
        heads, owner = np.unique(first_of_equal(keys, keys.columns), return_inverse=True)
        return owner, heads

    def _presence(self, totals: Totals, present: Bools) -> Bools:
        return np.ones(len(present), np.bool_) if self.always else super()._presence(totals, present)


def is_constant(column: pl.Series) -> bool:
    """Whether a column of whole numbers has one value, as the place of a query that is asked alone does."""
    if column.dtype != pl.Int64 or column.null_count() or not len(column):
        return False
    values = column.to_numpy()
    return bool(values[0] == values[-1] and (values == values[0]).all())
