"""OVER: functions of the rows around each row of its partition, at every instant.

    W(t) = { (r, f1(r, P), f2(r, P), ..) : r a copy in R(t) },  P = the rows of R(t) of its partition, in their order

Where rows come or go, others are given other values: those up to so many places before and after, as far as a function
looks. A step lists the rows that a change reaches, with those that they look at, at the instant and at the one before
it; computes all functions over all lists in one vectorised pass; and gives what is different (-old, +new).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, empty_batch, net_changes, value_column
from millstream.kernel.columns import constant, frame_of, stacked, taken
from millstream.kernel.operator import State
from millstream.kernel.ordering.frames import FAR, Reach
from millstream.kernel.ordering.ordered_operator import OrderedOperator
from millstream.kernel.ordering.ordered_rows import Instants, Int64s, OrderedRows, ordered_rows, ranges, unique_pairs
from millstream.kernel.ordering.row_lists import RowLists
from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.ordering.window_functions import (
    NOTHING_EARLIER,
    EarlierRows,
    WindowCall,
    WindowValues,
    result_fields,
)
from millstream.kernel.storage.segments import gather, numbers
from millstream.types import Schema

_ROW = "_place"
_CHUNK = 1 << 22  # rows of lists looked at together: bounds the memory of functions that see whole partitions


@dataclass(frozen=True)
class _Stretches:
    """At some instants: which places a change reaches, and which these look at."""

    at: Int64s
    first: Int64s
    past: Int64s
    first_seen: Int64s
    past_seen: Int64s

    def part(self, changes: slice) -> _Stretches:
        """Those of some changes, each of which has two."""
        both = slice(2 * changes.start, 2 * changes.stop)
        return _Stretches(*(each[both] for each in _parts(self)))


class Over(OrderedOperator):
    """W(t) = { (r, f1(r, P), f2(r, P), ..) : r a copy in R(t) }: the columns of the input, then one for each call.

    Keeps the rows of all partitions until they have ended, and rows that start beyond the frontier until it reaches
    them.

    >>> by_value = RowOrder(partition=(0,), keys=(SortKey(1),))
    >>> run = Run(Over(integers("k", "v"), by_value, [WindowCall("lag", BIGINT, argument=1)], ["before"]))
    >>> run.step(batch((1, 10, 0, 9, +1), (1, 20, 3, 9, +1)), to=4)
    (1, 10, None, [0, INF), +1)
    (1, 20, 10, [3, INF), +1)
    >>> run.step(batch((1, 15, 5, 7, +1)), to=5)
    (1, 15, 10, [5, INF), +1)
    (1, 20, 10, [5, INF), -1)
    (1, 20, 15, [5, INF), +1)
    """

    def __init__(
        self, input_schema: Schema, order: RowOrder, calls: Sequence[WindowCall], names: Sequence[str]
    ) -> None:
        super().__init__((*input_schema, *result_fields(calls, names)), input_schema, order)
        self.input_schema = input_schema
        self.calls = tuple(calls)
        self._reach: Reach = reduce(or_, (call.reach for call in calls), Reach())
        frames = [call.frame for call in calls if call.frame.has_offsets]
        self._key = self.order.keys[0] if frames else None

    def _changes(self, known: pl.DataFrame, before: int, low: int, state: State) -> Batch:
        found, _, _ = ordered_rows(known, self.order, before, low)
        instants = found.instants
        if not instants.real.size:
            return empty_batch(self.schema)
        at, lowest, highest = self._changed(found, instants)
        sides = [self._stretches(found, instants, seen, lowest, highest) for seen in (at - 1, at)]
        # Of each change the list before it, then that after it.
        lists_at = _Stretches(*(np.stack(parts, axis=1).ravel() for parts in zip(*map(_parts, sides), strict=True)))
        parts = [self._computed(found, instants, at[part], lists_at.part(part)) for part in _chunks(lists_at)]
        return self._shown(found, stacked(parts))

    def _computed(self, found: OrderedRows, instants: Instants, at: Int64s, lists_at: _Stretches) -> pl.DataFrame:
        """What is different after some changes: rows of the ordered ones, values and weights."""
        owner, place = ranges(lists_at.first_seen, lists_at.past_seen)
        row, _ = instants.nth(place, lists_at.at[owner])
        lists = RowLists(row, found.peers[row], owner, place, instants.total(lists_at.at)[owner])
        outputs = self._values(found, lists, self._earlier(instants, at, lists_at))
        reached = np.flatnonzero((place >= lists_at.first[owner]) & (place < lists_at.past[owner]))
        number = owner[reached]
        points = frame_of(
            [
                pl.Series(_ROW, row[reached]),
                *taken(outputs, reached),
                pl.Series(START, instants.time[at[number >> 1]]),
                pl.Series(WEIGHT, (number & 1) * 2 - 1),
            ]
        )
        return net_changes(points, [_ROW, *(output.name for output in outputs)])

    def _earlier(self, instants: Instants, at: Int64s, lists_at: _Stretches) -> EarlierRows:
        """What stands before the lists of a partition: at the first instant all rows there, and later what is before
        its lists and was not before the last ones, or the other way round."""
        if not any(call.aggregate is not None and call.frame.is_from_the_first for call in self.calls):
            return NOTHING_EARLIER
        sizes = np.maximum(lists_at.past_seen - lists_at.first_seen, 0)
        begin = np.concatenate(([0], np.cumsum(sizes)))
        partition = instants.partition[at]
        # What goes on to the last row is one change at each instant, whose lists begin at one place if not empty.
        first = np.where(sizes[::2] > 0, lists_at.first_seen[::2], lists_at.first_seen[1::2])
        is_first = np.ones(at.size, np.bool_)
        is_first[1:] = partition[1:] != partition[:-1]
        last = np.zeros(at.size, np.int64)
        last[1:] = np.where(is_first[1:], 0, first[:-1])
        owner, place = ranges(np.minimum(last, first), np.maximum(last, first))
        row, _ = instants.nth(place, at[owner] - 1)
        partition_past = np.append(np.flatnonzero(is_first)[1:], at.size)[np.cumsum(is_first) - 1]
        past = begin[2 * partition_past]
        weight = np.where(first >= last, 1, -1)
        found = EarlierRows(row, begin[2 * owner], past[owner], weight[owner])
        return found.only(found.first < found.past)

    def _changed(self, found: OrderedRows, instants: Instants) -> tuple[Int64s, Int64s, Int64s]:
        """Instants, and of each the first and the last row of some that change at it: those that are so far from others
        that no row sees both are changes of their own."""
        at, row = unique_pairs(instants.of_change, found.changed_row, found.rows.height + 1)
        lowest = highest = row
        if self._reach.peers:
            lowest = found.peers[row]
            highest = np.searchsorted(found.peers, lowest, "right") - 1
        is_first = np.ones(at.size, np.bool_)
        is_first[1:] = at[1:] != at[:-1]
        apart = self._reach.seen_before + self._reach.seen_after
        if apart < FAR:
            ahead, _ = instants.before_row(lowest, at)
            up_to = np.add(*instants.before_row(highest, at))
            is_first[1:] |= ahead[1:] - up_to[:-1] >= apart
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts[1:], at.size) - 1
        return at[firsts], lowest[firsts], highest[lasts]

    def _stretches(
        self, found: OrderedRows, instants: Instants, at: Int64s, lowest: Int64s, highest: Int64s
    ) -> _Stretches:
        reach, total = self._reach, instants.total(at)
        first = np.maximum(instants.before_row(lowest, at)[0] - reach.seen_before, 0)
        past = np.minimum(np.add(*instants.before_row(highest, at)) + reach.seen_after, total)
        first_seen = np.maximum(first - reach.back, 0)
        past_seen = np.minimum(past + reach.ahead, total)
        if reach.peers:
            some = np.flatnonzero(first < past)
            row, _ = instants.nth(first_seen[some], at[some])
            first_seen[some] = instants.before_row(found.peers[row], at[some])[0]
            row, _ = instants.nth(past_seen[some] - 1, at[some])
            last = np.searchsorted(found.peers, found.peers[row], "right") - 1
            past_seen[some] = np.add(*instants.before_row(last, at[some]))
        past_seen = np.where(first < past, past_seen, first_seen)
        return _Stretches(at, first, past, first_seen, past_seen)

    def _values(self, found: OrderedRows, lists: RowLists, earlier: EarlierRows) -> list[pl.Series]:
        used = {column for call in self.calls for column in call.columns}
        columns = sorted(used | ({self._key.column} if self._key is not None else set()))
        names = [value_column(column) for column in columns]
        values, before = (
            dict(zip(columns, gather(found.rows, names, rows), strict=True)) for rows in (lists.row, earlier.row)
        )
        return WindowValues(lists, values, self.input_schema, self._key, earlier, before).of(self.calls)

    def _shown(self, found: OrderedRows, changed: pl.DataFrame) -> Batch:
        rows = numbers(changed, _ROW)
        outputs = [
            changed.get_column(f"o{place}").alias(value_column(len(self._columns) + place))
            for place in range(len(self.calls))
        ]
        return frame_of(
            [
                *gather(found.rows, self._columns, rows),
                *outputs,
                changed.get_column(START),
                constant(END, INF, changed.height),
                changed.get_column(WEIGHT),
            ]
        )


def _chunks(lists_at: _Stretches) -> Iterator[slice]:
    """Changes whose lists are looked at together, since where all rows see all others these are as long as a window."""
    sizes = np.maximum(lists_at.past_seen - lists_at.first_seen, 0)
    ends = np.cumsum(sizes[::2] + sizes[1::2])
    start = 0
    while start < ends.size:
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _CHUNK, "right")), start + 1)
        yield slice(start, stop)
        start = stop


def _parts(stretches: _Stretches) -> tuple[Int64s, ...]:
    return stretches.at, stretches.first, stretches.past, stretches.first_seen, stretches.past_seen
