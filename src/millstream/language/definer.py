"""Checks CREATE STREAM and CREATE TABLE statements and turns them into definitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count

from millstream.bounds import MAX_MICROSECONDS, MAX_SPAN
from millstream.errors import BindError, CatalogError, NameError, TypeError, did_you_mean
from millstream.language import statements as st
from millstream.language.values import assigned_constant
from millstream.names import shown_name, why_no_path, why_unusable
from millstream.plan.definitions import (
    ColumnRules,
    ExternalData,
    HeartbeatRule,
    StreamDefinition,
    TableDefinition,
    TimeDomain,
    TimestampDefinition,
    timestamp_domain,
)
from millstream.plan.nodes import ChangeSource
from millstream.types import (
    BIGINT,
    INTEGERS,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    AlteredField,
    Field,
    Schema,
    stored_name,
)

Altered = StreamDefinition | TableDefinition

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
    rules = column_rules(statement.columns, statement.place.text)
    return StreamDefinition(
        statement.name.text, columns, timestamp, domain, heartbeat, retain, _external(statement.source), rules
    )


def column_rules(definitions: Sequence[st.ColumnDefinition], text: str, key: Sequence[st.Name] = ()) -> ColumnRules:
    """What columns are asked beside their types; those of a primary key are never NULL."""
    required = {column.name.key for column in definitions if column.not_null} | {name.key for name in key}
    defaults = []
    for column in definitions:
        if column.default is None:
            continue
        value = assigned_constant(column.default, Field(column.name.text, column.type), text)
        if value is None and column.name.key in required:
            raise BindError(f'column "{column.name}" is NOT NULL, and its DEFAULT is NULL', place=column.name.place)
        defaults.append((column.name.key, value))
    return ColumnRules(frozenset(required), tuple(defaults))


def define_table(statement: st.CreateTable, *, enforces: bool = True) -> TableDefinition:
    """Keys are kept to unless the statement says otherwise, or (not `enforces`) the table is older than that."""
    columns = _columns(statement.columns, f"table {statement.name}")
    check_source_name(statement.name)
    names = {field.name.lower(): index for index, field in enumerate(columns)}
    key = tuple(_position(name, names, columns, f"table {statement.name}") for name in statement.key)
    if len(set(key)) < len(key):
        raise NameError(f"table {statement.name} names a column of its key twice", place=statement.key[-1].place)
    enforced = enforces and bool(key) and not statement.not_enforced
    rules = column_rules(statement.columns, statement.place.text, statement.key if statement.is_primary else ())
    if statement.changes_by is None or statement.timestamp is None:
        source = _external(statement.source)
        return TableDefinition(
            statement.name.text, columns, key, statement.nature, source=source, rules=rules, enforced=enforced
        )
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
        ChangeSource(statement.name.key, key, enforced=enforced),
        rules,
        enforced,
    )


def with_edge(definition: Altered, edge: str) -> Altered:
    """A stream or table whose rows have an edge that is not called as it is."""
    if isinstance(definition, TableDefinition) and definition.log is not None:
        definition = replace(definition, log=replace(definition.log, feed=edge))
    return replace(definition, identity=edge)


def altered(definition: Altered, statement: st.Alteration, *, is_read: bool = True) -> Altered:
    """A stream or table as ALTER leaves it; where it `is_read`, those who do find what they know where it was."""
    match statement:
        case st.AddColumn():
            return _with_column(definition, statement.column, statement.place.text, is_read)
        case st.Rename(column=st.Name() as column):
            return _with_column_renamed(definition, column, statement.to)
        case st.Rename():
            check_source_name(statement.to)
            return with_edge(
                replace(definition, name=statement.to.text), definition.edge if is_read else statement.to.key
            )
        case st.SetRetain():
            if not isinstance(definition, StreamDefinition):
                raise AssertionError("tables keep everything")
            retain = None if statement.retain is None else ticks(statement.retain, definition.domain)
            return replace(definition, retain=retain)


def _with_column(definition: Altered, column: st.ColumnDefinition, text: str, is_read: bool) -> Altered:
    check_name(column.name, is_object=False)
    _check_new(definition, column.name)
    more = column_rules([column], text)
    rules, default = definition.rules, more.default(column.name.key)
    if column.not_null and default is None:
        raise BindError(
            f'column "{column.name}" is NOT NULL, and rows that are there have no value for it',
            hint=f"give them one: {column.name} {column.type} NOT NULL DEFAULT ..",
            place=column.name.place,
        )
    rules = ColumnRules(rules.required | more.required, (*rules.defaults, *more.defaults))
    kept = {stored_name(field).lower() for field in definition.columns}  # by columns that are called otherwise now
    stored = next(
        name
        for name in chain([column.name.text], (f"{column.name.text}~{n}" for n in count(2)))
        if name.lower() not in kept
    )
    added = AlteredField.of(column.name.text, column.type, stored, default, is_added=is_read)
    return replace(definition, columns=(*definition.columns, added), rules=rules)


def _with_column_renamed(definition: Altered, column: st.Name, to: st.Name) -> Altered:
    names = {field.name.lower(): place for place, field in enumerate(definition.columns)}
    place = _position(column, names, definition.columns, definition.name)
    check_name(to, is_object=False)
    if to.key != column.key:
        _check_new(definition, to)
    old = definition.columns[place]
    default, is_added = (old.default, old.is_added) if isinstance(old, AlteredField) else (None, False)
    field = AlteredField.of(to.text, old.type, stored_name(old), default, is_added=is_added)
    columns = (*definition.columns[:place], field, *definition.columns[place + 1 :])
    rules = ColumnRules(
        frozenset(to.key if name == column.key else name for name in definition.rules.required),
        tuple((to.key if name == column.key else name, value) for name, value in definition.rules.defaults),
    )
    if definition.timestamp is not None and definition.timestamp.position == place:
        definition = replace(definition, timestamp=replace(definition.timestamp, name=to.text))
    return replace(definition, columns=columns, rules=rules)


def _check_new(definition: Altered, name: st.Name) -> None:
    """Refuse the name of a column that is there, and of those that rows have beside the columns."""
    taken = [field.name for field in definition.columns]
    taken += [] if definition.timestamp is None else [definition.timestamp.name]
    taken += [definition.operation] if isinstance(definition, TableDefinition) and definition.operation else []
    if name.key in {each.lower() for each in taken}:
        raise CatalogError(f'{definition.name} has a column "{name}" already', place=name.place)


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
