"""EXPLAIN: the plan of a query, what it would share, and with ANALYZE what its operators have done."""

from __future__ import annotations

import pyarrow as pa

from millstream.drawing.plan import PlanView
from millstream.engine.engine import Engine
from millstream.engine.reports import OperatorReport, as_text
from millstream.language import statements as st
from millstream.language.statement_parser import parse_query
from millstream.queries.planner import Planner
from millstream.queries.standing import StandingQueries
from millstream.statements.ad_hoc import AdHocQueries
from millstream.statements.result import Result

PLAN = "plan"  # the one column of EXPLAIN


class ExplainStatements:
    """Of standing queries, and of texts that are not registered."""

    def __init__(self, engine: Engine, planner: Planner, queries: StandingQueries, ad_hoc: AdHocQueries) -> None:
        self._engine, self._planner, self._queries, self._ad_hoc = engine, planner, queries, ad_hoc

    def run(self, statement: st.Explain) -> Result:
        reports: list[OperatorReport] = []
        if statement.name is not None:
            query = self._queries.registry.find(statement.name.text)
            view, more = query.plan(), ""
            if statement.analyze:
                reports = self._engine.reports.operators(*query.materialization.edges)
                more = "\napproximate: elements were shed" if query.is_approximate else ""
        elif statement.query is not None:
            bound, more = self._planner.answering_once().plan(statement.place.text, statement.query).bound, ""
            if statement.analyze:
                reports = self._engine.evaluation.measure(bound.plan, self._planner.options, self._ad_hoc.latest(bound))
            view = self._queries.explaining.of_text(bound, reports)
        if statement.form != "text":
            text = PlanView(view.text, view.document, measured=statement.analyze).in_format(statement.form)
            return Result(text, table=pa.table({PLAN: [text]}))
        text = view.text
        if statement.analyze:
            said = [as_text(reports), self._engine.reports.shown_epochs() if statement.name is not None else ""]
            text = f"{text}{more}\n\n" + "\n".join(filter(None, said))
        return Result(text, table=pa.table({PLAN: text.split("\n")}))

    def plan(self, cql: str) -> PlanView:
        """The plan of a text, and the defaults it would get."""
        return self._queries.explaining.of_text(self._planner.plan(cql, parse_query(cql)).bound)
