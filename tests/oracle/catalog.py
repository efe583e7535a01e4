"""CREATE: from statements to the oracle's inputs."""

from __future__ import annotations

from tests.oracle.errors import OracleError
from tests.oracle.inputs import ChangeTable, Feed, Stream, Table
from tests.oracle.nodes import Node, Relation, Renamed, RenamedStream, StreamNode, unique_names
from tests.oracle.relational import Column, duckdb_type
from tests.oracle.times import Ticks

from millstream.language import statements as st
from millstream.types import BIGINT, DataType


def stream(statement: st.CreateStream) -> Stream:
    columns = _columns(statement.columns)
    feed = _feed(statement.name, statement.columns, None, statement.timestamp, statement.tick, statement.heartbeat)
    return Stream(statement.name.text, columns, feed)


def table(statement: st.CreateTable) -> Table | ChangeTable:
    columns = _columns(statement.columns)
    if statement.changes_by is None:
        return Table(statement.name.text, columns, statement.nature)
    assert statement.timestamp is not None
    operation = statement.changes_by
    feed = _feed(statement.name, statement.columns, operation, statement.timestamp, statement.tick, statement.heartbeat)
    names = [column.name.lower() for column in columns]
    inputs = [name.lower() for name in feed.inputs]
    key = tuple(names.index(name.key) for name in statement.key)
    enforced = bool(key) and not statement.not_enforced
    place = inputs.index(operation.key)
    return ChangeTable(statement.name.text, columns, statement.nature, key, place, feed, enforced)


def view(name: st.Name, names: tuple[st.Name, ...], node: Node) -> Node:
    columns = unique_names(node.columns)
    if names:
        if len(names) != len(columns):
            raise OracleError(f"view {name} names {len(names)} columns, its query has {len(columns)}")
        columns = tuple(Column(new.text, old.type) for new, old in zip(names, columns, strict=True))
    if isinstance(node, Relation):
        return Renamed(node, name.text, columns)
    assert isinstance(node, StreamNode)
    return RenamedStream(node, name.text, columns)


def input_kinds(source: Stream | ChangeTable, declared: tuple[Column, ...]) -> list[str]:
    """The DuckDB types of the values that an insert gives: declared columns, then what is not among them."""
    timestamp = "TIMESTAMP" if source.feed.ticks.timestamps else "BIGINT"
    added = source.feed.inputs[len(declared) :]
    extra = [timestamp if source.feed.inputs[source.feed.timestamp] == name else "VARCHAR" for name in added]
    return [column.type for column in declared] + extra


def _columns(definitions: tuple[st.ColumnDefinition, ...]) -> tuple[Column, ...]:
    names = [definition.name.key for definition in definitions]
    if len(set(names)) != len(names):
        raise OracleError("two columns of one name")
    return tuple(Column(definition.name.text, duckdb_type(definition.type)) for definition in definitions)


def _feed(
    name: st.Name,
    definitions: tuple[st.ColumnDefinition, ...],
    operation: st.Name | None,
    timestamp: st.TimestampColumn,
    tick: st.Duration | None,
    heartbeat: st.Heartbeat,
) -> Feed:
    if heartbeat.kind.startswith("CLOCK"):
        raise NotImplementedError("the oracle has no clock of its own: HEARTBEAT CLOCK")
    kinds: dict[str, DataType] = {definition.name.key: definition.type for definition in definitions}
    added = [name for name in (operation, timestamp.name) if name is not None and name.key not in kinds]
    inputs = [definition.name.text for definition in definitions] + [name.text for name in added]
    kind = kinds.get(timestamp.name.key, timestamp.type or BIGINT)
    position = [name.lower() for name in inputs].index(timestamp.name.key)
    return Feed(name.text, tuple(inputs), position, Ticks.declared(kind, tick), heartbeat)
