"""A kept bag: how many copies of each value a group has, where values come and go in any way.

    count(group, v, t) = sum over rows (v, start, end, weight) of the group with start <= t < end of weight

Kept for functions that cannot do without the values: MIN, MAX, FIRST and LAST over inputs with retractions, and DISTINCT.
The bag is sorted runs of net changes by (group, value); what has cancelled out goes away when runs are merged. The best
value of a group stays the best unless it is taken away, so the bag is searched only then, from the best end of each run
downwards, and no further than to the first value that this step leaves alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.batch import WEIGHT
from millstream.kernel.extremes import Order, best_values, gathered
from millstream.kernel.group_table import GROUP
from millstream.kernel.instants import Instants, TimeAxis
from millstream.kernel.operator import Segment
from millstream.kernel.sorted_runs import Runs, add_run, expand, find
from millstream.kernel.time_queue import TIME

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_PAIR, _OWNER, _START, _STOP, _EDGE = "_pair", "_owner", "_from", "_to", "_edge"
_FIRST_LOOK = 4  # values taken from each run at first; four times as many each time that is not enough


class Counts:
    """Copies of each value changed in a step: before it, and after each of its instants."""

    def __init__(self, pairs: pl.DataFrame, before: Int64s, changes: pl.DataFrame) -> None:
        self.pairs = pairs
        self.before = before
        pair, time = changes.get_column(_PAIR).to_numpy(), changes.get_column(TIME).to_numpy()
        weight = changes.get_column(WEIGHT).to_numpy()
        codes = TimeAxis.over(pairs.height, time).code(pair, time) if len(time) else time
        order = pl.Series(codes).arg_sort().to_numpy().astype(np.int64)
        codes = codes[order]
        last = np.flatnonzero(np.append(codes[1:] != codes[:-1], True)) if len(codes) else order
        self.pair, self.time = pair[order[last]], time[order[last]]
        total = np.cumsum(weight[order])[last]
        # The running total at the end of the previous pair is where a pair begins.
        self.is_first = np.append(True, self.pair[1:] != self.pair[:-1]) if len(last) else last == 0
        start = np.flatnonzero(self.is_first)
        base = np.where(start > 0, total[np.maximum(start - 1, 0)], 0)
        ordinal = np.cumsum(self.is_first) - 1
        self.after = total - base[ordinal] + before[self.pair]

    def transitions(self) -> pl.DataFrame:
        """The values as a set: +1 at the instant where the first copy comes, -1 where the last goes."""
        previous = np.where(self.is_first, self.before[self.pair], np.roll(self.after, 1))
        change = (self.after > 0).astype(np.int64) - (previous > 0).astype(np.int64)
        moved = np.flatnonzero(change)
        return self.pairs.gather(self.pair[moved]).with_columns(
            pl.Series(TIME, self.time[moved]), pl.Series(WEIGHT, change[moved])
        )


class OrderedBag:
    """Counts by group and the columns `by`."""

    def __init__(self, by: Sequence[str], *, nulls: bool) -> None:
        self.by = list(by)
        self.nulls = nulls
        self.key = [GROUP, *by]

    def changes(self, points: pl.DataFrame) -> pl.DataFrame:
        """The change points that concern the bag."""
        wanted = points.select(*self.key, TIME, WEIGHT).filter(pl.col(WEIGHT) != 0)
        return wanted if self.nulls else wanted.filter(pl.col(name).is_not_null() for name in self.by)

    def copies(self, runs: Runs, pairs: pl.DataFrame) -> Int64s:
        """How many copies the bag holds of each (group, value)."""
        total = np.zeros(pairs.height, np.int64)
        for run in runs:
            place = find(run, self.key, pairs)
            weight = run.get_column(WEIGHT).to_numpy()
            total += np.where(place >= 0, weight[np.maximum(place, 0)], 0)
        return total

    def counts(self, runs: Runs, changes: pl.DataFrame) -> Counts:
        pairs, numbered = self._pairs(changes)
        return Counts(pairs, self.copies(runs, pairs), numbered)

    def _pairs(self, changes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The distinct (group, value), and the changes with the number of theirs."""
        pairs = changes.select(self.key).unique(maintain_order=True)
        numbers = pairs.with_row_index(_PAIR).with_columns(pl.col(_PAIR).cast(pl.Int64))
        return pairs, changes.join(numbers, on=self.key, how="left", nulls_equal=True, maintain_order="left")

    def added(self, runs: Runs, changes: pl.DataFrame) -> Runs:
        """The bag after a step."""
        return add_run(runs, self._net([changes.select(*self.key, WEIGHT)]), lambda merged, _: self._net(merged))

    def _net(self, pieces: Sequence[Segment]) -> Segment:
        summed = pl.concat(pieces).group_by(self.key).agg(pl.col(WEIGHT).sum())
        return summed.filter(pl.col(WEIGHT) != 0).sort(self.key)

    def content(self, runs: Runs, groups: Int64s) -> pl.DataFrame:
        """All values of some groups, with their copies, by group and value."""
        pieces = [run.gather(expand(*_range(run, groups))[0]) for run in runs]
        return self._net(pieces) if pieces else pl.DataFrame()

    def best(
        self, runs: Runs, changes: pl.DataFrame, order: Order, tops: pl.DataFrame, instants: Instants
    ) -> tuple[pl.Series, pl.DataFrame]:
        """The value at each instant, and the best of each group of the instants after the step, NULL where none is.

        `tops` holds the best (group, value) before it, for the groups that had any.
        """
        taken = tops.join(changes.select(self.key).unique(), on=self.key, how="semi", nulls_equal=True)
        spared = tops.join(taken, on=GROUP, how="anti")
        found = self._best_spared(runs, taken.get_column(GROUP).sort().to_numpy(), changes, order)
        spared = pl.concat([spared.select(self.key), found.select(self.key)]) if found.height else spared
        changes = _relevant(changes, order, spared)
        pairs, numbered = self._pairs(changes)
        # What is better than the best that was there has no copies yet.
        searched = np.ones(pairs.height, np.bool_)
        if len(self.by) == 1:
            searched = pairs.get_column(GROUP).is_in(taken.get_column(GROUP).implode()).to_numpy()
        before = np.zeros(pairs.height, np.int64)
        before[searched] = self.copies(runs, pairs.filter(pl.Series(searched)))
        items, start, stop = _intervals(Counts(pairs, before, numbered), spared.select(self.key), instants)
        best = best_values(items, order, start, stop, len(instants))
        last = best[instants.stop - 1]
        after = pl.DataFrame([gathered(items.get_column(name), last) for name in self.by])
        return gathered(items.get_column(order.value), best), after

    def _best_spared(self, runs: Runs, groups: Int64s, changes: pl.DataFrame, order: Order) -> pl.DataFrame:
        """For each group the best value in the bag that this step does not touch, where there is one."""
        changed = changes.select(self.key).unique()
        found = []
        look = _FIRST_LOOK
        while len(groups) and runs:
            pieces = [_best_end(run, groups, look, order) for run in runs]
            values = pl.concat(pieces).group_by(self.key).agg(pl.col(WEIGHT).sum(), pl.col(_EDGE).any())
            values = values.join(
                changed.with_columns(pl.lit(True).alias("_changed")), on=self.key, how="left", nulls_equal=True
            )
            rank = pl.Series("_rank", -order.ranks(values)) if values.height else pl.Series("_rank", [], pl.Int64)
            values = values.with_columns(rank)
            spared = (pl.col(WEIGHT) > 0) & pl.col("_changed").is_null()
            # Beyond the edge of what was taken from a run, values may be missing.
            edge = pl.col("_rank").filter(pl.col(_EDGE)).min().alias("_edge_rank")
            sure = values.group_by(GROUP).agg(edge, pl.col("_rank").filter(spared).min().alias("_best_rank"))
            best_first = pl.col("_best_rank") <= pl.col("_edge_rank")
            done = sure.filter(pl.col("_edge_rank").is_null() | best_first.fill_null(False))
            found.append(
                values.filter(spared).join(done, left_on=[GROUP, "_rank"], right_on=[GROUP, "_best_rank"], how="semi")
            )
            open_groups = sure.join(done, on=GROUP, how="anti").get_column(GROUP)
            groups = open_groups.sort().to_numpy()
            look *= 4
        return pl.concat(found) if found else pl.DataFrame()


def _range(run: Segment, groups: Int64s) -> tuple[Int64s, Int64s]:
    known = run.get_column(GROUP).to_numpy()
    return np.searchsorted(known, groups, side="left"), np.searchsorted(known, groups, side="right")


def _best_end(run: Segment, groups: Int64s, look: int, order: Order) -> Segment:
    """The best `look` values of each group in a run; the worst of them is an edge if more values follow."""
    start, stop = _range(run, groups)
    more = stop - start > look
    edge = np.minimum(start + look, stop) - 1 if order.least else np.maximum(stop - look, start)
    places, _ = expand(*((start, edge + 1) if order.least else (edge, stop)))
    return run.gather(places).with_columns(pl.Series(_EDGE, np.isin(places, edge[more])))


def _relevant(changes: pl.DataFrame, order: Order, spared: pl.DataFrame) -> pl.DataFrame:
    """The changes that may matter: those of values not worse than one that is there throughout."""
    if not spared.height or not changes.height:
        return changes
    column = order.by[0]
    bound = spared.select(GROUP, pl.col(column).alias("_bound"))
    here, there = pl.col(column), pl.col("_bound")
    better = here <= there if order.least else here >= there
    joined = changes.join(bound, on=GROUP, how="left", maintain_order="left")
    return joined.filter(there.is_null() | better).drop("_bound")


def _intervals(counts: Counts, spared: pl.DataFrame, instants: Instants) -> tuple[pl.DataFrame, Int64s, Int64s]:
    """When each value is there, in instants: from each change to the next where copies remain."""
    owner = instants.owners(counts.pairs.get_column(GROUP).to_numpy())
    at = instants.place(owner[counts.pair], counts.time)
    is_last = np.append(counts.is_first[1:], True) if len(at) else counts.is_first
    until = np.where(is_last, instants.stop[owner[counts.pair]], np.roll(at, -1))
    there = np.flatnonzero(counts.after > 0)
    first = np.flatnonzero(counts.is_first)
    first = first[counts.before[counts.pair[first]] > 0]
    spared_owner = instants.owners(spared.get_column(GROUP).to_numpy())
    items = pl.concat([counts.pairs.gather(counts.pair[there]), counts.pairs.gather(counts.pair[first]), spared])
    begin = instants.first[owner[counts.pair[first]]]
    start = np.concatenate((at[there], begin, instants.first[spared_owner]))
    stop = np.concatenate((until[there], at[first], instants.stop[spared_owner]))
    return items, start, stop
