"""Aggregates of groups that were aggregated in parts before.

    A(t) = { (k, f1(B), ..) : k a key of R(t) },  B = all that the rows of R(t) with key k stand for

Each row has a part's totals in columns; those of the group are their sums, since totals are linear in the bag. What the
functions make of totals, and what is kept, is as in Aggregate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from millstream.kernel.aggregation import accumulators, partial_sums
from millstream.kernel.aggregation.accumulators import Accumulator, Totals
from millstream.kernel.aggregation.aggregate import Aggregate, Bools, Int64s
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.exact_sum import Limbs, concatenated, grouped, normalized, zeros
from millstream.kernel.aggregation.extremes import best_of_groups, order_of
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import (
    are_equal,
    constant,
    frame_of,
    joined,
    nulls,
    one_zero,
    only,
    stacked,
    taken,
    with_columns,
)
from millstream.kernel.keys import Positions, first_of_equal, key_codes
from millstream.kernel.operator import Progress, State
from millstream.types import INT, SMALLINT, TINYINT, Schema, to_polars

_SIDE_BY_SIDE = 1 << 20  # sums for which there is room, though some are of nothing
_NULL = 1 << 62  # in the place of NULL, among numbers of 32 bits


class CombinedAggregate(Aggregate):
    """Aggregate `calls` by the first columns, `keys` many, given columns of the rows with totals and extremes.

    `arguments` follow these in what the calls refer to, but for calls of extremes, which refer to those; `sums` has the
    column with each total that is needed. With `always` there is a row of a group wherever its key is, though no part
    has copies. Where a column has the `copies` of values, extremes are of those that come to more than none: they may
    have come in one part, and have been taken back in another.

    >>> rows = integers("k", "copies", "sum")
    >>> calls = AggregateCall("count", None, False, BIGINT), AggregateCall("sum", 3, False, BIGINT)
    >>> sums = {Accumulator("copies"): 1, Accumulator("count", 3): 1, Accumulator("sum", 3): 2}
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
        copies: int | None = None,
    ) -> None:
        super().__init__((*rows, *arguments), tuple(range(keys)), calls)
        self.always = always
        self.copies = None if copies is None else value_column(copies)
        self._partial = rows
        self.plan.summed = tuple(replace(total, summed=sums[total]) for total in self.plan.summed)
        self.extremes = {place: calls[place].argument or 0 for place in self.plan.extremes}
        columns = sorted({*(sums[total] for total in self.plan.summed), *self.extremes.values()})
        self.plan.columns = {value_column(column): to_polars(rows[column].type) for column in columns}

    @property
    def combiner(self) -> None:
        """Its rows are totals already."""
        return None

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        (batch,) = inputs
        return super().step([batch if self.copies is None else self._with_copies(batch)], state, progress)

    def _with_copies(self, batch: Batch) -> Batch:
        """Each row once, with totals and without values for extremes; and once with these, in as many copies as it
        says, and without totals."""
        values = [value_column(place) for place in self.extremes.values() if place not in self.keys]
        totals = [value_column(place) for place in range(len(self._partial)) if place not in self.keys]
        weight = self._copies_of(batch)
        kinds = batch.schema
        plain = with_columns(batch, *(nulls(name, kinds[name], batch.height) for name in values))
        rest = (nulls(name, kinds[name], batch.height) for name in totals if name not in values)
        counted = with_columns(batch, *rest, pl.Series(WEIGHT, weight))
        return stacked([plain, only(counted, weight != 0)])

    def _copies_of(self, rows: Batch) -> Int64s:
        """In how many copies the values of rows are there."""
        weight: Int64s = rows.get_column(WEIGHT).to_numpy()
        return weight if self.copies is None else weight * rows.get_column(self.copies).fill_null(0).to_numpy()

    def parts_of(self, rows: Batch) -> PartialTotals:
        """Rows as they are put together again and again, for one query after the other."""
        extremes = (rows.get_column(value_column(column)) for column in self.extremes.values())
        whole = {
            column.name: column.to_numpy()
            for column in extremes
            if column.dtype.is_signed_integer() and not column.null_count()
        }
        codes, totals = self._codes(rows, self.groups.inputs[1:]), self._contributions(rows)
        return PartialTotals(rows, codes, totals, self._copies_of(rows), whole)

    def at(self, parts: Sequence[tuple[PartialTotals, Positions]], query: int, instant: int) -> Batch:
        """What a step makes for a query of some rows that all hold at an instant, which is the only one asked for:
        without state, and in a fraction of the time."""
        codes = _joined([part.codes[rows] for part, rows in parts])
        owner, heads = _groups(codes) if self.groups.inputs[1:] else _one_group(codes, self.always)
        if self._are_codes_exact:
            keys = [self._decoded(codes[heads]) for _ in self.groups.inputs[1:]]
        else:
            columns = [_column(name, self._kind(name), parts) for name in self.groups.inputs[1:]]
            owner, heads = _checked(owner, heads, columns)
            keys = taken(columns, heads)
        sums = {
            total: grouped(_limbs([part.totals[total].take(rows) for part, rows in parts]), owner, len(heads))
            for total in self.plan.summed
        }
        best = self._best(parts, owner, len(heads))
        return self._row_of_each(sums, best, [constant(value_column(0), query, len(heads)), *keys], instant)

    def of_many(
        self, parts: Sequence[tuple[PartialTotals, Positions, Positions]], queries: Int64s, instant: int
    ) -> Batch:
        """The same for many queries: with each part rows of it, and the places of the queries that want these."""
        return self._row_of_each(*self._side_by_side(parts, queries), instant)

    def added_up(
        self, parts: Sequence[tuple[PartialTotals, Positions, Positions]], queries: Int64s, instant: int
    ) -> Batch:
        """Rows of totals, from an instant on, that stand for those of many queries. Extremes do not add up."""
        totals, _, keys = self._side_by_side(parts, queries)
        columns = {total.summed: total for total in self.plan.summed}
        sums = [
            partial_sums.encoded(totals[columns[place]], self._partial[place].type)
            for place in range(len(keys), len(self._partial))
        ]
        made = _in_rows([*keys, *sums], instant)
        return only(made, are_some(totals, made.height))

    def _side_by_side(
        self, parts: Sequence[tuple[PartialTotals, Positions, Positions]], queries: Int64s
    ) -> tuple[Totals, dict[int, pl.Series], list[pl.Series]]:
        """Totals and extremes of each query and group, and the query and key of each. Groups are found once for all
        queries."""
        whole = [(part, np.arange(part.rows.height)) for part, _, _ in parts]
        codes, names = _joined([part.codes for part, _, _ in parts]), self.groups.inputs[1:]
        owner, heads = _groups(codes) if names else _one_group(codes, self.always)
        keys = [_column(name, self._kind(name), whole) for name in names]
        owner, heads = _checked(owner, heads, keys)
        starts = np.cumsum([0, *(part.rows.height for part, _, _ in parts)])
        mine = [owner[start + rows] for start, (_, rows, _) in zip(starts, parts, strict=False)]
        place = _joined([wanting * len(heads) + own for own, (_, _, wanting) in zip(mine, parts, strict=True)])
        there = np.arange(len(queries) * len(heads))
        if len(there) > _SIDE_BY_SIDE + 4 * len(place):
            there, place = np.unique(place, return_inverse=True)
        sums = {
            total: grouped(_limbs([part.totals[total].take(rows) for part, rows, _ in parts]), place, len(there))
            for total in self.plan.summed
        }
        best = self._best([(part, rows) for part, rows, _ in parts], place, len(there))
        query, group = np.divmod(there, max(len(heads), 1))
        return sums, best, [pl.Series(value_column(0), queries[query]), *taken(keys, heads[group])]

    def _contributions(self, rows: Batch) -> Totals:
        return accumulators.contributions(rows, self.plan.summed)

    @property
    def _are_codes_exact(self) -> bool:
        """Whether the keys of one query are told apart by their codes: whole numbers of few bits are."""
        return len(self.keys) == 1 or (len(self.keys) == 2 and self.schema[1].type in (TINYINT, SMALLINT, INT))

    def _codes(self, rows: Batch, names: Sequence[str]) -> Int64s:
        """Equal keys have equal codes, in whatever rows they are."""
        if len(names) == 1 and self._are_codes_exact:
            column = rows.get_column(names[0]).cast(pl.Int64)
            return (column.fill_null(_NULL) if column.null_count() else column).to_numpy()
        return key_codes(rows, names).view(np.int64)

    def _decoded(self, codes: Int64s) -> pl.Series:
        """The keys that have exact codes."""
        is_null = codes == _NULL
        column = pl.Series(np.where(is_null, 0, codes)).cast(to_polars(self.schema[1].type))
        return column.set(pl.Series(is_null), None) if is_null.any() else column

    def _kind(self, key: str) -> pl.DataType:
        return to_polars(self.schema[self.groups.inputs.index(key)].type)

    def _best(
        self, parts: Sequence[tuple[PartialTotals, Positions]], owner: Int64s, count: int
    ) -> dict[int, pl.Series]:
        """The extremes of groups, by the place of the call."""
        if not self.extremes:
            return {}
        weight = _joined([part.weight[rows] for part, rows in parts])
        found = {}
        for place, column in self.extremes.items():
            name, kind = value_column(column), to_polars(self._partial[column].type)
            if all(name in part.whole_numbers for part, _ in parts):
                values = pl.Series(name, _joined([part.whole_numbers[name][rows] for part, rows in parts]), kind)
            else:
                values = _column(name, kind, parts)
            order = order_of(self.plan.calls[place])
            found[place] = best_of_groups(values, weight, owner, count, order)
        return found

    def _row_of_each(
        self, totals: Totals, best: Mapping[int, pl.Series], keys: Sequence[pl.Series], instant: int
    ) -> Batch:
        """A row for each group that is there."""
        made = _in_rows([*keys, *self._values(totals, best, len(keys[0]))], instant)
        return only(made, self._presence(totals, np.zeros(made.height, np.bool_)))

    def _values(self, totals: Totals, best: Mapping[int, pl.Series], count: int) -> list[pl.Series]:
        """What the calls make of totals, and extremes; errors are left for the queries that they stop."""
        values = [nulls("", pl.String(), count)] * len(self.plan.calls)
        for place, (call, shown) in enumerate(zip(self.plan.calls, self.plan.shown, strict=True)):
            if place in best:
                values[place] = best[place]
            elif place in self.plan.errors:
                values[place], _ = accumulators.attempted(call, totals, self.plan.schema, shown)
            elif not call.gives_error:
                values[place] = accumulators.evaluate(call, totals, self.plan.schema, shown)
        return values

    def _presence(self, totals: Totals, present: Bools) -> Bools:
        return np.ones(len(present), np.bool_) if self.always else super()._presence(totals, present)


@dataclass(frozen=True, eq=False)
class PartialTotals:
    """Rows with totals of parts of groups: codes of their keys, what each row adds to each total, its copies, and
    extremes as arrays, by column, where they are whole numbers without NULL."""

    rows: Batch
    codes: Int64s
    totals: Totals
    weight: Int64s
    whole_numbers: Mapping[str, Int64s]

    @property
    def size(self) -> int:
        """In bytes, beside the rows."""
        return self.codes.nbytes * (1 + sum(len(limbs.parts) for limbs in self.totals.values()))


def _column(name: str, kind: pl.DataType, parts: Sequence[tuple[PartialTotals, Positions]]) -> pl.Series:
    columns = (part.rows.get_column(name)[pl.Series(rows.astype(np.uint32))] for part, rows in parts)
    return joined([pl.Series(name, [], kind), *map(one_zero, columns)])


def _in_rows(columns: Sequence[pl.Series], instant: int) -> Batch:
    """Values that hold from an instant on."""
    named = [column.alias(value_column(index)) for index, column in enumerate(columns)]
    count = len(columns[0])
    intervals = [constant(name, value, count) for name, value in ((START, instant), (END, INF), (WEIGHT, 1))]
    return frame_of([*named, *intervals])


def are_some(totals: Totals, count: int) -> Bools:
    """Where some total is not 0."""
    there = np.zeros(count, np.bool_)
    for total in totals.values():
        for part in normalized(total).parts:
            there |= part != 0
    return there


def _groups(codes: Int64s) -> tuple[Int64s, Int64s]:
    """The group of each row, and a row of each group."""
    if len(codes):
        least, greatest = int(codes.min()), int(codes.max())
        if greatest - least < 4 * len(codes):  # to count is faster than to sort
            row = np.full(greatest - least + 1, -1)
            row[codes - least] = np.arange(len(codes))
            there = np.flatnonzero(row >= 0)
            place = np.zeros(len(row), np.int64)
            place[there] = np.arange(len(there))
            return place[codes - least], row[there]
    _, heads, owner = np.unique(codes, return_index=True, return_inverse=True)
    return owner, heads


def _one_group(codes: Int64s, always: bool) -> tuple[Int64s, Int64s]:
    return np.zeros(len(codes), np.int64), np.zeros(1 if always or len(codes) else 0, np.int64)


def _checked(owner: Int64s, heads: Int64s, keys: Sequence[pl.Series]) -> tuple[Int64s, Int64s]:
    """The same, once it is known that rows of equal codes have equal keys, which hardly ever is not so."""
    if not len(owner) or all(
        are_equal(column, one).all() for column, one in zip(keys, taken(keys, heads[owner]), strict=True)
    ):
        return owner, heads
    named = frame_of([column.alias(f"k{index}") for index, column in enumerate(keys)])
    heads, owner = np.unique(first_of_equal(named, named.columns), return_inverse=True)
    return owner, heads


def _joined(arrays: Sequence[Int64s]) -> Int64s:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _limbs(pieces: Sequence[Limbs]) -> Limbs:
    return concatenated(pieces) if pieces else zeros(0)
