"""The input of an aggregate put together where it is, before it is sent to the shards of its groups.

    A(R1 + R2 + ..) = A(C(R1) + C(R2) + ..)

Rows of a group that start and end together become one row, with their totals as exact numbers: a part never overflows
where the whole does not. Of MIN and MAX, where nothing is taken back, the extremes of such rows stand for all of them.
Whatever looks at a bag gets equal rows as one, with the sum of their weights. What goes by the order in which rows came
(FIRST, LAST), or is code of users, gets its rows as they are; so does whoever would gain little.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from millstream.kernel.aggregation import change_points, partial_sums
from millstream.kernel.aggregation.aggregate_values import AggregatePlan
from millstream.kernel.aggregation.change_points import Int64s, Points
from millstream.kernel.aggregation.extremes import best_of_groups, order_of
from millstream.kernel.aggregation.group_table import GROUP, GroupTable
from millstream.kernel.batch import END, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import constant, frame_of, nulls, one_zero, only, stacked, take, taken, with_columns
from millstream.kernel.keys import first_of_equal
from millstream.kernel.operator import NO_STATE
from millstream.types import BIGINT, to_polars

LEAST = 1_000  # rows that are worth it
_LOOKED_AT = 2_000  # rows that tell whether there are equal ones


class AggregateCombiner:
    """Puts together the rows of one task; `layout` has the columns of rows of totals, where all calls are sums."""

    def __init__(self, plan: AggregatePlan, keys: tuple[int, ...], groups: GroupTable) -> None:
        self._plan, self._keys, self._groups = plan, keys, groups
        width = len(plan.schema)
        self.summed = tuple(replace(total, summed=width + place) for place, total in enumerate(plan.summed))
        self._types = [
            partial_sums.type_of(total.kind, BIGINT if total.argument is None else plan.schema[total.argument].type)
            for total in plan.summed
        ]
        self._names = [value_column(width + place) for place in range(len(self.summed))]
        self.layout = None if plan.bags or plan.staircases else self._layout()
        extremes = all(call.name in ("min", "max") for call in plan.calls)
        self._is_of_extremes = plan.only_rows and extremes
        self._is_of_bags = not plan.by_time and not plan.users and self.layout is None

    def _layout(self) -> Batch:
        keys = {value_column(key): to_polars(self._plan.schema[key].type) for key in self._keys}
        sums = {name: to_polars(kind) for name, kind in zip(self._names, self._types, strict=True)}
        return pl.DataFrame(schema={**keys, **sums, START: pl.Int64(), END: pl.Int64(), WEIGHT: pl.Int64()})

    def sums(self, batch: Batch) -> Batch | None:
        """Rows of totals in the place of rows; None where there are too few for each of them."""
        if self.layout is None or batch.height < LEAST:
            return None
        spans = change_points.rows_together(batch)
        if spans is None:
            return None
        arrivals = self._groups.identify(batch, NO_STATE)
        panes = change_points.panes(batch, spans, arrivals, self._plan.summed)
        if panes is None:
            return None
        keys = taken([arrivals.fresh.get_column(name) for name in self._groups.keys], panes.owner)
        named = dict(zip(map(value_column, self._keys), keys, strict=True))
        sums = [
            partial_sums.encoded(panes.sums[total], kind).alias(name)
            for total, kind, name in zip(self._plan.summed, self._types, self._names, strict=True)
        ]
        times = [pl.Series(START, panes.start), pl.Series(END, panes.end), constant(WEIGHT, 1, len(panes.start))]
        return frame_of([*(column.alias(name) for name, column in named.items()), *sums, *times])

    def points(self, sums: Batch, group: Int64s) -> Points:
        """What rows of totals of some groups add."""
        return change_points.points_of_sums(with_columns(sums, pl.Series(GROUP, group)), self.summed)

    def consolidated(self, batch: Batch) -> Batch:
        """Fewer rows that mean the same, where that is so."""
        if batch.height < LEAST:
            return batch
        if self._is_of_extremes:
            return self._extremes(batch)
        return self._counted(batch) if self._is_of_bags else batch

    def _extremes(self, batch: Batch) -> Batch:
        """For each call and all rows of a group that start and end together, one that is the best of them."""
        spans = change_points.rows_together(batch)
        if spans is None:
            return batch
        arrivals = self._groups.identify(batch, NO_STATE)
        codes = change_points.pane_codes(batch, spans, arrivals)
        if codes is None:
            return batch
        size = len(spans) * len(arrivals.number)
        first = np.full(size, -1, np.int64)
        first[codes[::-1]] = np.arange(batch.height)[::-1]
        there = np.flatnonzero(first >= 0)
        base = with_columns(take(batch, first[there]), constant(WEIGHT, 1, len(there)))
        weight, pieces, keys = batch.get_column(WEIGHT).to_numpy(), [], {*map(value_column, self._keys)}
        for call in self._plan.calls:
            name = value_column(call.argument or 0)
            best = best_of_groups(one_zero(batch.get_column(name)), weight, codes, size, order_of(call))
            others = [
                nulls(other, kind, len(there))
                for other, kind in self._plan.columns.items()
                if other != name and other not in keys
            ]
            pieces.append(with_columns(base, *others, taken([best], there)[0].alias(name)))
        return stacked(pieces)

    def _counted(self, batch: Batch) -> Batch:
        """Equal rows as one."""
        columns = [*dict.fromkeys([*map(value_column, self._keys), *self._plan.columns, START, END])]
        if _is_mostly_distinct(batch[:_LOOKED_AT], columns):
            return batch
        first = first_of_equal(batch, columns)
        is_first = first == np.arange(batch.height)
        places = np.cumsum(is_first) - 1
        weights = np.zeros(int(is_first.sum()), np.int64)
        np.add.at(weights, places[first], batch.get_column(WEIGHT).to_numpy())
        kept = with_columns(only(batch, is_first), pl.Series(WEIGHT, weights))
        return kept if (weights != 0).all() else only(kept, weights != 0)


def _is_mostly_distinct(batch: Batch, columns: list[str]) -> bool:
    first = first_of_equal(batch, columns)
    return 4 * int((first == np.arange(batch.height)).sum()) > 3 * batch.height
