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
from typing import TYPE_CHECKING

from millstream.engine.bookmarks import Bookmark, Bookmarks
from millstream.engine.materialization import Nothing
from millstream.kernel.batch import INF
from millstream.plan import nodes as lo
from millstream.plan.analysis.lifetime import influence
from millstream.state.snapshot import HistoryFile, Snapshot

if TYPE_CHECKING:
    from millstream.engine.engine import Engine


@dataclass
class Retention:
    """What an engine keeps, and for whom."""

    engine: Engine
    bookmarks: Bookmarks = field(default_factory=Bookmarks)
    # Edges that are answered from together, with all sources of the answer: how many queries do.
    together: Counter[tuple[tuple[str, ...], frozenset[str]]] = field(default_factory=Counter)
    # Plans of queries that keep nothing, with the sources they read, by name: what they need of history is kept.
    recomputed: dict[str, tuple[lo.Node, frozenset[str]]] = field(default_factory=dict)
    # While a database is opened, some queries that hold history may be missing.
    is_opening: bool = False

    def first_answerable(self, sources: Collection[str], snapshot: Snapshot) -> int:
        """The first instant that RETAIN lets one ask for of what is made from sources."""
        retains = [retain for source in sources if (retain := self.engine.retain_of(source)) is not None]
        return max(0, self.engine.final(sources, snapshot) - min(retains)) if retains else 0

    def firsts(self, edges: Collection[str], snapshot: Snapshot) -> dict[str, int]:
        """Of edges that are shown, the first instant that somebody may ask for, or was not given yet."""
        found = {edge: self.first_answerable(self.engine.inputs(edge), snapshot) for edge in edges}
        for read, sources in +self.together:
            first = self.first_answerable(sources, snapshot)
            found |= {edge: min(found[edge], first) for edge in read if edge in found}
        for place in self.bookmarks.all():
            found |= {edge: min(found[edge], place.needed) for edge in place.query.keeping.edges if edge in found}
        return {edge: max(0, first) for edge, first in found.items()}

    # History

    def cut(self) -> None:
        """Forget history that nobody may ask for any more: after what is final was given to those who want it."""
        engine = self.engine
        with engine.lock:
            self._end_those_that_hold_too_much()
            noted = self.noted(engine.snapshot)
            kept = {source: self._kept(source, files, noted) for source, files in noted.history.items()}
            if any(len(kept[source]) < len(files) for source, files in noted.history.items()):
                engine.commit(replace(noted, history=kept))
            elif noted is not engine.snapshot:
                engine.snapshot = noted  # the next commit carries it, and it can be found out again

    def noted(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with how far history counts as cut."""
        if self.is_opening:
            return snapshot
        changed = {}
        for source, first in self._due(snapshot).items():
            progress = snapshot.progress(source)
            if first > progress.cut and (progress.cut or self._has_rows_before(source, first, snapshot)):
                changed[source] = replace(progress, cut=first)
        return replace(snapshot, sources={**snapshot.sources, **changed}) if changed else snapshot

    def _has_rows_before(self, source: str, first: int, snapshot: Snapshot) -> bool:
        return any(file.first < first for file in snapshot.history.get(source, ()))

    def _due(self, snapshot: Snapshot) -> dict[str, int]:
        """Per source that is not kept for ever, the instant before which nobody may ask for anything made from it."""
        engine = self.engine
        retains = {source: retain for source in engine.sources if (retain := engine.retain_of(source)) is not None}
        reached = {source: engine.final([source], snapshot) for source in retains}
        for sources in self._reading(snapshot) if retains else ():
            final = engine.final(sources, snapshot)
            reached |= {source: min(reached[source], final) for source in sources if source in reached}
        return {source: max(0, final - retains[source]) for source, final in reached.items()}

    def _reading(self, snapshot: Snapshot) -> set[frozenset[str]]:
        """The sources of every query, those that read the same once."""
        shown = (self.engine.inputs(edge) for edge in self.engine.shown_edges if edge not in snapshot.failures)
        computed = (sources for _, sources in [*self.recomputed.values()])
        return {*shown, *computed, *(sources for _, sources in +self.together)}

    def _kept(self, source: str, files: tuple[HistoryFile, ...], snapshot: Snapshot) -> tuple[HistoryFile, ...]:
        first = snapshot.progress(source).cut
        if not any(file.last < first for file in files):
            return files
        wanted = [*self._wanted(source, snapshot)]
        place = min((p.needed for p in self.bookmarks.all() if source in p.query.keeping.edges), default=INF)
        first = min(first, place, self.engine.filled_from(source))
        return tuple(
            file
            for file in files
            if file.last >= first or any(influence(plan, {source: file.last}) >= asked for plan, asked in wanted)
        )

    def _wanted(self, source: str, snapshot: Snapshot) -> Iterator[tuple[lo.Node, int]]:
        """Plans that are run over the history of a source, with the first instant that they are asked for."""
        for plan, sources in [*self.recomputed.values()]:
            if source in sources:
                yield plan, self.first_answerable(sources, snapshot)
        for place in self.bookmarks.all():
            keeping = place.query.keeping
            if isinstance(keeping, Nothing) and source in keeping.inputs:
                yield keeping.template, place.needed

    # What is held for those who are behind

    def held(self, place: Bookmark, until: int = INF) -> tuple[int, int]:
        """How many rows are kept that a place was not given yet, of those that began by an instant, and their bytes."""
        engine, keeping = self.engine, place.query.keeping

        def counted(snapshot: Snapshot) -> tuple[int, int]:
            found = [engine.held_in(edge, snapshot, place.seen, until) for edge in keeping.edges]
            if isinstance(keeping, Nothing):
                found = [_of_files(snapshot.history.get(source, ()), place.seen, until) for source in keeping.inputs]
            return sum(rows for rows, _ in found), sum(size for _, size in found)

        return engine.read(counted)

    def _end_those_that_hold_too_much(self) -> None:
        for place in self.bookmarks.all():
            if place.most is None:
                continue
            first = self.first_answerable(place.query.keeping.inputs, self.engine.snapshot)
            if place.needed < first and self.held(place, first)[1] > place.most:
                place.lost = first
                self.bookmarks.let_go(place)


def _of_files(files: Collection[HistoryFile], since: int, until: int) -> tuple[int, int]:
    found = [file for file in files if file.last > since and file.first <= until]
    return sum(file.rows for file in found), sum(file.bytes for file in found)


def cuts(snapshot: Snapshot) -> Mapping[str, int]:
    """Per source, the instant before which its history counts as gone; 0 where nothing was cut."""
    return {source: progress.cut for source, progress in snapshot.sources.items()}
