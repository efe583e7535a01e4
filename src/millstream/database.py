"""The database: what `ms.connect` gives. Statements in, queries and answers out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from millstream.catalog.entries import Pickler
from millstream.catalog.session import Session
from millstream.connectors.feeds import Feeds
from millstream.connectors.sinks import Deliver, Sinks
from millstream.connectors.source_loop import SourceLoop
from millstream.drawing.plan import PlanView, check_format
from millstream.engine.engine import Engine
from millstream.engine.facade import EngineFacade
from millstream.engine.life import under_way
from millstream.errors import BindError
from millstream.ingest.external import External
from millstream.ingest.insert import Inputs
from millstream.ingest.insert_keys import checked_key
from millstream.ingest.table_rows import InsertResult
from millstream.inspection.inspection import Inspector
from millstream.inspection.run_report import RunReport
from millstream.kernel.aggregation.aggregate_calls import UserAggregate
from millstream.kernel.step_limits import wanted_for_good
from millstream.language.given_values import Given, with_values
from millstream.queries.planner import Planner
from millstream.queries.registry import check_query_name
from millstream.queries.results import results
from millstream.queries.standing import StandingQueries
from millstream.queries.states import not_running, tell_put_aside
from millstream.query import Query, QueryContext, Template
from millstream.settings import Settings
from millstream.statements.executor import Executor
from millstream.statements.result import Result
from millstream.statements.status import stats
from millstream.system.system import SystemStreams


class Database(EngineFacade):
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
        self.engine, self._dumps = engine, pickler.dumps
        self.session = session = Session(engine.snapshot.catalog, engine.commits.declare)
        self.catalog = session.catalog
        self.inputs = inputs = Inputs(engine, self.catalog, now)
        self.sinks = sinks = Sinks(engine)
        feeds = Feeds(engine, self.catalog, inputs, lambda: session.settings, now)
        self._source_loop = source_loop = SourceLoop(feeds, inputs, sinks, external, checkpoints, now)
        self.system = system = SystemStreams(engine, self.catalog, now)
        session.on_read = system.read
        self.planner = planner = Planner(engine, session)
        self._context = context = QueryContext(
            engine,
            lambda: planner.options,
            self._bring_up_to_now,
            self.drop_query,
            self._drop_template,
            lambda query: self._queries.explaining.of_query(query),
        )
        self._queries = queries = StandingQueries(engine, session, planner, context)
        self._executor = Executor(engine, session, planner, queries, inputs, sinks, source_loop, external, pickler)
        self.inspection = Inspector(engine, session, planner, queries, sinks, system)
        self._on_close = on_close
        self._open()

    def _open(self) -> None:
        """Have what an earlier process declared: objects, then the queries that read them, then their sinks."""
        self._executor.recover()
        self._queries.open()
        self._executor.sinks.recover()
        self.engine.commits.commit_pending()
        self.engine.backfills.on_published = self._flush_in_background
        self.engine.backfills.start()
        self.engine.on_epoch += [lambda report: tell_put_aside(self.engine, self._queries.registry)]
        self.engine.on_epoch += [self._queries.replanning.notice, self.system.epoch]
        self._queries.registry.on_change.append(self.system.queries)
        self.sinks.on_delivery, self.sinks.before_deliveries = self.system.delivery, self._queries.left_out.catch_up
        self.system.states = lambda: not_running(self.engine, [*self._queries.registry])
        self.system.after_feeding = self._flush_in_background
        self.sinks.flush()

    def _bring_up_to_now(self, sources: Collection[str]) -> None:
        """For those who read sources: clocks go on, and what was noticed can be read."""
        self.inputs.ask_for_ticks()
        self.system.read(sources)

    def execute(self, text: str, params: Given | None = None, *, again: bool = False) -> Result:
        """Run all statements of a text; gives the last one's result. `params` has values for ?, or for :name.

        What a text that may have been run before (`again`) declared in the same words is left alone, and noticed.
        """
        with self.life, self.engine.works.doing(text):
            done = self._executor.execute(text if params is None else with_values(text, params), again=again)
        self.engine.invocations.count("execute")
        return done

    # Queries

    @under_way
    def register(self, cql: str, name: str | None = None, mode: str = "eager") -> Query:
        """Make a text a standing query, from now on and over the past that is kept."""
        _check_mode(mode)
        if name is not None:
            check_query_name(name)
        return self._queries.register(cql, name, mode)

    @overload
    def register_many(
        self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None
    ) -> list[Query]: ...
    @overload
    def register_many(
        self, text: str, rows: Any, names: Sequence[str] | None = None, mode: str | None = None, *, template: str
    ) -> Template: ...
    def register_many(
        self,
        text: str,
        rows: Any,
        names: Sequence[str] | None = None,
        mode: str | None = None,
        *,
        template: str | None = None,
    ) -> list[Query] | Template:
        """Make a text a standing query for each row, whose values stand for its parameters (?), in order.

        Rows are tuples (or single values, where there is one parameter), or a pyarrow, polars or pandas table. With the
        name of a template they are its queries, together with those that it has, and the template is given.
        """
        _check_mode(mode or "eager")
        with self.life:
            return self._queries.register_many(text, rows, names, mode, template)

    def template(self, name: str) -> Template:
        """The template of a name, as `register_many` gave it; `ms.NameError` where there is none."""
        self.check_open()
        return self._queries.named.find(name)

    def templates(self) -> list[Template]:
        """All templates that have names."""
        self.check_open()
        return list(self._queries.named)

    @under_way
    def _drop_template(self, name: str) -> None:
        self._executor.queries.drop_template(name)

    def query(self, name: str) -> Query:
        """The standing query of a name; `ms.NameError` where there is none."""
        self.check_open()
        return self._queries.registry.find(name)

    def queries(self) -> list[Query]:
        """All standing queries, those of templates too."""
        self.check_open()
        return list(self._queries.registry)

    @under_way
    def results(self, queries: Sequence[Query | str] | None = None, at: Any = None) -> pa.Table:
        """The answers of queries (or names of them) with the same columns in one table, each row with its query's name
        (`_query`). For thousands of queries of one group this is much faster than asking each."""
        return results(self.engine, self._context, self._queries.registry.given(queries), at)

    @under_way
    def explain(self, cql: str, format: str = "text") -> str:  # noqa: A002 - as it is called in the statement
        """The plan of a query, the defaults it would get, and what it would share: as text, json, dot or svg."""
        return self._executor.explain.plan(cql).in_format(check_format(format))

    @under_way
    def plan(self, cql: str | None = None) -> PlanView:
        """The plan of a query that is not registered, or the shared plan of all that are; it draws itself in a
        notebook."""
        return self._queries.explaining.whole() if cql is None else self._executor.explain.plan(cql)

    @under_way
    def drop_query(self, name: str) -> None:
        self._executor.queries.drop(name)

    # Functions of users

    @under_way
    def create_function(self, name: str, body: Callable[..., Any], returns: str, *, columns: str = "polars") -> None:
        """Make a Python function usable in queries.

        It is called with one whole column per argument (Polars, or pyarrow with `columns="arrow"`) and gives one back.
        Equal rows must give equal results.
        """
        self._executor.code.create_function(name, body, returns, columns)

    @under_way
    def create_aggregate(self, name: str, definition: type[UserAggregate], returns: str) -> None:
        """Make a Python class usable as an aggregate: initialize, iterate, terminate, and retract if it can."""
        self._executor.code.create_aggregate(name, definition, returns)

    @under_way
    def create_window(self, name: str, body: Callable[..., Any]) -> None:
        """Make a Python function usable as a window: `FROM s [name]`.

        It is called with a Polars frame of values and a series of instants (ticks), and gives columns `start` and `end`
        for the elements in order, or also `row` where one has several intervals or none (`kernel.windows.user_window`).
        """
        self._executor.code.create_window(name, body)

    # Rows, time and sinks

    @under_way
    def insert(self, name: str, rows: Any, key: str | None = None) -> InsertResult:
        """Add rows to a stream, or changes to a table declared CHANGES BY: all of them or none.
        Rows are tuples, dicts, or a pyarrow, polars or pandas table. With a key they count once: sent again within a
        day they change nothing, and give what the first gave. Other rows with that key are refused."""
        return self.insert_pieces(name, [rows], key=key)

    @under_way
    def insert_pieces(
        self,
        name: str,
        pieces: Iterable[Any],
        check: Callable[[int, int], None] = lambda rows, size: None,
        key: str | None = None,
    ) -> InsertResult:
        """The same for rows that come in pieces, each of which is given up before the next one comes: all of them or
        none. `check` is told the rows and bytes so far, and may raise."""
        outcome = self.inputs.insert(self.catalog.fed_by_rows(name), pieces, check, checked_key(key))
        with wanted_for_good():  # the rows are committed, whoever has gone
            self.sinks.flush()
        return outcome

    @under_way
    def advance(self, name: str | None = None, *, to: Any) -> None:
        """A heartbeat: no element at or before `to` comes any more, on one stream or on all."""
        self.inputs.advance(self.catalog.feeds() if name is None else [self.catalog.with_heartbeat(name)], to)
        self.sinks.flush()

    @under_way
    def run(self, until: str | float | None = "idle") -> RunReport:
        """Read the sources: until they have no more ("idle"), for so many seconds, or (None) until interrupted; gives
        what came of it. Clocks and idle streams go on meanwhile, and sinks are served. The first source that fails ends
        the run with its error; the others finish the batch they are at, and nothing is lost."""
        return self.inspection.report_of(lambda: self._source_loop.run(until))

    def end_run(self) -> None:
        """Have a run that another thread is in end, with the batches under way; does not wait for that."""
        self._source_loop.end(wait=False)

    @under_way
    def create_sink(self, name: str, query: str | Query | Template, deliver: Deliver) -> None:
        """Call `deliver(number, changes)` with the final changes of a query or template, delivery by delivery. How far
        it has come is kept in the database, and the callable is not: say this again after each opening."""
        self._executor.sinks.create_callable(name, query, deliver)

    @under_way
    def resume_sink(self, name: str) -> None:
        """Try a paused sink again, from the delivery that failed."""
        self._executor.sinks.resume(name)

    # Life

    @under_way
    def stats(self) -> dict[str, Any]:
        """What the database holds and does: epochs, streams, sinks, state, memory, skew, shared plans."""
        return stats(self.engine, self.catalog, self._queries, self.sinks)

    @property
    def settings(self) -> Settings:
        return self.session.settings

    def _stop(self) -> None:
        self._source_loop.end(wait=False)
        self.engine.stop()

    def _finish(self) -> None:
        try:
            self.engine.close()
        finally:
            self._on_close()

    def _flush_in_background(self) -> None:
        """Serve the sinks in the thread that works through the past."""
        tell_put_aside(self.engine, self._queries.registry)
        if not self.life.is_closing:
            with self.life:
                self.sinks.flush()


def _check_mode(mode: str) -> None:
    if mode.upper() not in ("EAGER", "LAZY", "NONE"):
        raise BindError(f"mode is eager, lazy or none, not {mode!r}")
