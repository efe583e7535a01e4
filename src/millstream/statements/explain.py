"""EXPLAIN: the plan of a query, what it would share, and with ANALYZE what its operators have done."""

from __future__ import annotations

import pyarrow as pa

from millstream.engine.engine import Engine
from millstream.engine.reports import OperatorReport, as_text
from millstream.language import statements as st
from millstream.language.binder import BoundQuery
from millstream.language.statement_parser import parse_query
from millstream.plan.explain import explain
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.statements.ad_hoc import AdHocQueries
from millstream.statements.result import Result


class ExplainStatements:
    """Of standing queries, and of texts that are not registered."""

    def __init__(self, engine: Engine, planner: Planner, queries: StandingQueries, ad_hoc: AdHocQueries) -> None:
        self._engine, self._planner, self._queries, self._ad_hoc = engine, planner, queries, ad_hoc

    def run(self, statement: st.Explain) -> Result:
        reports: list[OperatorReport] = []
        if statement.name is not None:
            query = self._queries.registry.find(statement.name.text)
            text = query.explain()
            if statement.analyze:
                reports = self._engine.reports.operators(query.edge)
                text += "\napproximate: elements were shed" if query.is_approximate else ""
        elif statement.query is not None:
            bound = self._planner.plan(statement.place.text, statement.query).bound
            text = self._explained(bound)
            if statement.analyze:
                reports = self._engine.evaluation.measure(bound.plan, self._planner.options, self._ad_hoc.latest(bound))
        if statement.analyze:
            text = f"{text}\n\n{as_text(reports)}"
        return Result(text, table=pa.table({"plan": text.split("\n")}))

    def text(self, cql: str) -> str:
        """The plan of a text, and the defaults it would get."""
        return self._explained(self._planner.plan(cql, parse_query(cql)).bound)

    def _explained(self, bound: BoundQuery) -> str:
        """The plan of a query that is not registered, its defaults, and what it would share."""
        notes = [f"default: {text}" for text in bound.defaults]
        shared = [f"sharing: {text}" for text in self._queries.choice.explain(bound, self._planner)]
        return "\n".join([explain(bound.plan), *notes, *shared])
