"""ORDER BY .. LIMIT: the first rows of each partition, at every instant.

    T(t) = { the copies of R(t) at the places m+1 .. m+n of their partition, in order }

and with ties also what has the same keys as the last of them. A row's copies are in T as far as their places are: they
change where the row itself comes or goes, and where rows before it push it across one of the two bounds. A step finds
those by asking, for all instants of all its partitions at once, which row stands at which place (`positions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import frame_of, only, take
from millstream.kernel.operator import Segment, State
from millstream.kernel.ordering.ordered_operator import OrderedOperator
from millstream.kernel.ordering.ordered_rows import (
    Bools,
    Instants,
    Int64s,
    OrderedRows,
    ordered_rows,
    ranges,
    unique_pairs,
)
from millstream.kernel.ordering.positions import Positions
from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.relational.multiplicity import retained_by_value
from millstream.kernel.storage.segments import alive, codes_of, gather, numbers
from millstream.types import Schema

NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class Places:
    """Which places of a partition are wanted: those after `offset`, `limit` of them, and perhaps ties of the last."""

    limit: int | None
    offset: int = 0
    with_ties: bool = False

    @property
    def last(self) -> int:
        return NO_LIMIT if self.limit is None else min(self.offset + self.limit, NO_LIMIT)


class Top(OrderedOperator):
    """T(t) = { the copies of R(t) at the wanted places of their partition }.

    Takes rows up to the frontier and gives a row for every time that more or fewer of its copies are wanted than before
    the step, with an end where the step sees that change again, and without one where it does not.

    Keeps the rows of all partitions that may still rise; where the input never takes rows back, only rows before which
    fewer than the wanted places are taken by others that stay as long (they can never rise). Keeps rows that start
    beyond the frontier until it reaches them. Forgets rows when they have ended. With a `limit_column`, how many are
    wanted of a partition is a column of its rows: the same in all of them.

    >>> best = RowOrder(partition=(0,), keys=(SortKey(1, descending=True),))
    >>> run = Run(Top(integers("k", "v"), best, Places(1)))
    >>> run.step(batch((1, 10, 0, 9, +1), (1, 20, 3, 6, +1), (2, 5, 0, 2, +1)), to=4)
    (1, 10, [0, 3), +1)
    (2, 5, [0, 2), +1)
    (1, 20, [3, INF), +1)
    >>> run.wait(to=6)
    (1, 10, [6, INF), +1)
    (1, 20, [6, INF), -1)
    """

    def __init__(
        self,
        schema: Schema,
        order: RowOrder,
        places: Places,
        *,
        retractions: bool = True,
        limit_column: int | None = None,
    ) -> None:
        super().__init__(schema, schema, order)
        self.places = places
        self.retractions = retractions
        self.limit_column = limit_column

    @property
    def _is_limited(self) -> bool:
        return self.places.limit is not None or self.limit_column is not None

    def _limits(self, found: OrderedRows) -> Int64s:
        """How many places of each partition are wanted."""
        firsts = found.first_of_partition[:-1]
        if self.limit_column is None:
            return np.full(firsts.size, NO_LIMIT if self.places.limit is None else self.places.limit, np.int64)
        return numbers(found.rows, value_column(self.limit_column))[firsts]

    def _last(self, found: OrderedRows) -> Int64s:
        """The last place of each partition that is wanted."""
        limits = self._limits(found)
        return np.where(limits < NO_LIMIT - self.places.offset, limits + self.places.offset, NO_LIMIT)

    def _changes(self, known: pl.DataFrame, before: int, low: int, state: State) -> Batch:
        found, _, _ = ordered_rows(known, self.order, before, low)
        found = found.only(self._may_be_wanted(found))
        instants = found.instants
        rows, at = self._candidates(found, instants)
        first = np.ones(rows.size, np.bool_)
        first[1:] = rows[1:] != rows[:-1]
        levels = self._levels(found, instants, rows, at)
        said = self._levels(found, instants, rows[first], instants.before[found.partition[rows[first]]])
        return self._shown(found, rows, instants.time[at], levels, said[np.cumsum(first) - 1], first)

    def _may_be_wanted(self, found: OrderedRows) -> Bools:
        """Rows that stand so far behind that all that goes in this step does not bring them to the wanted places."""
        gone = np.bincount(
            found.partition[found.changed_row], np.maximum(-found.change, 0), found.first_of_partition.size - 1
        )
        copies = np.cumsum(found.base) - found.base
        copies -= copies[found.first_of_partition[found.partition]]
        ahead = copies[found.peers] if self.places.with_ties else copies
        return ahead - gone[found.partition] < self._last(found)[found.partition]

    def _candidates(self, found: OrderedRows, instants: Instants) -> tuple[Int64s, Int64s]:
        """All (row, instant) where more or fewer copies may be wanted than at the instant before."""
        pairs = [(found.changed_row, instants.of_change)]
        come, gone = (np.zeros(instants.time.size, np.int64) for _ in range(2))
        np.add.at(come, instants.of_change, np.maximum(found.change, 0))
        np.add.at(gone, instants.of_change, np.maximum(-found.change, 0))
        real, last = instants.real, self._last(found)
        bounds = [last] if self._is_limited else []
        bounds += [np.full(last.size, self.places.offset, np.int64)] if self.places.offset else []
        # What comes pushes rows out that stood at the last wanted places, what goes lets rows in.
        for moved, seen in ((come[real], real - 1), (gone[real], real)):
            for of_partition in bounds:
                bound = of_partition[instants.partition[real]]
                past = self._past(found, instants, seen, bound, ties=of_partition is last)
                owner, place = ranges(np.maximum(bound - moved, 0), np.where(moved > 0, past, 0))
                pairs.append((instants.nth(place, seen[owner])[0], real[owner]))
        rows, at = (np.concatenate(side) for side in zip(*pairs, strict=True))
        return unique_pairs(rows, at, instants.time.size + 1)

    def _past(self, found: OrderedRows, instants: Instants, seen: Int64s, bound: Int64s, *, ties: bool) -> Int64s:
        """The place after the last one up to a bound; with ties, up to the last row that has the keys of it."""
        total = instants.total(seen)
        past = np.minimum(total, bound)
        if not (self.places.with_ties and ties):
            return past
        there = np.flatnonzero(past > 0)
        last = instants.nth(past[there] - 1, seen[there])[0]
        # The first rank after all rows of the same keys.
        of_peer = found.peers[last]
        after = np.searchsorted(found.peers, of_peer, side="right")
        rank = after - found.first_of_partition[found.partition[last]]
        past[there] = np.maximum(past[there], instants.before_rank(rank, seen[there])[0])
        return past

    def _levels(self, found: OrderedRows, instants: Instants, rows: Int64s, at: Int64s) -> Int64s:
        """How many copies of rows are wanted at instants."""
        ahead, copies = instants.before_row(rows, at)
        last = self._last(found)[found.partition[rows]]
        if self.places.with_ties and self._is_limited:
            before_peers, _ = instants.before_row(found.peers[rows], at)
            last[(before_peers < last) & (self._limits(found)[found.partition[rows]] > 0)] = NO_LIMIT
        wanted: Int64s = np.maximum(np.minimum(ahead + copies, last) - np.maximum(ahead, self.places.offset), 0)
        return wanted

    def _shown(
        self, found: OrderedRows, rows: Int64s, times: Int64s, levels: Int64s, said: Int64s, first: Bools
    ) -> Batch:
        """Rows that make of what was said of each row for all time to come the levels from each instant on."""
        previous = np.empty_like(levels)
        previous[1:] = levels[:-1]
        previous[first] = said[first]
        changed = np.flatnonzero(levels != previous)
        rows, times, levels, said = rows[changed], times[changed], levels[changed], said[changed]
        ends = np.full(rows.size, INF, np.int64)
        ends[:-1] = np.where(rows[1:] == rows[:-1], times[1:], INF)
        weights = levels - said
        shown = np.flatnonzero(weights)
        intervals = {START: times, END: ends, WEIGHT: weights}
        columns = [pl.Series(name, column[shown]) for name, column in intervals.items()]
        return frame_of([*gather(found.rows, self._columns, rows[shown]), *columns])

    def _kept(self, kept: Sequence[Segment], arrived: pl.DataFrame, low: int) -> tuple[Segment, ...]:
        if self.retractions or not self._is_limited:
            return super()._kept(kept, arrived, low)
        new = alive(take(arrived, np.argsort(codes_of(arrived), kind="stable")), low)
        return retained_by_value(kept, new, lambda rows: self._undominated(alive(rows, low)))

    def _undominated(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that may still be wanted, by partition: fewer others than there are places are better and stay as long.

        Which of these are left out themselves does not matter: then as many are better than they and stay longer."""
        found, ordered, row_of = ordered_rows(rows, self.order, INF - 1, INF - 1)
        partition = found.partition[row_of]
        ranks = found.rank[row_of]
        compared = found.rank[found.peers][row_of] if self.places.with_ties else ranks
        ends = numbers(ordered, END)
        by_end = np.lexsort((ranks, -ends, partition))
        longer = Positions(ranks[by_end], numbers(ordered, WEIGHT)[by_end])
        first = np.searchsorted(partition, partition)[by_end]
        better, _ = longer.before(compared[by_end], first, np.arange(by_end.size))
        left = np.zeros(ordered.height, np.bool_)
        left[by_end] = better < self._last(found)[partition[by_end]]
        return only(ordered, left)
