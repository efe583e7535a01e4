"""Which files the next epoch should merge."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.engine.commits import Commits
from millstream.engine.epochs.merging import MatchEdges, Merge, history_merges, most_to_merge, result_merges
from millstream.engine.retention import Retention
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.ranked_tree import RankedTree
from millstream.kernel.lazy.tree_selection import TreeSelection

_TREES = (RankedTree, TreeSelection)
_MATCHES = (Matches, MatchedSelection, *_TREES)


class Merges:
    """Merges of history and of results, as far as somebody may still ask for them."""

    def __init__(self, commits: Commits, sources: Sources, plan: SharedPlan, retention: Retention) -> None:
        self._commits, self._sources, self._plan, self._retention = commits, sources, plan, retention
        self._matching = MatchEdges()

    def due(self, periods: Mapping[str, int]) -> tuple[Merge, ...]:
        """Given the lengths of the periods by which the history of each source is laid out."""
        snapshot, store, sources = self._commits.snapshot, self._commits.store, self._sources
        schemas = {source: sources.schema(source) for source in sources}
        return (
            *history_merges(snapshot.history, schemas, periods, most_to_merge(store.pool)),
            *result_merges(snapshot.results, self._firsts(), store, self._match_edges()),
        )

    def _firsts(self) -> dict[str, int]:
        """Of each edge, the first instant that its rows are still needed for; of matches, that of their oldest
        element."""
        steps, snapshot = self._plan.pipeline.steps, self._commits.snapshot
        kept = {step.name: step.operator.kept for step in steps if isinstance(step.operator, _MATCHES)}
        firsts = self._retention.firsts(snapshot.results, snapshot)
        return {edge: _before(first, kept[edge]) if edge in kept else first for edge, first in firsts.items()}

    def _match_edges(self) -> MatchEdges:
        steps = self._plan.pipeline.steps
        found = {step.name: step.operator for step in steps if isinstance(step.operator, _MATCHES)}
        self._matching.trees = {
            edge: operator.shape if isinstance(operator, _TREES) else None for edge, operator in found.items()
        }
        return self._matching


def _before(first: int, ticks: int | None) -> int:
    return 0 if ticks is None else max(0, first - ticks)
