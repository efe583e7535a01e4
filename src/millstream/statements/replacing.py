"""OR REPLACE: a view, query or sink in the place of the one that has its name, by one commit.

What is new is bound before anything goes, so that a text that is wrong changes nothing; where it cannot be registered
for another reason, what was there is put back.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.catalog.comments import comment_of, with_comment
from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.errors import CatalogError, Error, Place
from millstream.language import statements as st
from millstream.language.statement_parser import parse, parse_query
from millstream.language.type_names import stored_text
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.statements.objects import ObjectStatements
from millstream.statements.queries import QueryStatements
from millstream.statements.result import Result
from millstream.statements.sinks import SinkStatements


class Replacing:
    """Takes away what is there, and creates what a statement says. All under the locks that a DROP takes."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        planner: Planner,
        queries: StandingQueries,
        sinks: Sinks,
        query_statements: QueryStatements,
        sink_statements: SinkStatements,
        object_statements: ObjectStatements,
    ) -> None:
        self._engine, self._session, self._planner = engine, session, planner
        self._queries, self._sinks = queries, sinks
        self._query_statements, self._sink_statements = query_statements, sink_statements
        self._object_statements = object_statements

    def run(self, statement: st.Replacement) -> Result | None:
        """None where there is nothing to replace."""
        match statement:
            case st.RegisterQuery():
                return self._query(statement)
            case st.CreateSink():
                return self._sink(statement)
            case st.CreateView():
                return self._view(statement)

    def _query(self, statement: st.RegisterQuery) -> Result | None:
        old = self._queries.registry.get(statement.name.text)
        if old is None:
            return None
        self._planner.plan(statement.place.text, statement.query)
        comment = comment_of(self._session.declared, "query", old.name)
        name, mode, text = old.name, old.mode, old.cql
        with self._engine.commits.as_one():
            self._query_statements.drop(old.name)
            try:
                made = self._query_statements.register(statement)
            except Error:
                again = st.AdHocQuery(Place(text, 0, len(text)), parse_query(text))
                self._queries.registration.register(name, mode, again)
                raise
            finally:
                self._keep_comment("query", name, comment)
        return replace(made, message=made.message.replace(" registered", " replaced", 1))

    def _sink(self, statement: st.CreateSink) -> Result | None:
        if statement.name.key not in self._sinks.by_name:
            return None
        self._sink_statements.check(statement)
        comment = comment_of(self._session.declared, "sink", statement.name.key)
        with self._engine.commits.as_one():
            self._sink_statements.drop(st.Drop(statement.place, "SINK", statement.name))
            self._sink_statements.declare(statement)
            self._keep_comment("sink", statement.name.text, comment)
        self._sinks.flush()
        return Result(f"sink {statement.name} replaced")

    def _view(self, statement: st.CreateView) -> Result | None:
        found = self._session.catalog.get(statement.name.key)
        if found is None:
            return None
        self._session.catalog.find("view", statement.name)
        entry = self._session.declared.find("view", statement.name.text)
        users = self._session.catalog.users([statement.name.key]) + self._registered_readers(statement.name.key)
        if users or entry is None:
            raise CatalogError(
                f'view "{statement.name}" is in use',
                detail=f"by {', '.join(users)}",
                hint=f"what reads it was planned with it: DROP VIEW {statement.name} CASCADE, and create them again",
                place=statement.name.place,
            )
        self._object_statements.check_view(statement)
        comment = comment_of(self._session.declared, "view", found.name)
        with self._engine.commits.as_one():
            self._object_statements.drop(st.Drop(statement.place, "VIEW", statement.name))
            try:
                made = self._object_statements.create(statement)
            except Error:
                with stored_text():
                    (old,) = parse(entry["text"])
                if isinstance(old, st.CreateView):
                    self._object_statements.create(old)
                raise
            finally:
                self._keep_comment("view", found.name, comment)
        return replace(made, message=made.message.replace(" created", " replaced", 1))

    def _registered_readers(self, key: str) -> list[str]:
        return self._queries.registry.readers({key})

    def _keep_comment(self, kind: str, name: str, text: str | None) -> None:
        if text is not None:
            self._session.declare(with_comment(self._session.declared, kind, name, text))
