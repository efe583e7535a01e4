"""Which files should be merged, and by whom: what is little by the next epoch, what is more beside the epochs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby

from millstream.engine.background_merges import BackgroundMerges
from millstream.engine.commits import Commits
from millstream.engine.epochs.caution import Caution
from millstream.engine.epochs.commit import after_merges
from millstream.engine.epochs.merging import (
    FAN,
    HistoryMerge,
    MatchEdges,
    Merge,
    ResultMerge,
    after_item,
    history_merge_of,
    history_merges,
    most_to_merge,
    perform,
    result_merge_of,
    result_merges,
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
from millstream.state.snapshot import HistoryFile, Names, Snapshot
from millstream.state.store import Store

_TREES = (RankedTree, TreeSelection)
_MATCHES = (Matches, MatchedSelection, *_TREES)
IN_AN_EPOCH = 1 << 18  # bytes that an epoch merges itself
_FIXED = 1 << 14  # bytes that could be merged in the time that each merge takes however little it has


class Merges:
    """Merges of history and of results, as far as somebody may still ask for them."""

    def __init__(
        self, commits: Commits, sources: Sources, plan: SharedPlan, retention: Retention, caution: Caution
    ) -> None:
        self._commits, self._sources, self._plan, self._retention = commits, sources, plan, retention
        self._caution = caution
        self.background = BackgroundMerges(commits, caution, self._may_count, self.have_counted)
        self._matching = MatchEdges()
        self._kept: dict[str, int | None] = {}  # the ticks for which matches of an edge are kept
        self._pipeline: Pipeline | None = None  # of which these are
        self._seen: Mapping[str, Names] = {}  # results that were looked at
        self._put_off: set[str] = set()  # edges with merges that may not have been done

    def due(self, periods: Mapping[str, int]) -> tuple[Merge, ...]:
        """What the next epoch is to merge, given the lengths of the periods by which the history of each source is
        laid out; what is too much for it is begun beside it."""
        snapshot, store, sources = self._commits.snapshot, self._commits.store, self._sources
        schemas = {source: sources.schema(source) for source in snapshot.history if source in sources}
        history = {source: self._free_history(source, files) for source, files in snapshot.history.items()}
        found = [
            *history_merges(history, schemas, periods, most_to_merge(store.pool)),
            *self._of_results(snapshot, store),
        ]
        now, more, left = list[Merge](), list[Merge](), IN_AN_EPOCH
        for merge in found:
            left -= merge.bytes(store) + _FIXED
            (now if left >= 0 else more).append(merge)
        self._put_off = {merge.edge for merge in now if isinstance(merge, ResultMerge)}
        self.background.offer(merge for merge in more if self.background.claim(merge.name) is None)
        return tuple(now)

    def _free_history(self, source: str, files: tuple[HistoryFile, ...]) -> tuple[HistoryFile, ...]:
        """What nobody merges already."""
        claim = self.background.claim(history_merge_of(source))
        return after_item(files, claim.files[-1]) if isinstance(claim, HistoryMerge) else files

    def _free_results(self, edge: str, names: Names) -> Names:
        claim = self.background.claim(result_merge_of(edge))
        return after_item(names, claim.names[-1]) if isinstance(claim, ResultMerge) else names

    def have_counted(self, merges: Iterable[Merge]) -> None:
        """Those that were committed, for those who remember what they were made of."""
        self._retention.reader.currents.follow((m.edge, m.names, m.made) for m in merges if isinstance(m, ResultMerge))

    def _may_count(self, merge: Merge, snapshot: Snapshot) -> bool:
        """Whether a snapshot says the same with it: what it was made of is there, and is what it was taken for, and
        nobody may ask for what was left out."""
        if not merge.is_found_in(snapshot):
            return False
        if isinstance(merge, HistoryMerge):
            source, sources = merge.source, self._sources
            return source in sources and sources.schema(source) == merge.schema
        self._find_matches()
        is_alike = self._matching.trees.get(merge.edge) == merge.tree
        return is_alike and self._firsts([merge.edge], snapshot)[merge.edge] >= merge.first

    def settle_history(self) -> None:
        """Have small batches of history in files that others can read, and not among segments any more: at the end,
        since before it is done whenever eight of them have come."""
        commits = self._commits
        with commits.lock, commits.writing() as written:
            commits.journal.check_current()
            snapshot = commits.snapshot
            with commits.store.file(f"e{snapshot.epoch}") as writer:
                merges = [*self._of_appended(snapshot)]
                undone = self._caution.suspected(merge.name for merge in merges)  # some other time, by a child first
                merges = [merge for merge in merges if merge.name not in undone]
                made = [perform(merge, commits.store, writer, snapshot.epoch) for merge in merges]
            done = [merge for merge in made if merge is not None]
            written.add(name for merge in done for name in merge.written())
            if done:
                commits.commit(after_merges(snapshot, done))

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
        looked_at |= {merge.edge for merge in self.background.taken_undone() if isinstance(merge, ResultMerge)}
        free = {edge: self._free_results(edge, snapshot.results.get(edge, ())) for edge in looked_at}
        results = {edge: names for edge, names in free.items() if names}
        self._seen = snapshot.results
        return [*result_merges(results, self._firsts(results, snapshot), store, self._matching)]

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
