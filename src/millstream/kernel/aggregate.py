"""GROUP BY and aggregate functions.

    A(t) = { (k, f1(B), f2(B), ..) : k a key of R(t) },  B = the copies of R(t) with key k

where without keys there is one group always, so that COUNT(*) over nothing is 0 from instant 0 on. The value of a
group changes only where one of its rows starts or ends. A step sorts these change points up to the frontier by group
and time, carries all functions along them in one vectorised pass, and replaces the group's output row wherever its
values really change (-old, +new).

Keeps, per group, exact totals, the values last shown and, for functions that are not sums, the values that may still
matter: undominated rows where the input never retracts, else the bag. Keeps change points after the frontier until
time reaches them. Forgets a group when it has no copies and no change points ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel import accumulators, change_points, time_queue
from millstream.kernel.accumulators import COPIES
from millstream.kernel.aggregate_calls import AggregateCall, UserAggregate, resolve_aggregate
from millstream.kernel.aggregate_values import AggregatePlan, Work, values_at
from millstream.kernel.batch import ARRIVAL, END, INF, START, WEIGHT, Batch, empty_batch, value_column
from millstream.kernel.change_points import Points
from millstream.kernel.group_table import DEAD, EXISTS, GROUP, TABLE, UNTIL, Arrivals, GroupTable, one_zero
from millstream.kernel.instants import Instants, make_instants
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.origins import resolve
from millstream.kernel.replacement import replacements
from millstream.kernel.sorted_runs import Runs
from millstream.kernel.time_queue import TIME
from millstream.types import Field, Schema, to_polars

__all__ = ["Aggregate", "AggregateCall", "UserAggregate", "resolve_aggregate"]

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

# What lies ahead: change points as rows and as sums, and rows that have not started, where rows are wanted whole.
POINTS, PANES, ROWS, ORIGINS = "points", "panes", "rows", "origins"


class Aggregate(Operator):
    """Aggregate `calls` by the columns `keys`; output rows are the keys, then one column per call.

    `retractions` tells whether the input may have rows of negative weight. Where it may not (patterns MONOTONIC,
    WEAKEST and WEAK), MIN, MAX, FIRST and LAST keep undominated rows only.
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
        results = (Field(shown, call.type) for shown, call in zip(self.plan.shown, calls, strict=True))
        self.schema = (*(input_schema[key] for key in keys), *results)
        self.groups = GroupTable(
            [(value_column(key), to_polars(input_schema[key].type)) for key in keys],
            {f"o{i}": to_polars(call.type) for i, call in enumerate(calls)},
        )

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        before, low = progress.low_before, progress.low
        arrivals = self.groups.identify(batch, state)
        rows = self._rows(batch, arrivals)
        until = _last_change(rows, arrivals)
        work = Work(self.plan, before, low, state, _has_arrival(batch, state))
        if self.plan.by_origin:
            rows, work.synopses[ORIGINS] = resolve(rows, tuple(state.get(ORIGINS, ())), low)
        points = self._due(rows, arrivals, work)
        touched = np.union1d(arrivals.number, points.group)
        if not len(touched):
            return empty_batch(self.schema), work.state_after()
        records = self.groups.fetch(touched, state, arrivals.fresh)
        records = _extended(records, np.searchsorted(touched, arrivals.number), until)
        output = empty_batch(self.schema)
        if len(points):
            output, records = self._advance(points, touched, records, work)
        groups = self.groups.store(records, arrivals.fresh, state)
        # What is kept concerns groups: when the last one is forgotten, so is everything.
        return output, {**work.state_after(), **groups} if TABLE in groups else groups

    def _rows(self, batch: Batch, arrivals: Arrivals) -> pl.DataFrame:
        """The input with its groups' numbers and the columns that the calls need."""
        columns = [*self.plan.columns, START, END, WEIGHT]
        if self.plan.by_time and ARRIVAL in batch.columns:
            columns.append(ARRIVAL)
        number = arrivals.number[arrivals.owner] if batch.height else np.zeros(0, np.int64)
        return batch.select(one_zero(name, batch.schema[name]) for name in columns).with_columns(
            pl.Series(GROUP, number)
        )

    # What is due and what lies ahead

    def _due(self, rows: pl.DataFrame, arrivals: Arrivals, work: Work) -> Points:
        """The change points of this step; the rows and points behind them go to `work`, those ahead to its state."""
        state, before, low = work.state, work.before, work.low
        if self.plan.staircases:
            work.rows = self._due_rows(rows, work)
        points = [self._first_instant(state)] if not self.keys and low >= 0 else []
        for segment in time_queue.due(state.get(PANES, ()), before, low):
            points.append(change_points.from_segment(segment, self.plan.summed))
        panes = None
        if rows.height and not self.plan.bags and not self.plan.only_rows:
            panes = change_points.pane_points(rows, arrivals, self.plan.summed)
        ahead: list[pl.DataFrame] = []
        raw = time_queue.due(state.get(POINTS, ()), before, low)
        if self.plan.only_rows:
            points += self._row_instants(work, raw)
        else:
            if panes is None and rows.height:
                arrived, ahead = change_points.split(change_points.row_points(rows, work.point_columns(rows)), low)
                raw += arrived
            points += [change_points.from_rows(piece, self.plan.summed) for piece in raw]
            if self.plan.bags:
                work.raw = pl.concat([self.plan.empty_points(work.arrival), *raw], how="diagonal")
        work.push(POINTS, ahead)
        later: list[pl.DataFrame] = []
        if panes is not None:
            arrived_panes, panes_ahead = panes.due(low)
            points.append(arrived_panes)
            later = [panes_ahead.to_segment()] if len(panes_ahead) else []
        work.push(PANES, later)
        return change_points.concatenated([change_points.padded(piece, self.plan.summed) for piece in points])

    def _due_rows(self, rows: pl.DataFrame, work: Work) -> pl.DataFrame:
        """Rows that start in this step; those that start later wait."""
        started = [rows.filter(pl.col(START) <= work.low)]
        for segment in time_queue.due(work.state.get(ROWS, ()), work.before, work.low):
            started.append(segment.select(rows.columns))
        work.push(ROWS, [rows.filter(pl.col(START) > work.low).with_columns(pl.col(START).alias(TIME))])
        return pl.concat(started)

    def _row_instants(self, work: Work, wakes: Sequence[pl.DataFrame]) -> Iterator[Points]:
        """Where rows start, where those that start end, and where rows kept from earlier steps do."""
        ending = work.rows.filter(pl.col(END) <= work.low)
        for piece, column in ((work.rows, START), (ending, END), *((wake, TIME) for wake in wakes)):
            yield change_points.bare(piece.get_column(GROUP).to_numpy(), piece.get_column(column).to_numpy())

    def _first_instant(self, state: State) -> Points:
        """The group of everything is there from instant 0, whether or not anything is in it."""
        count = 0 if any(run.get_column(EXISTS).any() for run in state.get(TABLE, ())) else 1
        return change_points.bare(np.zeros(count, np.int64), np.zeros(count, np.int64))

    # What the groups are at the instants of this step

    def _advance(
        self, points: Points, touched: Int64s, records: pl.DataFrame, work: Work
    ) -> tuple[Batch, pl.DataFrame]:
        """The output, and the records after the step."""
        points = work.with_sets(points)
        instants, order, last = make_instants(points.group, points.time)
        moved = np.searchsorted(touched, instants.group)
        own = records.gather(moved) if len(moved) < len(touched) else records
        totals = _totals_at(points, instants, order, last, own)
        values, present = values_at(work, instants, totals, own)
        if not self.keys:
            exists = np.ones(len(instants), np.bool_)
        else:
            exists = present if self.plan.only_rows else accumulators.integers(totals[COPIES], "count(*)") > 0
        shown = [own.get_column(f"o{i}") for i in range(len(values))]
        existed = own.get_column(EXISTS).to_numpy()
        keys = [own.get_column(name) for name in self.groups.keys]
        output = replacements(instants, keys, (existed, shown), (exists, values))
        final = instants.stop - 1
        after = own.select(GROUP, *self.groups.keys, UNTIL).with_columns(
            pl.Series(EXISTS, exists[final]),
            pl.lit(False).alias(DEAD),
            *(value.gather(final).alias(f"o{i}") for i, value in enumerate(values)),
            *work.record_columns,
            *accumulators.to_columns(accumulators.map_totals(totals, lambda limbs: limbs.take(final))),
        )
        if len(moved) < len(touched):
            others = np.setdiff1d(np.arange(len(touched)), moved)
            after = pl.concat([after, records.gather(others)], how="diagonal").sort(GROUP)
        return output, self._buried(after, work.low)

    def _buried(self, records: pl.DataFrame, low: int) -> pl.DataFrame:
        if not self.keys:
            return records
        empty = ~records.get_column(EXISTS).to_numpy() & (records.get_column(UNTIL).to_numpy() <= low)
        if not self.plan.only_rows:
            copies = accumulators.from_columns(records, (COPIES,))[COPIES]
            empty &= accumulators.integers(copies, "count(*)") == 0
        return records.with_columns(pl.Series(DEAD, empty))


def _has_arrival(batch: Batch, state: State) -> bool:
    """Do rows carry their arrival number? An empty batch may say nothing about it."""
    kept = (segment for segments in state.values() for segment in segments)
    return ARRIVAL in batch.columns or any(ARRIVAL in segment.columns for segment in kept)


def _last_change(rows: pl.DataFrame, arrivals: Arrivals) -> Int64s:
    """The last known change of each group of the arrivals."""
    end, start = rows.get_column(END).to_numpy(), rows.get_column(START).to_numpy()
    until = np.full(len(arrivals.number), -1, np.int64)
    np.maximum.at(until, arrivals.owner, np.where(end < INF, end, start))
    return until


def _extended(records: pl.DataFrame, places: Int64s, until: Int64s) -> pl.DataFrame:
    """The records with the last change of some raised."""
    if not len(places):
        return records
    known = records.get_column(UNTIL).to_numpy(writable=True)
    known[places] = np.maximum(known[places], until)
    return records.with_columns(pl.Series(UNTIL, known))


def _totals_at(
    points: Points, instants: Instants, order: Int64s, last: Int64s, records: pl.DataFrame
) -> accumulators.Totals:
    """Totals after each instant: what the group had, and all that its points added up to there."""
    carried = accumulators.from_columns(records, points.totals)
    return {
        name: change_points.running(limbs, instants, order, last, carried[name])
        for name, limbs in points.totals.items()
    }
