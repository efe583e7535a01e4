"""EXPLAIN: plans in words and as pictures. Both are of the same document, so that they say the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from millstream.drawing.plan import PlanView, whole_text
from millstream.engine.engine import Engine
from millstream.engine.live_plan import Document
from millstream.engine.reports import OperatorReport
from millstream.language.binder import BoundQuery
from millstream.plan import nodes as lo
from millstream.plan.explain import explain
from millstream.queries.live_plans import LivePlans
from millstream.queries.planner import Planner
from millstream.queries.sharing_choice import SharingChoice
from millstream.query import Query


class Explaining:
    """Of standing queries, and of texts that are not registered."""

    def __init__(
        self,
        engine: Engine,
        planner: Planner,
        choice: SharingChoice,
        plans: LivePlans,
        label_of: Callable[[str], str],
    ) -> None:
        self._engine, self._planner, self._choice, self._plans = engine, planner, choice, plans
        self._label_of = label_of  # what a source is called

    def whole(self) -> PlanView:
        """The shared plan of all queries: a line for each operator."""
        document = self._plans.whole()
        return PlanView(whole_text(document), document)

    def of_query(self, query: Query) -> PlanView:
        """The plan of a standing query, what is kept for it, and what it shares."""
        document = self._plans.of_query(query, self._planner)
        return PlanView("\n".join([*self._said_of(query), *self._states(document, query)]), document)

    def _said_of(self, query: Query) -> list[str]:
        shown, change = self._engine.shared_plan.shown, query.plan_change
        lines = [explain(self._called_now(query.bound.plan), query.bound.domain)]
        lines += [f"mode {query.mode}: {note}" for note in query.materialization.notes() if query.mode != "eager"]
        if query.member_of is not None:
            lines.append(f"template {query.member_of.name}: {len(query.member_of)} queries")
        lines += [] if (failed := query.error) is None else [f"failed: {failed.primary}"]
        lines += [f"sharing: {line}" for line in (query.template.explain(query) if query.template is not None else [])]
        if query.number is None:
            others = max((shown[edge] - 1 for edge in query.materialization.edges if edge in shown), default=0)
            lines += [f"sharing: what is kept for it is kept for {others} others too"] if others > 0 else []
        return lines + ([] if change is None else [f"replan: {change}"])

    def _called_now(self, plan: lo.Node) -> lo.Node:
        """A plan whose sources may be called otherwise since it was made."""

        if isinstance(plan, lo.StreamScan | lo.TableScan):
            name = self._label_of(plan.name)
            return plan if name in (plan.title, plan.name) else replace(plan, title=name)
        # Plans that differ in names only are equal, so that it cannot be asked whether one has changed.
        return plan.with_children(tuple(map(self._called_now, plan.children)))

    def of_text(self, bound: BoundQuery, reports: Sequence[OperatorReport] = ()) -> PlanView:
        """The plan of a query that is not registered, its defaults, and what it would share; with what its operators
        did where it was run."""
        document = self._plans.of_text(bound, self._planner, measured=bool(reports))
        _note(document, reports)
        notes = [f"default: {text}" for text in bound.defaults]
        shared = [f"sharing: {text}" for text in self._choice.explain(bound, self._planner)]
        text = "\n".join([explain(bound.plan, bound.domain), *notes, *shared, *self._states(document)])
        return PlanView(text, document, measured=bool(reports))

    def _states(self, document: Document, own: Query | None = None) -> list[str]:
        """How what is kept is kept, and for whom else."""
        in_stems = {join for node in document["nodes"] for join in node["kept_by"]}
        lines: dict[str, None] = {}
        for node in document["nodes"]:
            structure = node["structure"]
            if structure is None or (node["id"] in in_stems and " and " not in structure):
                continue
            names, others = self._plans.others(node["id"], own)
            more = f", ... ({others:,})" if others > len(names) else ""
            shared = f", kept for {', '.join(names)}{more} too" if names else ""
            lines[f"state: {node['label']}: {structure}{shared}"] = None
        return [*lines]


def _note(document: Document, reports: Sequence[OperatorReport]) -> None:
    """What operators did when a text was run, in place of what those did that run for others."""
    done = {report.name: report for report in reports}
    spent = sum(report.seconds for report in reports)
    for node in document["nodes"]:
        report = done.get(node["id"])
        if report is not None:
            node.update(_numbers(report, spent))


def _numbers(report: OperatorReport, spent: float) -> dict[str, Any]:
    held = {name: report.counts.get(name, 0) for name in ("suspended", "resumed", "waiting")}
    return {
        "rows_in": report.rows_in,
        "rows_out": report.rows,
        "selectivity": report.selectivity,
        "seconds": report.seconds,
        "ms": 1e3 * report.seconds,
        "share": report.seconds / spent if spent else 0.0,
        "expired": report.expired,
        "state_bytes": report.state,
        "memory_bytes": report.memory,
        **held,
    }
