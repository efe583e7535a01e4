"""A kept bag: how many copies of each value a group has, where values come and go in any way.

    count(group, v, t) = sum over rows (v, start, end, weight) of the group with start <= t < end of weight

Kept for functions that cannot do without the values: MIN, MAX, FIRST and LAST over inputs with retractions, and
DISTINCT. The bag is sorted runs of net changes by (group, value); what has cancelled out goes away when runs
are merged. The best value of a group stays the best unless it is taken away, so the bag is searched only then,
from the best end of each run downwards, and no further than to the first value that this step leaves alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation.extremes import Order, best_items, gathered
from millstream.kernel.aggregation.group_table import GROUP
from millstream.kernel.aggregation.instants import AT, GroupInstants
from millstream.kernel.aggregation.ordinals import combined, heads, ordinals
from millstream.kernel.aggregation.sorted_runs import SortedRuns, add_run, expand, find
from millstream.kernel.batch import WEIGHT
from millstream.kernel.columns import ascending, chosen, frame_of, is_null, only, stacked, take, with_columns
from millstream.kernel.lists import ranks
from millstream.kernel.operator import Segment

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_EDGE = "_edge"
_FIRST_LOOK = 4  # values taken from each run at first, and then _MORE times as many while they are not enough
_MORE = 16


class BagChanges:
    """The changes of a step by (group, value) pair, in the bag's order, and then by instant.

    `after` is by how many copies a pair has changed after an instant; `before`, once looked up, what it had.
    """

    def __init__(self, points: pl.DataFrame, key: Sequence[str], instants: int) -> None:
        at, weight = points.get_column(AT).to_numpy(), points.get_column(WEIGHT).to_numpy()
        pair_codes = ordinals(points, key)
        codes, _ = combined(pair_codes, (at, max(instants, 1)))
        order = ascending(codes)
        last = np.flatnonzero(np.append(heads(codes[order])[1:], True)) if len(order) else order
        self.at = at[order[last]]
        total = np.cumsum(weight[order])[last]
        self.is_first = heads(pair_codes[0][order[last]])
        self.pair = np.cumsum(self.is_first) - 1
        first = np.flatnonzero(self.is_first)
        # The running total at the end of the previous pair is where a pair begins.
        base = np.where(first > 0, total[np.maximum(first - 1, 0)], 0)
        self.after = total - base[self.pair]
        self.pairs = take(points[list(key)], order[last[first]])
        self.net = self.after[np.append(first[1:], len(last)) - 1] if len(first) else first

    def until(self, instants: GroupInstants, owner: Int64s) -> Int64s:
        """The instant at which each change is followed by the pair's next; the end of the group's if it is not."""
        following = np.append(self.at[1:], 0)
        is_last = np.append(self.is_first[1:], True) if len(self.at) else self.is_first
        return np.where(is_last, instants.stop[owner[self.pair]], following)

    def net_changes(self) -> pl.DataFrame:
        """The changes as a frame: group, value, instant, weight."""
        change = self.after - np.where(self.is_first, 0, np.append(0, self.after[:-1])[: len(self.after)])
        moved = np.flatnonzero(change)
        return self._frame(moved, change[moved])

    def _frame(self, moved: Int64s, change: Int64s) -> pl.DataFrame:
        pairs = take(self.pairs, self.pair[moved])
        return with_columns(pairs, pl.Series(AT, self.at[moved]), pl.Series(WEIGHT, change))

    def transitions(self, before: Int64s) -> pl.DataFrame:
        """The values as a set: +1 at the instant where the first copy comes, -1 where the last goes."""
        had = before[self.pair]
        previous = np.where(self.is_first, had, had + np.append(0, self.after[:-1])[: len(had)])
        change = (self.after + had > 0).astype(np.int64) - (previous > 0).astype(np.int64)
        moved = np.flatnonzero(change)
        return self._frame(moved, change[moved])


class OrderedBag:
    """Counts by group and the columns `by`, without rows that have NULL in the column `unless`."""

    def __init__(self, by: Sequence[str], *, unless: str | None) -> None:
        self.by = list(by)
        self.unless = unless
        self.key = [GROUP, *by]

    def changes(self, points: pl.DataFrame, instants: GroupInstants) -> BagChanges:
        """The changes at points, which know their instants."""
        wanted = chosen(points, [*self.key, WEIGHT, AT])
        if self.unless is not None:
            wanted = only(wanted, ~is_null(wanted.get_column(self.unless)))
        return BagChanges(wanted, self.key, len(instants))

    def copies(self, runs: SortedRuns, pairs: pl.DataFrame) -> Int64s:
        """How many copies the bag holds of each (group, value)."""
        total = np.zeros(pairs.height, np.int64)
        for run in runs:
            place = find(run, self.key, pairs)
            weight = run.get_column(WEIGHT).to_numpy()
            total += np.where(place >= 0, weight[np.maximum(place, 0)], 0)
        return total

    def added(self, runs: SortedRuns, changes: BagChanges) -> SortedRuns:
        """The bag after a step."""
        moved = np.flatnonzero(changes.net)
        new = with_columns(take(changes.pairs, moved), pl.Series(WEIGHT, changes.net[moved]))
        return add_run(runs, new, lambda merged, _: self._net(merged))

    def _net(self, pieces: Sequence[Segment]) -> Segment:
        entries = stacked(pieces)
        codes, _ = ordinals(entries, self.key)
        order = ascending(codes)
        first = np.flatnonzero(heads(codes[order]))
        if not len(first):
            return entries
        weight = np.add.reduceat(entries.get_column(WEIGHT).to_numpy()[order], first)
        left = np.flatnonzero(weight)
        return with_columns(take(entries[self.key], order[first[left]]), pl.Series(WEIGHT, weight[left]))

    def content(self, runs: SortedRuns, groups: Int64s) -> pl.DataFrame:
        """All values of some groups, with their copies, by group and value."""
        pieces = [take(run, expand(*_range(run, groups))[0]) for run in runs]
        return self._net(pieces) if pieces else pl.DataFrame()

    def best(
        self, runs: SortedRuns, changes: BagChanges, order: Order, tops: pl.DataFrame, instants: GroupInstants
    ) -> tuple[pl.Series, pl.DataFrame]:
        """The value at each instant, and the best of each group of the instants after the step, NULL where none is.

        `tops` holds the best (group, value) before it, for the groups that had any.
        """
        taken = find(changes.pairs, self.key, tops) >= 0
        groups = np.sort(tops.get_column(GROUP).to_numpy()[taken])
        spared = only(tops, ~taken)
        found = self._best_spared(runs, groups, changes.pairs, order)
        spared = stacked([spared, *(piece[self.key] for piece in found)])
        wanted = _not_worse(changes.pairs, order, spared)
        # What is better than the best that was there has no copies yet.
        searched = wanted
        if len(self.by) == 1:
            searched = wanted & np.isin(changes.pairs.get_column(GROUP).to_numpy(), groups)
        before = np.zeros(changes.pairs.height, np.int64)
        before[searched] = self.copies(runs, only(changes.pairs, searched))
        items, start, stop = _intervals(changes, before, wanted, spared, instants)
        best = best_items(items, order, start, stop, len(instants))
        last = best[instants.stop - 1]
        after = frame_of([gathered(items.get_column(name), last) for name in self.by])
        return gathered(items.get_column(order.value), best), after

    def _best_spared(self, runs: SortedRuns, groups: Int64s, changed: pl.DataFrame, order: Order) -> list[pl.DataFrame]:
        """For each group the best value in the bag that this step does not touch, where there is one."""
        found = []
        look = _FIRST_LOOK
        while len(groups) and runs:
            pieces = [_best_end(run, groups, look, order) for run in runs]
            values = pl.concat(pieces).group_by(self.key).agg(pl.col(WEIGHT).sum(), pl.col(_EDGE).any())
            if not values.height:
                break
            untouched = find(changed, self.key, values) < 0
            values = values.with_columns(
                pl.Series("_rank", -order.quality(values)[0]),
                pl.Series("_spared", untouched) & (values[WEIGHT] > 0),
            )
            # Beyond the edge of what was taken from a run, values may be missing.
            sure = values.group_by(GROUP).agg(
                pl.col("_rank").filter(pl.col(_EDGE)).min().alias("_edge_rank"),
                pl.col("_rank").filter(pl.col("_spared")).min(),
            )
            best_first = (pl.col("_rank") <= pl.col("_edge_rank")).fill_null(False)
            done = pl.col("_edge_rank").is_null() | best_first
            found.append(values.join(sure.filter(done), on=[GROUP, "_rank"], how="semi"))
            groups = sure.filter(~done).get_column(GROUP).sort().to_numpy()
            look *= _MORE
        return found


def _range(run: Segment, groups: Int64s) -> tuple[Int64s, Int64s]:
    known = run.get_column(GROUP).to_numpy()
    return np.searchsorted(known, groups, side="left"), np.searchsorted(known, groups, side="right")


def _best_end(run: Segment, groups: Int64s, look: int, order: Order) -> Segment:
    """The best `look` values of each group in a run; the worst of them is an edge if more values follow."""
    start, stop = _range(run, groups)
    more = stop - start > look
    edge = np.minimum(start + look, stop) - 1 if order.least else np.maximum(stop - look, start)
    places, _ = expand(*((start, edge + 1) if order.least else (edge, stop)))
    return with_columns(take(run, places), pl.Series(_EDGE, np.isin(places, edge[more])))


def _not_worse(pairs: pl.DataFrame, order: Order, spared: pl.DataFrame) -> Bools:
    """The pairs that may matter: those not worse than a value that is there throughout."""
    column = order.by[0]
    bounds = pairs.select(GROUP, column).join(
        spared.select(GROUP, pl.col(column).alias("_bound")), on=GROUP, how="left", maintain_order="left"
    )
    here, there = bounds.get_column(column), bounds.get_column("_bound")
    if isinstance(here.dtype, pl.List):
        here, there = ranks(here, there)
    better = here <= there if order.least else here >= there
    return (there.is_null() | better.fill_null(True)).to_numpy()


def _intervals(
    changes: BagChanges, before: Int64s, wanted: Bools, spared: pl.DataFrame, instants: GroupInstants
) -> tuple[pl.DataFrame, Int64s, Int64s]:
    """When each value is there, in instants: from each change to the next where copies remain."""
    owner = instants.owners(changes.pairs.get_column(GROUP).to_numpy())
    until = changes.until(instants, owner)
    here = wanted[changes.pair]
    there = np.flatnonzero(here & (changes.after + before[changes.pair] > 0))
    first = np.flatnonzero(here & changes.is_first & (before[changes.pair] > 0))
    spared_owner = instants.owners(spared.get_column(GROUP).to_numpy())
    pairs = take(changes.pairs, changes.pair[np.concatenate((there, first))])
    begin = instants.first[owner[changes.pair[first]]]
    start = np.concatenate((changes.at[there], begin, instants.first[spared_owner]))
    stop = np.concatenate((until[there], changes.at[first], instants.stop[spared_owner]))
    return stacked([pairs, spared]), start, stop
