"""The best row of each group at each instant: MIN, MAX, FIRST, LAST.

    best(t) = the greatest v, by an order, among rows (v, start, end, weight) with start <= t < end

Rows that were put into order, worst first, are intervals over the instants of a step, and the best at an
instant is the last interval that covers it. `cover` finds it for all instants at once, without a loop over rows
or instants: an interval is two overlapping spans of 2**k instants, kept in the k-th of log2(n) tables, and each
table hands its spans down to the next as two halves.

Where nothing is ever retracted, a row that ends no later than a better one will never be the best again. The
rows that are left form a staircase: sorted by end, each is worse than the one before it. A step touches only
the stairs that end in it and the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.group_table import GROUP
from millstream.kernel.aggregation.instants import GroupInstants
from millstream.kernel.aggregation.ordinals import LIMIT, combined, heads, ordinals, ranked
from millstream.kernel.aggregation.sorted_runs import SortedRuns, add_run, bisect_within, expand
from millstream.kernel.batch import END, START, value_column
from millstream.kernel.columns import ascending, chosen, frame_of, is_null, is_small, nulls, only, stacked, take, taken
from millstream.kernel.operator import Segment

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_COUNTED = 1 << 16  # values of groups for which there is room, though some are not there


@dataclass(frozen=True)
class Order:
    """What makes a row better: its columns `by`, compared one after the other, NULL being the least. `value` is the
    column that is shown; a row with NULL in the column `unless` is worse than all others, and of it NULL is shown."""

    value: str
    by: tuple[str, ...]
    least: bool  # the least is best, and not the greatest
    unless: str | None

    def quality(self, rows: pl.DataFrame) -> tuple[Int64s, int]:
        """A number for each row, below the second result: equal for rows equally good, greater for better ones."""
        codes, span = ordinals(rows, self.by)
        if self.unless is None:
            return (span - 1 - codes if self.least else codes), span
        if not self.least and self.unless == self.by[0]:
            return codes, span  # where NULL comes first already
        missing = is_null(rows.get_column(self.unless))
        return np.where(missing, 0, span - codes if self.least else codes + 1), span + 1


def order_of(call: AggregateCall, *, ties: Sequence[str] = (), started: str = START) -> Order:
    """The order of a call; `started` is the column that says since when a row is there, `ties` those by which rows go
    that have come at the same instant."""
    assert call.argument is not None
    value = value_column(call.argument)
    others = tuple(map(value_column, call.others))
    if call.name in ("first", "last"):
        by = tuple(dict.fromkeys((started, *ties, value, *others)))
        return Order(value, by, call.name == "first", unless=others[0] if others else None)
    if call.name in ("max_by", "min_by"):  # among equals the greatest value, or the least
        return Order(value, tuple(dict.fromkeys((*others, value))), call.name == "min_by", unless=others[0])
    return Order(value, (value,), call.name != "max", unless=value)


def cover(start: Int64s, stop: Int64s, size: int) -> Int64s:
    """For each place in [0, size) the last of the intervals [start, stop) that holds it, or -1."""
    length = stop - start
    numbers = np.flatnonzero(length > 0)
    best = np.full(size, -1, np.int64)
    if not len(numbers):
        return best
    level = (np.frexp(length[numbers].astype(np.float64))[1] - 1).astype(np.int8)
    by_level = numbers[np.argsort(level, kind="stable")]
    bounds = np.searchsorted(np.sort(level), np.arange(int(level.max()) + 2))
    for k in range(int(level.max()), -1, -1):
        span = 1 << k
        # `best` holds spans of twice this length: both halves are covered.
        halves = best.copy()
        np.maximum(halves[span:], best[:-span], out=halves[span:])
        best = halves
        here = by_level[bounds[k] : bounds[k + 1]]
        if len(here):
            table = np.full(size, -1, np.int64)
            # Later assignments win, and intervals come in ascending order.
            table[np.column_stack((start[here], stop[here] - span)).ravel()] = np.repeat(here, 2)
            np.maximum(best, table, out=best)
    return best


def best_items(items: pl.DataFrame, order: Order, start: Int64s, stop: Int64s, size: int) -> Int64s:
    """For each of `size` instants the best item whose interval [start, stop) holds it, or -1."""
    places = ascending(order.quality(items)[0])
    best = cover(start[places], stop[places], size)
    return np.where(best >= 0, places[np.maximum(best, 0)], -1) if len(places) else best


def best_of_groups(column: pl.Series, weight: Int64s, owner: Int64s, count: int, order: Order) -> pl.Series:
    """The best value of each of so many groups, among those that their rows come to more than 0 copies of."""
    counted = _best_by_counting(column, weight, owner, count, order)
    if counted is not None:
        return counted
    quality, span = order.quality(frame_of([column.alias(order.value)]))
    if span * count >= LIMIT:  # of values far apart
        quality, span = ranked(quality)
    codes, rows, place = np.unique(owner * span + quality, return_index=True, return_inverse=True)
    there = np.flatnonzero(np.bincount(place, weight, len(codes)) > 0)
    last = np.searchsorted(codes[there], np.arange(1, count + 1) * span) - 1
    if not len(there):
        return nulls(column.name, column.dtype, count)
    best = there[np.maximum(last, 0)]
    return gathered(column, np.where((last >= 0) & (codes[best] // span == np.arange(count)), rows[best], -1))


def _best_by_counting(column: pl.Series, weight: Int64s, owner: Int64s, count: int, order: Order) -> pl.Series | None:
    """The same of whole numbers that lie close together: to count them is faster than to sort."""
    if not column.dtype.is_signed_integer() or order.unless is None:
        return None
    if column.null_count():
        known = np.flatnonzero(column.is_not_null().to_numpy())
        column, weight, owner = taken([column], known)[0], weight[known], owner[known]
    if not len(column):
        return nulls(column.name, column.dtype, count)
    values = column.to_numpy().astype(np.int64, copy=False)
    least, greatest = int(values.min()), int(values.max())
    span = greatest - least + 1
    if span * count > 4 * len(values) + _COUNTED:
        return None
    # The first of a group that is there is its best.
    places = values - least if order.least else greatest - values
    copies = np.bincount(owner * span + places, weight, span * count).reshape(count, span)
    there = copies > 0
    first = np.argmax(there, axis=1)
    best = pl.Series(column.name, first + least if order.least else greatest - first, column.dtype)
    missing = ~there[np.arange(count), first]
    return best.set(pl.Series(missing), None) if missing.any() else best


def gathered(column: pl.Series, places: Int64s) -> pl.Series:
    """The column at places, NULL where a place is -1."""
    missing = places < 0
    if not len(column):
        return nulls(column.name, column.dtype, len(places))
    (values,) = taken([column], np.maximum(places, 0))
    return values.set(pl.Series(missing), None) if missing.any() else values


def undominated(rows: pl.DataFrame, order: Order) -> pl.DataFrame:
    """The rows for which no better or equal row of their group ends later or together, by group and end."""
    if not rows.height:
        return rows
    quality = order.quality(rows)
    places = ascending(combined(ordinals(rows, (GROUP, END)), quality)[0])[::-1]
    # Numbers that grow from group to group and, within a group, with quality: one running maximum serves all.
    ordinal = np.cumsum(heads(rows.get_column(GROUP).to_numpy()[places]), dtype=np.int64)
    number, _ = combined((ordinal, rows.height + 1), (quality[0][places], quality[1]))
    highest = np.maximum.accumulate(number)
    kept = np.append(True, number[1:] > highest[:-1])
    return take(rows, places[kept][::-1])


class Staircase:
    """Undominated rows of all groups, for one call over an input without retractions."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.columns = [GROUP, *order.by, END]

    def best(
        self, runs: SortedRuns, rows: pl.DataFrame, instants: GroupInstants, before: int, low: int
    ) -> tuple[pl.Series, Bools]:
        """The value at each instant, and whether there is any row; `rows` started after `before` and up to `low`."""
        carried, carried_owner = self._carried(runs, instants, before, low)
        fresh = chosen(rows, self.columns)
        fresh_owner = instants.owners(fresh.get_column(GROUP).to_numpy())
        items = stacked([*carried, fresh])
        owner = np.concatenate((carried_owner, fresh_owner))
        start = np.concatenate(
            (
                instants.first[carried_owner],
                instants.place(fresh_owner, rows.get_column(START).to_numpy()),
            )
        )
        stop = instants.place(owner, items.get_column(END).to_numpy())
        best = best_items(items, self.order, start, stop, len(instants))
        shown = best
        if self.order.unless not in (None, self.order.value) and items.height:
            missing = is_null(items.get_column(self.order.unless))
            shown = np.where(missing[np.maximum(best, 0)], -1, best)
        return gathered(items.get_column(self.order.value), shown), best >= 0

    def _carried(
        self, runs: SortedRuns, instants: GroupInstants, before: int, low: int
    ) -> tuple[list[pl.DataFrame], Int64s]:
        """The stairs that end in this step, and in each run the first of each group that does not."""
        pieces, owners = [], []
        for run in runs:
            known, end = run.get_column(GROUP).to_numpy(), run.get_column(END).to_numpy()
            first = np.searchsorted(known, instants.group, side="left")
            stop = np.searchsorted(known, instants.group, side="right")
            since = bisect_within(end, first, stop, before)
            until = np.minimum(bisect_within(end, first, stop, low) + 1, stop)
            places, owner = expand(since, until)
            pieces.append(take(chosen(run, self.columns), places))
            owners.append(owner)
        return pieces, np.concatenate(owners) if owners else np.zeros(0, np.int64)

    def kept(self, rows: pl.DataFrame, low: int) -> pl.DataFrame:
        """What must be remembered of the rows that started up to `low`."""
        return undominated(self._alive(chosen(rows, self.columns), low), self.order)

    def _alive(self, rows: pl.DataFrame, low: int) -> pl.DataFrame:
        return only(rows, rows.get_column(END).to_numpy() > low)

    def added(self, runs: SortedRuns, rows: pl.DataFrame, low: int) -> SortedRuns:
        """The runs with what must be remembered of rows that started up to `low`."""
        if len(runs) <= 1 and is_small(rows.height, *(run.height for run in runs)):
            left = undominated(self._alive(stacked([*runs, chosen(rows, self.columns)]), low), self.order)
            return (left,) if left.height else ()

        def merge(merged: Sequence[Segment], oldest: bool) -> Segment:
            return undominated(self._alive(stacked(merged), low), self.order)

        return add_run(runs, self.kept(rows, low), merge)
