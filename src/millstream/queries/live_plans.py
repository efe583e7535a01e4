"""The plans of queries as documents: all of them, that of one query, and that of a text that is not registered."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from millstream.engine.engine import Engine
from millstream.engine.groups.group import Group
from millstream.engine.live_plan import Document, KnownPlan, LivePlan, known_plan
from millstream.engine.measures import Measures
from millstream.errors import NameError, did_you_mean
from millstream.kernel.pipeline import Pipeline
from millstream.language.binder import BoundQuery
from millstream.plan.explain import describe
from millstream.plan.explain_groups import service_of
from millstream.plan.graph import Shown, output_of
from millstream.plan.nodes import sources
from millstream.queries.planner import Planner
from millstream.queries.registry import Registry
from millstream.queries.sharing_choice import SharingChoice
from millstream.query import Query

_NAMED = 3  # of the queries that share something
_SHAPES = 5  # of a group that are told
_NOT_YET = "not registered"


@dataclass
class _Showing:
    """An edge that queries show: how many, some of them, and the template that all of them are of, if they are."""

    first: list[Query] = field(default_factory=list)
    count: int = 0
    template: str | None = None

    @property
    def label(self) -> str:
        if self.count == 1:
            return self.first[0].name
        of = f" of {self.template}" if self.template is not None else ""
        return f"{self.count:,} queries{of}"


class QueryWork:
    """What one query has to answer for: of the seconds that are spent lately, each step divided among those who share
    it. Queries with the same edges have the same."""

    def __init__(self, plan: KnownPlan, measures: Measures) -> None:
        self._plan, self._measures, self._now = plan, measures, measures.now
        self._spent = self._measures.lately(step.name for step in plan.whole.steps)
        self._shares: dict[tuple[str, ...], float] = {}

    def share(self, query: Query) -> float:
        """Of all seconds spent lately, from 0 to 1."""
        edges = query.materialization.edges
        if edges not in self._shares:
            self._shares[edges] = self._share(edges)
        return self._shares[edges]

    def _share(self, edges: Collection[str]) -> float:
        if not self._spent:
            return 0.0
        plan, own = self._plan, 0.0
        for step in plan.whole.edges_below(*edges):
            spent = self._measures.lately([step])
            own += spent / max(plan.sharers.count([step]), 1) if spent else 0.0
        return round(own / self._spent, 8)

    def rows(self, query: Query) -> int:
        """That its edges have given since the database was opened; those of a group for all of its queries."""
        found = (self._measures.get(edge) for edge in query.materialization.edges)
        return sum(measure.rows_out for measure in found if measure is not None)

    def sharing(self, query: Query) -> int:
        """How many queries show the same."""
        return max((self._plan.sharers.shown_by(edge) for edge in query.materialization.edges), default=1)


class LivePlans:
    """Knows which queries show which edges."""

    def __init__(
        self, engine: Engine, registry: Registry, choice: SharingChoice, label_of: Callable[[str], str]
    ) -> None:
        self._engine, self._registry, self._choice, self._label_of = engine, registry, choice, label_of
        self._live = LivePlan(engine.commits, engine.shared_plan, engine.reports)

    def whole(self) -> Document:
        """The shared plan."""
        plan = self.known()
        return {**self._live.document(plan), "groups": self._groups(plan)}

    def known(self) -> KnownPlan:
        """The shared plan without numbers."""
        return self._live.known(self._shown(), self._label_of)

    def work(self) -> QueryWork:
        """Who has to answer for how much."""
        return QueryWork(self.known(), self._engine.reports.measures)

    def numbers(self, plan: KnownPlan) -> dict[str, dict[str, Any]]:
        """By node what it has done and holds."""
        return self._live.numbers(plan, [*plan.graph.nodes.values()])

    def of_query(self, query: Query, planner: Planner) -> Document:
        """The part of the shared plan that a query's answer is made by; of one that keeps nothing, what is run when it
        is asked."""
        edges = query.materialization.edges
        if query.mode == "none" or not edges:
            return self._of_pipeline(*self._own_plan(query.bound, planner), f"{query.name}, when it is asked")
        plan = self.known()
        below = plan.whole.edges_below(*edges)
        of_step = plan.graph.of_step
        chosen = {of_step[edge] for edge in below if edge in of_step}
        chosen |= {output_of(of_step.get(edge, edge)) for edge in edges}
        chosen |= {node.id for node in plan.graph.nodes.values() if any(step in below for step, _ in node.keepers)}
        return {**self._live.document(plan, chosen), "groups": self._groups(plan, edges)}

    def of_text(self, bound: BoundQuery, planner: Planner, *, measured: bool = False) -> Document:
        """What would run for a query if it were registered now: in a group, or by a plan of its own, which is also what
        runs where it is only measured."""
        if measured:
            return self._of_pipeline(*self._own_plan(bound, planner), _NOT_YET)
        statistics = self._engine.sources.statistics({source.feed for source in sources(bound.plan)})
        chosen = self._choice.chosen([*self._choice.memberships(bound, planner, statistics)], planner.settings)
        if chosen is not None:
            return self._of_pipeline(chosen.group.edge, chosen.group.pipeline, _NOT_YET)
        return self._of_pipeline(*self._own_plan(bound, planner), _NOT_YET)

    def _own_plan(self, bound: BoundQuery, planner: Planner) -> tuple[str, Pipeline]:
        return self._engine.plans.lowered(bound.plan, planner.options)

    def _of_pipeline(self, edge: str, pipeline: Pipeline, label: str) -> Document:
        """Steps that run already have the numbers and queries that they have there."""
        own, running = known_plan(pipeline, [Shown(edge, 1, label)], self._label_of), self.known()
        found = self._live.document(own)
        for node in found["nodes"]:
            steps = own.graph.nodes[node["id"]]
            node["queries"] = running.sharers.count(own.edges_of(steps)) if node["kind"] != "output" else 0
            node["shared"] = all(step in running.graph.of_step for step in steps.steps)
        return {**found, "groups": []}

    def others(self, node: str, own: Query | None = None) -> tuple[list[str], int]:
        """Some of the queries beside one that share a node of the shared plan or of a part of it, and how many."""
        plan = self.known()
        found = plan.graph.nodes.get(plan.graph.of_step.get(node, node))
        if found is None:
            return [], 0
        showing = self._showing()
        edges = plan.sharers.shown_from([node] if node in found.steps else plan.edges_of(found))
        names = [query.name for edge in showing if edge in edges for query in showing[edge].first]
        names = [name for name in dict.fromkeys(names) if own is None or name != own.name]
        count = plan.sharers.count([node] if node in found.steps else plan.edges_of(found))
        return names[:_NAMED], count - (own is not None)

    def sharers(self, node: str, offset: int, limit: int) -> tuple[list[Query], int]:
        """The queries that share a node of the shared plan: some of them, and how many they are."""
        plan = self.known()
        found = plan.graph.nodes.get(node)
        if found is None:
            hint = did_you_mean(node, plan.graph.nodes)
            raise NameError(f'there is no operator "{node}" in the plan', hint=hint)
        edges = plan.sharers.shown_from(plan.edges_of(found))
        queries = [query for query in self._registry if not edges.isdisjoint(query.materialization.edges)]
        return queries[offset : offset + limit], len(queries)

    def _shown(self) -> list[Shown]:
        """Edges with the queries that show them."""
        return [Shown(edge, each.count, each.label, self._state(edge)) for edge, each in self._showing().items()]

    def _showing(self) -> dict[str, _Showing]:
        found: dict[str, _Showing] = {}
        for query in self._registry:
            of = None if query.member_of is None else query.member_of.name
            for edge in query.materialization.edges:
                known = found.get(edge)
                if known is None:
                    known = found[edge] = _Showing(template=of)
                known.count += 1
                if known.count <= _NAMED + 1:
                    known.first.append(query)
                if known.template != of:
                    known.template = None
        return found

    def _state(self, edge: str) -> str:
        engine = self._engine
        if edge in engine.snapshot.failures:
            return "failed"
        return "running" if edge in engine.shared_plan or edge in engine.sources else "filling"

    def _groups(self, plan: KnownPlan, edges: Collection[str] | None = None) -> list[dict[str, Any]]:
        """Queries that are rows of one query table, and what finds those that want a row."""
        counts = {each.edge: each.queries for each in plan.shown}
        return [
            {
                "id": plan.graph.of_step.get(group.selection, group.selection),
                "label": describe(group.split.core),
                "queries": counts[group.edge],
                "shapes": len(group.shapes),
                "indexes": _indexes(group),
            }
            for group in self._engine.groups
            if group.edge in counts and (edges is None or group.edge in edges)
        ]


def _indexes(group: Group) -> list[str]:
    """By what the queries of a group are found, of some shapes."""
    shapes = [*group.shapes.values()][:_SHAPES]
    lines = (service_of(shape.condition, keyed=group.key is not None).lines() for shape in shapes)
    return [*dict.fromkeys(line for each in lines for line in each)]
