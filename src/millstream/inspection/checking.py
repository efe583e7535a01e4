"""A text before it is registered: what is wrong with it, or what it would be, share and cost."""

from __future__ import annotations

from typing import Any

from millstream.engine.engine import Engine
from millstream.errors import Error, Place
from millstream.kernel.step_limits import check_wanted
from millstream.language import statements as st
from millstream.language.binder import BoundQuery
from millstream.language.statement_parser import parse
from millstream.plan.cost import cost, estimate
from millstream.plan.explain import explain
from millstream.plan.nodes import sources
from millstream.queries.live_plans import LivePlans
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries

_NO_OPERATORS = ("source", "queries", "output")


class Checking:
    """Plans texts and registers nothing."""

    def __init__(self, engine: Engine, planner: Planner, queries: StandingQueries, plans: LivePlans) -> None:
        self._engine, self._planner, self._queries, self._plans = engine, planner, queries, plans

    def check(self, text: str) -> dict[str, Any]:
        """Errors with their places, or all that there is to know."""
        try:
            statements = parse(text)
            about = []
            for statement in statements:
                check_wanted()
                about.append(self._statement(statement))
        except Error as error:
            return {"ok": False, "errors": [_shown(error)]}
        if not about:
            return {"ok": False, "errors": [_shown(Error("there is no query in the text"))]}
        return {"ok": True, "statements": len(about), **about[-1]}

    def _statement(self, statement: st.Statement) -> dict[str, Any]:
        """Of the last statement all is told; queries in others are only bound."""
        match statement:
            case st.AdHocQuery() | st.RegisterQuery():
                return self._query(self._planner.planned(statement.place.text, statement.query).bound)
            case st.Explain(query=query) if query is not None:
                return self._query(self._planner.planned(statement.place.text, query).bound)
            case _:
                return {"kind": "statement", "statement": type(statement).__name__}

    def _query(self, bound: BoundQuery) -> dict[str, Any]:
        document = self._plans.of_text(bound, self._planner)
        operators = [node for node in document["nodes"] if node["kind"] not in _NO_OPERATORS]
        shared = [node for node in operators if node["queries"]]
        return {
            "kind": bound.kind,
            "schema": [{"name": column.name, "type": str(column.type)} for column in bound.schema],
            "expanded": bound.cql,
            "defaults": list(bound.defaults),
            "sharing": self._queries.choice.explain(bound, self._planner),
            "shared": [{"id": node["id"], "label": node["label"], "queries": node["queries"]} for node in shared],
            "cost": self._cost(bound) | {"operators": len(operators), "new_operators": len(operators) - len(shared)},
            "plan": explain(bound.plan, bound.domain),
        }

    def _cost(self, bound: BoundQuery) -> dict[str, Any]:
        """By the model that plans are chosen by: for one tick, and alone."""
        known = self._engine.sources.statistics({source.feed for source in sources(bound.plan)})
        expected = estimate(bound.plan, known, {})
        return {
            "nanoseconds_per_tick": round(cost(bound.plan, known), 1),
            "rows_per_tick": round(expected.rate, 4),
            "rows": round(expected.size, 1),
        }


def _shown(error: Error) -> dict[str, Any]:
    said: dict[str, Any] = {"message": error.primary, "detail": error.detail, "hint": error.hint}
    place = error.place
    if place is None:
        return said | {"line": None, "column": None, "end_line": None, "end_column": None}
    end = Place(place.text, max(place.end, place.start + 1), place.end)
    return said | {
        "line": place.line,
        "column": place.column,
        "end_line": end.line,
        "end_column": end.column,
        "start": place.start,
        "end": place.end,
    }
