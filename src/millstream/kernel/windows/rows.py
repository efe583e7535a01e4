"""[ROWS N SLIDE L] and [PARTITION BY .. ROWS N SLIDE L].

Count the elements of a partition 1, 2, ... in timestamp order, ties by arrival, and let t(j) be the instant of the
j-th. Then

    S [ROWS N SLIDE L] = { (r_i, t(ceil(i/L) L), t(ceil((i+N)/L) L), +1) }

where an arrival that is still to come is INF, and an end that comes later is said by (r_i, t(..), INF, -1).

Keeps the elements beyond the frontier, which cannot be counted yet, the last N + L elements of each partition, and how
many there were. Where it did not see all of the stream (RETAIN), it is told how many there were before (`before`), and
keeps at which instant the (N + L)-th element from `since` on came: from then on all in it are such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import ARRIVAL, BORN, END, INF, START, WEIGHT, Batch, value_column, value_columns
from millstream.kernel.columns import frame_of, only, stacked, take, with_columns
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.keys import Positions, Ticks, first_of_equal
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.storage.segments import numbers, released
from millstream.kernel.storage.time_queue import is_due
from millstream.kernel.windows.time import Rows
from millstream.types import Schema

COVERED, AT = "covered", "_at"
_NUMBER, _ENTERS, _LEAVES, _SHOWN, _COUNT = "_number", "_enters", "_leaves", "_shown", "_count"
_NEVER = -1  # in arrays of instants, what is NULL in columns


class RowsWindow(Operator):
    """The window of a stream whose elements have arrival numbers; `born` adds the instants at which they entered.

    >>> run = Run(RowsWindow(integers("v"), Rows(2)))
    >>> run.step(stream((7, 3), (8, 5)), to=5)
    (7, [3, INF), +1)
    (8, [5, INF), +1)
    >>> run.step(stream((9, 6)), to=6)
    (7, [6, INF), -1)
    (9, [6, INF), +1)
    """

    def __init__(
        self, schema: Schema, window: Rows, *, born: bool = False, since: int | None = None, before: int = 0
    ) -> None:
        self.schema = schema
        self.window = window
        self.born = born
        self.since = since
        self.before = before
        self.columns = value_columns(len(schema))
        self.partition = [value_column(index) for index in window.partition]

    @property
    def distribution(self) -> Distribution:
        return by_key([self.window.partition], same_columns(len(self.schema)))

    def is_idle(self, state: State, progress: Progress) -> bool:
        return not is_due(state.get("pending", ()), progress.low_before, progress.low)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        arrived = inputs[0][[*self.columns, START, ARRIVAL]]
        due, pending = released(state.get("pending", ()), arrived, START, progress.low_before, progress.low)
        if not due.height:
            return self._nothing(inputs[0]), {**state, "pending": pending}
        due = take(due, np.lexsort((numbers(due, ARRIVAL), numbers(due, START))))
        recent = state.get("recent", ())
        elements = stacked([*(segment[due.columns] for segment in recent), due])
        partitions = self._partitions(elements, state)
        arrivals = _Arrivals.of(numbers(due, START), partitions.of_elements[-due.height :], partitions.counted)
        number = np.concatenate([*(numbers(segment, _NUMBER) for segment in recent), arrivals.number])
        shown = np.concatenate([*map(_shown_before, recent), np.full(due.height, _NEVER)])
        enters, leaves = self._reaches(number)
        entered = arrivals.instants(partitions.of_elements, enters)
        left = arrivals.instants(partitions.of_elements, leaves)
        columns = [pl.Series(_NUMBER, number), pl.Series(_ENTERS, enters), pl.Series(_LEAVES, leaves)]
        columns.append(_nullable(_SHOWN, np.where(shown < 0, entered, shown)))
        remembered = only(elements.hstack(columns), left < 0)
        counts = with_columns(partitions.keys, pl.Series(_COUNT, partitions.counted + arrivals.counts))
        kept = {"pending": pending, "counts": (counts,), **self._covered(due, state)}
        kept |= {"recent": (remembered,)} if remembered.height else {}
        return self._rows(elements, shown, entered, left), kept

    def _covered(self, due: Batch, state: State) -> dict[str, tuple[Batch, ...]]:
        """How many elements have come that count, and the instant of the last that is waited for."""
        known = state.get(COVERED, ())
        if self.since is None or (known and known[0][AT].item() is not None):
            return {COVERED: known} if known else {}
        count = known[0][_COUNT].item() if known else 0
        instants = numbers(due, START)
        instants = instants[instants >= self.since]
        wanted = self.window.rows + self.window.slide - count
        at = int(instants[wanted - 1]) if instants.size >= wanted else None
        return {COVERED: (pl.DataFrame({_COUNT: [count + instants.size], AT: pl.Series([at], dtype=pl.Int64)}),)}

    def merged_states(self, state: State, other: State) -> State:
        both = super().merged_states(state, other)
        counts = [segment.select(*self.partition, _COUNT) for segment in both.get("counts", ())]
        return {**both, "counts": (pl.concat(counts),)} if counts else both

    def _reaches(self, number: Ticks) -> tuple[Ticks, Ticks]:
        """The numbers of those at whose arrival elements enter and leave."""
        rows, slide = self.window.rows, self.window.slide
        return -(-number // slide) * slide, -(-(number + rows) // slide) * slide

    def _partitions(self, elements: Batch, state: State) -> _Partitions:
        counts = state.get("counts", ())
        if not self.partition:
            before = numbers(counts[0], _COUNT) if counts else np.array([self.before])
            return _Partitions(pl.DataFrame(), before, np.zeros(elements.height, np.intp))
        keys = stacked([*(segment[self.partition] for segment in counts), elements[self.partition]])
        # Those that are known come first, and each of them once.
        firsts, partition = np.unique(first_of_equal(keys, self.partition), return_inverse=True)
        counted = np.zeros(firsts.size, np.int64)
        counted[: keys.height - elements.height] = numbers(counts[0], _COUNT) if counts else 0
        return _Partitions(take(keys, firsts), counted, partition[keys.height - elements.height :])

    def _rows(self, elements: Batch, shown: Ticks, entered: Ticks, left: Ticks) -> Batch:
        enters = np.flatnonzero(entered >= 0)
        # Those that entered in an earlier step were said to stay for ever.
        leaves = np.flatnonzero((shown >= 0) & (left >= 0))
        starts = np.concatenate([entered[enters], left[leaves]])
        ends = np.full(starts.size, INF)
        ends[: enters.size] = np.where(left[enters] >= 0, left[enters], INF)
        born = np.concatenate([entered[enters], shown[leaves]])
        rows = take(elements, np.concatenate([enters, leaves]))
        given = {
            **{name: rows.get_column(name) for name in self.columns},
            START: pl.Series(START, starts),
            END: pl.Series(END, ends),
            WEIGHT: pl.Series(WEIGHT, np.repeat([1, -1], [enters.size, leaves.size])),
            ARRIVAL: rows.get_column(ARRIVAL),
        }
        if self.born:
            given[BORN] = pl.Series(BORN, born)
        return only(frame_of([*given.values()]), starts < ends)

    def _nothing(self, batch: Batch) -> Batch:
        nothing = batch.clear()[[*self.columns, START, END, WEIGHT, ARRIVAL]]
        return with_columns(nothing, nothing.get_column(START).alias(BORN)) if self.born else nothing


@dataclass(frozen=True, eq=False)
class _Partitions:
    """The partitions that are known, a row each, and how many elements each has had; and the places of those of some
    elements among them."""

    keys: pl.DataFrame
    counted: Ticks
    of_elements: Positions


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """The elements of a step, in order: their numbers, and their instants by partition and number."""

    number: Ticks
    counts: Ticks  # of each partition: how many elements came
    counted: Ticks  # and how many there were
    begins: Positions  # and where its instants begin
    times: Ticks

    @staticmethod
    def of(starts: Ticks, partition: Positions, counted: Ticks) -> _Arrivals:
        counts = np.bincount(partition, minlength=counted.size)
        begins = np.cumsum(counts) - counts
        order = np.argsort(partition, kind="stable")
        number = np.empty(starts.size, np.int64)
        number[order] = np.arange(1, starts.size + 1) - (begins - counted)[partition[order]]
        return _Arrivals(number, counts, counted, begins, starts[order])

    def instants(self, partition: Positions, number: Ticks) -> Ticks:
        """When the elements of these numbers came, if they came in this step."""
        place = number - self.counted[partition] - 1
        came = (place >= 0) & (place < self.counts[partition])
        return np.where(came, self.times[np.where(came, self.begins[partition] + place, 0)], _NEVER)


def _shown_before(recent: Segment) -> Ticks:
    shown = recent.get_column(_SHOWN)
    return (shown.fill_null(_NEVER) if shown.null_count() else shown).to_numpy()


def _nullable(name: str, instants: Ticks) -> pl.Series:
    column, missing = pl.Series(name, instants), instants < 0
    return column.set(pl.Series(missing), None) if missing.any() else column
