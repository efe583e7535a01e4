"""The database: what `ms.connect` gives. Statements in, queries and answers out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from millstream.catalog.entries import Declarations, Entry, Pickler
from millstream.catalog.objects import CatalogOfObjects, kind_of
from millstream.catalog.user_code import (
    aggregate_entry,
    aggregate_from,
    aggregate_of,
    as_written_now,
    function_entry,
    function_from,
    function_of,
)
from millstream.connectors.feeds import Feeds, feed_of
from millstream.connectors.sinks import CALLABLE, Deliver, Sink, Sinks
from millstream.connectors.source_loop import Pump, needs_spark
from millstream.engine.answers import elements_between, relation_at
from millstream.engine.backups import PAUSED, Backup, backup
from millstream.engine.engine import Engine
from millstream.engine.life import Life, under_way
from millstream.engine.limits import Limits
from millstream.engine.reports import OperatorReport, as_text
from millstream.errors import (
    BindError,
    CatalogError,
    Error,
    NameError,
    NotSupportedError,
    StateError,
    did_you_mean,
)
from millstream.ingest.external import External
from millstream.ingest.insert import Inputs, InsertResult
from millstream.kernel.aggregation.aggregate_calls import UserAggregate
from millstream.language import statements as st
from millstream.language.binder import Binder, BoundQuery
from millstream.language.definer import check_name
from millstream.language.expressions import UserCode
from millstream.language.nesting import without_collecting
from millstream.language.statement_parser import parse, parse_query
from millstream.language.values import together
from millstream.names import shown_name, why_unusable
from millstream.plan.cost import SourceStatistics
from millstream.plan.definitions import Definition, ExternalData, TableDefinition, ViewDefinition
from millstream.plan.explain import explain
from millstream.plan.lowering.lower import CLOCK, Options
from millstream.plan.lowering.matches import DISABLED_RULES
from millstream.plan.nodes import has_no_heartbeat, sources
from millstream.plan.rewrite import rewrite, rule_names
from millstream.plan.rules.context import JoinChoice
from millstream.queries.notices import check_now, counted_now, of_the_past
from millstream.queries.registry import Registry, check_query_name, statement_text
from millstream.queries.reopening import Reopening
from millstream.query import Query
from millstream.settings import Settings
from millstream.statements.definitions import Definitions
from millstream.types import DataType


@dataclass(frozen=True)
class Result:
    """What a statement gave: a message, and rows, a text or a query where there are some."""

    message: str
    table: pa.Table | None = None
    query: Query | None = None
    insert: InsertResult | None = None
    notices: tuple[str, ...] = ()  # what the author should know of the past that it saw

    def __str__(self) -> str:
        return self.message


class Database:
    """Streams, tables, views and standing queries over one shared pipeline."""

    def __init__(
        self,
        engine: Engine,
        on_close: Callable[[], None],
        pickler: Pickler,
        now: Callable[[], float] = time.time,
        external: External | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        self.engine = engine
        self.declared = Declarations(engine.snapshot.catalog)
        self.settings = Settings()
        self.catalog = CatalogOfObjects()
        self.code = UserCode()
        self.inputs = Inputs(self.engine, self.catalog, now)
        self.sinks = Sinks(self.engine)
        self._definitions = Definitions(self.engine, self.catalog, self.binder)
        feeds = Feeds(self.engine, self.catalog, self.inputs, lambda: self.settings, now)
        self._pump = Pump(feeds, self.inputs, self.sinks, external, checkpoints, now)
        self._external = external
        self.registry = Registry(self)
        self._on_close = on_close
        self._pickler = pickler
        self._default_shards = engine.runner.planner.shards
        self._recover_objects()
        Reopening(self, self.registry).open()
        for entry in self.declared.entries:
            if entry["kind"] == "sink":
                self._attach_sink(entry)
        engine.keep_held()
        engine.backfills.on_published = self._flush_beside
        engine.backfills.start()
        self.sinks.flush()

    # Statements

    @under_way
    def execute(self, text: str) -> Result:
        """Run all statements of a text; gives the last one's result."""
        result = Result("nothing to do")
        for run in together(parse(text)):
            self._insert_all(run[:-1])
            result = self._execute(run[-1])
        return result

    def _insert_all(self, statements: Sequence[st.Statement]) -> None:
        inserts = [statement for statement in statements if isinstance(statement, st.Insert)]
        if len(inserts) > 1 and self.inputs.insert_together(inserts):
            self.sinks.flush()
        else:
            for insert in inserts:
                self._execute(insert)

    def _execute(self, statement: st.Statement) -> Result:
        match statement:
            case st.CreateStream() | st.CreateTable() | st.CreateView():
                return self._create(statement)
            case st.RegisterQuery():
                check_name(statement.name)
                query = self.registry.register(statement.name.text, statement.mode, statement)
                message = "; ".join([f"query {query.name} registered", *query.notices])
                return Result(message, query=query, notices=tuple(query.notices))
            case st.CreateSink():
                return self._create_sink(statement)
            case st.Drop():
                # The order in which locks are taken: a sink may be at a delivery, which ends with a commit.
                with self.sinks.lock if statement.kind == "SINK" else nullcontext(), self.engine.lock:
                    return self._drop(statement)
            case st.Insert() | st.Delete() | st.Update() | st.Advance():
                result = self._take_in(statement)
                self.sinks.flush()
                return result
            case st.SetOption():
                with self.engine.lock:
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

    def _take_in(self, statement: st.Insert | st.Delete | st.Update | st.Advance) -> Result:
        match statement:
            case st.Insert():
                outcome = self.inputs.run_insert(statement)
                return Result(str(outcome), insert=outcome)
            case st.Advance():
                return Result(self.inputs.run_advance(statement))
            case _:
                return Result(self.inputs.run_change(statement))

    # Queries

    @under_way
    def register(self, cql: str, name: str | None = None, mode: str = "eager") -> Query:
        """Make a text a standing query, from now on and over the past that is kept."""
        _check_mode(mode)
        if name is not None:
            check_query_name(name)
        return self.registry.register_text(cql, name, mode)

    @under_way
    def register_many(
        self, template: str, rows: Any, names: Sequence[str] | None = None, mode: str = "eager"
    ) -> list[Query]:
        """Make a template a standing query for each row, whose values stand for its parameters (?), in order.

        Rows are tuples (or single values, where there is one parameter), or a pyarrow, polars or pandas table.
        """
        _check_mode(mode)
        return self.registry.register_many(template, rows, names, mode)

    def query(self, name: str) -> Query:
        self.check_open()
        return self.registry.find(name)

    def queries(self) -> list[Query]:
        self.check_open()
        return list(self.registry)

    @under_way
    def results(self, queries: Sequence[Query] | None = None, at: Any = None) -> pa.Table:
        """The answers of many queries with the same columns in one table, each row with its query's name (`_query`).

        For thousands of queries of one group this is much faster than asking each.
        """
        return self.registry.results(list(self.registry) if queries is None else list(queries), at)

    @under_way
    def explain(self, cql: str) -> str:
        """The plan of a query, and the defaults it would get."""
        return self._explained(self._bind(parse_query(cql), cql))

    @under_way
    def drop_query(self, name: str) -> None:
        with self.engine.lock:
            query = self.registry.find(name)
            if sinks := self.sinks.of(query):
                raise CatalogError(
                    f'query "{query.name}" is in use',
                    detail=f"by the sinks {', '.join(sinks)}" if len(sinks) > 1 else f"by the sink {sinks[0]}",
                    hint="drop those first",
                )
            self.registry.drop(query)

    def check_number_of_queries(self, count: int) -> None:
        if count > self.settings.max_queries:
            raise CatalogError(
                f"{count} queries are more than the {self.settings.max_queries} that are allowed",
                hint="drop some, or SET max_queries",
            )

    def binder(self, text: str, parameters: Sequence[DataType] = (), settings: Settings | None = None) -> Binder:
        return Binder(self.catalog, settings or self.settings, text, self.code, parameters)

    def _bind(self, query: Any, text: str) -> BoundQuery:
        return self.registry.planned(self.binder(text).bind(query))[0]

    def rewritten(
        self, bound: BoundQuery, statistics: Mapping[str, SourceStatistics], settings: Settings | None = None
    ) -> BoundQuery:
        settings, shards = settings or self.settings, self.engine.runner.planner.shards
        # Said by negative rows, the end of a window is no longer known where its rows are joined.
        shared = settings.stem_window if settings.strategy != "negative" else 0
        choice = JoinChoice(settings.join_plan, settings.jit, settings.jit_detection)
        with without_collecting():
            plan = rewrite(bound.plan, statistics, settings.disabled, choice, shards, shared)
        return replace(bound, plan=plan)

    def rewritten_for_matches(
        self, bound: BoundQuery, statistics: Mapping[str, SourceStatistics], settings: Settings | None = None
    ) -> BoundQuery:
        """With all columns, and nothing moved below the joins but selections: what stands above is done when asked."""
        settings, shards = settings or self.settings, self.engine.runner.planner.shards
        disabled = DISABLED_RULES.union(settings.disabled)
        choice = JoinChoice(settings.join_plan, jit="off")
        with without_collecting():
            return replace(bound, plan=rewrite(bound.plan, statistics, disabled, choice, shards))

    # What an earlier process declared

    def _recover_objects(self) -> None:
        """All that queries read, before anything is changed: without one of these there is no database."""
        for entry in self.declared.entries:
            if entry["kind"] == "settings":
                self._apply(Settings(**entry["values"]))
            elif entry["kind"] not in ("query", "template", "sink"):
                with self.under_settings_of(entry):
                    self._recover_object(entry)

    @contextmanager
    def under_settings_of(self, entry: Entry) -> Iterator[None]:
        """Read an entry again, under the settings it was read under first."""
        settings, self.settings = self.settings, Settings(**entry.get("settings", asdict(self.settings)))
        try:
            yield
        finally:
            self.settings = settings

    def _recover_object(self, entry: Entry) -> None:
        try:
            match entry["kind"]:
                case "function":
                    self.code = self.code.with_function(function_from(entry, self._pickler))
                case "aggregate":
                    self.code = self.code.with_aggregate(entry["name"], *aggregate_from(entry, self._pickler))
                case _:
                    (statement,) = parse(entry["text"])
                    self._definitions.define(statement)
        except (OSError, MemoryError, StateError):
            raise
        except Exception as error:
            raise CatalogError(
                f'{entry["kind"]} "{entry["name"]}" cannot be declared by this version',
                detail=str(error) if isinstance(error, Error) else repr(error),
                hint="open the database with the version that made it; nothing was changed",
            ) from error

    def options(self) -> Options:
        """How plans are run, by the settings."""
        settings = self.settings
        return Options(settings.strategy, settings.max_rstream_rows, settings.expiry_groups, settings.lazy_interval)

    def _ad_hoc(self, bound: BoundQuery) -> Result:
        self.inputs.tick_clocks()
        now = self._latest(bound)
        limit, past = self.settings.max_rstream_rows, of_the_past(self.engine, bound)
        # The answer of a relation has only this instant, that of a stream all elements up to it.
        first = now if bound.kind == "relation" else past.counted
        options = replace(self.options(), first_counted=max(first, 0))
        if past.unseen is None:
            check_now(past, now, bound)
            rows = self.engine.evaluate(bound.plan, options, now, past.kept)
        else:
            rows, past = counted_now(self.engine, bound, past, options, now)
        if bound.kind == "relation":
            table = relation_at(rows, bound.schema, now)
        else:
            read = {source.name for source in sources(bound.plan)}
            since = max(past.first, self.engine.first_answerable(read)) - 1
            table = elements_between(rows, bound.schema, since, now, bound.domain, limit)
        return Result("; ".join([f"{table.num_rows} rows", *past.notices]), table=table, notices=past.notices)

    def _latest(self, bound: BoundQuery) -> int:
        """The instant up to which a query is final now; over tables only, also what is pending."""
        read = sources(bound.plan)
        frontiers = [self.engine.frontier(source.name) for source in read] or [self.engine.frontier(CLOCK)]
        if has_no_heartbeat(bound.plan):
            pending = [self.engine.snapshot.progress(source.name).last_change for source in read]
            return max([min(frontiers), 0, *pending])
        return min(frontiers)

    def _explain(self, statement: st.Explain) -> Result:
        reports: list[OperatorReport] = []
        if statement.name is not None:
            query = self.query(statement.name.text)
            text = query.explain()
            if statement.analyze:
                reports = self.engine.operators(query.edge)
                text += "\napproximate: elements were shed" if query.is_approximate else ""
        elif statement.query is not None:
            bound = self._bind(statement.query, statement.place.text)
            text = self._explained(bound)
            if statement.analyze:
                reports = self.engine.measure(bound.plan, self.options(), self._latest(bound))
        if statement.analyze:
            text = f"{text}\n\n{as_text(reports)}"
        return Result(text, table=pa.table({"plan": text.split("\n")}))

    def _explained(self, bound: BoundQuery) -> str:
        """The plan of a query that is not registered, its defaults, and what it would share."""
        notes = [f"default: {text}" for text in bound.defaults]
        return "\n".join([explain(bound.plan), *notes, *(f"sharing: {text}" for text in self.registry.explain(bound))])

    # Functions of users

    @under_way
    def create_function(self, name: str, body: Callable[..., Any], returns: str, *, columns: str = "polars") -> None:
        """Make a Python function usable in queries.

        It is called with one whole column per argument (Polars, or pyarrow with `columns="arrow"`) and gives one back.
        Equal rows must give equal results.
        """
        function = function_of(name, body, returns, columns)
        if self._is_new("function", name, function_entry(function, self._pickler)):
            self.code = self.code.with_function(function)

    @under_way
    def create_aggregate(self, name: str, definition: type[UserAggregate], returns: str) -> None:
        """Make a Python class usable as an aggregate: initialize, iterate, terminate, and retract if it can."""
        aggregate = aggregate_of(name, definition, returns)
        if self._is_new("aggregate", name, aggregate_entry(*aggregate, self._pickler)):
            self.code = self.code.with_aggregate(name.lower(), *aggregate)

    def _is_new(self, kind: str, name: str, content: Entry) -> bool:
        """Declare users' code; saying again what an earlier process said is welcome, and changes nothing."""
        with self.engine.lock:
            found = self.declared.find("function", name) or self.declared.find("aggregate", name)
            if found is not None:
                if as_written_now(found, self._pickler) == {"kind": kind, "name": name.lower(), **content}:
                    return False
                raise CatalogError(f'there is a function "{name}" already', hint="choose another name")
            self._declare(self.declared.with_entry(kind, name, **content))
            return True

    def _declare(self, declared: Declarations) -> None:
        self.engine.declare(declared.entries)
        self.declared = declared

    # Definitions

    def _create(self, statement: st.CreateStream | st.CreateTable | st.CreateView) -> Result:
        with self.engine.lock:
            name, message = self._definitions.define(statement)
            kind = kind_of(self.catalog[name.key])
            try:
                declared = self.declared.with_entry(
                    kind, name.text, text=statement_text(statement), settings=asdict(self.settings)
                )
                if isinstance(statement, st.CreateView) or statement.source is None:
                    self._declare(declared)
                else:
                    self._declare_external(self.catalog[name.key], statement.source, declared)
            except BaseException:
                self._definitions.forget(name.key)
                raise
        return Result(message)

    def _declare_external(self, definition: Definition, source: st.External, declared: Declarations) -> None:
        """Declare what is read from outside: a feed that `run` reads, or a table that is read now."""
        if isinstance(definition, ViewDefinition):
            raise AssertionError("views read what is inside")
        if self._external is None:
            raise needs_spark(f"{kind_of(definition)} {definition.name} is read")
        feed = feed_of(definition)
        try:
            if feed is not None:
                self._external.check_feed(feed)
                self._pump.forget(feed.key)
                self._declare(declared)
            elif isinstance(definition, TableDefinition):
                rows = self._external.read(definition, self.settings.max_value_bytes)
                self.inputs.read_table(definition, rows, declared.entries)
                self.declared = declared
        except Error as error:
            error.place = error.place or source.place
            raise

    def _drop(self, statement: st.Drop) -> Result:
        kind, name = statement.kind.lower(), statement.name
        if kind == "query":
            self.registry.find(name.text, name.place)
            self.drop_query(name.key)
        elif kind == "sink":
            self.sinks.find(name.text, name.place)
            declared = self.declared.without("sink", name.key)
            self.sinks.drop(name.key, declared.entries)
            self.declared = declared
        else:
            self.catalog.find(kind, name)
            owned = self._definitions.owned(name.key)
            users = self.catalog.users(owned) + self.registry.readers(set(owned))
            if users:
                raise CatalogError(
                    f'{kind} "{name}" is in use',
                    detail=f"by {', '.join(users)}",
                    hint="drop those first",
                    place=name.place,
                )
            self._pump.check_not_read(name.text)
            settings = self.settings.without_stream(name.key)
            declared = self.declared.without(kind, name.key)
            if settings != self.settings:
                declared = declared.with_settings(settings)
            self.engine.drop_sources(owned, declared.entries)
            self.declared, self.settings = declared, settings
            self._definitions.forget(name.key)
            self._pump.forget(name.key)
        return Result(f"{kind} {name} dropped")

    def _set(self, statement: st.SetOption) -> Result:
        name, value = statement.name, statement.value
        if statement.stream is None:
            changed = self.settings.with_value(name.text, value, name.place)
        else:
            stream = self.catalog.with_heartbeat(statement.stream.text, statement.stream.place)
            changed = self.settings.with_stream_value(stream.name.lower(), name.text, value, name.place)
        for rule in changed.disabled:
            if rule not in rule_names():
                hint = did_you_mean(rule, rule_names())
                raise NameError(f'there is no rule "{rule}" that can be disabled', hint=hint, place=statement.place)
        users = {"shards": len(self.registry), "range_bounds": len(self.registry) or self.catalog.views()}
        if users.get(name.key) and changed != self.settings:
            raise CatalogError(
                f"{name.key} cannot change once there are views or queries",
                hint="set it first, or drop them",
                place=statement.place,
            )
        if name.key == "shards":
            self.engine.place_on(changed.shards or self._default_shards)
        self._declare(self.declared.with_settings(changed))
        self._apply(changed)
        return Result(f"{name.key} = {value}" + (f" for {statement.stream}" if statement.stream else ""))

    def _apply(self, settings: Settings) -> None:
        self.settings = settings
        self.engine.store.limit(settings.memory_budget or None)
        self.engine.limits = Limits(settings.max_query_rows, settings.max_query_state, settings.max_value_bytes)
        self.engine.backfills.least_rows = settings.background_rows

    def _show(self, statement: st.Show) -> Result:
        if statement.what == "QUERIES":
            rows = [{"name": q.name, "kind": q.kind, "mode": q.mode, "cql": q.cql} for q in self.queries()]
            columns = ["name", "kind", "mode", "cql"]
        elif statement.what == "SINKS":
            rows = [{name: str(value) for name, value in sink.items()} for sink in self.sinks.shown()]
            columns = ["name", "query", "target", "state", "deliveries", "until", "error", "rows", "bytes", "since"]
        elif statement.what == "PLAN":
            rows = [{"step": s.name, "inputs": ", ".join(s.read)} for s in self.engine.pipeline.steps]
            columns = ["step", "inputs"]
        else:
            rows = self.catalog.listing(statement.what)
            columns = ["name", "columns", "properties"]
        table = pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in columns})
        return Result(f"{len(rows)} {statement.what.lower()}", table=table)

    # Rows and time

    @under_way
    def insert(self, name: str, rows: Any) -> InsertResult:
        """Add rows to a stream, or changes to a table declared CHANGES BY. All of them or none.

        Rows are tuples, dicts, or a pyarrow, polars or pandas table.
        """
        outcome = self.inputs.insert(self.catalog.fed_by_rows(name), rows)
        self.sinks.flush()
        return outcome

    @under_way
    def advance(self, name: str | None = None, *, to: Any) -> None:
        """A heartbeat: no element at or before `to` comes any more, on one stream or on all."""
        self.inputs.advance(self.catalog.feeds() if name is None else [self.catalog.with_heartbeat(name)], to)
        self.sinks.flush()

    @under_way
    def run(self, until: str | float | None = "idle") -> None:
        """Read the sources: until they have no more ("idle"), for so many seconds, or (None) until interrupted.

        Clocks and idle streams go on meanwhile, and sinks are served. The first source that fails ends the run with
        its error; the others finish the batch they are at, and nothing is lost.
        """
        self._pump.run(until)

    def end_run(self) -> None:
        """Have a run that another thread is in end, with the batches under way; does not wait for that."""
        self._pump.end(wait=False)

    # Sinks

    @under_way
    def create_sink(self, name: str, query: str, deliver: Deliver) -> None:
        """Call `deliver(number, changes)` with the final changes of a query, delivery by delivery.

        How far it has come is kept in the database, and the callable is not: say this again after each opening.
        """
        if reason := why_unusable(name):
            raise BindError(f'"{shown_name(name)}" cannot be a sink\'s name', detail=reason)
        found = self.query(query)
        with self.engine.lock:
            if not self.sinks.is_callable_for(name, found):
                self.sinks.check_free(name)
                self._declare(self.declared.with_entry("sink", name, shown=name, query=found.name))
            self.sinks.add(Sink(name, found, CALLABLE, deliver))
        self.sinks.flush()

    @under_way
    def resume_sink(self, name: str) -> None:
        """Try a paused sink again, from the delivery that failed."""
        with self.engine.lock:
            self.sinks.find(name).error = None
            entry = self.declared.find("sink", name)
            if entry is not None and PAUSED in entry:
                kept = ({k: v for k, v in e.items() if e is not entry or k != PAUSED} for e in self.declared.entries)
                self._declare(Declarations(tuple(kept)))
        self.sinks.flush()

    def _create_sink(self, statement: st.CreateSink) -> Result:
        name, target = statement.name, statement.target
        check_name(name)
        self.registry.find(statement.query.text, statement.query.place)
        if self._external is None:
            raise needs_spark(f"sink {name} is written")
        try:
            self._external.check_sink(ExternalData(target.format, target.options))
        except Error as error:
            error.place = error.place or target.place
            raise
        with self.engine.lock:
            self.sinks.check_free(name.text, name.place)
            query = self.registry.find(statement.query.text, statement.query.place)
            declared = self.declared.with_entry(
                "sink", name.text, shown=name.text, query=query.name, format=target.format, options=[*target.options]
            )
            self._declare(declared)
            self._attach_sink(declared.entries[-1])
        self.sinks.flush()
        return Result(f"sink {name} created")

    def _attach_sink(self, entry: Entry) -> None:
        query = self.registry.find(entry["query"])
        if "format" not in entry:
            self.sinks.add(Sink(entry["shown"], query, CALLABLE, None))
            return
        options = tuple((str(key), str(value)) for key, value in entry["options"])
        target, external = ExternalData(entry["format"], options), self._external
        deliver = None if external is None else partial(external.write, target)
        self.sinks.add(Sink(entry["shown"], query, entry["format"], deliver, entry.get(PAUSED)))

    # Life

    @under_way
    def backup(
        self, path: str | Path, *, copy: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> Backup:
        """Make a copy of the database as of now in a new or empty directory, while everything goes on.

        Files are linked where both lie on one file system, which takes no room; `copy` makes copies of them there too.
        `progress` is told the bytes done and the bytes in all.
        """
        return backup(self.engine, Path(path), copy=copy, told=progress or (lambda done, of: None))

    @under_way
    def stats(self) -> dict[str, Any]:
        snapshot = self.engine.snapshot
        counted = ("heartbeat", "arrived", "late", "malformed", "shed", "skipped_files", "drift")
        streams = {
            stream.name: {name: getattr(snapshot.progress(stream.name.lower()), name) for name in counted}
            for stream in self.catalog.feeds()
        }
        return {
            "epoch": snapshot.epoch,
            "clock": snapshot.clock,
            "queries": len(self.registry),
            "operators": len(self.engine.pipeline.steps),
            "state_bytes": self.engine.state_bytes(),
            "memory": self.engine.memory_report(),
            "skew": [asdict(skew) for skew in self.engine.skew.values()],
            "streams": streams,
            "sinks": {sink["name"]: sink for sink in self.sinks.shown()},
        }

    @property
    def life(self) -> Life:
        return self.engine.life

    @property
    def is_closed(self) -> bool:
        return self.life.is_closing

    def check_open(self) -> None:
        self.life.check()

    def close(self, timeout: float | None = None) -> None:
        """End what is under way, wait for it (or for so many seconds), and give the directory up.

        Runs finish the batches they are at, inserts and deliveries end, followers too; from then on everything is
        refused. Called in the middle of one of these, a sink's callable say, it takes effect when that has ended.
        """
        self.life.end(self._stop, self._finish, timeout)

    def _stop(self) -> None:
        self._pump.end(wait=False)
        self.engine.stop()

    def _finish(self) -> None:
        try:
            self.engine.close()
        finally:
            self._on_close()

    def _flush_beside(self) -> None:
        """Serve the sinks in a thread that works beside the epochs."""
        if not self.life.is_closing:
            with self.life:
                self.sinks.flush()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_mode(mode: str) -> None:
    if mode.upper() not in ("EAGER", "LAZY", "NONE"):
        raise BindError(f"mode is eager, lazy or none, not {mode!r}")
