"""GROUP BY and aggregate functions.

    A(t) = { (k, f1(B), f2(B), ..) : k a key of R(t) },  B = the copies of R(t) with key k

where without keys there is one group always, so that COUNT(*) over nothing is 0 from instant 0 on. The value of
a group changes only where one of its rows starts or ends. A step sorts these change points up to the frontier
by group and time, carries all functions along them in one vectorised pass, and replaces the group's output row
wherever its values really change (-old, +new).

Keeps, per group, exact totals, the values last shown and, for functions that are not sums, the values that may
still matter: undominated rows where the input never retracts, else the bag. Keeps change points after the
frontier until time reaches them. Forgets a group when it has no copies and no change points ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation import accumulators, change_points
from millstream.kernel.aggregation.accumulators import COPIES, Accumulator, Totals
from millstream.kernel.aggregation.aggregate_calls import AggregateCall, UserAggregate, resolve_aggregate
from millstream.kernel.aggregation.aggregate_values import (
    PANES,
    POINTS,
    ROWS,
    AggregatePlan,
    AggregateWork,
    set_totals,
    values_at,
)
from millstream.kernel.aggregation.change_points import Points, bare
from millstream.kernel.aggregation.combining import AggregateCombiner
from millstream.kernel.aggregation.exact_sum import Limbs
from millstream.kernel.aggregation.group_table import DEAD, EXISTS, GROUP, TABLE, UNTIL, Arrivals, GroupTable
from millstream.kernel.aggregation.instants import AT, GroupInstants, PointOrder, make_instants
from millstream.kernel.aggregation.origins import ORIGIN, resolve
from millstream.kernel.aggregation.replacement import replacements
from millstream.kernel.batch import ARRIVAL, END, INF, INSTANT, START, WEIGHT, Batch, empty_batch, value_column
from millstream.kernel.columns import (
    ascending,
    frame_of,
    numbered,
    one_zero,
    only,
    stacked,
    stacked_diagonally,
    take,
    taken,
    with_columns,
)
from millstream.kernel.distribution import Distribution, by_key
from millstream.kernel.operator import Combiner, Operator, Progress, State, own
from millstream.kernel.storage import time_queue
from millstream.kernel.storage.time_queue import TIME
from millstream.types import Field, Schema, to_polars

__all__ = ["Aggregate", "AggregateCall", "UserAggregate", "resolve_aggregate"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

ORIGINS = "origins"


class Aggregate(Operator):
    """Aggregate `calls` by the columns `keys`; output rows are the keys, then one column per call.

    `retractions` tells whether the input may have rows of negative weight. Where it may not (patterns MONOTONIC,
    WEAKEST and WEAK), MIN, MAX, FIRST and LAST keep undominated rows only.

    >>> total = AggregateCall("sum", 1, distinct=False, type=BIGINT)
    >>> run = Run(Aggregate(integers("k", "v"), keys=(0,), calls=(total,)))
    >>> run.step(batch((1, 10, 0, 9, +1), (1, 20, 3, 6, +1), (2, 5, 0, 2, +1)), to=4)
    (1, 10, [0, 3), +1)
    (2, 5, [0, 2), +1)
    (1, 30, [3, INF), +1)
    >>> run.wait(to=6)
    (1, 10, [6, INF), +1)
    (1, 30, [6, INF), -1)
    """

    def __init__(
        self,
        input_schema: Schema,
        keys: tuple[int, ...],
        calls: tuple[AggregateCall, ...],
        *,
        retractions: bool = True,
    ) -> None:
        self.plan = AggregatePlan(input_schema, calls, retractions)
        self.keys = keys
        self._head = [*dict.fromkeys([*map(value_column, keys), START, END])]
        results = (Field(shown, call.type) for shown, call in zip(self.plan.shown, calls, strict=True))
        self.schema = (*(input_schema[key] for key in keys), *results)
        self.groups = GroupTable(
            [(value_column(key), to_polars(input_schema[key].type)) for key in keys],
            {f"o{i}": to_polars(call.type) for i, call in enumerate(calls)},
        )

    @property
    def distribution(self) -> Distribution:
        return by_key([self.keys], tuple((key, place) for place, key in enumerate(self.keys)))

    def is_idle(self, state: State, progress: Progress) -> bool:
        queues = (state.get(name, ()) for name in (POINTS, PANES, ROWS))
        due = any(time_queue.is_due(queue, progress.low_before, progress.low) for queue in queues)
        return not due and (bool(self.keys) or progress.low < 0 or _exists(state))

    @cached_property
    def _combiner(self) -> AggregateCombiner:
        return AggregateCombiner(self.plan, self.keys, self.groups)

    @property
    def combiner(self) -> Combiner | None:
        return self._combiner

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        """Beside its rows it takes rows of totals, which its combiner has made of others."""
        batch, *sums = inputs
        if self.plan.only_rows:
            batch = self._combiner.consolidated(batch)
        work = AggregateWork(self.plan, progress.low_before, progress.low, state, _ties(batch, state))
        heads = stacked([each[self._head] for each in (batch, *sums)]) if sums else batch
        arrivals = self.groups.identify(heads, state)
        rows = self._rows(batch, arrivals)
        until = _last_changes(heads, arrivals) if self.keys else np.zeros(0, np.int64)
        if sums:
            work.sums = self._combiner.points(sums[0], arrivals.number[arrivals.owner[batch.height :]])
        if self.plan.by_origin:
            rows, work.synopses[ORIGINS] = resolve(rows, work.runs(ORIGINS), work.low)
        points = self._row_points(rows, work) if self.plan.only_rows else self._points(rows, arrivals, work)
        instants, sorting = make_instants(points.group, points.time)
        touched = np.union1d(arrivals.number, instants.group)
        output = empty_batch(self.schema)
        if not len(touched):
            return output, work.state_after()
        records = self.groups.fetch(touched, state, arrivals.fresh)
        if self.keys:
            records = _extended(records, np.searchsorted(touched, arrivals.number), until)
        if len(instants):
            known = records
            if len(instants.group) < len(touched):
                known = take(records, np.searchsorted(touched, instants.group))
            totals = _totals_at(points, instants, sorting, known)
            if self.plan.bags:
                work.raw = with_columns(work.raw, pl.Series(AT, sorting.at()[: work.raw.height]))
                totals |= set_totals(work, instants, known)
            output, after = self._advance(instants, totals, known, work)
            if len(instants.group) < len(touched):
                others = only(records, np.isin(touched, instants.group, invert=True))
                records = stacked_diagonally([after, others])
                records = take(records, ascending(records.get_column(GROUP).to_numpy()))
            else:
                records = after
        groups = self.groups.store(records, arrivals.fresh, state)
        # What is kept concerns groups: when the last one is forgotten, so is everything.
        return output, {**work.state_after(), **groups} if TABLE in groups else groups

    def merged_states(self, state: State, other: State) -> State:
        """The groups of the other state are numbered after those of this one."""
        both = super().merged_states(state, self.groups.renumbered(other, state))
        return {**both, **self.groups.counted(state, other)}

    def of_queries(self, state: State, queries: pl.Series) -> State:
        """Everything refers to groups by their numbers, whose first key is the query."""
        wanted = self.groups.numbers_of_first_key(state, queries)
        return {
            name: tuple(own(run, GROUP, wanted) if GROUP in run.columns else run for run in runs)
            for name, runs in state.items()
        }

    def _rows(self, batch: Batch, arrivals: Arrivals) -> pl.DataFrame:
        """The input with the numbers of its groups and the columns that the calls need."""
        columns = [*self.plan.columns, START, END, WEIGHT]
        if self.plan.by_time:
            columns += [name for name in TIES if name in batch.columns]
        number = pl.Series(GROUP, arrivals.number[arrivals.owner[: batch.height]])
        # In one piece, since they are looked at as arrays again and again.
        return frame_of([*(one_zero(batch.get_column(name).rechunk()) for name in columns), number])

    # The change points of a step; those ahead go to the time queues

    def _points(self, rows: pl.DataFrame, arrivals: Arrivals, work: AggregateWork) -> Points:
        """Where totals change, as rows (these come first, for the bags refer to them) or as sums."""
        if self.plan.staircases:
            self._start_rows(rows, work)
        raw = work.due(POINTS)
        panes = [change_points.from_segment(segment, self.plan.summed) for segment in work.due(PANES)]
        sums = None
        if rows.height and not self.plan.bags:
            sums = change_points.pane_points(rows, arrivals, self.plan.summed)
        ahead: list[pl.DataFrame] = []
        sums_ahead: list[pl.DataFrame] = []
        for points in (sums, work.sums):
            if points is not None:
                due, later = points.due(work.low)
                panes.append(due)
                sums_ahead += [later.to_segment()] if len(later) else []
        if sums is None and rows.height:
            columns = [name for name in (*self.plan.columns, ORIGIN, *TIES) if name in rows.columns]
            arrived, ahead = change_points.split(change_points.row_points(rows, columns), work.low)
            raw += arrived
        work.push(POINTS, *([stacked(ahead)] if ahead else []))
        work.push(PANES, *sums_ahead)
        if self.plan.bags:
            work.raw = stacked_diagonally([self.plan.empty_points(work.ties), *raw])
            raw = [work.raw]
        elif len(raw) > 1:
            raw = [stacked(raw)]
        pieces = [change_points.from_rows(piece, self.plan.summed) for piece in raw]
        pieces += [*panes, change_points.padded(self._first_instant(work), self.plan.summed)]
        return change_points.concatenated(pieces)

    def _row_points(self, rows: pl.DataFrame, work: AggregateWork) -> Points:
        """Where rows start, where those that start end, and where rows kept from earlier steps do."""
        self._start_rows(rows, work)
        ending = only(work.rows, work.rows.get_column(END).to_numpy() <= work.low)
        sources = [(work.rows, START), (ending, END), *((wake, TIME) for wake in work.due(POINTS))]
        work.push(POINTS)
        pieces = [
            bare(piece.get_column(GROUP).to_numpy(), piece.get_column(time).to_numpy()) for piece, time in sources
        ]
        return change_points.concatenated([*pieces, self._first_instant(work)])

    def _start_rows(self, rows: pl.DataFrame, work: AggregateWork) -> None:
        """Rows that start in this step go to the staircases; those that start later wait."""
        assert not rows.height or bool((rows.get_column(WEIGHT).to_numpy() >= 0).all()), (
            "a retraction, said not to come"
        )
        starts = rows.get_column(START)
        is_due = starts.to_numpy() <= work.low
        work.rows = stacked([only(rows, is_due), *(segment[rows.columns] for segment in work.due(ROWS))])
        work.push(ROWS, *([] if is_due.all() else [only(with_columns(rows, starts.alias(TIME)), ~is_due)]))

    def _first_instant(self, work: AggregateWork) -> Points:
        """The group of everything is there from instant 0, whether or not anything is in it."""
        count = 0 if self.keys or work.low < 0 or _exists(work.state) else 1
        return bare(np.zeros(count, np.int64), np.zeros(count, np.int64))

    # What the groups are at the instants of a step

    def _advance(
        self, instants: GroupInstants, totals: Totals, records: pl.DataFrame, work: AggregateWork
    ) -> tuple[Batch, pl.DataFrame]:
        """The output, and the records of the groups of the instants after the step."""
        values, present = values_at(work, instants, totals, records)
        exists = self._presence(totals, present)
        existed = records.get_column(EXISTS).to_numpy()
        before = existed, [records.get_column(f"o{i}") for i in range(len(values))]
        keys = [records.get_column(name) for name in self.groups.keys]
        output = replacements(instants, keys, before, (exists, values))
        final = instants.stop - 1
        totals = accumulators.map_totals(totals, lambda limbs: limbs.take(final))
        after = frame_of(
            [
                *(records.get_column(name) for name in (GROUP, *self.groups.keys, UNTIL)),
                *numbered({EXISTS: exists[final], DEAD: self._is_dead(exists[final], records, totals, work.low)}),
                *(value.alias(f"o{i}") for i, value in enumerate(taken(values, final))),
                *work.record_columns,
                *accumulators.to_columns(totals),
            ]
        )
        return output, after

    def _presence(self, totals: Totals, present: Bools) -> Bools:
        """At which instants the groups have rows; `present` tells it where undominated rows do."""
        if not self.keys:
            return np.ones(len(present), np.bool_)
        return present if self.plan.only_rows else accumulators.integers(totals[COPIES], "count(*)") > 0

    def _is_dead(self, exists: Bools, records: pl.DataFrame, totals: Totals, low: int) -> Bools:
        """Which groups nothing is left of."""
        if not self.keys:
            return np.zeros(records.height, np.bool_)
        empty = ~exists & (records.get_column(UNTIL).to_numpy() <= low)
        if not self.plan.only_rows:
            empty &= accumulators.integers(totals[COPIES], "count(*)") == 0
        return empty


# By which rows go that have come at the same instant: that of the element itself, and its arrival number.
TIES = (INSTANT, ARRIVAL)


def _exists(state: State) -> bool:
    """Whether the group of everything is there."""
    return any(run.get_column(EXISTS).any() for run in state.get(TABLE, ()))


def _ties(batch: Batch, state: State) -> tuple[str, ...]:
    """What rows carry beside their values by which they go. An empty batch may say nothing about it."""
    kept = {name for segments in state.values() for segment in segments for name in segment.columns}
    return tuple(name for name in TIES if name in batch.columns or name in kept)


def _last_changes(rows: pl.DataFrame, arrivals: Arrivals) -> Int64s:
    """The last known change of each group of the arrivals."""
    end, start = rows.get_column(END).to_numpy(), rows.get_column(START).to_numpy()
    until = np.full(len(arrivals.number), -1, np.int64)
    changes = np.where(end < INF, end, start) if (end == INF).any() else end
    if (changes[1:] >= changes[:-1]).all():
        until[arrivals.owner] = changes  # of several the last one stays
    else:
        np.maximum.at(until, arrivals.owner, changes)
    return until


def _extended(records: pl.DataFrame, places: Int64s, until: Int64s) -> pl.DataFrame:
    """The records with the last change of some of them raised."""
    if not len(places):
        return records
    known = records.get_column(UNTIL).to_numpy(writable=True)
    known[places] = np.maximum(known[places], until)
    return with_columns(records, pl.Series(UNTIL, known))


def _totals_at(
    points: Points, instants: GroupInstants, sorting: PointOrder, records: pl.DataFrame
) -> dict[Accumulator, Limbs]:
    """Totals after each instant: what the group had, and all that its points added up to there."""
    carried = accumulators.from_columns(records, points.totals)
    return {
        name: change_points.running(limbs, instants, sorting, carried[name]) for name, limbs in points.totals.items()
    }
