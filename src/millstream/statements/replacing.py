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
from millstream.language.statement_parser import parse_query
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.statements.dependants import Dependants, Replaced
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
    ) -> None:
        self._engine, self._session, self._planner = engine, session, planner
        self._queries, self._sinks = queries, sinks
        self._query_statements, self._sink_statements = query_statements, sink_statements
        self._dependants = Dependants(session, planner, queries, sinks)

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
        if followed := self._sinks.of(old):
            raise CatalogError(
                f'query "{old.name}" is followed by the sink{"s" * (len(followed) > 1)} {", ".join(followed)}',
                detail="what was delivered is of the query as it was, and would stand beside what is of the new one",
                hint=f"DROP SINK {followed[0]}, and create it again after the query: it begins with the whole answer",
                place=statement.name.place,
            )
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
        replaced = self._dependants.replaced(statement)
        with self._engine.commits.as_one():
            for query in replaced.queries:
                self._query_statements.drop(query.name)
            try:
                self._dependants.change_views(replaced.views)
                made = [self._dependants.register(query) for query in replaced.queries]
            except Error:
                self._put_back(replaced)
                raise
            finally:
                for query in replaced.queries:
                    self._keep_comment("query", query.name, query.comment)
        planned = f"; planned again over it: {', '.join(replaced.names)}" if replaced.names else ""
        said, *defaults = replaced.message.replace(" created", " replaced", 1).split("\n")
        notices = tuple(f"{query.name}: {notice}" for query in made for notice in query.notices)
        return Result("\n".join([said + planned, *defaults]), notices=notices)

    def _put_back(self, replaced: Replaced) -> None:
        for query in replaced.queries:
            if query.name in self._queries.registry:
                self._query_statements.drop(query.name)
        self._dependants.change_views(replaced.views_before)
        for query in replaced.queries:
            self._dependants.register(query)

    def _keep_comment(self, kind: str, name: str, text: str | None) -> None:
        if text is not None:
            self._session.declare(with_comment(self._session.declared, kind, name, text))
