"""[ROWS N SLIDE L] and [PARTITION BY .. ROWS N SLIDE L].

Count the elements of a partition 1, 2, ... in timestamp order, ties by arrival, and let t(j) be the instant of the
j-th. Then

    S [ROWS N SLIDE L] = { (r_i, t(ceil(i/L) L), t(ceil((i+N)/L) L), +1) }

where an arrival that is still to come is INF, and an end that comes later is said by (r_i, t(..), INF, -1).

Keeps the elements beyond the frontier, which cannot be counted yet, the last N + L - 1 elements of each partition, and
how many there were. The numbers of elements follow from that, and are not kept. Windows of other sizes over the same
elements keep the same ones (`recent`). Where it did not see all of the stream (RETAIN), it is told how many there were
before (`before`), and keeps at which instant the (N + L)-th element from `since` on came: from then on all in it are
such.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import ARRIVAL, BORN, END, INF, INSTANT, START, WEIGHT, Batch, value_column, value_columns
from millstream.kernel.columns import frame_of, only, stacked, stacked_diagonally, take, with_columns
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.keys import Positions, Ticks, first_of_equal
from millstream.kernel.operator import Horizons, KeptInput, Operator, Progress, Segment, State
from millstream.kernel.storage.expiries import note_gone
from millstream.kernel.storage.segments import numbers, released
from millstream.kernel.storage.shared_work import once
from millstream.kernel.storage.time_queue import is_due
from millstream.kernel.windows.recent import appended, has_all, of_partitions, ranks_from_the_last, take_from
from millstream.kernel.windows.time import Rows
from millstream.types import Schema

COVERED, AT = "covered", "_at"
RECENT, COUNT = "recent", "_count"
_NEVER = -1


class RowsWindow(Operator):
    """The window of a stream whose elements have arrival numbers; `born` adds the instants at which they entered. Where
    columns are `forgotten`, elements leave with NULL in them.

    >>> run = Run(RowsWindow(integers("v"), Rows(2)))
    >>> run.step(stream((7, 3), (8, 5)), to=5)
    (7, [3, INF), +1)
    (8, [5, INF), +1)
    >>> run.step(stream((9, 6)), to=6)
    (7, [6, INF), -1)
    (9, [6, INF), +1)
    """

    def __init__(
        self,
        schema: Schema,
        window: Rows,
        *,
        born: bool = False,
        since: int | None = None,
        before: int = 0,
        forgotten: Collection[int] = (),
        timed: bool = False,
    ) -> None:
        self.schema = schema
        self.window = window
        self.born, self.timed = born, timed
        self.since = since
        self.before = before
        self.columns = value_columns(len(schema))
        self.remembered = [value_column(index) for index in range(len(schema)) if index not in forgotten]
        self.partition = [value_column(index) for index in window.partition]

    @property
    def distribution(self) -> Distribution:
        return by_key([self.window.partition], same_columns(len(self.schema)))

    def is_idle(self, state: State, progress: Progress) -> bool:
        return not is_due(state.get("pending", ()), progress.low_before, progress.low)

    def kept_inputs(self, progress: Progress) -> dict[int, KeptInput]:
        """The horizon is told by how many elements are kept: of a partition only the last ones matter."""
        kept = Horizons(-self._count, -self._count)
        return {
            0: KeptInput(
                RECENT, (RECENT, *self.remembered, *self.window.partition), kept, self._is_kept_by, ("pending",)
            )
        }

    @property
    def _count(self) -> int:
        """How many elements of a partition may still enter or leave."""
        return self.window.rows + self.window.slide - 1

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        due, pending = self._due(inputs[0], state.get("pending", ()), progress)
        if not due.height:
            return self._nothing(inputs[0]), {**state, "pending": pending}
        recent, shared = state.get(RECENT, ()), progress.shared.get(0)
        count = self._count if shared is None else -shared.after
        if self.partition:
            shown, kept = self._of_partitions(recent, due, state.get("counts", ()), count)
        else:
            shown, kept = self._of_all(recent, due, state.get("counts", ()), count)
        note_gone(recent, due.height, kept.get(RECENT, ()))
        return shown, {"pending": pending, **kept, **self._covered(due, state)}

    def _due(self, arrived: Batch, queue: tuple[Segment, ...], progress: Progress) -> tuple[Batch, tuple[Segment, ...]]:
        """The elements that can be counted, in their order, and those that wait."""

        def release() -> tuple[Batch, tuple[Segment, ...]]:
            elements = arrived[[*self.columns, START, ARRIVAL]]
            due, pending = released(queue, elements, START, progress.low_before, progress.low)
            return take(due, np.lexsort((numbers(due, ARRIVAL), numbers(due, START)))), pending

        return once(release, [arrived, *queue], "due", *self.columns, progress.low_before, progress.low)

    def _of_all(
        self, recent: tuple[Segment, ...], due: Batch, counts: tuple[Segment, ...], count: int
    ) -> tuple[Batch, State]:
        """Without a partition it is known by their places which elements enter and leave: no other is looked at."""
        counted = int(counts[0][COUNT].item()) if counts else self.before
        now = counted + due.height
        first = counted + 1 - sum(segment.height for segment in recent)  # the number of the first that is kept
        entered, left = self._reached(counted)
        leaves = np.arange(max(left + 1, first), min(self._reached(now)[1], counted) + 1)
        enters = np.arange(max(entered + 1, left + 1, first, *leaves[-1:] + 1), counted + 1)
        number = np.concatenate([leaves, enters])
        known = [*self.remembered, START, ARRIVAL]
        elements = stacked_diagonally([take_from(recent, number - first, known), due])
        number = np.concatenate([number, np.arange(counted + 1, now + 1)])
        arrivals = ElementTimes(np.array([due.height]), np.array([counted]), np.zeros(1, np.intp), numbers(due, START))
        stored = ElementTimes(
            np.array([counted + 1 - first]),
            np.array([first - 1]),
            np.zeros(1, np.intp),
            np.concatenate([numbers(segment, START) for segment in recent]) if recent else np.empty(0, np.int64),
        )
        shown = self._shown(elements, number, np.zeros(elements.height, np.intp), arrivals, stored)
        kept = once(lambda: appended(recent, due[known], count), [*recent, due], RECENT, count, *known)
        return shown, {"counts": (pl.DataFrame({COUNT: [now]}),), RECENT: kept}

    def _of_partitions(
        self, recent: tuple[Segment, ...], due: Batch, counts: tuple[Segment, ...], count: int
    ) -> tuple[Batch, State]:
        known = [*self.remembered, START, ARRIVAL]
        elements = stacked_diagonally([*(segment[known] for segment in recent), due])
        partitions = self._partitions(elements, counts)
        partition, stored = partitions.of_elements, elements.height - due.height
        came = np.bincount(partition[stored:], minlength=partitions.counted.size)
        ranks = ranks_from_the_last(partition)
        number = (partitions.counted + came)[partition] - ranks
        arrivals = ElementTimes.of(numbers(due, START), partition[stored:], partitions.counted)
        there = np.bincount(partition[:stored], minlength=partitions.counted.size)
        before = ElementTimes.of(numbers(elements, START)[:stored], partition[:stored], partitions.counted - there)
        shown = self._shown(elements, number, partition, arrivals, before)
        kept = once(
            lambda: of_partitions(recent, due[known], ranks < count),
            [*recent, due],
            (RECENT, *self.partition),
            count,
            *known,
        )
        now = with_columns(partitions.keys, pl.Series(COUNT, partitions.counted + came))
        return shown, {"counts": (now,), RECENT: kept}

    def _shown(
        self, elements: Batch, number: Ticks, partition: Positions, arrivals: ElementTimes, stored: ElementTimes
    ) -> Batch:
        """What enters and what leaves of some elements."""
        enters, leaves = self._reaches(number)
        counted = arrivals.counted[partition]
        entered = arrivals.instants(partition, enters)
        left = arrivals.instants(partition, leaves)
        shown = np.where(leaves > counted, stored.instants(partition, enters), _NEVER)
        return self._rows(elements, shown, entered, left)

    def _is_kept_by(self, there: Sequence[Segment], own: Sequence[Segment]) -> bool:
        """Whether a larger window over the same elements has all that this one may still need."""
        identity = [*self.partition, START, ARRIVAL]
        elements = stacked([segment[identity] for segment in own])
        partition = np.zeros(elements.height, np.intp)
        if self.partition:
            partition = np.unique(first_of_equal(elements, self.partition), return_inverse=True)[1]
        return has_all(there, only(elements, ranks_from_the_last(partition) < self._count))

    def _covered(self, due: Batch, state: State) -> dict[str, tuple[Batch, ...]]:
        """How many elements have come that count, and the instant of the last that is waited for."""
        known = state.get(COVERED, ())
        if self.since is None or (known and known[0][AT].item() is not None):
            return {COVERED: known} if known else {}
        count = known[0][COUNT].item() if known else 0
        instants = numbers(due, START)
        instants = instants[instants >= self.since]
        wanted = self.window.rows + self.window.slide - count
        at = int(instants[wanted - 1]) if instants.size >= wanted else None
        return {COVERED: (pl.DataFrame({COUNT: [count + instants.size], AT: pl.Series([at], dtype=pl.Int64)}),)}

    def merged_states(self, state: State, other: State) -> State:
        both = super().merged_states(state, other)
        counts = [segment.select(*self.partition, COUNT) for segment in both.get("counts", ())]
        return {**both, "counts": (pl.concat(counts),)} if counts else both

    def _reached(self, count: int) -> tuple[int, int]:
        """The numbers of the last elements that have entered and left when so many have come."""
        whole = count // self.window.slide * self.window.slide
        return whole, whole - self.window.rows

    def _reaches(self, number: Ticks) -> tuple[Ticks, Ticks]:
        """The numbers of those at whose arrival elements enter and leave."""
        rows, slide = self.window.rows, self.window.slide
        return -(-number // slide) * slide, -(-(number + rows) // slide) * slide

    def _partitions(self, elements: Batch, counts: Sequence[Segment]) -> _Partitions:
        keys = stacked([*(segment[self.partition] for segment in counts), elements[self.partition]])
        # Those that are known come first, and each of them once.
        firsts, partition = np.unique(first_of_equal(keys, self.partition), return_inverse=True)
        counted = np.zeros(firsts.size, np.int64)
        counted[: keys.height - elements.height] = numbers(counts[0], COUNT) if counts else 0
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
        if self.timed:
            given[INSTANT] = rows.get_column(START).alias(INSTANT)
        return only(frame_of([*given.values()]), starts < ends)

    def _nothing(self, batch: Batch) -> Batch:
        nothing = batch.clear()[[*self.columns, START, END, WEIGHT, ARRIVAL]]
        if self.timed:
            nothing = with_columns(nothing, nothing.get_column(START).alias(INSTANT))
        return with_columns(nothing, nothing.get_column(START).alias(BORN)) if self.born else nothing


@dataclass(frozen=True, eq=False)
class _Partitions:
    """The partitions that are known, a row each, and how many elements each has had; and the places of those of some
    elements among them."""

    keys: pl.DataFrame
    counted: Ticks
    of_elements: Positions


@dataclass(frozen=True, eq=False)
class ElementTimes:
    """Elements in order: their instants by partition and number."""

    counts: Ticks  # of each partition: how many elements these are
    counted: Ticks  # and how many there were before them
    begins: Positions  # and where its instants begin
    times: Ticks

    @staticmethod
    def of(starts: Ticks, partition: Positions, counted: Ticks) -> ElementTimes:
        counts = np.bincount(partition, minlength=counted.size)
        return ElementTimes(counts, counted, np.cumsum(counts) - counts, starts[np.argsort(partition, kind="stable")])

    def instants(self, partition: Positions, number: Ticks) -> Ticks:
        """When the elements of these numbers came, where they are among these."""
        place = number - self.counted[partition] - 1
        came = (place >= 0) & (place < self.counts[partition])
        if not came.any():
            return np.full(number.size, _NEVER)
        return np.where(came, self.times[np.where(came, self.begins[partition] + place, 0)], _NEVER)
