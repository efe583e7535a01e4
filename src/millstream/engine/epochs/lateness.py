"""Elements of a stream at the door: ticks, arrival numbers, lateness and the heartbeat that they raise.

An element at or below its stream's heartbeat is late. That is judged element by element in arrival order: the
heartbeat that meets an element is the one that all elements before it have raised, whatever the batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from millstream.bounds import MAX_TICK
from millstream.errors import InputError
from millstream.kernel.batch import ARRIVAL, END, START, WEIGHT, Batch, value_column
from millstream.plan.definitions import HeartbeatRule, StreamDefinition, TimeDomain
from millstream.state.snapshot import SourceProgress


@dataclass(frozen=True)
class Arrival:
    """What became of an insert."""

    accepted: Batch
    late: Batch
    progress: SourceProgress


def admit(stream: StreamDefinition, rows: pl.DataFrame, progress: SourceProgress, now: int | None) -> Arrival:
    """Judge rows (the stream's input columns, in arrival order)."""
    instants = _instants(stream, rows, progress, now)
    frame = with_times(_values(stream, rows, instants), instants, progress.arrived)
    after = replace(progress, arrived=progress.arrived + frame.height)
    if frame.height and int(instants[0]) > progress.heartbeat and instants.is_sorted():
        # In order, and all beyond the heartbeat: no element can be late for another.
        last = raised_by(stream.heartbeat, int(instants[-1]), progress.heartbeat)
        return Arrival(frame, frame.clear(), replace(after, heartbeat=last))
    raised = heartbeat_after(stream.heartbeat, instants, progress.heartbeat)
    late = instants <= raised.shift(1, fill_value=progress.heartbeat)
    reached = progress.heartbeat if raised.is_empty() else int(raised[-1])
    return Arrival(
        frame.filter(~late),
        frame.filter(late),
        replace(after, heartbeat=reached, late=progress.late + int(late.sum())),
    )


def with_times(values: Batch, instants: pl.Series, first: int) -> Batch:
    """Elements of the given instants, numbered from `first` on."""
    height = len(instants)
    return pl.DataFrame(
        [
            *values.get_columns(),
            instants.alias(START),
            (instants + 1).alias(END),
            pl.Series(WEIGHT, np.ones(height, np.int64)),
            pl.int_range(first, first + height, dtype=pl.Int64, eager=True).alias(ARRIVAL),
        ]
    )


def raised_by(rule: HeartbeatRule, greatest: int, heartbeat: int) -> int:
    """The heartbeat after elements of which one is the greatest."""
    return max(heartbeat, greatest - rule.delay - 1) if rule.is_raised_by_elements else heartbeat


def heartbeat_after(rule: HeartbeatRule, instants: pl.Series, heartbeat: int) -> pl.Series:
    """The heartbeat after each element, given the one before all of them."""
    if not rule.is_raised_by_elements:
        return pl.repeat(heartbeat, len(instants), dtype=pl.Int64, eager=True)
    greatest = instants.cum_max() - rule.delay - 1
    return greatest.clip(lower_bound=heartbeat)


def ticks_of(column: pl.Series, domain: TimeDomain, owner: str, name: str) -> pl.Series:
    """A timestamp column in ticks; NULL, negative and absurdly far ones are errors."""
    if column.null_count():
        row = int(column.is_null().arg_max() or 0) + 1
        raise InputError(f'{owner}: row {row}: timestamp "{name}" is NULL', hint="every element needs a timestamp")
    if domain.type.is_temporal:
        column = column.dt.epoch("us")
        column = column // domain.tick if domain.tick not in (None, 1) else column
    ticks = column.cast(pl.Int64)
    known = ticks.to_numpy()
    if known.size and (known.min() < 0 or known.max() > MAX_TICK):
        row = int(((ticks < 0) | (ticks > MAX_TICK)).arg_max() or 0)
        kind = "negative" if ticks[row] < 0 else "absurd"
        raise InputError(
            f'{owner}: row {row + 1}: {kind} timestamp "{name}": {ticks[row]} ticks',
            hint="time runs from 0 (for TIMESTAMP columns: 1970-01-01 UTC) to 2^62 ticks",
        )
    return ticks


def _instants(stream: StreamDefinition, rows: pl.DataFrame, progress: SourceProgress, now: int | None) -> pl.Series:
    if now is not None:
        # The clock may go backwards; the stream's time does not.
        return pl.repeat(max(now, progress.heartbeat + 1), rows.height, dtype=pl.Int64, eager=True)
    stamp = stream.timestamp
    return ticks_of(rows[stamp.name].rechunk(), stream.domain, f"stream {stream.name}", stamp.name)


def _values(stream: StreamDefinition, rows: pl.DataFrame, instants: pl.Series) -> Batch:
    columns = {}
    for index, field in enumerate(stream.columns):
        if stream.heartbeat.kind == "CLOCK" and index == stream.timestamp.position:
            columns[value_column(index)] = _mirrored(instants, stream)
        else:
            columns[value_column(index)] = rows[field.name].rechunk()
    return pl.DataFrame(columns) if columns else pl.DataFrame({"_": instants}).drop("_")


def _mirrored(instants: pl.Series, stream: StreamDefinition) -> pl.Series:
    """The clock's instants in the type of the column that mirrors them."""
    if stream.domain.type.is_temporal:
        zone = "UTC" if stream.timestamp.type.name == "TIMESTAMP" else None
        return (instants * (stream.domain.tick or 1)).cast(pl.Datetime("us", zone))
    return instants
