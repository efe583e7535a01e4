"""The value of every aggregate call at every instant of a step, whatever it is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.errors import EvaluationError
from millstream.kernel import accumulators, change_points, time_queue
from millstream.kernel.accumulators import COPIES, Accumulator, Totals, accumulators_of
from millstream.kernel.aggregate_calls import EXTREMES, AggregateCall
from millstream.kernel.batch import ARRIVAL, END, INF, START, WEIGHT, value_column
from millstream.kernel.change_points import Points
from millstream.kernel.extremes import Order, Staircase, order_of
from millstream.kernel.group_table import GROUP
from millstream.kernel.instants import Instants
from millstream.kernel.operator import Segment, State
from millstream.kernel.ordered_bag import OrderedBag
from millstream.kernel.origins import ORIGIN
from millstream.kernel.sorted_runs import Runs
from millstream.kernel.time_queue import TIME
from millstream.kernel.user_aggregate import UserAggregation
from millstream.types import Schema, to_polars

Bools = NDArray[np.bool_]


class AggregatePlan:
    """What the calls of an aggregation need: totals, staircases, bags."""

    def __init__(self, schema: Schema, calls: tuple[AggregateCall, ...], retractions: bool) -> None:
        self.schema, self.calls = schema, calls
        self.shown = [call.show(tuple(column.name for column in schema)) for call in calls]
        self.columns = list(dict.fromkeys(value_column(call.argument) for call in calls if call.argument is not None))
        self.users = {
            i: UserAggregation(call, shown)
            for i, (call, shown) in enumerate(zip(calls, self.shown, strict=True))
            if call.definition is not None
        }
        self.extremes = [i for i, call in enumerate(calls) if i not in self.users and call.name in EXTREMES]
        self.by_time = any(calls[i].name in ("first", "last") for i in self.extremes)
        self.by_origin = self.by_time and retractions
        self.staircases = [] if retractions else self.extremes
        # With nothing to sum, undominated rows say all, and the ends of the others need not be awaited.
        self.only_rows = len(calls) == len(self.staircases) > 0 and all(call.name != "single_value" for call in calls)
        wanted: dict[Accumulator, None] = {} if self.only_rows else {COPIES: None}
        for i, call in enumerate(calls):
            if i not in self.users and i not in self.extremes:
                wanted |= dict.fromkeys(accumulators_of(call, schema))
        self.summed = tuple(total for total in wanted if not total.distinct)
        self.sets = tuple(total for total in wanted if total.distinct)
        self.bags = bool(self.sets or self.users or (self.extremes and retractions))

    def empty_points(self, arrival: bool) -> pl.DataFrame:
        """Change points as rows, of which there are none."""
        columns = {TIME: pl.Int64(), GROUP: pl.Int64(), WEIGHT: pl.Int64()}
        values = {name: to_polars(self.schema[int(name[1:])].type) for name in self.columns}
        origin = {ORIGIN: pl.Int64()} if self.by_origin else {}
        number = {ARRIVAL: pl.Int64()} if self.by_time and arrival else {}
        return pl.DataFrame(schema={**columns, **values, **origin, **number})

    def order(self, call: AggregateCall, arrival: bool) -> Order:
        return order_of(call, arrival=arrival, started=ORIGIN if self.by_origin else START)

    def bag(self, by: Sequence[str], *, nulls: bool) -> tuple[str, OrderedBag]:
        """The bag over columns, and the name of its synopsis; calls over the same columns share it."""
        return f"bag {' '.join(by)}{' with nulls' if nulls else ''}", OrderedBag(by, nulls=nulls)


@dataclass(eq=False)
class Work:
    """One step: where it is in time, what is due in it, and what it leaves behind."""

    plan: AggregatePlan
    before: int
    low: int
    state: State
    arrival: bool
    raw: pl.DataFrame = field(default_factory=pl.DataFrame)  # the change points as rows, for bags
    rows: pl.DataFrame = field(default_factory=pl.DataFrame)  # the rows that start, for staircases
    synopses: dict[str, Runs] = field(default_factory=dict)
    record_columns: list[pl.Series] = field(default_factory=list)
    kept: list[pl.DataFrame] = field(default_factory=list)  # the rows that staircases take over

    def push(self, name: str, ahead: Sequence[pl.DataFrame]) -> None:
        """Advance a time queue, and let more wait in it."""
        queue = self.synopses.get(name)
        if queue is None:
            queue = time_queue.advanced(self.state.get(name, ()), self.low)
        for piece in ahead:
            queue = time_queue.pushed(queue, piece, self.low)
        self.synopses[name] = queue

    def point_columns(self, rows: pl.DataFrame) -> list[str]:
        return [name for name in (*self.plan.columns, ORIGIN, ARRIVAL) if name in rows.columns]

    def runs(self, name: str) -> Runs:
        return tuple(self.state.get(name, ()))

    def state_after(self) -> dict[str, tuple[Segment, ...]]:
        """The synopses, those that this step did not touch among them."""
        return {name: runs for name, runs in {**self.state, **self.synopses}.items() if runs}

    def changes(self, name: str, bag: OrderedBag) -> pl.DataFrame:
        """The changes of a bag; the bag after the step is noted on the way."""
        changes = bag.changes(self.raw)
        if name not in self.synopses:
            self.synopses[name] = bag.added(self.runs(name), changes)
        return changes

    def with_sets(self, points: Points) -> Points:
        """The points with those of the totals over distinct values."""
        if not self.plan.sets or not self.raw.height:
            return change_points.padded(points, (*self.plan.summed, *self.plan.sets))
        pieces = [points]
        for argument in dict.fromkeys(total.argument for total in self.plan.sets):
            assert argument is not None
            transitions = self.transitions(value_column(argument))
            own = [total for total in self.plan.sets if total.argument == argument]
            pieces.append(change_points.from_rows(transitions, own))
        wanted = (*self.plan.summed, *self.plan.sets)
        return change_points.concatenated([change_points.padded(piece, wanted) for piece in pieces])

    def transitions(self, column: str) -> pl.DataFrame:
        """Where values of a column come to a group and leave it, as a set."""
        name, bag = self.plan.bag((column,), nulls=False)
        return bag.counts(self.runs(name), self.changes(name, bag)).transitions()


def values_at(work: Work, instants: Instants, totals: Totals, records: pl.DataFrame) -> tuple[list[pl.Series], Bools]:
    """One column per call, and where undominated rows show that the group has rows."""
    values = []
    present = np.zeros(len(instants), np.bool_)
    for i, call in enumerate(work.plan.calls):
        if i in work.plan.users:
            values.append(_user(work, i, instants, records))
        elif i in work.plan.staircases:
            value, present = _undominated(work, i, instants)
            values.append(value)
        elif i in work.plan.extremes:
            values.append(_best_of_bag(work, i, instants, records))
        else:
            values.append(accumulators.evaluate(call, totals, work.plan.schema, work.plan.shown[i]))
        if call.name == "single_value" and i not in work.plan.users:
            _refuse_several(totals)
    if work.plan.only_rows:
        _await_ends(work)
    return values, present


def _undominated(work: Work, i: int, instants: Instants) -> tuple[pl.Series, Bools]:
    stairs = Staircase(work.plan.order(work.plan.calls[i], work.arrival))
    runs = work.runs(f"kept{i}")
    value, present = stairs.best(runs, work.rows, instants, work.before, work.low)
    fresh = stairs.kept(work.rows, work.low)
    work.synopses[f"kept{i}"] = stairs.added(runs, fresh, work.low)
    work.kept.append(fresh)
    return value, present


def _await_ends(work: Work) -> None:
    """A group must be looked at again when one of the rows kept for it ends."""
    wakes = pl.concat([fresh.select(pl.col(END).alias(TIME), GROUP) for fresh in work.kept]).unique()
    work.push("points", [wakes.filter(pl.col(TIME) < INF)])


def _best_of_bag(work: Work, i: int, instants: Instants, records: pl.DataFrame) -> pl.Series:
    order = work.plan.order(work.plan.calls[i], work.arrival)
    name, bag = work.plan.bag(order.by, nulls=not order.null_is_worst)
    top = {column: f"top{i} {column}" for column in order.by}
    known = [column for column in top.values() if column in records.columns]
    tops = work.raw.clear().select(bag.key)
    if known:
        tops = records.select(GROUP, *(pl.col(kept).alias(column) for column, kept in top.items()))
        tops = tops.filter(pl.col(order.by[0]).is_not_null())
    value, after = bag.best(work.runs(name), work.changes(name, bag), order, tops, instants)
    work.record_columns += [after.get_column(column).alias(kept) for column, kept in top.items()]
    return value


def _user(work: Work, i: int, instants: Instants, records: pl.DataFrame) -> pl.Series:
    user = work.plan.users[i]
    name, bag = work.plan.bag((user.column,), nulls=not user.call.distinct)
    changes = work.transitions(user.column) if user.call.distinct else work.changes(name, bag)
    kept = f"user{i}"
    none = pl.Series(kept, [None] * records.height, dtype=pl.Binary)
    states = records.get_column(kept) if kept in records.columns else none
    values, after = user.evaluate(changes, bag, work.runs(name), records.get_column(f"o{i}"), states, instants)
    work.record_columns.append(after)
    return values


def _refuse_several(totals: Totals) -> None:
    if (accumulators.integers(totals[COPIES], "count(*)") > 1).any():
        raise EvaluationError(
            "scalar subquery returned more than one row", hint="aggregate it, or make its condition stricter"
        )
