"""DISTINCT, UNION, INTERSECT and EXCEPT, each also ALL: functions of how often a value occurs.

    O(t) = {v, f(n1(v, t), n2(v, t)) times},  where n1 and n2 count the copies of v in the inputs at t

NULL counts as equal to NULL, NaN to NaN and -0.0 to 0.0, as Spark groups them; zeros come out as 0.0. UNION
ALL is not here: it is the sum of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

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
    changes,
    concat,
    empty_batch,
    value_columns,
)
from millstream.kernel.columns import frame_of, numbered, one_zero, only, stacked, take, with_columns
from millstream.kernel.distribution import Distribution, by_value
from millstream.kernel.keys import KEY, Codes, Positions, Ticks, are_codes_exact, key_codes, stable_order
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.storage.expiries import note_ended, note_gone
from millstream.kernel.storage.probing import equal_pairs, equal_values
from millstream.kernel.storage.segments import alive, codes_of, gather, horizon_of, numbers, released
from millstream.kernel.storage.synopsis import size_classes_to_merge, without_expired
from millstream.kernel.storage.time_queue import is_due
from millstream.types import Schema

_SIDE = "_side"
Flags = npt.NDArray[np.bool_]


class SetOperation(Enum):
    """What becomes of the counts."""

    DISTINCT = "DISTINCT"
    UNION = "UNION"
    INTERSECT = "INTERSECT"
    INTERSECT_ALL = "INTERSECT ALL"
    EXCEPT = "EXCEPT"
    EXCEPT_ALL = "EXCEPT ALL"

    @property
    def counters(self) -> int:
        """How many counts there are per value: UNION needs only their sum."""
        return 1 if self in (SetOperation.DISTINCT, SetOperation.UNION) else 2

    def level(self, counts: Sequence[Ticks]) -> Ticks:
        """How often a value is in the result."""
        first, last = counts[0], counts[-1]
        match self:
            case SetOperation.DISTINCT | SetOperation.UNION:
                return (first > 0).astype(np.int64)
            case SetOperation.INTERSECT:
                return ((first > 0) & (last > 0)).astype(np.int64)
            case SetOperation.INTERSECT_ALL:
                return np.maximum(np.minimum(first, last), 0)
            case SetOperation.EXCEPT:
                return ((first > 0) & (last <= 0)).astype(np.int64)
            case SetOperation.EXCEPT_ALL:
                return np.maximum(first - np.maximum(last, 0), 0)


class _ByValue(Operator):
    """What the operators of this file share: rows sorted by value and time, and state looked up by value."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._columns = value_columns(len(schema))

    @property
    def distribution(self) -> Distribution:
        return by_value(len(self.schema))

    def _keyed(self, batch: Batch) -> Batch:
        """The batch with the code of each row's value; -0.0 would make two values of one zero."""
        values = (one_zero(batch.get_column(name)) for name in self._columns)
        frame = frame_of([*values, *(batch.get_column(name) for name in INTERVAL_COLUMNS)])
        return frame.hstack([pl.Series(KEY, key_codes(frame, self._columns))])

    def _sorted(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Flags]:
        """The rows by (value, start), and where a new value begins."""
        starts, codes = numbers(frame, START), codes_of(frame)
        if _is_ascending(starts):
            order = stable_order(codes)
        else:
            by_time = stable_order(_spread(starts))
            order = by_time[stable_order(codes[by_time])]
        exact = are_codes_exact(frame, self._columns)
        frame_sorted = take(frame, order)
        first_of_code, first_of_value = self._boundaries(frame_sorted, exact)
        if (first_of_value & ~first_of_code).any():
            # Two values share a code, and may be entangled.
            frame_sorted = frame.sort(KEY, *self._columns, START)
            _, first_of_value = self._boundaries(frame_sorted, exact=False)
        return frame_sorted, first_of_value

    def _boundaries(self, frame: pl.DataFrame, exact: bool) -> tuple[Flags, Flags]:
        codes = codes_of(frame)
        first_of_code = np.ones(frame.height, np.bool_)
        first_of_code[1:] = codes[1:] != codes[:-1]
        if exact:
            return first_of_code, first_of_code
        rows = np.flatnonzero(~first_of_code)
        first_of_value = first_of_code.copy()
        first_of_value[rows] = ~equal_values(frame, frame, rows - 1, rows, self._columns, self._columns)
        return first_of_code, first_of_value

    def _found(self, values: pl.DataFrame, segment: Segment) -> tuple[Positions, Positions]:
        """(row of the values, row of the segment) wherever these agree."""
        chunks = list(equal_pairs(segment, codes_of(values)))
        i = np.concatenate([chunk[0] for chunk in chunks]) if chunks else np.zeros(0, np.intp)
        j = np.concatenate([chunk[1] for chunk in chunks]) if chunks else np.zeros(0, np.intp)
        if are_codes_exact(values, self._columns) and are_codes_exact(segment, self._columns):
            return i, j
        agree = equal_values(values, segment, i, j, self._columns, self._columns)
        return i[agree], j[agree]

    def _one_per_value(self, rows: pl.DataFrame, summaries: Mapping[str, np.ufunc]) -> pl.DataFrame:
        """The rows summed up by value. Where values share a code, rows of one value may stay apart: who looks
        them up sums over all of them anyway."""
        rows = take(rows, stable_order(codes_of(rows)))
        _, first_of_value = self._boundaries(rows, are_codes_exact(rows, self._columns))
        return _reduced(rows, [*self._columns, KEY], np.flatnonzero(first_of_value), summaries)


def _reduced(
    rows: pl.DataFrame, columns: Sequence[str], firsts: Positions, summaries: Mapping[str, np.ufunc]
) -> pl.DataFrame:
    """One row for every run that begins at one of `firsts`."""
    summed = {name: add.reduceat(numbers(rows, name), firsts) for name, add in summaries.items()}
    return frame_of([*gather(rows, columns, firsts), *numbered(summed)])


def retained_by_value(
    segments: Sequence[Segment], arrived: Segment, merge: Callable[[pl.DataFrame], pl.DataFrame]
) -> tuple[Segment, ...]:
    """The segments and the rows that arrived; those of one size class become one by `merge`."""
    kept, merging = size_classes_to_merge([*segments, arrived] if arrived.height else segments)
    if not merging:
        return tuple(kept)
    merged = merge(stacked(merging))
    return (*kept, merged) if merged.height else tuple(kept)


def _is_ascending(ticks: Ticks) -> bool:
    """As most batches are by time, which saves a sort."""
    return bool((ticks[1:] >= ticks[:-1]).all())


def _spread(ticks: Ticks) -> Codes:
    """Codes in the order of the ticks that fill the upper bits, as sorting likes them."""
    if not ticks.size:
        return ticks.view(np.uint64)
    codes: Codes = (ticks - ticks.min()).view(np.uint64)
    return codes << np.uint64(min(63, 64 - int(codes.max()).bit_length()))


class _SetOperator(_ByValue):
    """What both ways to apply a set operation share."""

    def __init__(self, schema: Schema, operation: SetOperation) -> None:
        super().__init__(schema)
        self.operation = operation
        self._counts = ("_count0", "_count1")[: operation.counters]
        self._summaries = dict.fromkeys(self._counts, np.add)

    def _sided(self, inputs: Sequence[Batch]) -> pl.DataFrame:
        """The rows of all inputs, with the number of the counter they are for."""
        parts = []
        for number, batch in enumerate(inputs):
            side = np.full(batch.height, min(number, self.operation.counters - 1), np.int8)
            parts.append(self._keyed(batch).hstack([pl.Series(_SIDE, side)]))
        return concat(parts, parts[0])

    def _occurring(self, counts: pl.DataFrame) -> pl.DataFrame:
        """The rows of which a count is not zero."""
        return only(counts, np.logical_or.reduce([numbers(counts, name) != 0 for name in self._counts]))

    def _added(self, points: pl.DataFrame) -> list[Ticks]:
        """What each change point adds to each counter."""
        sides, weights = numbers(points, _SIDE), numbers(points, WEIGHT)
        return [np.where(sides == side, weights, 0) for side in range(len(self._counts))]

    def _rests(self, inputs: Sequence[Batch], state: State, progress: Progress) -> bool:
        """As in most steps within joins, which should cost nothing."""
        return not any(batch.height for batch in inputs) and self.is_idle(state, progress)

    def _emit(
        self,
        points: pl.DataFrame,
        rows: Positions,
        value_of_row: Positions,
        level: Ticks,
        said: Ticks,
    ) -> Batch:
        """Rows that make of what was said of each value for all time to come the levels from each row on."""
        first = np.ones(rows.size, np.bool_)
        first[1:] = value_of_row[1:] != value_of_row[:-1]
        previous = np.empty_like(level)
        previous[1:] = level[:-1]
        previous[first] = said[value_of_row[first]]
        changed = np.flatnonzero(level != previous)
        rows, value_of_row, level = rows[changed], value_of_row[changed], level[changed]
        starts = numbers(points, START)[rows]
        ends = np.full(rows.size, INF, np.int64)
        ends[:-1] = np.where(value_of_row[1:] == value_of_row[:-1], starts[1:], INF)
        weights = level - said[value_of_row]
        kept = np.flatnonzero(weights)
        intervals = {START: starts, END: ends, WEIGHT: weights}
        columns = [pl.Series(name, column[kept]) for name, column in intervals.items()]
        return frame_of([*gather(points, self._columns, rows[kept]), *columns])


def _last_of_instants(starts: Ticks, first_of_value: Flags) -> Positions:
    """The last of the points at each instant, of each value."""
    last = np.ones(starts.size, np.bool_)
    last[:-1] = first_of_value[1:] | (starts[1:] != starts[:-1])
    return np.flatnonzero(last)


class Multiplicity(_SetOperator):
    """O(t) = {v, f(n1(v, t), n2(v, t)) times}, with f by operation:

        DISTINCT, UNION    1 if n1 (+ n2) > 0        INTERSECT        1 if n1 > 0 and n2 > 0
        INTERSECT ALL      min(n1, n2)               EXCEPT           1 if n1 > 0 and n2 = 0
        EXCEPT ALL         max(n1 - n2, 0)

    Takes the change points of its inputs up to the frontier, by value and time, and gives a row for every
    time that f keeps another value than before the step: one with an end where the step sees f change again,
    one without where it does not. Where a row given before says too much from now on, a negative row takes it
    back.

    Keeps the counts of every value that occurs in an input, and the change points beyond the frontier. A
    count is forgotten when it is zero, a change point when the frontier has passed it.

    >>> run = Run(Multiplicity(integers("v"), SetOperation.EXCEPT_ALL))
    >>> run.step(batch((7, 0, 9, +1), (7, 2, 9, +1)), batch((7, 4, 6, +1)), to=4)
    (7, [0, 2), +1)
    (7, [2, 4), +2)
    (7, [4, INF), +1)
    >>> run.wait(to=9)
    (7, [6, 9), +1)
    (7, [9, INF), -1)
    """

    def is_idle(self, state: State, progress: Progress) -> bool:
        return not is_due(state.get("pending", ()), progress.low_before, progress.low)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        pending, counts = state.get("pending", ()), state.get("counts", ())
        if self._rests(inputs, state, progress):
            return empty_batch(self.schema), state
        arrived = changes(self._sided(inputs), [*self._columns, KEY, _SIDE])
        points, pending = released(pending, arrived, START, progress.low_before, progress.low)
        note_ended([points])
        output = empty_batch(self.schema)
        if points.height:
            output, counts = self._change(points, counts)
        return output, {"pending": pending, "counts": counts}

    def _change(self, points: pl.DataFrame, counts: tuple[Segment, ...]) -> tuple[Batch, tuple[Segment, ...]]:
        points, first_of_value = self._sorted(points)
        firsts = np.flatnonzero(first_of_value)
        values = frame_of(gather(points, [*self._columns, KEY], firsts))
        carried = self._carried(values, counts)
        added = self._added(points)

        rows = _last_of_instants(numbers(points, START), first_of_value)
        value_of_row = (np.cumsum(first_of_value) - 1)[rows]
        running = []
        for before, change in zip(carried, added, strict=False):
            sums = np.cumsum(change)
            running.append(sums[rows] + (before - sums[firsts] + change[firsts])[value_of_row])
        levels = self.operation.level(running)
        output, more = self._say(points, rows, value_of_row, levels, carried)

        totals = dict(zip(self._counts, (np.add.reduceat(change, firsts) for change in added), strict=True)) | more
        changed = np.logical_or.reduce([total != 0 for total in totals.values()])
        columns = [pl.Series(name, total) for name, total in totals.items()]
        return output, retained_by_value(counts, only(values.hstack(columns), changed), self._merge)

    def _say(
        self, points: pl.DataFrame, rows: Positions, value_of_row: Positions, level: Ticks, carried: Sequence[Ticks]
    ) -> tuple[Batch, dict[str, Ticks]]:
        """What is new of the levels, and what the step adds to sums that are kept beside the counts."""
        return self._emit(points, rows, value_of_row, level, self.operation.level(carried)), {}

    def known_until(self, values: pl.DataFrame, state: State) -> Ticks:
        """Up to when the output has each of the values (with their codes), by what was said so far; 0 where not."""
        return self.operation.level(self._carried(values, state.get("counts", ()))) * INF

    def _merge(self, counts: pl.DataFrame) -> pl.DataFrame:
        return self._occurring(self._one_per_value(counts, self._summaries))

    def _carried(self, values: pl.DataFrame, counts: Sequence[Segment]) -> list[Ticks]:
        carried = [np.zeros(values.height, np.int64) for _ in self._summaries]
        for segment in counts:
            i, j = self._found(values, segment)
            for total, name in zip(carried, self._summaries, strict=True):
                np.add.at(total, i, numbers(segment, name)[j])
        return carried


class DirectMultiplicity(_SetOperator):
    """O(t) = {v, f(n1(v, t), n2(v, t)) times}, the same f, but foretold.

    This is the paper's direct approach: rows are given with the ends that follow from the ends of the inputs'
    rows, as if nothing more came. What comes makes a difference to what was said of its value only, and only
    that difference is given: negative for what ends prematurely. Time passing by itself costs nothing.

    Keeps the change points of all values by value, with those up to the frontier summed up, so that a value's
    are forgotten when all its rows have ended; and the rows that start beyond the frontier. A step costs as
    much as there are rows of the values that it touches: for values with many copies, counting is cheaper.

    >>> run = Run(DirectMultiplicity(integers("v"), SetOperation.EXCEPT_ALL))
    >>> run.step(batch((7, 0, 9, +1), (7, 2, 9, +1)), batch((8, 0, 5, +1)), to=3)
    (7, [0, 2), +1)
    (7, [2, 9), +2)
    >>> run.step(None, batch((7, 4, 6, +1)), to=4)
    (7, [4, 6), -1)
    """

    def is_idle(self, state: State, progress: Progress) -> bool:
        return not is_due(state.get("waiting", ()), progress.low_before, progress.low)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        low, waiting, known = progress.low, state.get("waiting", ()), state.get("points", ())
        if self._rests(inputs, state, progress):
            return empty_batch(self.schema), state
        rows, waiting = released(waiting, self._sided(inputs), START, progress.low_before, low)
        if not rows.height:
            return empty_batch(self.schema), {"waiting": waiting, "points": known}

        points = changes(rows, [*self._columns, KEY, _SIDE]).rechunk()
        added = zip(self._counts, self._added(points), strict=True)
        counted = [pl.Series(name, change) for name, change in added]
        points = points[[*self._columns, KEY, START]].hstack(counted)
        points, first_of_value = self._sorted(points)
        values = frame_of(gather(points, [*self._columns, KEY], np.flatnonzero(first_of_value)))
        found = ((segment, self._found(values, segment)[1]) for segment in known)
        before = [frame_of(gather(segment, points.columns, rows)) for segment, rows in found]
        output = self._differ(concat(before, points), points)
        kept = retained_by_value(known, points, lambda merging: self._merge(merging, low))
        note_gone(known, points.height, kept)
        return output, {"waiting": waiting, "points": kept}

    def _differ(self, before: pl.DataFrame, arrived: pl.DataFrame) -> Batch:
        """What the points that arrived make different from what was said because of those before."""
        new = pl.Series(_SIDE, np.repeat(np.array([0, 1], np.int8), (before.height, arrived.height)))
        points, first_of_value = self._sorted(stacked([before, arrived]).hstack([new]))
        firsts = np.flatnonzero(first_of_value)
        rows = _last_of_instants(numbers(points, START), first_of_value)
        value_of_row = (np.cumsum(first_of_value) - 1)[rows]
        is_old = numbers(points, _SIDE) == 0
        levels = []
        for only_old in (False, True):
            running = []
            for name in self._counts:
                change = numbers(points, name) * is_old if only_old else numbers(points, name)
                sums = np.cumsum(change)
                running.append(sums[rows] - (sums[firsts] - change[firsts])[value_of_row])
            levels.append(self.operation.level(running))
        return self._emit(points, rows, value_of_row, levels[0] - levels[1], np.zeros(firsts.size, np.int64))

    def _merge(self, points: pl.DataFrame, low: int) -> pl.DataFrame:
        reached = np.maximum(numbers(points, START), low)
        points, first_of_value = self._sorted(with_columns(points, pl.Series(START, reached)))
        starts = numbers(points, START)
        first = first_of_value.copy()
        first[1:] |= starts[1:] != starts[:-1]
        merged = _reduced(points, [*self._columns, KEY, START], np.flatnonzero(first), self._summaries)
        return self._occurring(merged[points.columns])


class DistinctStar(_ByValue):
    """O(t) = {v : v occurs in some input at t}, for inputs that never take a row back.

    This is the paper's δ*. A value is known to stay until the latest end E of its rows. A row that starts
    later begins a stay of its own; one that starts earlier, but ends later, prolongs the stay from E on: all
    with ends that are known and no negative rows.

    Keeps E for every value, until the frontier has reached E - 1, and the rows that start beyond the
    frontier: rows are taken in the order of their starts, so that E is all there is to know of the past.

    >>> run = Run(DistinctStar(integers("v")))
    >>> run.step(batch((7, 0, 5, +1), (7, 2, 4, +1)), to=2)
    (7, [0, 5), +1)
    >>> run.step(batch((7, 3, 8, +1), (7, 9, 12, +1)), to=9)
    (7, [5, 8), +1)
    (7, [9, 12), +1)
    """

    def is_idle(self, state: State, progress: Progress) -> bool:
        stays = state.get("stays", ())
        waits = not is_due(state.get("waiting", ()), progress.low_before, progress.low)
        return waits and all(without_expired(segment, horizon_of(progress.low)) is segment for segment in stays)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        low, waiting, stays = progress.low, state.get("waiting", ()), state.get("stays", ())
        keyed = [self._keyed(batch) for batch in inputs]
        arrived = concat(keyed, keyed[0])
        rows, waiting = released(waiting, arrived, START, progress.low_before, low)
        if not rows.height:
            lasting = self._lasting(stays, low)
            note_gone(stays, 0, lasting)
            return empty_batch(self.schema), {"waiting": waiting, "stays": lasting}

        rows, first_of_value = self._sorted(rows)
        firsts = np.flatnonzero(first_of_value)
        values = frame_of(gather(rows, [*self._columns, KEY], firsts))
        value_of_row, known = self._known_before(rows, first_of_value, self.known_until(values, state))
        output = self._shown(rows, *self._prolonged(rows, value_of_row, known))
        latest = pl.Series(END, np.maximum.reduceat(numbers(rows, END), firsts))

        def merge(rows: pl.DataFrame) -> pl.DataFrame:
            return alive(self._one_per_value(rows, {END: np.maximum}), horizon_of(low))

        segment = alive(values.hstack([latest]), horizon_of(low))
        kept = retained_by_value(self._lasting(stays, low), segment, merge)
        note_gone(stays, values.height, kept)
        return output, {"waiting": waiting, "stays": kept}

    def known_until(self, values: pl.DataFrame, state: State) -> Ticks:
        """E of each of the values (with their codes); 0 where there is none."""
        return self._greatest(END, values, state)

    def _greatest(self, column: str, values: pl.DataFrame, state: State) -> Ticks:
        """The greatest instant of a column that the stays of each of the values have; 0 where there is none."""
        greatest = np.zeros(values.height, np.int64)
        for segment in state.get("stays", ()):
            i, j = self._found(values, segment)
            np.maximum.at(greatest, i, numbers(segment, column)[j])
        return greatest

    def _lasting(self, stays: Sequence[Segment], low: int) -> tuple[Segment, ...]:
        lasting = (without_expired(segment, horizon_of(low)) for segment in stays)
        return tuple(segment for segment in lasting if segment.height)

    def _known_before(self, rows: pl.DataFrame, first_of_value: Flags, until: Ticks) -> tuple[Positions, Ticks]:
        """Of rows sorted by value and start: the number of each one's value, and until when that stays without it."""
        value_of_row = np.cumsum(first_of_value) - 1
        known = until[value_of_row]
        before = _running_maximum(numbers(rows, END), value_of_row)[:-1]
        known[1:] = np.where(first_of_value[1:], known[1:], np.maximum(known[1:], before))
        return value_of_row, known

    def _prolonged(self, rows: pl.DataFrame, value_of_row: Positions, known: Ticks) -> tuple[Positions, Ticks, Ticks]:
        """The stays that the rows add to those known: of each the first row, its start and its end."""
        added = np.flatnonzero(numbers(rows, END) > known)
        starts, ends = np.maximum(numbers(rows, START), known)[added], numbers(rows, END)[added]
        value_of_row = value_of_row[added]
        # What prolongs a stay of this same step becomes one row with it.
        begins = np.ones(added.size, np.bool_)
        begins[1:] = (value_of_row[1:] != value_of_row[:-1]) | (starts[1:] > ends[:-1])
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], added.size)[: firsts.size] - 1
        return added[firsts], starts[firsts], ends[lasts]

    def _shown(self, rows: pl.DataFrame, firsts: Positions, starts: Ticks, ends: Ticks) -> Batch:
        intervals = [pl.Series(START, starts), pl.Series(END, ends)]
        ones = pl.Series(WEIGHT, np.ones(firsts.size, np.int64))
        return frame_of([*gather(rows, self._columns, firsts), *intervals, ones])


def _running_maximum(ticks: Ticks, group: Positions) -> Ticks:
    """The greatest tick so far within each group; groups are numbered in ascending order."""
    if ((ticks[1:] >= ticks[:-1]) | (group[1:] != group[:-1])).all():
        return ticks  # as under windows of one length: no sort needed
    order = stable_order(_spread(ticks))
    ranks = np.empty(ticks.size, np.int64)
    ranks[order] = np.arange(ticks.size)
    # With the group above the rank, the maximum starts anew with every group.
    greatest: Positions = np.maximum.accumulate((group << 32) | ranks) & 0xFFFFFFFF
    return ticks[order][greatest]
