"""ASOF joins: of the rows of the other side with the same key, the one that comes nearest.

At every instant a row of the left meets the row of the right that has equal keys and the greatest value not above its
own (or below it, or the least not below or above); of several with that value the first by its columns, NULL first.

Which row that is changes with time, for a single row of the left even where it stays itself: it meets another as soon
as a nearer one comes, and again when that goes. `partners` finds this for many rows at once. From its value downwards a
row takes the time that is left of the next row of the right, until nothing of its own time is left:

    own [s, e), the next one [s', e')   gives   [max(s, s'), min(e, e')),   and leaves [s, s') and [e', e)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import (
    END,
    INF,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    empty_batch,
    value_column,
    value_columns,
)
from millstream.kernel.columns import frame_of, one_zero, only, stacked, take
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.keys import KEY, Codes, first_of_equal, key_codes
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.storage import time_queue
from millstream.kernel.storage.expiries import note_gone
from millstream.kernel.storage.probing import equal_pairs
from millstream.kernel.storage.segments import codes_of, gather, numbers, released, summed
from millstream.kernel.storage.synopsis import retain
from millstream.types import Schema

Nearest = OneOf[">=", ">", "<=", "<"]
Int64s = npt.NDArray[np.int64]
_WAITING, _ROWS = ("waiting left", "waiting right"), ("left", "right")


class AsofJoin(Operator):
    """A asof B = {(a b, [s, e), w) : b is the nearest to a at the instants of [s, e)}; `outer`: and a NULL elsewhere

        change = change(A) asof B_after + A_before asof B_after - A_before asof B_before

    where of A_before only those count whose key has changes in B, from the first of these on.

    Takes rows up to the frontier, those that start later wait. Keeps the rows of both sides by key until they end.

    >>> run = Run(AsofJoin(integers("k", "t"), integers("k", "u"), keys=((0, 0),), nearest=(1, ">=", 1), outer=True))
    >>> run.step(batch((1, 10, 0, 9, +1)), batch((1, 5, 2, 6, +1), (1, 11, 0, 9, +1)), to=4)
    (1, 10, None, None, [0, 2), +1)
    (1, 10, 1, 5, [2, 6), +1)
    (1, 10, None, None, [6, 9), +1)
    >>> run.step(None, batch((1, 7, 5, 8, +1)), to=5)
    (1, 10, 1, 5, [5, 6), -1)
    (1, 10, 1, 7, [5, 8), +1)
    (1, 10, None, None, [6, 9), -1)
    (1, 10, None, None, [8, 9), +1)
    """

    def __init__(
        self,
        left_schema: Schema,
        right_schema: Schema,
        keys: tuple[tuple[int, int], ...],
        nearest: tuple[int, Nearest, int],
        outer: bool = False,
    ) -> None:
        self.schema = left_schema + right_schema
        self.keys = keys
        self.nearest = nearest
        self.outer = outer
        self._widths = len(left_schema), len(right_schema)
        self._columns = value_columns(len(left_schema)), value_columns(len(right_schema))
        self._key_columns = [[value_column(key[side]) for key in keys] for side in (0, 1)]
        self._compared = value_column(nearest[0]), value_column(nearest[2])

    @property
    def distribution(self) -> Distribution:
        keys = [tuple(key[side] for key in self.keys) for side in (0, 1)]
        width = self._widths[0]
        of_right = () if self.outer else tuple((index, width + index) for index in range(self._widths[1]))
        return by_key(keys, same_columns(width), of_right)

    def is_idle(self, state: State, progress: Progress) -> bool:
        queues = (state.get(name, ()) for name in _WAITING)
        return not any(time_queue.is_due(queue, progress.low_before, progress.low) for queue in queues)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        before, low = progress.low_before, progress.low
        new, waiting, kept = [], [], [state.get(name, ()) for name in _ROWS]
        for side in (0, 1):
            queue = state.get(_WAITING[side], ())
            arrived, left = released(queue, self._keyed(inputs[side], side), START, before, low)
            new.append(arrived)
            waiting.append(left)
        output = self._changes(new[0], new[1], kept, before)
        for side in (0, 1):
            by_code = take(new[side], np.argsort(codes_of(new[side]), kind="stable"))
            before_side, kept[side] = kept[side], retain(kept[side], by_code, low)
            note_gone(before_side, by_code.height, kept[side])
        parts = [*zip(_WAITING, waiting, strict=True), *zip(_ROWS, kept, strict=True)]
        return output, {name: value for name, value in parts if value}

    def _changes(
        self, left: pl.DataFrame, right: pl.DataFrame, kept: Sequence[Sequence[Segment]], before: int
    ) -> Batch:
        if not left.height and not right.height:
            return empty_batch(self.schema)
        changed = np.unique(codes_of(right))
        touched = np.union1d(changed, codes_of(left))
        stored = stacked([right[:0], *(self._found(segment, touched, before) for segment in kept[1])])
        after = stacked([stored, right])
        found = [self._joined(left, after, +1)]
        if right.height:
            known = stacked([left[:0], *(self._found(segment, changed, before) for segment in kept[0])])
            known = _since(known, right)
            if known.height:
                found += [self._joined(known, after, +1), self._joined(known, stored, -1)]
        together = stacked(found)
        return summed(together) if len(found) > 1 else together

    def _keyed(self, batch: Batch, side: int) -> Batch:
        """The rows that can be found, with the codes of their keys; of the left, also those without partners."""
        values = (one_zero(batch.get_column(name)) for name in self._columns[side])
        frame = frame_of([*values, *(batch.get_column(name) for name in INTERVAL_COLUMNS)])
        if side or not self.outer:
            for name in {*self._key_columns[side], self._compared[side]}:
                column = frame.get_column(name)
                frame = only(frame, column.is_not_null().to_numpy()) if column.null_count() else frame
        return frame.hstack([pl.Series(KEY, key_codes(frame, self._key_columns[side]))])

    def _found(self, segment: Segment, codes: Codes, before: int) -> pl.DataFrame:
        if self.keys:
            places = [rows for _, rows in equal_pairs(segment, codes)]
            segment = take(segment, np.concatenate(places) if places else np.zeros(0, np.intp))
        return only(segment, numbers(segment, END) > before)

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame, sign: int) -> Batch:
        right = _present(right, self._columns[1])
        places, right = self._places(left, right)
        rows, partners, starts, ends = partners_of(left, right, places)
        padded = partners < 0
        if not self.outer:
            rows, partners, starts, ends = (part[~padded] for part in (rows, partners, starts, ends))
        weights = numbers(left, WEIGHT)[rows] * sign
        own = gather(left, self._columns[0], rows)
        of_right = pl.Series(np.where(partners < 0, 0, partners)).scatter(np.flatnonzero(partners < 0), None)
        width = self._widths[0]
        others = [
            right.get_column(name).gather(of_right).alias(value_column(width + index))
            for index, name in enumerate(self._columns[1])
        ]
        intervals = {START: starts, END: ends, WEIGHT: weights}
        return frame_of([*own, *others, *(pl.Series(name, values) for name, values in intervals.items())])

    def _places(self, left: pl.DataFrame, right: pl.DataFrame) -> tuple[Descents, pl.DataFrame]:
        """The right in the order of its keys and values, nearest last; and where the rows of the left look from."""
        operator, height = self.nearest[1], left.height
        keys = [
            pl.concat([left.get_column(one), right.get_column(other)]).alias(one)
            for one, other in zip(*self._key_columns, strict=True)
        ]
        group = first_of_equal(frame_of(keys), [key.name for key in keys]).astype(np.int64) if keys else None
        compared = pl.concat(
            [left.get_column(self._compared[0]), right.get_column(self._compared[1]).alias(self._compared[0])]
        )
        rank = compared.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        top = int(rank.max(initial=0)) + 1
        if operator in ("<=", "<"):
            rank = np.where(rank, top - rank, 0)
        base = np.zeros(rank.size, np.int64) if group is None else group * (top + 1)
        code = base + rank
        order = self._order(code[height:], right)
        ordered = code[height:][order]
        last = np.searchsorted(ordered, code[:height], side="right" if operator in (">=", "<=") else "left") - 1
        first = np.searchsorted(ordered, base[:height], side="left")
        nothing = rank[:height] == 0  # NULL is near nothing
        for name in self._key_columns[0] if self.outer else ():
            nothing |= left.get_column(name).is_null().to_numpy()
        return Descents(first, np.where(nothing, -1, last), base[height:][order]), take(right, order)

    def _order(self, codes: Int64s, right: pl.DataFrame) -> npt.NDArray[np.intp]:
        order = np.argsort(codes, kind="stable")
        if not (codes[order][1:] == codes[order][:-1]).any():
            return order
        # Of equal ones the first by its columns is the nearest: it comes last.
        names = self._columns[1]
        by = frame_of([pl.Series("_code", codes), *(right.get_column(name) for name in names)]).with_row_index("_row")
        descending = [False, *(True for _ in names)]
        return by.sort(["_code", *names], descending=descending, nulls_last=True)["_row"].to_numpy().astype(np.intp)


@dataclass(frozen=True)
class Descents:
    """Of each row of the left, the first row of the right that has its keys, and the nearest one; and the keys of the
    right as numbers."""

    first: Int64s
    last: Int64s
    key: Int64s


def partners_of(left: pl.DataFrame, right: pl.DataFrame, places: Descents) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """All (row of the left, row of the right or -1, start, end)."""
    starts, ends = numbers(right, START), numbers(right, END)
    latest, earliest = _reached(places.key, starts, ends)
    rows, at, begin, stop = np.arange(left.height), places.last, numbers(left, START), numbers(left, END)
    found: list[tuple[Int64s, Int64s, Int64s, Int64s]] = []
    while rows.size:
        open_ = at >= places.first[rows]
        # Where nothing further down reaches into what is left of its time, a row has no partner then.
        open_[open_] &= (latest[at[open_]] > begin[open_]) & (earliest[at[open_]] < stop[open_])
        unmatched = ~open_
        found.append((rows[unmatched], np.full(np.count_nonzero(unmatched), -1), begin[unmatched], stop[unmatched]))
        rows, at, begin, stop = rows[open_], at[open_], begin[open_], stop[open_]
        low, high = np.maximum(begin, starts[at]), np.minimum(stop, ends[at])
        met = low < high
        found.append((rows[met], at[met], low[met], high[met]))
        low, high = np.where(met, low, stop), np.where(met, high, stop)
        ahead, behind = begin < low, high < stop
        rows, at = np.concatenate([rows[ahead], rows[behind]]), np.concatenate([at[ahead], at[behind]]) - 1
        begin, stop = (
            np.concatenate([begin[ahead], high[behind]]),
            np.concatenate([low[ahead], stop[behind]]),
        )
    if not found:
        return tuple(np.zeros(0, np.int64) for _ in range(4))  # type: ignore[return-value]
    one, two, three, four = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return one, two, three, four


def _reached(key: Int64s, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Of each row, the latest end and the earliest start of it and those below it that have its key."""
    frame = pl.DataFrame({"key": key, "start": starts, "end": ends})
    found = frame.select(pl.col("end").cum_max().over("key"), pl.col("start").cum_min().over("key"))
    return found["end"].to_numpy(), found["start"].to_numpy()


def _since(known: pl.DataFrame, changed: pl.DataFrame) -> pl.DataFrame:
    """Rows from the instant on at which the first row of their key changes."""
    codes, place = np.unique(codes_of(changed), return_inverse=True)
    first = np.full(codes.size, INF, np.int64)
    np.minimum.at(first, place, numbers(changed, START))
    since = first[np.searchsorted(codes, codes_of(known))]
    known = known.with_columns(pl.Series(START, np.maximum(numbers(known, START), since)))
    return only(known, numbers(known, END) > numbers(known, START))


def _present(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """When each row is there, however often: (row, [s, e), +1) that do not overlap for one row."""
    first = first_of_equal(rows, columns) if rows.height else np.zeros(0, np.intp)
    if (numbers(rows, WEIGHT) == 1).all() and np.unique(first).size == rows.height:
        return rows
    value = np.concatenate([first, first])
    times = np.concatenate([numbers(rows, START), numbers(rows, END)])
    change = np.concatenate([numbers(rows, WEIGHT), -numbers(rows, WEIGHT)])
    order = np.lexsort((times, value))
    value, times, count = value[order], times[order], np.cumsum(change[order])  # what is over adds up to 0
    is_last = np.ones(value.size, np.bool_)
    is_last[:-1] = (value[1:] != value[:-1]) | (times[1:] != times[:-1])
    value, times, there = value[is_last], times[is_last], count[is_last] > 0
    begins = there.copy()
    begins[1:] &= ~there[:-1]
    stops = ~there
    stops[1:] &= there[:-1]
    stops[:1] = False
    found = take(rows, value[begins])
    return found.with_columns(pl.Series(START, times[begins]), pl.Series(END, times[stops]), pl.lit(1).alias(WEIGHT))
