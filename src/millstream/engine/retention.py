"""RETAIN: how far back one may ask, and what may be forgotten.

    first answerable of a query  =  final - the least RETAIN of what it reads
    history of S is cut at the least of  heartbeat(S) - RETAIN(S)  and  final(q) - RETAIN(S)  of all q that read S

Nothing is cut that was not given yet: sinks and followers have places, and what comes after those is kept, whatever a
query answers from (results, matches or history). Cutting is a step of its own, after what is final was delivered. What
counts as cut is an instant, and never what files happen to hold: so nobody's answer depends on how rows came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from millstream.engine.bookmarks import Bookmark, Bookmarks
from millstream.engine.commits import Commits
from millstream.engine.materialization import Unmaterialized
from millstream.engine.reader import Reader
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Floors, Sources
from millstream.kernel.batch import INF
from millstream.plan import nodes as lo
from millstream.plan.analysis.lifetime import influence
from millstream.state.snapshot import HistoryFile, Snapshot


@dataclass
class Retention:
    """What is kept, and for whom."""

    commits: Commits
    sources: Sources
    plan: SharedPlan
    reader: Reader
    bookmarks: Bookmarks = field(default_factory=Bookmarks)
    # Edges that are answered from together, with all sources of the answer: how many queries do.
    together: Counter[tuple[tuple[str, ...], frozenset[str]]] = field(default_factory=Counter)
    # Plans of queries that keep nothing, with the sources they read, by name: what they need of history is kept.
    recomputed: dict[str, tuple[lo.Node, frozenset[str]]] = field(default_factory=dict)
    # While a database is opened, some queries that hold history may be missing.
    is_opening: bool = False

    def firsts(self, edges: Collection[str], snapshot: Snapshot) -> dict[str, int]:
        """Of edges that are shown, the first instant that somebody may ask for, or was not given yet."""
        found = {edge: self.sources.first_answerable(self.reader.inputs(edge), snapshot) for edge in edges}
        for read, sources in +self.together:
            first = self.sources.first_answerable(sources, snapshot)
            found |= {edge: min(found[edge], first) for edge in read if edge in found}
        for bookmark in self.bookmarks.all():
            found |= {
                edge: min(found[edge], bookmark.needed)
                for edge in bookmark.query.materialization.edges
                if edge in found
            }
        return {edge: max(0, first) for edge, first in found.items()}

    # History

    def cut(self) -> None:
        """Forget history that nobody may ask for any more: after what is final was given to those who want it."""
        commits = self.commits
        with commits.lock:
            self._end_those_that_hold_too_much()
            noted = self.with_cuts(commits.snapshot)
            kept = {source: self._kept(source, files, noted) for source, files in noted.history.items()}
            if any(len(kept[source]) < len(files) for source, files in noted.history.items()):
                commits.commit(noted.with_history_of(kept))
            elif noted is not commits.snapshot:
                commits.carry(noted)

    def lost_before(self, source: str) -> int:
        """The instant before which rows of a source are no longer all kept; 0 where they are."""
        snapshot = self.commits.snapshot
        if self.sources.retain_of(source) is not None:  # which depends on who reads it
            snapshot = self.with_cuts(snapshot)
        return snapshot.progress(source).cut

    def with_cuts(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with how far history counts as cut."""
        if self.is_opening:
            return snapshot
        due = self._due(snapshot).items()
        changed = {
            source: replace(snapshot.progress(source), cut=first)
            for source, first in due
            if self._is_cut_by(source, first, snapshot)
        }
        return snapshot.with_progress(changed)

    def floors(self, source: str, snapshot: Snapshot) -> Floors:
        """What may be asked of those who read a source, as its RETAIN is now: no more is kept of their results."""
        found = {
            read: self.sources.first_answerable(read, snapshot) for read in self._reading(snapshot) if source in read
        }
        return {read: first for read, first in found.items() if first}

    def _is_cut_by(self, source: str, first: int, snapshot: Snapshot) -> bool:
        cut = snapshot.progress(source).cut
        return first > cut and (cut > 0 or self._has_rows_before(source, first, snapshot))

    def _has_rows_before(self, source: str, first: int, snapshot: Snapshot) -> bool:
        return any(file.first < first for file in snapshot.history.get(source, ()))

    def _due(self, snapshot: Snapshot) -> dict[str, int]:
        """Per source that is not kept for ever, the instant before which nobody may ask for anything made from it.

        Only of sources that may be cut whoever reads them: to look at all queries costs as much as there are."""
        retains = {source: retain for source in self.sources if (retain := self.sources.retain_of(source)) is not None}
        reached = {source: self.sources.final([source], snapshot) for source in retains}
        reached = {
            source: final
            for source, final in reached.items()
            if self._is_cut_by(source, max(0, final - retains[source]), snapshot)
        }
        for sources in self._reading(snapshot) if reached else ():
            final = self.sources.final(sources, snapshot)
            reached |= {source: min(reached[source], final) for source in sources if source in reached}
        return {source: max(0, final - retains[source]) for source, final in reached.items()}

    def _reading(self, snapshot: Snapshot) -> set[frozenset[str]]:
        """The sources of every query, those that read the same once."""
        shown = (self.reader.inputs(edge) for edge in self.plan.shown if edge not in snapshot.failures)
        computed = (sources for _, sources in [*self.recomputed.values()])
        return {*shown, *computed, *(sources for _, sources in +self.together)}

    def _kept(self, source: str, files: tuple[HistoryFile, ...], snapshot: Snapshot) -> tuple[HistoryFile, ...]:
        first = snapshot.progress(source).cut
        if not any(file.last < first for file in files):
            return files
        wanted = [*self._wanted(source, snapshot)]
        bookmark = min((p.needed for p in self.bookmarks.all() if source in p.query.materialization.edges), default=INF)
        first = min(first, bookmark, self.reader.backfills.needed_from(source))
        return tuple(
            file
            for file in files
            if file.last >= first or any(influence(plan, {source: file.last}) >= asked for plan, asked in wanted)
        )

    def _wanted(self, source: str, snapshot: Snapshot) -> Iterator[tuple[lo.Node, int]]:
        """Plans that are run over the history of a source, with the first instant that they are asked for."""
        for plan, sources in [*self.recomputed.values()]:
            if source in sources:
                yield plan, self.sources.first_answerable(sources, snapshot)
        for bookmark in self.bookmarks.all():
            materialization = bookmark.query.materialization
            if isinstance(materialization, Unmaterialized) and source in materialization.inputs:
                yield materialization.template, bookmark.needed

    # What is held for those who are behind

    def held(self, bookmark: Bookmark, until: int = INF) -> tuple[int, int]:
        """How many rows are kept that a place was not given yet, of those that began by an instant, and their bytes."""
        materialization = bookmark.query.materialization

        def counted(snapshot: Snapshot) -> tuple[int, int]:
            found = [self.reader.held_in(edge, snapshot, bookmark.seen, until) for edge in materialization.edges]
            if isinstance(materialization, Unmaterialized):
                found = [
                    _of_files(snapshot.history.get(source, ()), bookmark.seen, until)
                    for source in materialization.inputs
                ]
            return sum(rows for rows, _ in found), sum(size for _, size in found)

        return self.commits.read(counted)

    def _end_those_that_hold_too_much(self) -> None:
        for bookmark in self.bookmarks.all():
            if bookmark.most is None:
                continue
            first = self.sources.first_answerable(bookmark.query.materialization.inputs)
            if bookmark.needed < first and self.held(bookmark, first)[1] > bookmark.most:
                bookmark.lost = first
                self.bookmarks.release(bookmark)


def _of_files(files: Collection[HistoryFile], since: int, until: int) -> tuple[int, int]:
    found = [file for file in files if file.last > since and file.first <= until]
    return sum(file.rows for file in found), sum(file.bytes for file in found)


def cuts(snapshot: Snapshot) -> Mapping[str, int]:
    """Per source, the instant before which its history counts as gone; 0 where nothing was cut."""
    return {source: progress.cut for source, progress in snapshot.sources.items()}
