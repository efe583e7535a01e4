"""DROP .. CASCADE: what reads an object goes with it, from the outermost to what is read.

Each of them goes by a commit of its own. Whoever is stopped on the way says the statement again.
"""

from __future__ import annotations

from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.errors import Place
from millstream.language import statements as st
from millstream.queries.standing import StandingQueries
from millstream.query import Query, Template
from millstream.statements.objects import ObjectStatements
from millstream.statements.queries import QueryStatements
from millstream.statements.sinks import SinkStatements


class Cascade:
    """Drops the views, queries, templates and sinks that read something. All under the locks that a DROP takes."""

    def __init__(
        self,
        session: Session,
        queries: StandingQueries,
        sinks: Sinks,
        query_statements: QueryStatements,
        sink_statements: SinkStatements,
        object_statements: ObjectStatements,
    ) -> None:
        self._catalog, self._queries, self._sinks = session.catalog, queries, sinks
        self._query_statements, self._sink_statements = query_statements, sink_statements
        self._object_statements = object_statements

    def drop_users(self, statement: st.Drop) -> list[str]:
        """All that reads what a statement drops; gives what to tell of each."""
        name = statement.name
        match statement.kind:
            case "SINK":
                return []
            case "QUERY":
                return self._sinks_of(self._queries.registry.find(name.text, name.place))
            case "TEMPLATE":
                return self._sinks_of(self._queries.named.find(name.text, name.place))
            case kind:
                self._catalog.find(kind.lower(), name)
                self._object_statements.check_not_read(name)
                return self._users_of(name)

    def _users_of(self, name: st.Name) -> list[str]:
        gone: list[str] = []
        owned = {each.edge for key, each in self._catalog.items() if key == name.key or key.startswith(f"{name.key}.")}
        for view in self._catalog.users(owned):
            inner = st.Name(view, name.place)
            gone += self._users_of(inner)
            gone.append(self._object_statements.drop(st.Drop(name.place, "VIEW", inner)).message)
        readers = [self._queries.registry.find(query) for query in self._queries.registry.readers(owned)]
        templates = {query.member_of.name: query.member_of for query in readers if query.member_of is not None}
        for template in templates.values():
            gone += self._sinks_of(template)
            self._query_statements.drop_template(template.name)
            gone.append(f"template {template.name} dropped")
        for query in readers:
            if query.member_of is None:
                gone += self._sinks_of(query)
                self._query_statements.drop(query.name)
                gone.append(f"query {query.name} dropped")
        return gone

    def _sinks_of(self, followed: Query | Template) -> list[str]:
        if isinstance(followed, Template):
            names = self._sinks.of_any(followed, {*followed})
        else:
            names = self._sinks.of(followed)
        place = Place("", 0, 0)
        return [self._sink_statements.drop(st.Drop(place, "SINK", st.Name(name, place))).message for name in names]
