"""Checks CREATE STREAM and CREATE TABLE statements and turns them into definitions."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.bounds import MAX_MICROSECONDS, MAX_SPAN
from millstream.errors import BindError, NameError, TypeError, did_you_mean
from millstream.language import statements as st
from millstream.names import shown_name, why_no_path, why_unusable
from millstream.plan.definitions import (
    ExternalData,
    HeartbeatRule,
    StreamDefinition,
    TableDefinition,
    TimeDomain,
    TimestampDefinition,
    timestamp_domain,
)
from millstream.plan.nodes import ChangeSource
from millstream.types import BIGINT, INTEGERS, TIMESTAMP, TIMESTAMP_NTZ, Field, Schema

DEFAULT_RETENTION = 7 * 86_400_000_000  # microseconds; integer ticks without TICK are kept forever


def define_stream(statement: st.CreateStream) -> StreamDefinition:
    columns = _columns(statement.columns, f"stream {statement.name}")
    check_source_name(statement.name)
    timestamp = _timestamp(statement.timestamp, columns)
    domain = _domain(timestamp, statement.tick)
    heartbeat = _heartbeat(statement.heartbeat, domain)
    if heartbeat.kind == "CLOCK" and domain.tick is None:
        raise BindError(
            f"stream {statement.name}: HEARTBEAT CLOCK needs to know how long a tick is",
            hint="declare TICK INTERVAL '1' SECOND (or another), or a TIMESTAMP column",
            place=statement.timestamp.name.place,
        )
    if statement.retain is not None:
        retain: int | None = ticks(statement.retain, domain)
    else:
        keeps_all = statement.retain_forever or not timestamp.type.is_temporal
        retain = None if keeps_all else DEFAULT_RETENTION // (domain.tick or 1)
    return StreamDefinition(
        statement.name.text, columns, timestamp, domain, heartbeat, retain, _external(statement.source)
    )


def define_table(statement: st.CreateTable) -> TableDefinition:
    columns = _columns(statement.columns, f"table {statement.name}")
    check_source_name(statement.name)
    names = {field.name.lower(): index for index, field in enumerate(columns)}
    key = tuple(_position(name, names, columns, f"table {statement.name}") for name in statement.key)
    if statement.changes_by is None or statement.timestamp is None:
        return TableDefinition(statement.name.text, columns, key, statement.nature, source=_external(statement.source))
    if statement.changes_by.key in names:
        raise NameError(
            f'the CHANGES BY column "{statement.changes_by}" is also a column of the table',
            hint="the operation is not part of the table's rows: leave it out of the column list",
            place=statement.changes_by.place,
        )
    check_name(statement.changes_by, is_object=False)
    timestamp = _timestamp(statement.timestamp, columns)
    domain = _domain(timestamp, statement.tick)
    return TableDefinition(
        statement.name.text,
        columns,
        key,
        statement.nature,
        statement.changes_by.text,
        timestamp,
        domain,
        _heartbeat(statement.heartbeat, domain),
        _external(statement.source),
        ChangeSource(statement.name.key, key),
    )


def ticks(span: st.Duration, domain: TimeDomain) -> int:
    """A duration in the domain's ticks."""
    if span.amount < 0:
        raise BindError(f"a negative span of time: {span}", place=span.place)
    counted = _counted(span, domain)
    if counted > MAX_SPAN:
        raise BindError(
            f"{span} is too long",
            detail="instants are counted in 64 bits",
            hint="a span of time is at most 2^60 ticks; use UNBOUNDED or FOREVER for one without end",
            place=span.place,
        )
    return counted


def _counted(span: st.Duration, domain: TimeDomain) -> int:
    if span.in_ticks:
        return span.amount
    if domain.tick is None:
        raise BindError(
            f"{span} cannot be counted: the stream's integer timestamps do not say how long a tick is",
            hint="give a number of ticks, or declare the stream with TICK INTERVAL '1' SECOND (or another)",
            place=span.place,
        )
    if span.amount % domain.tick:
        raise BindError(
            f"{span} is not a whole number of ticks",
            detail=f"a tick is {st.Duration(domain.tick, False, span.place)}",
            place=span.place,
        )
    return span.amount // domain.tick


def check_name(name: st.Name, *, is_object: bool = True) -> None:
    if name.text.startswith("_"):
        raise NameError(
            f'"{shown_name(name.text)}" starts with _',
            hint="such names are Millstream's own: choose another",
            place=name.place,
        )
    if reason := why_unusable(name.text, is_object=is_object):
        raise NameError(f'"{shown_name(name.text)}" cannot be a name', detail=reason, place=name.place)


def check_source_name(name: st.Name) -> None:
    """Of what FROM can name, where a dot stands before a column or a system table."""
    check_name(name)
    if reason := why_no_path(name.text):
        raise NameError(f'"{shown_name(name.text)}" cannot be a name', detail=reason, place=name.place)
    if "." in name.text:
        raise NameError(f'"{name}" has a dot in it', hint="queries could not name it: choose another", place=name.place)


def _columns(definitions: Sequence[st.ColumnDefinition], owner: str) -> Schema:
    seen: set[str] = set()
    for column in definitions:
        check_name(column.name, is_object=False)
        if column.name.key in seen:
            raise NameError(f'{owner} declares column "{column.name}" twice', place=column.name.place)
        seen.add(column.name.key)
    return tuple(Field(column.name.text, column.type) for column in definitions)


def _position(name: st.Name, names: dict[str, int], columns: Schema, owner: str) -> int:
    if name.key not in names:
        hint = did_you_mean(name.text, [field.name for field in columns])
        raise NameError(f'{owner} has no column "{name}"', hint=hint, place=name.place)
    return names[name.key]


def _timestamp(column: st.TimestampColumn, columns: Schema) -> TimestampDefinition:
    positions = {field.name.lower(): index for index, field in enumerate(columns)}
    position = positions.get(column.name.key)
    if position is None:
        check_name(column.name, is_object=False)
        kind = column.type or BIGINT
    else:
        kind = columns[position].type
        if column.type is not None and column.type != kind:
            raise TypeError(f'column "{column.name}" is declared {kind}', place=column.name.place)
    if kind not in (*INTEGERS, TIMESTAMP, TIMESTAMP_NTZ):
        raise TypeError(
            f'timestamp column "{column.name}" is {kind}',
            hint="a timestamp is an integer type or TIMESTAMP",
            place=column.name.place,
        )
    return TimestampDefinition(column.name.text, kind, position)


def _domain(timestamp: TimestampDefinition, tick: st.Duration | None) -> TimeDomain:
    if tick is None:
        return timestamp_domain(timestamp.type, None)
    if tick.in_ticks or tick.amount <= 0:
        raise BindError("TICK takes a positive interval, as in TICK INTERVAL '1' SECOND", place=tick.place)
    return timestamp_domain(timestamp.type, tick.amount)


def _heartbeat(rule: st.Heartbeat, domain: TimeDomain) -> HeartbeatRule:
    delay = ticks(rule.delay, domain) if rule.delay is not None else 0
    if rule.kind == "CLOCK DELAY" and domain.tick is None and rule.delay is not None:
        raise BindError(
            "HEARTBEAT CLOCK DELAY needs to know how long a tick is",
            hint="declare TICK INTERVAL '1' SECOND (or another), or a TIMESTAMP column",
            place=rule.delay.place,
        )
    idle = None
    if rule.idle_after is not None:
        idle = _wall_time(rule.idle_after)
    return HeartbeatRule(rule.kind, delay, idle)


def _wall_time(span: st.Duration) -> int:
    """In microseconds; it is no time of the stream's, so that a number without a unit counts seconds."""
    if span.amount <= 0:
        raise BindError("IDLE AFTER takes an interval of real time, as in IDLE AFTER 10 SECONDS", place=span.place)
    microseconds = span.amount * 1_000_000 if span.in_ticks else span.amount
    if microseconds > MAX_MICROSECONDS:
        raise BindError("IDLE AFTER so long is never", hint="leave it out", place=span.place)
    return microseconds


def _external(source: st.UsingClause | None) -> ExternalData | None:
    return None if source is None else ExternalData(source.format, source.options)
