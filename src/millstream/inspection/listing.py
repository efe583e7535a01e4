"""Queries as a list to look through: sought, sorted, page by page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.engine.engine import Engine
from millstream.language.instants import shown_instant
from millstream.queries.live_plans import LivePlans, QueryWork
from millstream.queries.standing import StandingQueries
from millstream.queries.states import QueryStates, states
from millstream.query import Query

_ORDER = {"failed": 0, "filling": 1, "running": 2}


@dataclass(frozen=True)
class Wanted:
    """Which queries, in which order, and which part of them; those of no template where its name is empty."""

    search: str = ""
    state: str | None = None
    template: str | None = None
    sort: str = "state"
    offset: int = 0
    limit: int | None = None


class QueryListing:
    """What queries share is looked at once, and only those that are shown are described."""

    def __init__(self, engine: Engine, queries: StandingQueries, plans: LivePlans) -> None:
        self._engine, self._queries, self._plans = engine, queries, plans

    def page(self, wanted: Wanted) -> dict[str, Any]:
        """The queries of a page, how many are wanted, and how many there are in each state."""
        queries = [*self._queries.registry]
        found = states(self._engine, queries)
        filling = frozenset(found.filling)

        def state_of(query: Query) -> str:
            return "failed" if query.name in found.failed else "filling" if query.name in filling else "running"

        chosen = [query for query in queries if _is_sought(query, wanted)]
        if wanted.state is not None:
            chosen = [query for query in chosen if state_of(query) == wanted.state]
        work = self._plans.work()
        chosen = self._sorted(chosen, wanted.sort, state_of, work)
        end = None if wanted.limit is None else wanted.offset + wanted.limit
        shown = chosen[wanted.offset : end]
        return {
            "queries": [self._about(query, state_of(query), found, work) for query in shown],
            "total": len(chosen),
            "states": {"running": found.running, "filling": len(found.filling), "failed": len(found.failed)},
        }

    def _sorted(
        self, queries: list[Query], sort: str, state_of: Callable[[Query], str], work: QueryWork
    ) -> list[Query]:
        match sort:
            case "name":
                return sorted(queries, key=lambda query: query.name.lower())
            case "cost":
                return sorted(queries, key=lambda query: -work.share(query))
            case "rows":
                return sorted(queries, key=lambda query: -work.rows(query))
            case "registered":
                return queries
            case _:
                return sorted(queries, key=lambda query: _ORDER[state_of(query)])  # else as they came

    def _about(self, query: Query, state: str, found: QueryStates, work: QueryWork) -> dict[str, Any]:
        engine = self._engine
        final = -1 if state != "running" else engine.sources.final(query.materialization.inputs, engine.snapshot)
        return {
            "name": query.name,
            "kind": query.kind,
            "mode": query.mode,
            "state": state,
            "error": found.failed.get(query.name),
            "final": None if final < 0 else shown_instant(final, query.common.domain),
            "template": None if query.member_of is None else query.member_of.name,
            "shared_by": work.sharing(query),
            "share": work.share(query),
            "rows": work.rows(query),
        }


def _is_sought(query: Query, wanted: Wanted) -> bool:
    own = "" if query.member_of is None else query.member_of.name
    if wanted.template is not None and own.lower() != wanted.template.lower():
        return False
    return not wanted.search or wanted.search.lower() in query.name.lower()
