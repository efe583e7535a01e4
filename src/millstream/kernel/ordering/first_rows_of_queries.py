"""ORDER BY .. LIMIT of many queries on one relation, each with a limit of its own.

    T = { (r, n) : r among the first n rows of R, n the limit of some query }

The rows are kept once, in their order, and as many of them as the largest limit of a class may want. A row that moves
from one place to another comes, or goes, for those limits only that lie between the two: so a step costs what the
answers of queries with different limits change by, and queries with the same limit have the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, empty_batch, value_column
from millstream.kernel.columns import frame_of
from millstream.kernel.operator import Segment, State
from millstream.kernel.ordering.ordered_rows import Int64s, OrderedRows, ordered_rows, ranges, unique_pairs
from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.ordering.top import Places, Top
from millstream.kernel.sharing.identity import Recent, serial_of
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.storage.segments import gather
from millstream.types import BIGINT, Field, Schema

LIMIT = Field("limit", BIGINT)


class FirstRowsOfQueries(Top):
    """The places are the most that a query may ask for: so many rows are kept, whoever asks. Limits are a parameter of
    the queries, by its place.

    >>> best = RowOrder(partition=(), keys=(SortKey(0, descending=True),))
    >>> run = Run(FirstRowsOfQueries(integers("v"), best, Places(4), 0), queries(of={1: [1], 2: [2]}))
    >>> run.step(batch((10, 0, 9, +1), (20, 3, 6, +1)), to=4)
    (10, 1, [0, 3), +1)
    (10, 2, [0, INF), +1)
    (20, 1, [3, INF), +1)
    (20, 2, [3, INF), +1)
    """

    def __init__(
        self, schema: Schema, order: RowOrder, places: Places, place: int, *, retractions: bool = True
    ) -> None:
        super().__init__(schema, order, places, retractions=retractions)
        self.schema = (*schema, LIMIT)
        self._place = place

    def _asked(self, table: Sequence[Segment]) -> Int64s:
        """The distinct limits of all queries."""
        name = value_column(self._place)

        def made() -> Int64s:
            columns = [segment.get_column(name).drop_nulls().to_numpy() for segment in table if name in segment.columns]
            return np.unique(np.concatenate(columns)).astype(np.int64) if columns else np.empty(0, np.int64)

        return _limits.get((self._place, *map(serial_of, table)), made)

    def _changes(self, known: pl.DataFrame, before: int, low: int, state: State) -> Batch:
        limits = self._asked(state.get(QUERIES, ()))
        if not limits.size:
            return empty_batch(self.schema)
        found, _, _ = ordered_rows(known, self.order, before, low)
        found = found.only(self._may_be_wanted(found))
        lasts = limits + self.places.offset
        rows, at = self._moves(found, lasts)
        ahead, copies = found.instants.before_row(rows, at)
        moved, place = self._for_limits(rows, ahead, copies, lasts)
        return self._of_limits(found, rows, at, ahead, copies, moved, place, limits)

    def _moves(self, found: OrderedRows, lasts: Int64s) -> tuple[Int64s, Int64s]:
        """All (row, instant) at which a row may come, or go, for some limit; and all rows before the step."""
        instants = found.instants
        pairs = [(found.changed_row, instants.of_change)]
        come, gone = (np.zeros(instants.time.size, np.int64) for _ in range(2))
        np.add.at(come, instants.of_change, np.maximum(found.change, 0))
        np.add.at(gone, instants.of_change, np.maximum(-found.change, 0))
        bounds = np.concatenate([[self.places.offset], lasts])
        after = np.concatenate([[0], bounds[:-1]])  # what is before the bound below is looked at with that
        real = instants.real
        for moved, seen in ((come[real], real - 1), (gone[real], real)):
            first = np.maximum(bounds - moved[:, None], after)
            past = np.where(moved[:, None] > 0, np.minimum(instants.total(seen)[:, None], bounds), 0)
            owner, place = ranges(first.reshape(-1), past.reshape(-1))
            owner = owner // bounds.size
            pairs.append((instants.nth(place, seen[owner])[0], real[owner]))
        rows, at = (np.concatenate(side) for side in zip(*pairs, strict=True))
        own = np.unique(rows)
        return unique_pairs(
            np.concatenate([rows, own]),
            np.concatenate([at, instants.before[found.partition[own]]]),
            instants.time.size + 1,
        )

    def _for_limits(self, rows: Int64s, ahead: Int64s, copies: Int64s, lasts: Int64s) -> tuple[Int64s, Int64s]:
        """All (move, place of a limit) where more or fewer copies of the row are wanted than at the move before."""
        offset, never = self.places.offset, np.iinfo(np.int64).max
        begin = np.where(copies > 0, ahead, never)
        past = np.where(copies > 0, ahead + copies, 0)
        most = np.maximum(past - np.maximum(ahead, offset), 0)  # that are wanted without a limit
        first = np.searchsorted(lasts, np.minimum(begin[1:], begin[:-1]), side="right")
        until = np.searchsorted(lasts, np.maximum(past[1:], past[:-1]), side="left")
        until = np.where(most[1:] == most[:-1], until, lasts.size)
        same = rows[1:] == rows[:-1]
        move, place = ranges(np.where(same, first, 0), np.where(same, until, 0))
        move = move + 1
        last = lasts[place]
        changed = self._wanted(ahead, copies, move, last) != self._wanted(ahead, copies, move - 1, last)
        return move[changed], place[changed]

    def _wanted(self, ahead: Int64s, copies: Int64s, moves: Int64s, last: Int64s) -> Int64s:
        """How many copies are wanted up to the last place."""
        begin = ahead[moves]
        found: Int64s = np.maximum(np.minimum(begin + copies[moves], last) - np.maximum(begin, self.places.offset), 0)
        return found

    def _of_limits(
        self,
        found: OrderedRows,
        rows: Int64s,
        at: Int64s,
        ahead: Int64s,
        copies: Int64s,
        moves: Int64s,
        place: Int64s,
        limits: Int64s,
    ) -> Batch:
        """Rows that make of what was said of each row and limit, for all time to come, what is wanted since a move."""
        last = limits[place] + self.places.offset
        by_row = np.argsort(rows[moves] * limits.size + place, kind="stable")
        moves, place, last = moves[by_row], place[by_row], last[by_row]
        row = rows[moves]
        is_first = np.ones(rows.size, np.bool_)
        is_first[1:] = rows[1:] != rows[:-1]
        before = np.flatnonzero(is_first)[np.cumsum(is_first)[moves] - 1]  # the row as it was before the step
        weights = self._wanted(ahead, copies, moves, last) - self._wanted(ahead, copies, before, last)
        times = found.instants.time[at[moves]]
        ends = np.full(moves.size, INF, np.int64)
        same = (row[1:] == row[:-1]) & (place[1:] == place[:-1])
        ends[:-1] = np.where(same, times[1:], INF)
        shown = np.flatnonzero(weights)
        values = gather(found.rows, self._columns, row[shown])
        own = pl.Series(value_column(len(values)), limits[place[shown]])
        intervals = {START: times, END: ends, WEIGHT: weights}
        return frame_of([*values, own, *(pl.Series(name, column[shown]) for name, column in intervals.items())])


_limits: Recent[Int64s] = Recent(1 << 24, lambda made: 64 + int(made.nbytes))
