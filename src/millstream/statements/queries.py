"""REGISTER QUERY and DROP QUERY."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.catalog.objects import kind_of
from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.errors import CatalogError
from millstream.language import statements as st
from millstream.language.definer import check_name
from millstream.queries.standing import StandingQueries
from millstream.statements.result import Result


class QueryStatements:
    """Standing queries come and go."""

    def __init__(self, engine: Engine, session: Session, queries: StandingQueries, sinks: Sinks) -> None:
        self._engine, self._session, self._queries, self._sinks = engine, session, queries, sinks

    def register(self, statement: st.RegisterQuery) -> Result:
        check_name(statement.name)
        query = self._queries.registration.register(statement.name.text, statement.mode, statement)
        notices = (*query.notices, *self._namesakes(query.name))
        return Result("; ".join([f"query {query.name} registered", *notices]), query=query, notices=notices)

    def _namesakes(self, name: str) -> list[str]:
        """Queries have names of their own, which FROM does not know."""
        other = self._session.catalog.get(name.lower())
        return [] if other is None else [f"FROM {name} goes on reading the {kind_of(other)} {other.name}"]

    def run_drop(self, statement: st.Drop) -> Result:
        name = statement.name
        self._queries.registry.find(name.text, name.place)
        self.drop(name.key)
        return Result(f"query {name} dropped")

    def run_drop_template(self, statement: st.Drop) -> Result:
        name = statement.name
        count = len(self._queries.named.find(name.text, name.place))
        self.drop_template(name.key)
        return Result(f"template {name} and its {count} queries dropped")

    def drop(self, name: str) -> None:
        """Forget a query that no sink follows."""
        with self._engine.lock:
            query = self._queries.registry.find(name)
            if sinks := self._sinks.of(query):
                raise _in_use("query", query.name, sinks)
            self._queries.drop(query)
            self._queries.left_out.catch_up()

    def drop_template(self, name: str) -> None:
        """Forget a template and its queries, none of which a sink follows."""
        with self._engine.lock:
            template = self._queries.named.find(name)
            followed = self._sinks.of_any(template, {*template})
            if followed:
                raise _in_use("template", template.name, followed)
            self._queries.drop_template(template)
            self._queries.left_out.catch_up()


def _in_use(kind: str, name: str, sinks: Sequence[str]) -> CatalogError:
    return CatalogError(
        f'{kind} "{name}" is in use',
        detail=f"by the sinks {', '.join(sinks)}" if len(sinks) > 1 else f"by the sink {sinks[0]}",
        hint="drop those first",
    )
