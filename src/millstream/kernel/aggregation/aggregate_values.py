"""The value of every aggregate call at every instant of a step, whatever it is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.errors import EvaluationError
from millstream.kernel.aggregation import accumulators, all_values, change_points, exact_sum
from millstream.kernel.aggregation.accumulators import COPIES, Accumulator, Totals, accumulators_of
from millstream.kernel.aggregation.aggregate_calls import EXTREMES, OF_ALL_VALUES, AggregateCall
from millstream.kernel.aggregation.exact_sum import Limbs
from millstream.kernel.aggregation.extremes import Order, Staircase, order_of
from millstream.kernel.aggregation.group_table import GROUP
from millstream.kernel.aggregation.instants import AT, GroupInstants
from millstream.kernel.aggregation.ordered_bag import BagChanges, OrderedBag
from millstream.kernel.aggregation.origins import ORIGIN
from millstream.kernel.aggregation.sorted_runs import SortedRuns
from millstream.kernel.aggregation.user_aggregate import UserAggregation
from millstream.kernel.batch import END, INF, START, WEIGHT, value_column
from millstream.kernel.columns import frame_of, is_null, nulls, only, stacked
from millstream.kernel.operator import Segment, State
from millstream.kernel.scalar.value_size import value_limit
from millstream.kernel.storage import time_queue
from millstream.kernel.storage.expiries import note_ended
from millstream.kernel.storage.time_queue import TIME
from millstream.types import STRING, Schema, to_polars

Bools = NDArray[np.bool_]

SEVERAL = "scalar subquery returned more than one row"
SEVERAL_HINT = "aggregate it, or make its condition stricter"
LARGER_HINT = "SET max_value_bytes says how large a value may be"
# What lies ahead: change points as rows and as sums, and rows that have not started, where rows are wanted whole.
POINTS, PANES, ROWS = "points", "panes", "rows"


class AggregatePlan:
    """What the calls of an aggregation need: totals, staircases, bags."""

    def __init__(self, schema: Schema, calls: tuple[AggregateCall, ...], retractions: bool) -> None:
        self.schema, self.calls = schema, calls
        names = tuple(column.name for column in schema)
        self.shown = [call.show(names) for call in calls]
        arguments = dict.fromkeys(
            place for call in calls if call.argument is not None for place in (call.argument, *call.others)
        )
        self.columns = {value_column(argument): to_polars(schema[argument].type) for argument in arguments}
        self.users = {
            i: UserAggregation(call, self.shown[i])
            for i, call in enumerate(calls)
            if call.definition is not None and not call.gives_error
        }
        # Where errors are told, by the place of what fails.
        error_call = {call: i for i, call in reversed(list(enumerate(calls))) if call.gives_error}
        errors = (
            (i, error_call.get(replace(call, type=STRING, gives_error=True)))
            for i, call in enumerate(calls)
            if not call.gives_error
        )
        self.errors = {i: place for i, place in errors if place is not None}
        self.error_calls = {i: error_call[call] for i, call in enumerate(calls) if call.gives_error}
        self.extremes = [
            i
            for i, call in enumerate(calls)
            if call.definition is None and call.name in EXTREMES and not call.gives_error
        ]
        self.of_all = [
            i
            for i, call in enumerate(calls)
            if call.definition is None and call.name in OF_ALL_VALUES and not call.gives_error
        ]
        self.by_time = any(calls[i].name in ("first", "last") for i in self.extremes)
        self.by_origin = self.by_time and retractions
        self.staircases = [] if retractions else self.extremes
        # With nothing to sum, undominated rows say all, and the ends of the others need not be awaited.
        sums = len(calls) > len(self.staircases) or any(call.name == "single_value" for call in calls)
        self.only_rows = bool(self.staircases) and not sums
        wanted: dict[Accumulator, None] = {} if self.only_rows else {COPIES: None}
        for i, call in enumerate(calls):
            if i not in self.users and i not in self.extremes and i not in self.of_all and not call.gives_error:
                wanted |= dict.fromkeys(accumulators_of(call, schema))
        self.summed = tuple(total for total in wanted if not total.distinct)
        self.sets = tuple(total for total in wanted if total.distinct)
        self.bags = bool(self.sets or self.users or self.of_all or (self.extremes and retractions))

    def empty_points(self, ties: Sequence[str]) -> pl.DataFrame:
        """Change points as rows, of which there are none."""
        origin = {ORIGIN: pl.Int64()} if self.by_origin else {}
        number = dict.fromkeys(ties, pl.Int64()) if self.by_time else {}
        fixed = {TIME: pl.Int64(), GROUP: pl.Int64(), WEIGHT: pl.Int64()}
        return pl.DataFrame(schema={**fixed, **self.columns, **origin, **number})

    def order(self, call: AggregateCall, ties: Sequence[str]) -> Order:
        return order_of(call, ties=ties, started=ORIGIN if self.by_origin else START)


@dataclass(eq=False)
class AggregateWork:
    """One step: where it is in time, what is due in it, and what it leaves behind."""

    plan: AggregatePlan
    before: int
    low: int
    state: State
    ties: tuple[str, ...]  # by which rows go that have come at the same instant
    raw: pl.DataFrame = field(default_factory=pl.DataFrame)  # the change points as rows, for bags
    rows: pl.DataFrame = field(default_factory=pl.DataFrame)  # the rows that start, for staircases
    sums: change_points.Points | None = None  # what came as totals already
    kept: list[pl.DataFrame] = field(default_factory=list)  # of these, what staircases take over
    bag_changes: dict[str, BagChanges] = field(default_factory=dict)
    synopses: dict[str, SortedRuns] = field(default_factory=dict)
    record_columns: list[pl.Series] = field(default_factory=list)

    def due(self, name: str) -> list[Segment]:
        """What falls due of a time queue."""
        due = time_queue.due(self.state.get(name, ()), self.before, self.low)
        if name != ROWS:
            note_ended(due)  # the rows of the other queue only begin
        return due

    def push(self, name: str, *ahead: pl.DataFrame) -> None:
        """Advance a time queue, and let more wait in it."""
        if name not in self.synopses:
            self.synopses[name] = time_queue.advanced(self.state.get(name, ()), self.low)
        for piece in ahead:
            self.synopses[name] = time_queue.pushed(self.synopses[name], piece, self.low)

    def runs(self, name: str) -> SortedRuns:
        return tuple(self.state.get(name, ()))

    def state_after(self) -> dict[str, tuple[Segment, ...]]:
        """The synopses, those that this step did not touch among them."""
        return {name: runs for name, runs in {**self.state, **self.synopses}.items() if runs}

    def bag(
        self, by: Sequence[str], instants: GroupInstants, *, unless: str | None
    ) -> tuple[OrderedBag, SortedRuns, BagChanges]:
        """The bag over columns as it was, and its changes; calls over the same columns share it. Rows that have NULL
        in the column `unless` are not in it."""
        kind = "" if unless == by[0] else " with nulls" if unless is None else f" unless {unless}"
        name = f"bag {' '.join(by)}{kind}"
        bag, runs = OrderedBag(by, unless=unless), self.runs(name)
        if name not in self.bag_changes:
            self.bag_changes[name] = bag.changes(self.raw, instants)
            self.synopses[name] = bag.added(runs, self.bag_changes[name])
        return bag, runs, self.bag_changes[name]

    def transitions(self, column: str, instants: GroupInstants) -> pl.DataFrame:
        """Where values of a column come to a group and leave it, as a set."""
        bag, runs, changes = self.bag((column,), instants, unless=column)
        return changes.transitions(bag.copies(runs, changes.pairs))


def set_totals(work: AggregateWork, instants: GroupInstants, records: pl.DataFrame) -> Totals:
    """The totals over distinct values after each instant."""
    carried = accumulators.from_columns(records, work.plan.sets)
    totals: dict[Accumulator, Limbs] = {}
    for argument in dict.fromkeys(total.argument for total in work.plan.sets):
        assert argument is not None
        transitions = work.transitions(value_column(argument), instants)
        at = transitions.get_column(AT).to_numpy()
        own = [total for total in work.plan.sets if total.argument == argument]
        for total, limbs in accumulators.contributions(transitions, own).items():
            summed = exact_sum.cumulated(exact_sum.grouped(limbs, at, len(instants)))
            totals[total] = change_points.on_top(summed, instants, carried[total])
    return totals


def values_at(
    work: AggregateWork, instants: GroupInstants, totals: Totals, records: pl.DataFrame
) -> tuple[list[pl.Series], Bools]:
    """One column per call, and where undominated rows show that the group has rows."""
    values = [nulls("", pl.String(), len(instants))] * len(work.plan.calls)
    present = np.zeros(len(instants), np.bool_)
    for i, call in enumerate(work.plan.calls):
        wrong: Bools | None = None
        said, hint = accumulators.overflow(call, work.plan.shown[i]), accumulators.OVERFLOW_HINT
        if call.gives_error:
            continue
        if i in work.plan.users:
            values[i], errors = _user(work, i, instants, records)
            if i in work.plan.errors:
                values[work.plan.errors[i]] = errors
        elif i in work.plan.staircases:
            values[i], present = _undominated(work, i, instants)
        elif i in work.plan.extremes:
            values[i] = _best_of_bag(work, i, instants, records)
        elif i in work.plan.of_all:
            values[i], wrong = _of_all_values(work, i, instants)
            said, hint = f"{work.plan.shown[i]} is larger than {value_limit():,} bytes", LARGER_HINT
        else:
            values[i], wrong = accumulators.attempted(call, totals, work.plan.schema, work.plan.shown[i])
        if i in work.plan.extremes and call.name == "single_value":
            wrong, said, hint = accumulators.integers(totals[COPIES], "count(*)") > 1, SEVERAL, SEVERAL_HINT
        if wrong is not None and wrong.any():
            if i not in work.plan.errors:
                raise EvaluationError(said, hint=hint)
            failed = pl.Series(wrong)
            values[i] = values[i].set(failed, None)
            values[work.plan.errors[i]] = values[work.plan.errors[i]].set(failed, said)
    for i, place in work.plan.error_calls.items():
        values[i] = values[place]
    if work.plan.only_rows:
        # A group must be looked at again when one of the rows kept for it ends.
        pieces = [frame_of([kept.get_column(END).alias(TIME), kept.get_column(GROUP)]) for kept in work.kept]
        wakes = stacked(pieces)
        work.push(POINTS, only(wakes, wakes.get_column(TIME).to_numpy() < INF))
    return values, present


def _undominated(work: AggregateWork, i: int, instants: GroupInstants) -> tuple[pl.Series, Bools]:
    stairs = Staircase(work.plan.order(work.plan.calls[i], work.ties))
    runs = work.runs(f"kept{i}")
    value, present = stairs.best(runs, work.rows, instants, work.before, work.low)
    if work.plan.only_rows:
        work.kept.append(stairs.kept(work.rows, work.low))
    work.synopses[f"kept{i}"] = stairs.added(runs, work.rows, work.low)
    return value, present


def _best_of_bag(work: AggregateWork, i: int, instants: GroupInstants, records: pl.DataFrame) -> pl.Series:
    order = work.plan.order(work.plan.calls[i], work.ties)
    bag, runs, changes = work.bag(order.by, instants, unless=order.unless)
    kept = {column: f"top{i} {column}" for column in order.by}
    tops = work.raw.clear()[bag.key]
    if kept[order.by[0]] in records.columns:
        best = (records.get_column(name).alias(column) for column, name in kept.items())
        tops = frame_of([records.get_column(GROUP), *best])
        tops = only(tops, ~is_null(tops.get_column(order.by[0])))
    value, after = bag.best(runs, changes, order, tops, instants)
    work.record_columns += [after.get_column(column).alias(name) for column, name in kept.items()]
    return value


def _of_all_values(work: AggregateWork, i: int, instants: GroupInstants) -> tuple[pl.Series, Bools | None]:
    call = work.plan.calls[i]
    value = value_column(call.argument or 0)
    bag, runs, changes = work.bag(all_values.columns_of(call), instants, unless=value)
    there = all_values.presence(bag, runs, changes, instants, distinct=call.distinct)
    return all_values.evaluate(call, there, to_polars(call.type))


def _user(work: AggregateWork, i: int, instants: GroupInstants, records: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
    """The values, and the errors where there is a place for them."""
    user = work.plan.users[i]
    distinct = user.call.distinct
    bag, runs, bag_changes = work.bag((user.column,), instants, unless=user.column if distinct else None)
    changes = work.transitions(user.column, instants) if distinct else bag_changes.net_changes()
    kept = f"user{i}"
    none = pl.Series(kept, [None] * records.height, dtype=pl.Binary)
    states = records.get_column(kept) if kept in records.columns else none
    error_call = work.plan.errors.get(i)
    errors = none.cast(pl.String) if error_call is None else records.get_column(f"o{error_call}")
    before = records.get_column(f"o{i}"), errors
    values, errors, after = user.evaluate(changes, bag, runs, before, states, instants)
    failed = errors.drop_nulls()
    if error_call is None and len(failed):
        primary, _, detail = str(failed[0]).partition("\n")
        raise EvaluationError(primary, detail=detail or None)
    work.record_columns.append(after)
    return values, errors
