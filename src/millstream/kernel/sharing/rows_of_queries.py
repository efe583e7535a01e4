"""Windows [ROWS N] and [PARTITION BY .. ROWS N] of many queries on one stream, each of a size of its own.

    S [ROWS] = { (r_i, NULL, t(i), INF, +1) } + { (r_i, N, t(i+N), INF, -1) : N the size of some query }

An element enters for all queries at once, and leaves for those of each size when so many others have come. A query of
size N has the rows whose size is NULL or N: that is one more condition of its selection, and what is selected of a row
when it comes is selected when it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import ARRIVAL, END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import frame_of, stacked_diagonally, take, with_columns
from millstream.kernel.keys import Positions, Ticks
from millstream.kernel.operator import Progress, Segment, State
from millstream.kernel.sharing.identity import Recent, serial_of
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.storage.shared_work import once
from millstream.kernel.windows.recent import appended, of_partitions, ranks_from_the_last, take_from
from millstream.kernel.windows.rows import COUNT, RECENT, ElementTimes, RowsWindow
from millstream.kernel.windows.time import Rows
from millstream.types import BIGINT, Field, Schema

SIZE = Field("size", BIGINT)


class RowsOfQueries(RowsWindow):
    """The window has the most rows that a query may ask for: so many elements are kept, whoever asks. The sizes are a
    parameter of the queries, by its place.

    Here both have no other:

    >>> run = Run(RowsOfQueries(integers("v"), Rows(4), 0), queries(of={1: [1], 2: [2]}))
    >>> run.step(stream((7, 3), (8, 5)), to=5)
    (7, None, [3, INF), +1)
    (7, 1, [5, INF), -1)
    (8, None, [5, INF), +1)
    """

    def __init__(self, schema: Schema, window: Rows, place: int) -> None:
        super().__init__(schema, window)
        self.schema = (*schema, SIZE)
        self._place = place

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        due, pending = self._due(inputs[0], state.get("pending", ()), progress)
        if not due.height:
            before = {name: segments for name, segments in state.items() if name != QUERIES}
            return self._sized(self._nothing(inputs[0]), np.empty(0, np.int64)), {**before, "pending": pending}
        recent, shared = state.get(RECENT, ()), progress.shared.get(0)
        count = self._count if shared is None else -shared.after
        sizes = self._asked(state.get(QUERIES, ()))
        made = self._in_partitions if self.partition else self._in_all
        shown, kept = made(recent, due, state.get("counts", ()), count, sizes)
        return shown, {"pending": pending, **kept}

    def _asked(self, table: Sequence[Segment]) -> Ticks:
        """The distinct sizes of all queries."""
        name = value_column(self._place)

        def made() -> Ticks:
            columns = [segment.get_column(name).drop_nulls().to_numpy() for segment in table if name in segment.columns]
            return np.unique(np.concatenate(columns)).astype(np.int64) if columns else np.empty(0, np.int64)

        return _sizes.get((self._place, *map(serial_of, table)), made)

    def _in_all(
        self, recent: tuple[Segment, ...], due: Batch, counts: tuple[Segment, ...], count: int, sizes: Ticks
    ) -> tuple[Batch, State]:
        """Without a partition it is known by their places which elements leave: no other is looked at."""
        counted = int(counts[0][COUNT].item()) if counts else 0
        now, known = counted + due.height, [*self.remembered, START, ARRIVAL]
        first = counted + 1 - sum(segment.height for segment in recent)  # the number of the first that is kept
        ranges = [np.arange(max(counted + 1 - size, first), now + 1 - size) for size in sizes.tolist()]
        number = np.concatenate([*ranges, np.empty(0, np.int64)]).astype(np.int64)
        size = sizes.repeat([found.size for found in ranges])
        stored = np.unique(number[number <= counted])
        elements = stacked_diagonally([take_from(recent, stored - first, known), due])
        place = np.where(number <= counted, stored.searchsorted(number), stored.size + number - counted - 1)
        left = due.get_column(START).to_numpy()[number + size - counted - 1]
        shown = self._entering_and_leaving(elements, elements.height - due.height, place, left, size)
        kept = once(lambda: appended(recent, due[known], count), [*recent, due], RECENT, count, *known)
        return shown, {"counts": (pl.DataFrame({COUNT: [now]}),), RECENT: kept}

    def _in_partitions(
        self, recent: tuple[Segment, ...], due: Batch, counts: tuple[Segment, ...], count: int, sizes: Ticks
    ) -> tuple[Batch, State]:
        known = [*self.remembered, START, ARRIVAL]
        elements = stacked_diagonally([*(segment[known] for segment in recent), due])
        partitions = self._partitions(elements, counts)
        partition, stored = partitions.of_elements, elements.height - due.height
        came = np.bincount(partition[stored:], minlength=partitions.counted.size)
        ranks = ranks_from_the_last(partition)
        number = (partitions.counted + came)[partition] - ranks
        arrivals = ElementTimes.of(due.get_column(START).to_numpy(), partition[stored:], partitions.counted)
        places, lefts = [np.empty(0, np.intp)], [np.empty(0, np.int64)]
        for size in sizes.tolist():
            left = arrivals.instants(partition, number + size)
            places.append(np.flatnonzero(left >= 0))
            lefts.append(left[places[-1]])
        size = sizes.repeat([found.size for found in places[1:]])
        shown = self._entering_and_leaving(elements, stored, np.concatenate(places), np.concatenate(lefts), size)
        kept = once(
            lambda: of_partitions(recent, due[known], ranks < count),
            [*recent, due],
            (RECENT, *self.partition),
            count,
            *known,
        )
        now = with_columns(partitions.keys, pl.Series(COUNT, partitions.counted + came))
        return shown, {"counts": (now,), RECENT: kept}

    def _entering_and_leaving(self, elements: Batch, first: int, leaving: Positions, left: Ticks, size: Ticks) -> Batch:
        """All elements from a place on enter; others, or the same, leave at some instants for queries of some sizes."""
        entering = np.arange(first, elements.height)
        rows = take(elements, np.concatenate([entering, leaving]))
        starts = np.concatenate([elements.get_column(START).to_numpy()[first:], left])
        given = {
            **{name: rows.get_column(name) for name in self.columns},
            START: pl.Series(START, starts),
            END: pl.Series(END, np.full(starts.size, INF)),
            WEIGHT: pl.Series(WEIGHT, np.repeat([1, -1], [entering.size, leaving.size])),
            ARRIVAL: rows.get_column(ARRIVAL),
        }
        return self._sized(frame_of([*given.values()]), size)

    def _sized(self, rows: Batch, size: Ticks) -> Batch:
        """The last rows have sizes."""
        nothing = pl.Series(value_column(len(self.columns)), [None], pl.Int64)
        sizes = nothing.new_from_index(0, rows.height - size.size).append(pl.Series(size.astype(np.int64)))
        columns = rows.get_columns()
        return frame_of([*columns[: len(self.columns)], sizes, *columns[len(self.columns) :]])


_sizes: Recent[Ticks] = Recent(1 << 24, lambda made: 64 + int(made.nbytes))
