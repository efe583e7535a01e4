"""What the engine knows of sources: their columns, how far they are final, and the history that is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Cut, Part, read_history, write_history
from millstream.engine.epochs.periods import period_length
from millstream.engine.extents import Extent, Wanted
from millstream.engine.needs import EVERYTHING, Needs, may_have
from millstream.kernel.batch import INF, START, Batch, empty_batch
from millstream.kernel.storage.segments import numbers
from millstream.plan.cost import SourceStatistics
from millstream.plan.grouping import QUERY_ROWS
from millstream.plan.lowering.lower import CLOCK
from millstream.state.snapshot import Catalog, HistoryFile, Snapshot
from millstream.types import AlteredField, Schema

STATISTICS_ROWS = 50_000  # the newest of a source, by which queries are planned
_STATISTICS_FILES = 16  # at most, in which these are


# The first instant that those could be asked for who read some sources when a RETAIN became longer.
Floors = dict[frozenset[str], int]


@dataclass(frozen=True)
class SourceRow:
    """A source as the engine sees it: its columns, whether it has a heartbeat of its own (or follows the clock), and
    for how many ticks its history is kept (None for ever)."""

    schema: Schema
    has_heartbeat: bool
    counts_arrivals: bool
    retain: int | None = None
    name: str = ""  # what people call it


class Sources:
    """The streams and tables of a database, the query tables that groups read, and the clock."""

    def __init__(self, commits: Commits) -> None:
        self._commits, self._store = commits, commits.store
        self._rows: dict[str, SourceRow] = {CLOCK: SourceRow((), False, False)}
        self._distinct: dict[str, tuple[float, ...]] = {}  # by history file
        self._lengthened = False  # whether some RETAIN is longer than it was
        self._floors: Floors = {}

    def __contains__(self, edge: str) -> bool:
        return edge in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter([*self._rows])

    def add(self, name: str, row: SourceRow) -> None:
        with self._commits.lock:
            self._rows[name] = row

    def lengthen(self, floors: Floors) -> None:
        """Some RETAIN is longer than it was when history was cut, and results were."""
        self._lengthened = True
        self._floors |= {sources: max(first, self._floors.get(sources, 0)) for sources, first in floors.items()}

    def add_query_rows(self, name: str, schema: Schema) -> None:
        """The query table of a group as a source: it says something when queries come, and never holds time back."""
        self.add(name, SourceRow(schema, False, False))

    def drop(self, names: Sequence[str], catalog: Catalog) -> None:
        """Forget sources and their history; no query reads them any more."""
        with self._commits.lock:
            self._commits.commit(self._commits.snapshot.without_sources(names).with_catalog(catalog))
            for name in names:
                self._rows.pop(name, None)

    def schema(self, source: str) -> Schema:
        return self._rows[source].schema

    def has_heartbeat(self, source: str) -> bool:
        """Whether a source has a heartbeat of its own; others follow the clock."""
        return self._rows[source].has_heartbeat

    def counts_arrivals(self, source: str) -> bool:
        """Whether the elements of a source are numbered."""
        return self._rows[source].counts_arrivals

    def name_of(self, source: str) -> str:
        """What people call a source."""
        return self._rows[source].name or source

    def retain_of(self, source: str) -> int | None:
        """For how many ticks a source's history is kept; None for ever."""
        return self._rows[source].retain

    def period(self, source: str) -> int:
        """The length of the periods by which the history of a source is laid out."""
        return period_length(self._commits.snapshot.history.get(source, ()), self._rows[source].retain)

    def empty(self, source: str) -> Batch:
        row = self._rows[source]
        return empty_batch(row.schema, arrival=row.counts_arrivals)

    def among(self, edges: Collection[str]) -> frozenset[str]:
        """The sources among edges, but for query tables."""
        return frozenset(name for name in edges if name in self._rows and not name.startswith(QUERY_ROWS))

    # Time

    def frontier(self, source: str, snapshot: Snapshot | None = None) -> int:
        """How far a source is final."""
        snapshot = snapshot or self._commits.snapshot
        if source == CLOCK:
            return max(snapshot.clock, 0)  # what reads nothing holds from instant 0 on, whatever comes
        return snapshot.progress(source).heartbeat if self._rows[source].has_heartbeat else snapshot.clock

    def frontiers(self, snapshot: Snapshot | None = None) -> dict[str, int]:
        """How far each source is final."""
        snapshot = snapshot or self._commits.snapshot
        clock, rows = snapshot.clock, [*self._rows.items()]
        found = {name: snapshot.progress(name).heartbeat if row.has_heartbeat else clock for name, row in rows}
        return {**found, CLOCK: self.frontier(CLOCK, snapshot)}

    def final(self, sources: Collection[str], snapshot: Snapshot) -> int:
        """The last instant up to which what is made from sources is final; -1 where nothing is, or there are none."""
        return min((self.frontier(source, snapshot) for source in sources), default=-1)

    def first_answerable(self, sources: Collection[str], snapshot: Snapshot | None = None) -> int:
        """The first instant that RETAIN lets one ask for of what is made from sources."""
        retains = [retain for source in sources if (retain := self.retain_of(source)) is not None]
        snapshot = snapshot or self._commits.snapshot
        cut = 0
        if self._lengthened:  # since something was cut
            cut = max((snapshot.progress(source).cut for source in sources), default=0)
            cut = max(cut, self._floors.get(frozenset(sources), 0))
        return max(0, self.final(sources, snapshot) - min(retains), cut) if retains else cut

    def instant_of(self, source: str, first: int, number: int) -> int:
        """The instant of the n-th element of a source from an instant on, in the order of time; INF where it is not
        known yet."""
        snapshot = self._commits.snapshot
        heartbeat, files = snapshot.progress(source).heartbeat, snapshot.history.get(source, ())
        found = np.empty(0, np.int64)
        for file in sorted((file for file in files if file.last >= first), key=lambda file: file.first):
            if found.size >= number and found[number - 1] < file.first:
                break
            instants = self._instants(source, file)
            found = np.sort(np.concatenate([found, instants[(instants >= first) & (instants <= heartbeat)]]))[:number]
        return int(found[number - 1]) if found.size >= number else INF

    def number_before(self, source: str, first: int) -> int:
        """How many elements of a source were accepted that lie before an instant, whether they are kept or not."""
        snapshot = self._commits.snapshot
        progress, later = snapshot.progress(source), 0
        for file in snapshot.history.get(source, ()):
            if file.first >= first:
                later += file.rows
            elif file.last >= first:
                later += int((self._instants(source, file) >= first).sum())
        return progress.arrived - progress.late - progress.shed - later

    def _instants(self, source: str, file: HistoryFile) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return numbers(read_history(self._store, file, self._rows[source].schema), START)

    # History

    def part(self, source: str, batch: Batch) -> tuple[Part, ...]:
        """Rows that were judged at the door, kept as history of their source; committed by the epoch they are for."""
        if not batch.height:
            return ()
        epoch = self._commits.snapshot.epoch + 1
        file = write_history(self._store, source, self.period(source), epoch, batch, self._rows[source].schema)
        return (self.history_part(source, file),)

    def history_part(
        self,
        source: str,
        file: HistoryFile,
        after: int = -1,
        until: int = INF,
        needs: Needs = EVERYTHING,
        seen: int = 0,
        among: int = INF,
    ) -> Part:
        """A history file, or what is cut of it; how many rows these are is a guess."""
        row = self._rows[source]
        first, last = max(file.first, after + 1), min(file.last, until)
        rows = max(1, file.rows * (last - first + 1) // (file.last - file.first + 1))
        if seen or among < INF:
            rows = max(1, min(rows, min(among, self._commits.snapshot.progress(source).arrived) - seen))
        cut = Cut(after, until, row.counts_arrivals, needs, seen, among)
        return Part("history", file.name, rows, row.schema, file, cut=cut)

    def needed_files(self, source: str, snapshot: Snapshot, needs: Needs) -> list[HistoryFile]:
        """The files of a source that may have rows that are needed."""
        files = snapshot.history.get(source, ())
        if needs is None:
            return [*files]
        # What was added or renamed later may not be in a file: then there are no bounds of it.
        names = ["" if isinstance(field, AlteredField) else field.name for field in self._rows[source].schema]
        read = {names[within.column] for need in needs for within in need} - {""}
        # Of users' own files we do not know what their footers leave out.
        return [
            file
            for file in files
            if file.as_it_came is not None or may_have(needs, self._store.bounds(file.name, read), names)
        ]

    def kept_rows(
        self, source: str, snapshot: Snapshot, wanted: Callable[[HistoryFile], bool] = lambda file: True
    ) -> Batch:
        """The rows of some of the files that are kept of a source, as the kernel takes them."""
        files, schema = snapshot.history.get(source, ()), self._rows[source].schema
        frames = [read_history(self._store, file, schema) for file in files if wanted(file)]
        return pl.concat([self.empty(source), *frames])

    def kept_between(self, source: str, snapshot: Snapshot, first: int, last: int) -> Batch:
        """The rows that are kept of a source from an instant on, up to another."""
        row = self._rows[source]
        files = [f for f in snapshot.history.get(source, ()) if f.last >= first and f.first <= last]
        cut = Cut(first - 1, last, row.counts_arrivals)
        return pl.concat([self.empty(source), *(read_history(self._store, f, row.schema, cut) for f in files)])

    def history(self, name: str) -> Batch:
        """All accepted rows of a source."""
        with self._commits.lock:
            return self.history_in(name, self._commits.snapshot)

    def history_in(self, name: str, snapshot: Snapshot, wanted: Wanted | None = None) -> Batch:
        """The same in a snapshot, without files that have no rows that may be wanted."""
        if wanted is None or not self._rows[name].counts_arrivals:
            return self.kept_rows(name, snapshot)
        # Elements, which hold for an instant each.
        return self.kept_rows(name, snapshot, lambda f: wanted(Extent(f.first, f.last, f.last + 1, f.last + 1)))

    # Statistics

    def statistics(self, names: Collection[str] | None = None) -> dict[str, SourceStatistics]:
        """What the planner should know of some sources or all, by their newest rows."""

        def found(snapshot: Snapshot) -> dict[str, SourceStatistics]:
            known = {name for name, files in snapshot.history.items() if files}
            wanted = known.intersection(known if names is None else names)
            return {name: self._statistics_of(name, snapshot) for name in wanted}

        return self._commits.read(found)

    def _statistics_of(self, name: str, snapshot: Snapshot) -> SourceStatistics:
        newest = _newest(snapshot.history[name])
        distinct = self._distinct.get(newest[-1].name)
        if distinct is None:
            schema, left, frames = self._rows[name].schema, STATISTICS_ROWS, list[Batch]()
            for file in reversed(newest):
                frames.append(read_history(self._store, file, schema).tail(max(left, 0)))
                left -= frames[-1].height
            columns = (column for column in frames[0].columns if not column.startswith("_"))
            distinct = tuple(float(pl.concat([frame[column] for frame in frames]).n_unique()) for column in columns)
            used = {files[-1].name for files in snapshot.history.values() if files}
            known = {file: counts for file, counts in [*self._distinct.items()] if file in used}
            self._distinct = {**known, newest[-1].name: distinct}
        rows, first = sum(file.rows for file in newest), min(file.first for file in newest)
        rate = rows / max(max(snapshot.clock, *(file.last for file in newest)) - first + 1, 1)
        return SourceStatistics(rate, max(snapshot.progress(name).arrived, 1), distinct)


def _newest(files: Sequence[HistoryFile]) -> Sequence[HistoryFile]:
    """The last files, as many as statistics are made of."""
    rows = 0
    for count, file in enumerate(reversed(files), start=1):
        rows += file.rows
        if rows >= STATISTICS_ROWS or count == _STATISTICS_FILES:
            return files[-count:]
    return files
