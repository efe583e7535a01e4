"""The rows of some partitions in their order, and how they change from instant to instant of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT, value_column
from millstream.kernel.columns import take
from millstream.kernel.keys import KEY
from millstream.kernel.ordering.positions import Positions
from millstream.kernel.ordering.sort_keys import RowOrder, differ_from_last
from millstream.kernel.storage.segments import numbers

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class OrderedRows:
    """Different rows by partition and in their order, each once, and what becomes of their copies.

    `base` are the copies before the step. A change adds copies to a row at an instant; changes are in the order of
    partitions and time.
    """

    rows: pl.DataFrame
    partition: Int64s  # of each row, numbered as they come
    peers: Int64s  # of each row the first of equal keys
    base: Int64s
    changed_row: Int64s
    changed_at: Int64s
    change: Int64s

    @cached_property
    def first_of_partition(self) -> Int64s:
        """Where the rows of each partition begin, and at last where they end."""
        count = int(self.partition[-1]) + 1 if self.partition.size else 0
        return np.searchsorted(self.partition, np.arange(count + 1))

    @cached_property
    def rank(self) -> Int64s:
        """Of each row its place within the partition."""
        return np.arange(self.partition.size) - self.first_of_partition[self.partition]

    @cached_property
    def instants(self) -> Instants:
        return Instants(self)

    def only(self, kept: Bools) -> OrderedRows:
        """Of some rows, which are all that matters."""
        place = np.cumsum(kept) - 1
        changed = kept[self.changed_row]
        rows = np.flatnonzero(kept)
        _, partition = np.unique(self.partition[rows], return_inverse=True)
        # The first of some peers may be left out: then it is the first that is left.
        peers, first = np.unique(self.peers[rows], return_inverse=True)
        firsts = np.searchsorted(self.peers[rows], peers)
        return OrderedRows(
            take(self.rows, rows),
            partition,
            firsts[first],
            self.base[rows],
            place[self.changed_row[changed]],
            self.changed_at[changed],
            self.change[changed],
        )


class Instants:
    """All (partition, instant) at which something changes, in order; each partition begins with what was before.

    `partition` and `time` are of these; `time` of what was before is -1. Changes of the instant n are those from
    `begin[n]` to `begin[n + 1]` of the ordered rows.
    """

    def __init__(self, ordered: OrderedRows) -> None:
        of_change = ordered.partition[ordered.changed_row]
        count = ordered.first_of_partition.size - 1
        is_first = np.ones(of_change.size, np.bool_)
        is_first[1:] = (of_change[1:] != of_change[:-1]) | (ordered.changed_at[1:] != ordered.changed_at[:-1])
        firsts = np.flatnonzero(is_first)
        own = of_change[firsts]
        # Before the instants of each partition stands that before the step.
        place = np.arange(firsts.size) + own + 1
        self.partition = np.zeros(firsts.size + count, np.int64)
        self.time = np.full(firsts.size + count, -1, np.int64)
        self.begin = np.zeros(firsts.size + count + 1, np.int64)
        self.real = place  # those of the step
        self.before = np.searchsorted(own, np.arange(count)) + np.arange(count)  # of each partition
        self.partition[place], self.partition[self.before] = own, np.arange(count)
        self.time[place] = ordered.changed_at[firsts]
        counts = np.zeros(firsts.size + count, np.int64)
        counts[place] = np.diff(np.append(firsts, of_change.size))
        np.cumsum(counts, out=self.begin[1:])
        self.of_change = np.repeat(place, counts[place])
        self._ordered = ordered
        self._index_positions(ordered)

    def _index_positions(self, ordered: OrderedRows) -> None:
        """What was before the step are changes too, the first of each partition."""
        there = np.flatnonzero(ordered.base)
        of_base, of_change = ordered.partition[there], ordered.partition[ordered.changed_row]
        count = ordered.first_of_partition.size - 1
        base_from = np.searchsorted(of_base, np.arange(count + 1))
        change_from = np.searchsorted(of_change, np.arange(count + 1))
        size = there.size + of_change.size
        ranks, weights = np.zeros(size, np.int64), np.zeros(size, np.int64)
        at_base = np.arange(there.size) + change_from[of_base]
        at_change = np.arange(of_change.size) + base_from[of_change + 1]
        ranks[at_base], weights[at_base] = ordered.rank[there], ordered.base[there]
        ranks[at_change], weights[at_change] = ordered.rank[ordered.changed_row], ordered.change
        self.positions = Positions(ranks, weights)
        self._first = (base_from + change_from)[self.partition]
        self._past = self.begin[1:] + base_from[self.partition + 1]

    def total(self, instants: Int64s) -> Int64s:
        return self.positions.total(self._first[instants], self._past[instants])

    def before_rank(self, ranks: Int64s, instants: Int64s) -> tuple[Int64s, Int64s]:
        return self.positions.before(ranks, self._first[instants], self._past[instants])

    def before_row(self, rows: Int64s, instants: Int64s) -> tuple[Int64s, Int64s]:
        """The copies that stand before a row at an instant of its partition, and its own."""
        return self.before_rank(self._ordered.rank[rows], instants)

    def nth(self, places: Int64s, instants: Int64s) -> tuple[Int64s, Int64s]:
        """The rows of the copies at some places, from 0, and how many of their copies stand before."""
        ranks, copies = self.positions.nth(places, self._first[instants], self._past[instants])
        return ranks + self._ordered.first_of_partition[self.partition[instants]], copies


def ordered_rows(
    known: pl.DataFrame, order: RowOrder, before: int, low: int
) -> tuple[OrderedRows, pl.DataFrame, Int64s]:
    """Rows with intervals, all of which start at `low` at the latest; and the same rows in their order, with which of
    the former each of them is."""
    ordered = take(known, order.sorted_places(known))
    is_partition = differ_from_last(ordered, [KEY, *map(value_column, order.partition)])
    is_peer = is_partition | differ_from_last(ordered, [value_column(key.column) for key in order.keys])
    is_row = is_peer | differ_from_last(ordered, [*map(value_column, order.ties)])
    firsts = np.flatnonzero(is_row)
    row_of = np.cumsum(is_row) - 1
    peer_of = row_of[np.flatnonzero(is_peer)][np.cumsum(is_peer)[firsts] - 1]
    starts, ends, weights = (numbers(ordered, name) for name in (START, END, WEIGHT))
    was = (starts <= before) & (ends > before)
    base = np.bincount(row_of[was], weights=weights[was], minlength=firsts.size).astype(np.int64)
    begins, leaves = np.flatnonzero(starts > before), np.flatnonzero((ends <= low) & (ends > before) & (ends < INF))
    changed_row = np.concatenate((row_of[begins], row_of[leaves]))
    changed_at = np.concatenate((starts[begins], ends[leaves]))
    change = np.concatenate((weights[begins], -weights[leaves]))
    partition = np.cumsum(is_partition)[firsts] - 1
    by_time = _by_partition_and_time(partition[changed_row], changed_at)
    found = OrderedRows(
        take(ordered, firsts),
        partition,
        peer_of,
        base,
        changed_row[by_time],
        changed_at[by_time],
        change[by_time],
    )
    return found, ordered, row_of


def _by_partition_and_time(partition: Int64s, time: Int64s) -> Int64s:
    if not time.size:
        return np.zeros(0, np.int64)
    span = int(time.max()) - int(time.min()) + 1
    if span * (int(partition.max()) + 1) < 1 << 62:
        return np.argsort(partition * span + (time - time.min()), kind="stable")
    return np.lexsort((time, partition))


def ranges(first: Int64s, past: Int64s) -> tuple[Int64s, Int64s]:
    """All (number of the range, place in it) of half-open ranges."""
    counts = np.maximum(past - first, 0)
    owner = np.repeat(np.arange(first.size), counts)
    begin = np.cumsum(counts) - counts
    return owner, np.arange(owner.size) - begin[owner] + first[owner]


def unique_pairs(one: Int64s, other: Int64s, most: int) -> tuple[Int64s, Int64s]:
    """Different pairs in order, `other` being below `most`."""
    packed = np.unique(one * most + other)
    return packed // most, packed % most


def value_names(columns: Sequence[int]) -> list[str]:
    return [*map(value_column, columns)]
