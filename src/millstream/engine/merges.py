"""Which files the next epoch should merge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby

from millstream.engine.commits import Commits
from millstream.engine.epochs.merging import (
    FAN,
    HistoryMerge,
    MatchEdges,
    Merge,
    history_merges,
    most_to_merge,
    perform,
    result_merges,
    with_merged,
)
from millstream.engine.epochs.periods import by_period
from millstream.engine.retention import Retention
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.ranked_tree import RankedTree
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.pipeline import Pipeline
from millstream.state.snapshot import Names, Snapshot
from millstream.state.store import Store

_TREES = (RankedTree, TreeSelection)
_MATCHES = (Matches, MatchedSelection, *_TREES)


class Merges:
    """Merges of history and of results, as far as somebody may still ask for them."""

    def __init__(self, commits: Commits, sources: Sources, plan: SharedPlan, retention: Retention) -> None:
        self._commits, self._sources, self._plan, self._retention = commits, sources, plan, retention
        self._matching = MatchEdges()
        self._kept: dict[str, int | None] = {}  # the ticks for which matches of an edge are kept
        self._pipeline: Pipeline | None = None  # of which these are
        self._seen: Mapping[str, Names] = {}  # results that were looked at
        self._put_off: set[str] = set()  # edges with merges that may not have been done

    def due(self, periods: Mapping[str, int]) -> tuple[Merge, ...]:
        """Given the lengths of the periods by which the history of each source is laid out."""
        snapshot, store, sources = self._commits.snapshot, self._commits.store, self._sources
        schemas = {source: sources.schema(source) for source in snapshot.history if source in sources}
        return (
            *history_merges(snapshot.history, schemas, periods, most_to_merge(store.pool)),
            *self._of_results(snapshot, store),
        )

    def settle_history(self, suspected: Callable[[Iterable[str]], Collection[str]]) -> None:
        """Have small batches of history in files that others can read, and not among segments any more: at the end,
        since before it is done whenever eight of them have come."""
        commits = self._commits
        with commits.lock, commits.writing() as written:
            commits.journal.check_current()
            snapshot = commits.snapshot
            with commits.store.file(f"e{snapshot.epoch}") as writer:
                merges = [*self._of_appended(snapshot)]
                undone = suspected(merge.name for merge in merges)  # some other time, by a child first
                merges = [merge for merge in merges if merge.name not in undone]
                made = [perform(merge, commits.store, writer, snapshot.epoch) for merge in merges]
            for merge in made:
                if isinstance(merge, HistoryMerge):
                    written.add(file.name for file in merge.made)
                    files = with_merged(snapshot.history[merge.source], merge.files, merge.made)
                    snapshot = snapshot.with_history_of({merge.source: files})
            if snapshot is not commits.snapshot:
                commits.commit(snapshot)

    def _of_appended(self, snapshot: Snapshot) -> Iterator[HistoryMerge]:
        """Neighbours that lie among segments, and are of one period."""
        for source, files in snapshot.history.items():
            if source in self._sources:
                length = self._sources.period(source)
                for together in by_period(files, length):
                    for is_appended, found in groupby(together, key=lambda file: "@" in file.name):
                        if is_appended:
                            yield HistoryMerge(source, self._sources.schema(source), length, tuple(found))

    def _of_results(self, snapshot: Snapshot, store: Store) -> list[Merge]:
        """Of the edges that have shown something since they were last looked at, or whose merges were put off; matches
        expire by themselves, too."""
        self._find_matches()
        seen = self._seen
        new = {edge: names for edge, names in snapshot.results.items() if names is not seen.get(edge)}
        looked_at = {edge for edge, names in new.items() if len(names) >= FAN} | self._put_off | self._kept.keys()
        results = {edge: snapshot.results[edge] for edge in looked_at if edge in snapshot.results}
        found = [*result_merges(results, self._firsts(results, snapshot), store, self._matching)]
        self._seen, self._put_off = snapshot.results, {merge.edge for merge in found}
        return [*found]

    def _firsts(self, edges: Collection[str], snapshot: Snapshot) -> dict[str, int]:
        """Of edges, the first instant that their rows are still needed for; of matches, that of their oldest
        element."""
        firsts, kept = self._retention.firsts(edges, snapshot), self._kept
        return {edge: _before(first, kept[edge]) if edge in kept else first for edge, first in firsts.items()}

    def _find_matches(self) -> None:
        """The edges that carry matches, and for how long these are kept."""
        if self._pipeline is self._plan.pipeline:
            return
        self._pipeline = self._plan.pipeline
        steps = self._pipeline.steps
        found = {step.name: step.operator for step in steps if isinstance(step.operator, _MATCHES)}
        self._kept = {edge: operator.kept for edge, operator in found.items()}
        self._matching.trees = {
            edge: operator.shape if isinstance(operator, _TREES) else None for edge, operator in found.items()
        }


def _before(first: int, ticks: int | None) -> int:
    return 0 if ticks is None else max(0, first - ticks)
