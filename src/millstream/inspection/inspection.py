"""What people ask who look inside: `db.inspection`. Nothing here changes what is computed, but for settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millstream.catalog.session import Session
from millstream.connectors.sinks import Sinks
from millstream.engine.engine import Engine
from millstream.engine.live_plan import Document
from millstream.errors import Error
from millstream.inspection.checking import Checking
from millstream.inspection.listing import QueryListing
from millstream.inspection.names import known_names
from millstream.inspection.streams import StreamReports
from millstream.inspection.watching import Look, look
from millstream.language.instants import instant
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.settings import described
from millstream.system.streams import PREFIX, SYSTEM_STREAMS
from millstream.system.system import SystemStreams
from millstream.types import arrow_schema, to_arrow

# The settings that decide on plans.
OF_PLANS = ("strategy", "join_plan", "jit", "jit_detection", "stem_window", "disabled_rules", "expiry_groups")
_MOST_APPLIED = 1_000  # queries, each of which is planned again


class Inspector:
    """Reads what is committed and what was noticed. Whoever asks waits for no epoch."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        planner: Planner,
        queries: StandingQueries,
        sinks: Sinks,
        system: SystemStreams,
    ) -> None:
        self._engine, self._session, self._planner, self._queries = engine, session, planner, queries
        self._sinks = sinks
        self.plans = queries.plans
        self._system = system
        self.listing = QueryListing(engine, queries, self.plans)
        self.streams = StreamReports(engine, session.catalog)
        self._checking = Checking(engine, planner, queries, self.plans)

    def plan(self) -> Document:
        """The shared plan of all queries, with what its operators have done."""
        return self.plans.whole()

    def plan_of(self, name: str) -> Document:
        """A query's part of it."""
        return self.plans.of_query(self._queries.registry.find(name), self._planner)

    def look(self) -> Look:
        """The numbers of the shared plan now, for those who watch them."""
        return look(self._engine, self.plans)

    def check(self, text: str) -> dict[str, Any]:
        """What a query would be if it were registered: nothing is."""
        return self._checking.check(text)

    def names(self) -> dict[str, Any]:
        """What may be named in a text."""
        return known_names(self._session, [query.name for query in self._queries.registry])

    def recent(self, stream: str, since: int | str | None, limit: int) -> pa.Table:
        """What was noticed lately: the last rows of a system stream after an instant, in the order of time."""
        definition = next(each for each in SYSTEM_STREAMS if each.name == f"{PREFIX}{stream}")
        after = -1 if since is None else instant(since, definition.domain)
        found = self._system.recent(stream, after, limit)
        columns = {
            field.name: pa.array([row[field.name] for row in found]).cast(to_arrow(field.type))
            for field in definition.columns
        }
        return pa.table(columns, arrow_schema(definition.columns))

    def settings(self) -> list[dict[str, Any]]:
        """All settings, with what they mean."""
        has_queries, has_views = len(self._queries.registry) > 0, bool(self._session.catalog.views())
        fixed = {"shards": has_queries, **dict.fromkeys(("range_bounds", "timezone"), has_queries or has_views)}
        return described(self._session.settings, {name for name, is_fixed in fixed.items() if is_fixed})

    def apply(self, name: str) -> dict[str, str]:
        """Have the queries that run go by the value that a setting has now, where it decides on plans; tells of each
        what comes of it. Those of groups stay."""
        if name not in OF_PLANS:
            return {}
        value, found = getattr(self._session.settings, name), dict[str, str]()
        for query in self._queries.registry:
            if query.template is None and len(found) < _MOST_APPLIED:
                try:
                    found[query.name] = self._queries.replanning.change_setting(query, name, value)
                except Error as error:  # what this setting cannot run, say
                    found[query.name] = f"stays: {error.primary}"
        return found

    @property
    def database(self) -> str | None:
        """What the database is called: the last part of its directory; None of one that ends with its process."""
        directory = self._engine.journal.directory
        return None if directory is None else directory.resolve().parent.name

    def sinks(self) -> list[dict[str, Any]]:
        return self._sinks.shown()
