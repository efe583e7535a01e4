"""Answers from committed rows: a relation at an instant, a stream's elements up to one, changes since one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from millstream.kernel.batch import (
    END,
    START,
    WEIGHT,
    Batch,
    changes,
    net_changes,
    value_columns,
)
from millstream.kernel.elements import Elements
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.segments import numbers, only
from millstream.plan.definitions import TimeDomain
from millstream.types import BIGINT, Field, Schema, arrow_schema, to_arrow

TIME = "_ts"
CHANGE = "_weight"


def relation_at(rows: Batch, schema: Schema, at: int) -> pa.Table:
    """R(at), each copy a row, in the order of the values."""
    columns = value_columns(len(schema))
    alive = only(rows, (numbers(rows, START) <= at) & (numbers(rows, END) > at))
    counted = alive
    if (numbers(alive, WEIGHT) < 0).any() or not columns:
        counted = alive.group_by(columns).agg(pl.col(WEIGHT).sum()) if columns else alive.select(pl.col(WEIGHT).sum())
        counted = only(counted, numbers(counted, WEIGHT) > 0)
    copies = counted[columns]
    if columns and (numbers(counted, WEIGHT) != 1).any():
        copies = counted.select(pl.col(*columns).repeat_by(WEIGHT)).explode(*columns)
    return _table(copies.sort(columns) if copies.height > 1 and columns else copies, schema, columns)


def elements_until(rows: Batch, schema: Schema, at: int, domain: TimeDomain | None, max_rows: int) -> pa.Table:
    """A stream's elements up to an instant, in time order, the timestamp first."""
    elements = _elements(rows, schema, -1, at, max_rows)
    columns = [START, *value_columns(len(schema))]
    return _table(_timed(elements, domain).select(columns), _with_time(schema, domain), columns)


def changes_between(
    rows: Batch,
    schema: Schema,
    *,
    stream: bool,
    since: int,
    until: int,
    domain: TimeDomain | None,
    max_rows: int,
) -> pa.Table:
    """Net changes with since < _ts <= until: of a relation its insertions and deletions, of a stream its elements."""
    columns = value_columns(len(schema))
    if stream:
        points = _elements(rows, schema, since, until, max_rows).select(*columns, START, WEIGHT)
    else:
        points = changes(rows, columns).filter((pl.col(START) > since) & (pl.col(START) <= until))
    net = net_changes(points, columns).sort(START, *columns)
    outputs = [START, WEIGHT, *columns]
    described = _with_time((Field(CHANGE, BIGINT), *schema), domain)
    return _table(_timed(net, domain).select(outputs), described, outputs)


def first_instants(rows: Batch, *, stream: bool, since: int, until: int, most: int) -> int:
    """The instant up to which there are at most so many changes after `since`, or the first one that has any."""
    starts, ends = numbers(rows, START), numbers(rows, END)
    if stream:
        within = (starts <= until) & (ends > since + 1)
        instants = np.maximum(starts[within], since + 1)
        if (ends[within] - starts[within] > 1).any():  # runs of RSTREAM, an element per instant
            until = min(until, since + max(1, most // len(instants)))
    else:
        points = np.concatenate([starts, ends])
        instants = points[(points > since) & (points <= until)]
    if len(instants) <= most:
        return until
    beyond = int(np.partition(instants, most)[most])
    return min(until, beyond - 1 if beyond > instants.min() else beyond)


def _elements(rows: Batch, schema: Schema, since: int, until: int, max_rows: int) -> Batch:
    """One row per element with since < t <= until; runs that RSTREAM made are cut to that span before they unfold."""
    within = rows.filter((pl.col(START) <= until) & (pl.col(END) > since + 1)).with_columns(
        pl.col(START).clip(lower_bound=since + 1)
    )
    found, _ = Elements(schema, max_rows).step([within], NO_STATE, Progress((since,), (until,)))
    return found


def _with_time(schema: Schema, domain: TimeDomain | None) -> Schema:
    return (Field(TIME, BIGINT if domain is None else domain.type), *schema)


def _timed(rows: Batch, domain: TimeDomain | None) -> Batch:
    """Ticks in the type of the timestamp."""
    if domain is None or not domain.type.is_temporal:
        return rows
    zone = "UTC" if domain.type.name == "TIMESTAMP" else None
    return rows.with_columns((pl.col(START) * (domain.tick or 1)).cast(pl.Datetime("us", zone)))


def _table(rows: Batch, schema: Schema, columns: list[str]) -> pa.Table:
    arrays = [rows[name].to_arrow().cast(to_arrow(f.type)) for name, f in zip(columns, schema, strict=True)]
    if not arrays:
        return pa.table({}).select([])
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))
