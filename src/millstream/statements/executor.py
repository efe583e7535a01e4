"""Runs statements: each goes to the file of its family."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from millstream.catalog.entries import Entry, Pickler
from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.connectors.source_loop import SourceLoop
from millstream.engine.engine import Engine
from millstream.errors import CatalogError, Error, EvaluationError, NotSupportedError, StateError
from millstream.ingest.external import External
from millstream.ingest.insert import Inputs
from millstream.kernel.step_limits import check_wanted
from millstream.language import statements as st
from millstream.language.remarks import remarks
from millstream.language.statement_parser import parse
from millstream.language.values import together
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.settings import Settings
from millstream.statements.ad_hoc import AdHocQueries
from millstream.statements.cascade import Cascade
from millstream.statements.changes import ChangeStatements
from millstream.statements.describe import DescribeStatements
from millstream.statements.existing import Existing
from millstream.statements.explain import ExplainStatements
from millstream.statements.objects import ObjectStatements
from millstream.statements.queries import QueryStatements
from millstream.statements.replacing import Replacing
from millstream.statements.result import Result
from millstream.statements.settings import SettingStatements
from millstream.statements.show import ShowStatements
from millstream.statements.sinks import SinkStatements
from millstream.statements.user_code import UserCodeStatements


class Executor:
    """Who runs which statement; those that have a method of the database too are reached by name."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        planner: Planner,
        queries: StandingQueries,
        inputs: Inputs,
        sinks: Sinks,
        source_loop: SourceLoop,
        external: External | None,
        pickler: Pickler,
    ) -> None:
        self._engine, self._session, self._delivering, self._planner = engine, session, sinks.lock, planner
        registry = queries.registry
        self.objects = ObjectStatements(engine, session, registry, inputs, source_loop, external)
        self.code = UserCodeStatements(engine, session, pickler)
        self.queries = QueryStatements(engine, session, queries, sinks)
        self.sinks = SinkStatements(engine, session, queries, sinks, external)
        self._settings = SettingStatements(engine, session, registry)
        self._ad_hoc = AdHocQueries(engine, planner, inputs)
        self._changes = ChangeStatements(inputs, sinks, self._ad_hoc)
        self.explain = ExplainStatements(engine, planner, queries, self._ad_hoc)
        self._show = ShowStatements(engine, session, queries, sinks)
        self._describe = DescribeStatements(engine, session, planner, queries, sinks)
        self._existing = Existing(session, planner, queries, sinks)
        self._cascade = Cascade(session, queries, sinks, self.queries, self.sinks, self.objects)
        self._catch_up = queries.left_out.catch_up
        self._replacing = Replacing(engine, session, planner, queries, sinks, self.queries, self.sinks)

    def execute(self, text: str, *, again: bool = False) -> Result:
        """Run all statements of a text; gives the last one's result. A text that may have been run before leaves alone
        what it declared then; the result says what that was."""
        result, there = Result("nothing to do"), list[str]()
        for run in together(parse(text)):
            check_wanted()
            self._changes.insert_all(run[:-1])
            instead = self._existing.instead(run[-1], again=again)
            with remarks() as said:
                result = self._pointing(run[-1]) if instead is None else instead
            self._catch_up()
            there += [instead.message] if again and instead is not None else []
            if more := [each for each in said if each not in result.notices]:
                message = result.message if result.has_rows else "\n".join([result.message, *more])
                result = replace(result, message=message, notices=(*result.notices, *more))
        return replace(result, notices=(*there, *result.notices)) if there else result

    def _pointing(self, statement: st.Statement) -> Result:
        """What a statement gives; an error of the rows that it met says where in the text the expression stands."""
        try:
            return self._run(statement)
        except EvaluationError as error:
            if isinstance(statement, st.AdHocQuery | st.RegisterQuery):
                self._planner.pointed(error, statement.place)
            raise

    def _replaced(self, statement: st.Statement) -> Result | None:
        """What OR REPLACE did; None where there is nothing to replace."""
        if not isinstance(statement, st.CreateView | st.CreateSink | st.RegisterQuery) or not statement.or_replace:
            return None
        with self._delivering, self._engine.lock:
            return self._replacing.run(statement)

    def _run(self, statement: st.Statement) -> Result:
        if (replaced := self._replaced(statement)) is not None:
            return replaced
        match statement:
            case st.CreateStream() | st.CreateTable() | st.CreateView():
                return self.objects.create(statement)
            case st.AddColumn() | st.Rename() | st.SetRetain():
                return self.objects.alter(statement)
            case st.RegisterQuery():
                return self.queries.register(statement)
            case st.CreateSink():
                return self.sinks.create(statement)
            case st.Drop():
                return self._drop(statement)
            case st.Insert() | st.InsertQuery() | st.Delete() | st.Update() | st.Advance():
                return self._changes.run(statement)
            case st.SetOption():
                with self._engine.lock:
                    return self._settings.run(statement)
            case st.AdHocQuery():
                return self._ad_hoc.run(statement)
            case st.Explain():
                return self.explain.run(statement)
            case st.Show():
                return self._show.run(statement)
            case st.Describe():
                return self._describe.describe(statement)
            case st.ShowCreate():
                return self._describe.show_create(statement)
            case st.Comment():
                return self._describe.comment(statement)
            case _:
                name = type(statement).__name__
                raise NotSupportedError(f"{name} cannot be run yet", place=statement.place)

    def _drop(self, statement: st.Drop) -> Result:
        # The order in which locks are taken: a sink may be at a delivery, which ends with a commit.
        touches_sinks = statement.kind == "SINK" or statement.cascade
        with self._delivering if touches_sinks else nullcontext(), self._engine.lock:
            gone = self._cascade.drop_users(statement) if statement.cascade else []
            result = self._drop_one(statement)
        return replace(result, message="; ".join([result.message, *gone]))

    def _drop_one(self, statement: st.Drop) -> Result:
        match statement.kind:
            case "QUERY":
                return self.queries.run_drop(statement)
            case "TEMPLATE":
                return self.queries.run_drop_template(statement)
            case "SINK":
                return self.sinks.drop(statement)
            case _:
                return self.objects.drop(statement)

    def recover(self) -> None:
        """Have all that queries read, before anything is changed: without one of these there is no database."""
        for entry in self._session.declared.entries:
            match entry["kind"]:
                case "settings":
                    self._settings.apply(Settings(**entry["values"]))
                case "function" | "aggregate" | "window":
                    _recover(entry, self.code.recover)
                case "query" | "template" | "named_template" | "sink" | "comment" | "left_out":
                    pass  # opened when all that they read is there
                case _:
                    _recover(entry, self.objects.recover)


def _recover(entry: Entry, declare: Callable[[Entry], None]) -> None:
    try:
        declare(entry)
    except (OSError, MemoryError, StateError):
        raise
    except Exception as error:
        raise CatalogError(
            f'{entry["kind"]} "{entry["name"]}" cannot be declared by this version',
            detail=str(error) if isinstance(error, Error) else repr(error),
            hint="open the database with the version that made it; nothing was changed",
        ) from error
