"""The oracle: what every statement and query of CQL means, recomputed from the raw inputs each time it is asked."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from tests.oracle import catalog, constants
from tests.oracle.compiler import compile_query
from tests.oracle.errors import OracleError
from tests.oracle.inputs import ChangeTable, Stream, Table, Taken
from tests.oracle.nodes import BaseStream, BaseTable, Node, Relation, StreamNode, World
from tests.oracle.relational import Row
from tests.oracle.tables import changed_rows
from tests.oracle.times import Instant, Ticks

from millstream.language import statements as st
from millstream.language.statement_parser import parse, parse_query

Elements = Counter[tuple[int, Row]]
Changes = dict[tuple[int, Row], int]


class Oracle:
    """A database in memory. A query is asked for by its registered name, or as a text.

    `dense_limit`: up to this instant every single one is visited; beyond it, only those where something may change.
    """

    def __init__(self, *, dense_limit: int = 400) -> None:
        self.dense_limit = dense_limit
        self.settings: dict[str, object] = {"range_bounds": "closed", "sample_seed": 0}
        self._sources: dict[str, Stream | Table | ChangeTable] = {}
        self._views: dict[str, Node] = {}
        self._queries: dict[str, tuple[Node, list[str]]] = {}
        self._texts: dict[str, tuple[Node, list[str]]] = {}
        self._clock = -1
        self._world = self._new_world()

    # Statements

    def execute(self, text: str) -> object:
        """Statements, in order; the answer to the last one: (accepted, late) of an insert, the bag of a query."""
        answer: object = None
        for statement in parse(f"/* as a tree, whatever else there is */ {text}"):
            answer = self._execute(statement)
        return answer

    def _execute(self, statement: st.Statement) -> object:
        actions: dict[type[st.Statement], Callable[[Any], object]] = {
            st.CreateStream: lambda s: self._create(s, catalog.stream(s)),
            st.CreateTable: lambda s: self._create(s, catalog.table(s)),
            st.CreateView: self._create_view,
            st.RegisterQuery: self._register,
            st.Drop: self._drop,
            st.Insert: self._insert,
            st.Delete: self._change_table,
            st.Update: self._change_table,
            st.Advance: lambda s: self.advance(s.stream and s.stream.text, to=constants.instant(s.to)),
            st.SetOption: self._set,
            st.AdHocQuery: lambda s: self._answer(self._compile(s.query)[0]),
        }
        action = actions.get(type(statement))
        if action is None:
            raise NotImplementedError(f"the oracle does not execute {type(statement).__name__}")
        answer = action(statement)
        if not isinstance(statement, st.AdHocQuery):
            self._texts.clear()
            self._world = self._new_world()
        return answer

    def insert(self, name: str, rows: Iterable[Sequence[object]]) -> Taken:
        """Rows of a stream (declared columns, then the timestamp if it is not one of them) or of a CHANGES BY table
        (declared columns, what the row does, the timestamp)."""
        source = self._source(name)
        if isinstance(source, Table):
            raise OracleError(f"{name} changes by statements: INSERT INTO {name} VALUES ... AT ...")
        rows = list(rows)
        if isinstance(source, ChangeTable):
            for row in rows:
                source.check(row)
        taken = source.feed.offer(rows)
        self._clock = max(self._clock, source.feed.heartbeat)
        self._world = self._new_world()
        return taken

    def advance(self, stream: str | None = None, *, to: Instant | None) -> None:
        """A heartbeat for one stream, or for all."""
        sources = self._sources.values() if stream is None else [self._source(stream)]
        feeds = [source.feed for source in sources if not isinstance(source, Table)]
        if stream is not None and not feeds:
            raise OracleError(f"{stream} has no heartbeat")
        for feed in feeds:
            feed.advance(feed.ticks.instant(to))
            self._clock = max(self._clock, feed.heartbeat)
        if stream is None:
            self._clock = max(self._clock, self._ticks().instant(to))
        self._world = self._new_world()

    # Questions

    def kind(self, query: str) -> Literal["stream", "relation"]:
        return "relation" if isinstance(self._node(query)[0], Relation) else "stream"

    def defaults(self, query: str) -> list[str]:
        return self._node(query)[1]

    def columns(self, query: str) -> tuple[str, ...]:
        return tuple(column.name for column in self._node(query)[0].columns)

    def final(self, query: str) -> int:
        """The instant up to which the answer is final: the least heartbeat of the inputs, or the clock."""
        return self._final(self._node(query)[0])

    def timestamp(self, query: str, tick: int) -> int | dt.datetime:
        """A tick in the type of the query's timestamps."""
        return (self._node(query)[0].ticks or Ticks()).value(tick)

    def tick(self, query: str, instant: Instant) -> int:
        """The tick of an instant that is written in the type of the query's timestamps."""
        return (self._node(query)[0].ticks or Ticks()).instant(instant)

    def relation(self, query: str, t: int) -> Counter[Row]:
        """R(t)."""
        node = self._node(query)[0]
        if not isinstance(node, Relation):
            raise OracleError("the query is a stream: ask for its elements")
        self._check_final(node, t)
        return node.at(self._world, t)

    def elements(self, query: str, t: int) -> Elements:
        """All elements up to t."""
        node = self._node(query)[0]
        if not isinstance(node, StreamNode):
            raise OracleError("the query is a relation: ask for it at an instant")
        self._check_final(node, t)
        return Counter((e.ts, e.values) for e in node.elements(self._world, t))

    def changes(self, query: str, since: int | None = None, to: int | None = None) -> Changes:
        """The net change of each row at each instant with since < ts <= to."""
        node = self._node(query)[0]
        since, to = -1 if since is None else since, self._final(node) if to is None else to
        self._check_final(node, to)
        if isinstance(node, StreamNode):
            found = Counter((e.ts, e.values) for e in node.elements(self._world, to) if e.ts > since)
            return dict(found)
        assert isinstance(node, Relation)
        net: Changes = {}
        for t in self._world.instants(node, since, to):
            now, before = node.at(self._world, t), node.at(self._world, t - 1)
            for row in now | before:
                if now[row] != before[row]:
                    net[t, row] = now[row] - before[row]
        return net

    def now(self, query: str) -> Counter[Row] | Elements:
        """The answer without an instant: the last final one; over tables only, pending changes are seen too."""
        return self._answer(self._node(query)[0])

    # Inside

    def _new_world(self) -> World:
        half_open = self.settings["range_bounds"] == "half_open"
        return World(half_open, int(str(self.settings["sample_seed"])), self.dense_limit)

    def _source(self, name: str) -> Stream | Table | ChangeTable:
        if name.lower() not in self._sources:
            raise OracleError(f'there is no stream or table "{name}"')
        return self._sources[name.lower()]

    def _lookup(self, name: str) -> Node:
        if name.lower() in self._views:
            return self._views[name.lower()]
        source = self._source(name)
        return BaseStream(source) if isinstance(source, Stream) else BaseTable(source)

    def _compile(self, query: Any) -> tuple[Node, list[str]]:
        return compile_query(query, self._lookup)

    def _node(self, query: str) -> tuple[Node, list[str]]:
        if query.lower() in self._queries:
            return self._queries[query.lower()]
        if query not in self._texts:
            self._texts[query] = self._compile(parse_query(query))
        return self._texts[query]

    def _final(self, node: Node) -> int:
        # What reads nothing cannot change: instant 0 is final before time begins.
        clock = self._clock if node.tables else max(self._clock, 0)
        return min((feed.heartbeat for feed in node.feeds), default=clock)

    def _check_final(self, node: Node, t: int) -> None:
        if t > self._final(node):
            raise OracleError(f"instant {t} is not final yet: the inputs have reached {self._final(node)}")

    def _answer(self, node: Node) -> Counter[Row] | Elements:
        t = self._final(node)
        if not node.feeds:
            # Tables without rows hold from instant 0 on, also before time begins.
            t = max([t, 0, *(table.last_change for table in node.tables if table.versions)])
        if isinstance(node, StreamNode):
            return Counter((e.ts, e.values) for e in node.elements(self._world, t))
        assert isinstance(node, Relation)
        return node.at(self._world, t)

    def _new_name(self, name: st.Name) -> str:
        if name.key in self._sources or name.key in self._views:
            raise OracleError(f'"{name}" already exists')
        return name.key

    def _create(self, statement: Any, source: Stream | Table | ChangeTable) -> None:
        self._sources[self._new_name(statement.name)] = source

    def _create_view(self, statement: st.CreateView) -> None:
        node, _ = self._compile(statement.query)
        self._views[self._new_name(statement.name)] = catalog.view(statement.name, statement.columns, node)

    def _register(self, statement: st.RegisterQuery) -> None:
        if statement.name.key in self._queries:
            raise OracleError(f'query "{statement.name}" already exists')
        self._queries[statement.name.key] = self._compile(statement.query)

    def _drop(self, statement: st.Drop) -> None:
        key = statement.name.key
        kinds: dict[str, Any] = {"QUERY": self._queries, "VIEW": self._views}
        held = kinds.get(statement.kind, self._sources)
        if key not in held or (held is self._sources and isinstance(held[key], Stream) != (statement.kind == "STREAM")):
            raise OracleError(f'there is no {statement.kind.lower()} "{statement.name}"')
        if statement.kind != "QUERY":
            others = {name: node for name, node in self._views.items() if name != key}
            others |= {name: node for name, (node, _) in self._queries.items()}
            users = [name for name, node in others.items() if key in node.names]
            if users:
                raise OracleError(f'"{statement.name}" is in use by {", ".join(users)}')
        del held[key]

    def _set(self, statement: st.SetOption) -> None:
        name, value = statement.name.key, statement.value
        if name == "range_bounds" and value not in ("closed", "half_open"):
            raise OracleError("range_bounds is 'closed' or 'half_open'")
        self.settings[name] = value

    def _insert(self, statement: st.Insert) -> object:
        source = self._source(statement.target.text)
        if isinstance(source, Table):
            return self._change_table(statement)
        kinds = catalog.input_kinds(source, source.columns)
        return self.insert(source.name, _in_order(statement, source.feed.inputs, kinds))

    def _change_table(self, statement: st.Insert | st.Delete | st.Update) -> int:
        """The instant at which the table changed: AT, or the earliest after the clock and the last change."""
        table = self._source(statement.target.text)
        if not isinstance(table, Table):
            raise OracleError(f"{table.name} does not change by statements")
        earliest = max(self._clock + 1, table.last_change)
        ticks = self._ticks()
        at = earliest if statement.at is None else ticks.instant(constants.instant(statement.at))
        if at < earliest:
            raise OracleError(f"a change of {table.name} must lie after the clock ({self._clock}) and its last change")
        if isinstance(statement, st.Insert):
            names = tuple(column.name for column in table.columns)
            added = _in_order(statement, names, [column.type for column in table.columns])
            rows = (*table.rows(at), *added)
        else:
            rows = changed_rows(statement, table, at)
        table.versions.append((at, rows))
        return at

    def _ticks(self) -> Ticks:
        """The ticks of the clock, which only exist where all streams have the same."""
        found = {source.feed.ticks.length for source in self._sources.values() if not isinstance(source, Table)}
        if len(found) > 1:
            raise NotImplementedError("one clock for streams of different ticks")
        return Ticks(next(iter(found), None))


def _in_order(statement: st.Insert, names: Sequence[str], kinds: Sequence[str]) -> list[Row]:
    """The rows of an INSERT in the order of the columns; columns that it does not name are NULL."""
    width = len(statement.columns) or len(names)
    if any(len(row) != width for row in statement.rows):
        raise OracleError(f"{statement.target} takes {width} values ({', '.join(names)})")
    keys = [name.lower() for name in names]
    if not statement.columns:
        return constants.rows(statement.rows, kinds)
    unknown = [name.text for name in statement.columns if name.key not in keys]
    if unknown:
        raise OracleError(f"{statement.target} has no column {unknown[0]}")
    positions = [keys.index(name.key) for name in statement.columns]
    found = constants.rows(statement.rows, [kinds[position] for position in positions])
    return [tuple(dict(zip(positions, row, strict=True)).get(i) for i in range(len(names))) for row in found]
