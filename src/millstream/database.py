"""The database: what `ms.connect` gives. Statements in, queries and answers out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import pyarrow as pa

from millstream.catalog import CatalogOfObjects
from millstream.engine import tables
from millstream.engine.answers import elements_until, relation_at
from millstream.engine.engine import Engine, SourceRow
from millstream.engine.ingest import Arrival, admit
from millstream.engine.rows import typed_table
from millstream.engine.runner import Runner
from millstream.errors import BindError, CatalogError, ClosedError, InputError, NotSupportedError, Place
from millstream.kernel.batch import ARRIVAL, END, INF, START, Batch, value_column
from millstream.language import statements as st
from millstream.language.binder import Binder, BoundQuery
from millstream.language.definer import check_name, define_stream, define_table
from millstream.language.instants import constant, instant
from millstream.language.statement_parser import parse, parse_query
from millstream.language.values import assignments, condition_on, insert_rows
from millstream.plan.definitions import StreamDefinition, TableDefinition, TimeDomain, ViewDefinition
from millstream.plan.explain import explain
from millstream.plan.logical import TableScan, sources
from millstream.plan.rewrite import rewrite
from millstream.query import Query
from millstream.settings import Settings
from millstream.types import Field

LATE = "_late"


@dataclass(frozen=True)
class InsertResult:
    """How many rows an insert took, and how many of those offered were late."""

    accepted: int
    late: int = 0

    def __str__(self) -> str:
        return f"{self.accepted} accepted" + (f", {self.late} late" if self.late else "")


@dataclass(frozen=True)
class Result:
    """What a statement gave: a message, and rows, a text or a query where there are some."""

    message: str
    table: pa.Table | None = None
    query: Query | None = None
    insert: InsertResult | None = None

    def __str__(self) -> str:
        return self.message


class Database:
    """Streams, tables, views and standing queries over one shared pipeline."""

    def __init__(self, runner: Runner, on_close: Callable[[], None], now: Callable[[], float] = time.time) -> None:
        self.engine = Engine(runner)
        self.settings = Settings()
        self.catalog = CatalogOfObjects()
        self._queries: dict[str, Query] = {}
        self._on_close = on_close
        self._now = now
        self._closed = False

    # Statements

    def execute(self, text: str) -> Result:
        """Run all statements of a text; gives the last one's result."""
        self.check_open()
        result = Result("nothing to do")
        for statement in parse(text):
            result = self._execute(statement)
        return result

    def _execute(self, statement: st.Statement) -> Result:
        match statement:
            case st.CreateStream():
                return self._create_stream(statement)
            case st.CreateTable():
                return self._create_table(statement)
            case st.CreateView():
                return self._create_view(statement)
            case st.RegisterQuery():
                bound = self._bind(statement.query, statement.place.text)
                check_name(statement.name)
                query = self._register(statement.name.text, statement.mode, bound, statement.name.place)
                return Result(f"query {query.name} registered", query=query)
            case st.Drop():
                return self._drop(statement)
            case st.Insert():
                return self._insert_statement(statement)
            case st.Delete() | st.Update():
                return self._change_table(statement)
            case st.Advance():
                return self._advance_statement(statement)
            case st.SetOption():
                return self._set(statement)
            case st.Query():
                return self._ad_hoc(self._bind(statement.query, statement.place.text))
            case st.Explain():
                return self._explain(statement)
            case st.Show():
                return self._show(statement)
            case _:
                name = type(statement).__name__
                raise NotSupportedError(f"{name} cannot be run yet", place=statement.place)

    # Queries

    def register(self, cql: str, name: str | None = None, mode: str = "eager") -> Query:
        """Make a text a standing query, from now on and over the past that is kept."""
        self.check_open()
        if mode.upper() not in ("EAGER", "LAZY", "NONE"):
            raise BindError(f"mode is eager, lazy or none, not {mode!r}")
        if name is not None and (not name or name.startswith("_")):
            raise BindError(f"{name!r} cannot be a query's name", hint="names do not start with _")
        bound = self._bind(parse_query(cql), cql)
        return self._register(name or self._free_name(), mode, bound, None)

    def query(self, name: str) -> Query:
        self.check_open()
        if name.lower() not in self._queries:
            raise self.catalog.unknown("query", name, [query.name for query in self._queries.values()])
        return self._queries[name.lower()]

    def queries(self) -> list[Query]:
        self.check_open()
        return list(self._queries.values())

    def explain(self, cql: str) -> str:
        """The plan of a query, and the defaults it would get."""
        self.check_open()
        return explain_bound(self._bind(parse_query(cql), cql))

    def drop_query(self, name: str) -> None:
        query = self._queries.pop(name.lower())
        query.close()
        self.engine.hide(query.edge)

    def _bind(self, query: Any, text: str) -> BoundQuery:
        bound = Binder(self.catalog, self.settings, text).bind(query)
        return replace(bound, plan=rewrite(bound.plan))

    def _register(self, name: str, mode: str | None, bound: BoundQuery, place: Place | None) -> Query:
        if name.lower() in self._queries:
            raise CatalogError(
                f'there is a query "{name}" already',
                hint="drop it first, or choose another name",
                place=place,
            )
        edge = self.engine.show(bound.plan, self.settings.max_rstream_rows)
        query = Query(self, name, (mode or "eager").lower(), bound, edge)
        self._queries[name.lower()] = query
        return query

    def _free_name(self) -> str:
        number = len(self._queries) + 1
        while f"q{number}" in self._queries:
            number += 1
        return f"q{number}"

    def _ad_hoc(self, bound: BoundQuery) -> Result:
        self.tick_clocks(bound.reads)
        now = self._latest(bound)
        limit = self.settings.max_rstream_rows
        rows = self.engine.evaluate(bound.plan, limit, now)
        if bound.kind == "relation":
            table = relation_at(rows, bound.schema, now)
        else:
            table = elements_until(rows, bound.schema, now, bound.domain, limit)
        return Result(f"{table.num_rows} rows", table=table)

    def _latest(self, bound: BoundQuery) -> int:
        """The instant up to which a query is final now; over tables only, also what is pending."""
        read = sources(bound.plan)
        frontiers = [self.engine.frontier(source.name) for source in read] or [self.engine.snapshot.clock]
        if all(isinstance(source, TableScan) for source in read):
            pending = [self.engine.snapshot.progress(source.name).last_change for source in read]
            return max([min(frontiers), 0 if not read else -1, *pending])
        return min(frontiers)

    def _explain(self, statement: st.Explain) -> Result:
        if statement.analyze:
            raise NotSupportedError("EXPLAIN ANALYZE cannot be run yet", place=statement.place)
        if statement.name is not None:
            text = self.query(statement.name.text).explain()
        elif statement.query is not None:
            text = explain_bound(self._bind(statement.query, statement.place.text))
        return Result(text, table=pa.table({"plan": text.split("\n")}))

    # Definitions

    def _create_stream(self, statement: st.CreateStream) -> Result:
        definition = define_stream(statement)
        if definition.source is not None:
            raise NotSupportedError(
                "streams with USING cannot be run yet",
                hint="leave it out and use insert",
                place=statement.place,
            )
        self.catalog.add(definition, statement.name)
        self.engine.add_source(statement.name.key, SourceRow(definition.columns, True, True))
        late = late_table(definition)
        self.catalog.add(late)
        self.engine.add_source(late.name.lower(), SourceRow(late.columns, False, False))
        return Result(f"stream {definition.name} created")

    def _create_table(self, statement: st.CreateTable) -> Result:
        definition = define_table(statement)
        if definition.source is not None or definition.operation is not None:
            raise NotSupportedError(
                "tables with USING or CHANGES BY cannot be run yet",
                hint="leave it out and use INSERT, DELETE and UPDATE",
                place=statement.place,
            )
        self.catalog.add(definition, statement.name)
        self.engine.add_source(statement.name.key, SourceRow(definition.columns, False, False))
        return Result(f"table {definition.name} created")

    def _create_view(self, statement: st.CreateView) -> Result:
        check_name(statement.name)
        bound = self._bind(statement.query, statement.place.text)
        columns = bound.schema
        if statement.columns:
            if len(statement.columns) != len(columns):
                raise BindError(
                    f"view {statement.name} names {len(statement.columns)} columns, but there are {len(columns)}",
                    place=statement.columns[0].place,
                )
            columns = tuple(Field(n.text, f.type) for n, f in zip(statement.columns, columns, strict=True))
        view = ViewDefinition(statement.name.text, columns, bound.plan, bound.domain, bound.cql, bound.reads)
        self.catalog.add(view, statement.name)
        return Result("\n".join([f"view {view.name} created: a {bound.kind}", *bound.defaults]))

    def _drop(self, statement: st.Drop) -> Result:
        kind, name = statement.kind.lower(), statement.name
        if kind == "query":
            if name.key not in self._queries:
                known = [query.name for query in self._queries.values()]
                raise self.catalog.unknown("query", name.text, known, name.place)
            self.drop_query(name.key)
        elif kind == "sink":
            raise self.catalog.unknown("sink", name.text, [], name.place)
        else:
            definition = self.catalog.find(kind, name)
            owned = [name.key, f"{name.key}.{LATE}"]
            users = self.catalog.users(owned) + [q.name for q in self._queries.values() if q.reads & set(owned)]
            if users:
                raise CatalogError(
                    f'{kind} "{name}" is in use',
                    detail=f"by {', '.join(users)}",
                    hint="drop those first",
                    place=name.place,
                )
            for key in owned if isinstance(definition, StreamDefinition) else owned[:1]:
                self.catalog.remove(key)
                if not isinstance(definition, ViewDefinition):
                    self.engine.drop_source(key)
        return Result(f"{kind} {name} dropped")

    def _set(self, statement: st.SetOption) -> Result:
        name, value = statement.name, statement.value
        changed = self.settings.with_value(name.text, value, name.place)
        if name.key == "range_bounds" and changed != self.settings and (self._queries or self.catalog.views()):
            raise CatalogError(
                "range_bounds cannot change once there are views or queries",
                hint="set it first, or drop them",
                place=statement.place,
            )
        self.settings = changed
        return Result(f"{name.key} = {value}")

    def _show(self, statement: st.Show) -> Result:
        if statement.what == "QUERIES":
            rows = [{"name": q.name, "kind": q.kind, "mode": q.mode, "cql": q.cql} for q in self.queries()]
            columns = ["name", "kind", "mode", "cql"]
        elif statement.what == "PLAN":
            rows = [{"step": s.name, "inputs": ", ".join(s.inputs)} for s in self.engine.pipeline.steps]
            columns = ["step", "inputs"]
        else:
            rows = self.catalog.listing(statement.what)
            columns = ["name", "columns", "properties"]
        table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in columns})
        return Result(f"{len(rows)} {statement.what.lower()}", table=table)

    # Rows and time

    def insert(self, name: str, rows: Any) -> InsertResult:
        """Add rows to a stream: tuples, dicts, or a pyarrow, polars or pandas table. All of them or none."""
        self.check_open()
        definition = self.catalog.source(name)
        if isinstance(definition, TableDefinition):
            raise InputError(
                f"{definition.name} is a table that statements change",
                hint="use INSERT INTO, DELETE FROM or UPDATE",
            )
        return self._insert(definition, rows)

    def _insert(self, stream: StreamDefinition, rows: Any) -> InsertResult:
        table = typed_table(rows, stream.input_columns, f"stream {stream.name}")
        key = stream.name.lower()
        with self.engine.lock:
            progress = self.engine.snapshot.progress(key)
            arrival = admit(stream, table, progress, self._clock_tick(stream))
            clock = max(self.engine.snapshot.clock, arrival.progress.heartbeat)
            arrived, progresses = {key: arrival.accepted}, {key: arrival.progress}
            if arrival.late.height:
                late_key = f"{key}.{LATE}"
                late_progress = self.engine.snapshot.progress(late_key)
                at = max(clock + 1, late_progress.last_change)
                arrived[late_key] = _late_rows(stream, arrival, at)
                progresses[late_key] = replace(late_progress, last_change=at)
            self.engine.epoch(arrived, progresses, clock)
        return InsertResult(arrival.accepted.height, arrival.late.height)

    def advance(self, name: str | None = None, *, to: Any) -> None:
        """A heartbeat: no element at or before `to` comes any more, on one stream or on all."""
        self.check_open()
        if name is None:
            streams = self.catalog.streams()
        else:
            definition = self.catalog.source(name)
            if not isinstance(definition, StreamDefinition):
                raise InputError(f"{name} is a table: only streams have heartbeats", hint="use advance(to=...)")
            streams = [definition]
        self._advance(streams, to, None)

    def _advance(self, streams: Iterable[StreamDefinition], to: Any, place: Place | None) -> None:
        with self.engine.lock:
            progress = {}
            reached = [instant(to, TimeDomain(None), place)] if isinstance(to, int) else []
            for stream in streams:
                tick = instant(to, stream.domain, place)
                current = self.engine.snapshot.progress(stream.name.lower())
                progress[stream.name.lower()] = replace(current, heartbeat=max(current.heartbeat, tick))
                reached.append(tick)
            if not reached:
                raise InputError(f"{to!r} is not an instant", hint="give a number of ticks", place=place)
            self.engine.epoch({}, progress, max(reached))

    def tick_clocks(self, reads: Iterable[str] | None = None) -> None:
        """Streams whose timestamp is the arrival time have a heartbeat just before now."""
        for stream in self.catalog.streams():
            tick = self._clock_tick(stream)
            behind = tick is not None and self.engine.snapshot.progress(stream.name.lower()).heartbeat < tick - 1
            if behind and tick is not None:
                self._advance([stream], tick - 1, None)

    def _clock_tick(self, stream: StreamDefinition) -> int | None:
        if stream.heartbeat.kind != "CLOCK" or stream.domain.tick is None:
            return None
        return int(self._now() * 1_000_000) // stream.domain.tick

    def _advance_statement(self, statement: st.Advance) -> Result:
        place = statement.place
        to = constant(statement.to, place.text).value
        if statement.stream is None:
            self._advance(self.catalog.streams(), to, place)
        else:
            self._advance([self.catalog.stream(statement.stream)], to, place)
        return Result(f"advanced to {to}")

    def _insert_statement(self, statement: st.Insert) -> Result:
        definition = self.catalog.source(statement.target.text, statement.target.place)
        if isinstance(definition, StreamDefinition):
            if statement.at is not None:
                raise BindError(
                    "AT belongs to tables",
                    hint="a stream's rows carry their timestamps",
                    place=statement.place,
                )
            outcome = self._insert(definition, insert_rows(statement, definition.input_columns))
            return Result(str(outcome), insert=outcome)
        table = typed_table(insert_rows(statement, definition.columns), definition.columns, f"table {definition.name}")
        with self.engine.lock:
            at = self._change_instant(definition, statement)
            self._commit_change(definition, tables.inserted(table, at), at)
        return Result(f"{table.num_rows} rows inserted at {at}", insert=InsertResult(table.num_rows))

    def _change_table(self, statement: st.Delete | st.Update) -> Result:
        definition = self.catalog.source(statement.target.text, statement.target.place)
        if isinstance(definition, StreamDefinition):
            raise InputError(
                f"{definition.name} is a stream: what has arrived stays",
                hint="only tables change",
                place=statement.place,
            )
        if definition.nature == "APPEND ONLY":
            raise InputError(f"table {definition.name} is APPEND ONLY", place=statement.place)
        condition = condition_on(statement.where, definition.columns, definition.name, statement.place.text)
        with self.engine.lock:
            at = self._change_instant(definition, statement)
            bag = tables.bag_at(self.engine.history(definition.name.lower()), len(definition.columns), at)
            if isinstance(statement, st.Update):
                rows = tables.updated(bag, condition, assignments(statement, definition.columns), at)
            else:
                rows = tables.deleted(bag, condition, at)
            self._commit_change(definition, rows, at)
        verb = "updated" if isinstance(statement, st.Update) else "deleted"
        count = -int(rows.filter(rows["_weight"] < 0)["_weight"].sum())
        return Result(f"{count} rows {verb} at {at}")

    def _change_instant(self, table: TableDefinition, statement: st.Insert | st.Delete | st.Update) -> int:
        snapshot = self.engine.snapshot
        earliest = max(snapshot.clock + 1, snapshot.progress(table.name.lower()).last_change, 0)
        if statement.at is None:
            return earliest
        domain = self.catalog.common_domain()
        at = instant(constant(statement.at, statement.place.text).value, domain, statement.place)
        if at < earliest:
            raise InputError(
                f"table {table.name} cannot change at {at}",
                detail="a change lies after the clock and not before the table's last change",
                hint=f"the earliest instant is {earliest}",
                place=statement.place,
            )
        return at

    def _commit_change(self, table: TableDefinition, rows: Batch, at: int) -> None:
        key = table.name.lower()
        progress = replace(self.engine.snapshot.progress(key), last_change=at)
        self.engine.epoch({key: rows}, {key: progress}, self.engine.snapshot.clock)

    # Life

    def stats(self) -> dict[str, Any]:
        self.check_open()
        snapshot = self.engine.snapshot
        streams = {
            stream.name: {
                "heartbeat": snapshot.progress(stream.name.lower()).heartbeat,
                "arrived": snapshot.progress(stream.name.lower()).arrived,
                "late": snapshot.progress(stream.name.lower()).late,
            }
            for stream in self.catalog.streams()
        }
        return {
            "epoch": snapshot.epoch,
            "clock": snapshot.clock,
            "queries": len(self._queries),
            "operators": len(self.engine.pipeline.steps),
            "streams": streams,
        }

    def check_open(self) -> None:
        if self._closed:
            raise ClosedError("the database is closed", hint="connect again")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.engine.runner.close()
            self._on_close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def explain_bound(bound: BoundQuery) -> str:
    notes = [f"default: {text}" for text in bound.defaults]
    return "\n".join([explain(bound.plan), *notes])


def late_table(stream: StreamDefinition) -> TableDefinition:
    """The stream's late elements: its columns, and the instant that each came too late for."""
    columns = (*stream.columns, Field("_ts", stream.domain.type))
    return TableDefinition(f"{stream.name}.{LATE}", columns, (), "APPEND ONLY", domain=stream.domain)


def _late_rows(stream: StreamDefinition, arrival: Arrival, at: int) -> Batch:
    import polars as pl

    missed = pl.col(START)
    if stream.domain.type.is_temporal:
        zone = "UTC" if stream.domain.type.name == "TIMESTAMP" else None
        missed = (missed * (stream.domain.tick or 1)).cast(pl.Datetime("us", zone))
    width = len(stream.columns)
    values = [value_column(index) for index in range(width)]
    return arrival.late.drop(ARRIVAL).select(
        *values,
        missed.alias(value_column(width)),
        pl.lit(at, pl.Int64).alias(START),
        pl.lit(INF, pl.Int64).alias(END),
        "_weight",
    )
