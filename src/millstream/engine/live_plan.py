"""The shared plan as a document: the graph of its steps, with what they have done and hold.

    {"epoch": 12, "nodes": [{"id": "filter-1f", "kind": "filter", "rows_in": 5000, ...}], "edges": [{"from", ...}]}

EXPLAIN (FORMAT json), `q.plan()` and the service say the same, since all of them are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

from millstream.engine.commits import Commits
from millstream.engine.measures import Measure
from millstream.engine.reports import Reports, counts_of
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sharers import Sharers
from millstream.kernel.just_in_time.tally import COUNTS
from millstream.kernel.pipeline import Pipeline, Step
from millstream.plan.graph import OUTPUT, SOURCE, STEM, GraphNode, PlanGraph, Shown, graph_of, step_detail
from millstream.state.snapshot import Snapshot

Document = dict[str, Any]
_NOTHING = Measure()
_versions = count(1)


@dataclass(frozen=True, eq=False)
class KnownPlan:
    """A pipeline and its failed steps, the graph of both, and who shares what."""

    pipeline: Pipeline
    failed: tuple[Step, ...]
    shown: tuple[Shown, ...]
    graph: PlanGraph
    sharers: Sharers
    version: int = 0  # another one for each plan
    details: dict[str, list[str]] = field(default_factory=dict)  # of nodes, as somebody has asked for them
    queries: dict[str, int] = field(default_factory=dict)

    @cached_property
    def whole(self) -> Pipeline:
        """With the steps that have failed."""
        return Pipeline((*self.pipeline.steps, *self.failed)) if self.failed else self.pipeline

    def edges_of(self, node: GraphNode) -> list[str]:
        """The edges that tell who shares a node."""
        return [step for step, _ in node.keepers] or [*node.steps] or [node.edge]

    def queries_of(self, node: GraphNode) -> int:
        """How many queries share a node."""
        if node.kind == OUTPUT:
            return node.queries
        if node.id not in self.queries:
            self.queries[node.id] = self.sharers.count(self.edges_of(node))
        return self.queries[node.id]


class LivePlan:
    """Reads what is committed, and waits for nobody."""

    def __init__(self, commits: Commits, plan: SharedPlan, reports: Reports) -> None:
        self._commits, self._plan, self._reports = commits, plan, reports
        self._last: KnownPlan | None = None

    def known(self, shown: Sequence[Shown], label_of: Callable[[str], str]) -> KnownPlan:
        """The shared plan, shown by these."""
        pipeline, failed, last = self._plan.pipeline, tuple(self._plan.failed), self._last
        same = last is not None and last.pipeline is pipeline and last.failed == failed
        if last is None or not same or last.shown != tuple(shown):
            last = self._last = known_plan(pipeline, shown, label_of, failed)
        return last

    def document(self, plan: KnownPlan, only: Iterable[str] | None = None) -> Document:
        """All nodes, or some of them, with their numbers, and the edges between them."""
        graph, chosen = plan.graph, None if only is None else {*only}
        nodes = [node for node in graph.nodes.values() if chosen is None or node.id in chosen]
        edges = [edge for edge in graph.edges if chosen is None or (edge.start in chosen and edge.end in chosen)]
        numbers = self.numbers(plan, nodes)
        epoch = self._commits.snapshot.epoch
        return {
            "epoch": epoch,
            "version": plan.version,
            "nodes": [self._node(plan, node, numbers[node.id]) for node in nodes],
            "edges": [
                {
                    "id": edge.id,
                    "from": edge.start,
                    "to": edge.end,
                    "pattern": edge.pattern,
                    "awaited": edge.is_awaited,
                    "rate": numbers[edge.start]["rate"],
                }
                for edge in edges
            ],
        }

    def _node(self, plan: KnownPlan, node: GraphNode, numbers: Mapping[str, Any]) -> Document:
        if node.id not in plan.details:
            plan.details[node.id] = _details(plan, node)
        return {
            "id": node.id,
            "kind": node.kind,
            "label": node.label,
            "detail": plan.details[node.id],
            "pattern": node.pattern,
            "structure": node.structure,
            "state": node.state,
            "operators": len(node.steps),
            "kept_by": [step for step, _ in node.keepers],
            **numbers,
        }

    def numbers(self, plan: KnownPlan, nodes: Sequence[GraphNode]) -> dict[str, dict[str, Any]]:
        """By node what it has done, and holds."""
        return self._commits.read(lambda snapshot: self._numbers(plan, nodes, snapshot))

    def _numbers(self, plan: KnownPlan, nodes: Sequence[GraphNode], snapshot: Snapshot) -> dict[str, dict[str, Any]]:
        measures = self._reports.measures
        now = measures.now
        all_steps = (step for node in plan.graph.nodes.values() for step in node.steps)
        spent = sum(measure.lately(now) for step in all_steps if (measure := measures.get(step)) is not None)
        in_stems = {(step, synopsis) for node in nodes if node.kind == STEM for step, synopsis in node.keepers}
        return {node.id: self._of(plan, node, snapshot, now, spent, in_stems) for node in nodes}

    def _of(
        self,
        plan: KnownPlan,
        node: GraphNode,
        snapshot: Snapshot,
        now: float,
        spent: float,
        in_stems: set[tuple[str, str]],
    ) -> dict[str, Any]:
        measures, names = self._reports.measures, node.steps or (node.edge,)
        done = [measures.get(name) or _NOTHING for name in names]
        rows_in = sum(each.rows_in for each in done) if node.steps else None
        rows_out = sum(each.rows_out for each in done)
        lately = sum(each.lately(now) for each in done)
        is_operator = bool(node.steps)
        counts = self._counts(node, snapshot)
        return {
            "rows_in": rows_in,
            "rows_out": rows_out,
            "selectivity": rows_out / rows_in if rows_in else None,
            "rate": round(sum(each.rate(now) for each in done), 3),
            "seconds": round(sum(each.seconds for each in done), 6) if is_operator else None,
            "ms": round(sum(each.milliseconds for each in done), 4) if is_operator else None,
            "share": round(lately / spent, 4) if spent and is_operator else 0.0,
            "expired": sum(each.expired for each in done) if is_operator else None,
            "state_bytes": self._state_bytes(node, snapshot, in_stems),
            "memory_bytes": sum(map(self._reports.memory_of, node.steps)),
            "queries": plan.queries_of(node),
            "suspended": counts.get("suspended", 0),
            "resumed": counts.get("resumed", 0),
            "waiting": counts.get("waiting", 0),
        }

    def _state_bytes(self, node: GraphNode, snapshot: Snapshot, in_stems: set[tuple[str, str]]) -> int:
        """Segments that several steps hold are counted once; those of SteMs there, and not with the joins."""
        found: set[str] = set()
        for step, synopsis in node.keepers:
            for name, segments in snapshot.states.get(step, {}).items():
                if _own(name) == synopsis:
                    found.update(segments)
        for step in node.steps:
            for name, segments in snapshot.states.get(step, {}).items():
                if not in_stems or (step, _own(name)) not in in_stems:
                    found.update(segments)
        return sum(map(self._commits.store.size, found))

    def _counts(self, node: GraphNode, snapshot: Snapshot) -> Mapping[str, int]:
        """What joins just in time have held back."""
        if node.kind != "join":
            return {}
        total: dict[str, int] = {}
        for step in node.steps:
            synopses = snapshot.states.get(step, {})
            if any(name.endswith(COUNTS) for name in synopses):
                for name, count in counts_of(synopses, self._commits.store).items():
                    total[name] = total.get(name, 0) + count
        return total


def known_plan(
    pipeline: Pipeline, shown: Sequence[Shown], label_of: Callable[[str], str], failed: tuple[Step, ...] = ()
) -> KnownPlan:
    """What stays the same as long as the plan does."""
    graph = graph_of(pipeline, shown, label_of=label_of, failed=failed)
    sharers = Sharers((*pipeline.steps, *failed), {each.edge: each.queries for each in shown})
    return KnownPlan(pipeline, failed, tuple(shown), graph, sharers, next(_versions))


def _details(plan: KnownPlan, node: GraphNode) -> list[str]:
    if node.kind == STEM:
        others = [f"kept for {step}" for step, _ in node.keepers[:10]]
        more = [f"and {len(node.keepers) - 10:,} more"] if len(node.keepers) > 10 else []
        return [node.label, f"state: {node.structure}", *others, *more]
    if node.kind in (OUTPUT, SOURCE) or not node.steps:
        return [node.label]
    return step_detail(plan.whole.by_name[node.steps[0]])


def _own(synopsis: str) -> str:
    """The name of a synopsis without its shard."""
    return synopsis.partition("/")[2]
