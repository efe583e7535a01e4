"""The database: what `ms.connect` gives. Statements in, queries and answers out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import pyarrow as pa

from millstream.catalog import CatalogOfObjects
from millstream.engine.answers import elements_until, relation_at
from millstream.engine.engine import Engine, SourceRow
from millstream.engine.runner import Runner
from millstream.errors import BindError, CatalogError, ClosedError, NameError, NotSupportedError, Place, did_you_mean
from millstream.inputs import Inputs, InsertResult, late_table, malformed_table
from millstream.kernel.aggregation.aggregate_calls import UserAggregate
from millstream.kernel.scalar.functions_user import UserFunction
from millstream.language import statements as st
from millstream.language.binder import Binder, BoundQuery
from millstream.language.definer import check_name, define_stream, define_table
from millstream.language.expressions import UserCode
from millstream.language.statement_parser import parse, parse_query, parse_type
from millstream.plan.definitions import StreamDefinition, ViewDefinition
from millstream.plan.explain import explain
from millstream.plan.logical import has_no_heartbeat, sources
from millstream.plan.physical import Options
from millstream.plan.rewrite import rewrite, rule_names
from millstream.query import Query
from millstream.settings import Settings
from millstream.types import Field


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
        self.code = UserCode()
        self.inputs = Inputs(self.engine, self.catalog, now)
        self._queries: dict[str, Query] = {}
        self._on_close = on_close
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
                outcome = self.inputs.run_insert(statement)
                return Result(str(outcome), insert=outcome)
            case st.Delete() | st.Update():
                return Result(self.inputs.run_change(statement))
            case st.Advance():
                return Result(self.inputs.run_advance(statement))
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

    def _binder(self, text: str) -> Binder:
        return Binder(self.catalog, self.settings, text, self.code)

    def _bind(self, query: Any, text: str) -> BoundQuery:
        bound = self._binder(text).bind(query)
        return replace(bound, plan=rewrite(bound.plan, self.engine.statistics(), disabled_rules(self.settings)))

    def _register(self, name: str, mode: str | None, bound: BoundQuery, place: Place | None) -> Query:
        if name.lower() in self._queries:
            raise CatalogError(
                f'there is a query "{name}" already',
                hint="drop it first, or choose another name",
                place=place,
            )
        edge = self.engine.show(bound.plan, self.options())
        query = Query(self, name, (mode or "eager").lower(), bound, edge)
        self._queries[name.lower()] = query
        return query

    def options(self) -> Options:
        """How plans are run, by the settings."""
        settings = self.settings
        return Options(settings.strategy, settings.max_rstream_rows, settings.expiry_groups, settings.lazy_interval)

    def _free_name(self) -> str:
        number = len(self._queries) + 1
        while f"q{number}" in self._queries:
            number += 1
        return f"q{number}"

    def _ad_hoc(self, bound: BoundQuery) -> Result:
        self.inputs.tick_clocks()
        now = self._latest(bound)
        limit = self.settings.max_rstream_rows
        rows = self.engine.evaluate(bound.plan, self.options(), now)
        if bound.kind == "relation":
            table = relation_at(rows, bound.schema, now)
        else:
            table = elements_until(rows, bound.schema, now, bound.domain, limit)
        return Result(f"{table.num_rows} rows", table=table)

    def _latest(self, bound: BoundQuery) -> int:
        """The instant up to which a query is final now; over tables only, also what is pending."""
        read = sources(bound.plan)
        frontiers = [self.engine.frontier(source.name) for source in read] or [self.engine.snapshot.clock]
        if has_no_heartbeat(bound.plan):
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

    # Functions of users

    def create_function(self, name: str, body: Callable[..., Any], returns: str, *, columns: str = "polars") -> None:
        """Make a Python function usable in queries.

        It is called with one whole column per argument (Polars, or pyarrow with `columns="arrow"`) and gives one back.
        Equal rows must give equal results.
        """
        self.check_open()
        self._check_function_name(name)
        if columns not in ("polars", "arrow"):
            raise BindError(f"columns is 'polars' or 'arrow', not {columns!r}")
        function = UserFunction(name.lower(), body, parse_type(returns), "arrow" if columns == "arrow" else "polars")
        self.code = replace(self.code, functions={**self.code.functions, name.lower(): function})

    def create_aggregate(self, name: str, definition: type[UserAggregate], returns: str) -> None:
        """Make a Python class usable as an aggregate: initialize, iterate, terminate, and retract if it can."""
        self.check_open()
        self._check_function_name(name)
        missing = [part for part in ("initialize", "iterate", "terminate") if not hasattr(definition, part)]
        if missing:
            raise BindError(f"aggregate {name} has no method {missing[0]}")
        entry = (definition, parse_type(returns))
        self.code = replace(self.code, aggregates={**self.code.aggregates, name.lower(): entry})

    def _check_function_name(self, name: str) -> None:
        if not name.isidentifier() or name.startswith("_"):
            raise BindError(f"{name!r} cannot be a function's name")
        if name.lower() in (*self.code.functions, *self.code.aggregates):
            raise CatalogError(f'there is a function "{name}" already')

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
        self._add_late_table(definition)
        return Result(f"stream {definition.name} created")

    def _add_late_table(self, stream: StreamDefinition) -> None:
        late = late_table(stream)
        self.catalog.add(late)
        self.engine.add_source(late.name.lower(), SourceRow(late.columns, False, False))

    def _create_table(self, statement: st.CreateTable) -> Result:
        definition = define_table(statement)
        if definition.source is not None:
            raise NotSupportedError(
                "tables with USING cannot be run yet",
                hint="leave it out and use INSERT, DELETE and UPDATE",
                place=statement.place,
            )
        self.catalog.add(definition, statement.name)
        if definition.log is None:
            self.engine.add_source(statement.name.key, SourceRow(definition.columns, False, False))
        else:
            self.engine.add_source(statement.name.key, SourceRow(definition.feed.columns, True, True))
            self._add_late_table(definition.feed)
            self.catalog.add(malformed_table(definition))
        return Result(f"table {definition.name} created")

    def _create_view(self, statement: st.CreateView) -> Result:
        check_name(statement.name)
        # Kept as it was bound: it is rewritten as part of the queries that read it.
        bound = self._binder(statement.place.text).bind(statement.query)
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
            self.catalog.find(kind, name)
            owned = [key for key in self.catalog if key == name.key or key.startswith(f"{name.key}.")]
            users = self.catalog.users(owned) + [q.name for q in self._queries.values() if q.reads & set(owned)]
            if users:
                raise CatalogError(
                    f'{kind} "{name}" is in use',
                    detail=f"by {', '.join(users)}",
                    hint="drop those first",
                    place=name.place,
                )
            for key in owned:
                self.catalog.remove(key)
                self.engine.drop_source(key)
        return Result(f"{kind} {name} dropped")

    def _set(self, statement: st.SetOption) -> Result:
        name, value = statement.name, statement.value
        changed = self.settings.with_value(name.text, value, name.place)
        for rule in disabled_rules(changed):
            if rule not in rule_names():
                hint = did_you_mean(rule, rule_names())
                raise NameError(f'there is no rule "{rule}" that can be disabled', hint=hint, place=statement.place)
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
        """Add rows to a stream, or changes to a table declared CHANGES BY. All of them or none.

        Rows are tuples, dicts, or a pyarrow, polars or pandas table.
        """
        self.check_open()
        return self.inputs.insert(self.catalog.fed_by_rows(name), rows)

    def advance(self, name: str | None = None, *, to: Any) -> None:
        """A heartbeat: no element at or before `to` comes any more, on one stream or on all."""
        self.check_open()
        self.inputs.advance(self.catalog.feeds() if name is None else [self.catalog.with_heartbeat(name)], to)

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


def disabled_rules(settings: Settings) -> list[str]:
    return [name.strip() for name in settings.disabled_rules.split(",") if name.strip()]


def explain_bound(bound: BoundQuery) -> str:
    notes = [f"default: {text}" for text in bound.defaults]
    return "\n".join([explain(bound.plan), *notes])
