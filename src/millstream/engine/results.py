"""Result segments as they are read: what may still matter from an instant on.

Results are kept for as long as they can be asked for, and those who ask now, or follow, need the rows that have not
ended yet. So of every segment the part is remembered that was alive when it was last asked for: it is small where time
has passed, and what has ended is not looked at again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT
from millstream.kernel.columns import only
from millstream.kernel.lazy import tree_segments
from millstream.kernel.storage.coalescing import current
from millstream.kernel.storage.segments import numbers

_FEW, _SHARE = 1_000, 4  # rows, and which part of those that are left: more are put together with them
_EDGES = 1_000  # whose answers are kept in few rows, and queries whose rows were counted


class Tails:
    """The parts of segments that end after an instant, by name. What is remembered is good for later instants too."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, pl.DataFrame]] = {}
        self._lock = threading.Lock()

    def after(self, segments: Iterable[tuple[str, pl.DataFrame]], instant: int) -> Iterator[pl.DataFrame]:
        """Frames that hold all rows of named segments with end > instant, and perhaps some others."""
        for name, segment in segments:
            found = self._tail(name, segment, instant)
            if found.height:
                yield found

    def _tail(self, name: str, segment: pl.DataFrame, instant: int) -> pl.DataFrame:
        since, frame = self._known.get(name, (-1, segment))
        if since > instant:
            frame = segment
        alive = numbers(frame, END) > instant
        # Frames stay the same objects as long as they are of use, for what is made of them is found by that.
        if 2 * int(alive.sum()) > frame.height:
            return frame
        frame = only(frame, alive)
        with self._lock:
            self._known[name] = instant, frame
        return frame

    def keep(self, names: set[str]) -> None:
        """Forget all but these."""
        with self._lock:
            if len(self._known) > len(names):
                self._known = {name: known for name, known in self._known.items() if name in names}


@dataclass(frozen=True)
class _Current:
    """What segments hold from an instant on, in few rows."""

    since: int
    names: frozenset[str]
    rows: pl.DataFrame


class Currents:
    """Of edges whose rows are taken back one by one, what is left of them from the instant on for which they were last
    asked: an aggregate takes a row back with one more, and both would be there until their segments are merged."""

    def __init__(self) -> None:
        self._known: dict[str, _Current] = {}
        self._lock = threading.Lock()

    def after(
        self,
        edge: str,
        names: Sequence[str],
        instant: int,
        read: Callable[[Collection[str]], Sequence[pl.DataFrame]],
    ) -> list[pl.DataFrame]:
        """Frames that say the same as the segments of an edge from an instant on."""
        known = self._known.get(edge)
        if known is not None and known.since > instant:
            return [*read(names)]
        if known is None or not known.names.issubset(names):
            known = _Current(instant, frozenset(), pl.DataFrame())
        found = [*read([name for name in names if name not in known.names])]
        kept = [known.rows] if known.rows.height else []
        if sum(frame.height for frame in found) <= max(known.rows.height // _SHARE, _FEW):
            return [*kept, *found]
        if not any((numbers(frame, WEIGHT) < 0).any() for frame in found):
            return [*kept, *found]
        rows = current(pl.concat([*kept, *found], rechunk=True), instant)
        with self._lock:
            before = self._known.get(edge)
            if before is None or before.since <= instant:
                self._known.pop(edge, None)  # the last in order is the last that was made
                self._known[edge] = _Current(instant, frozenset(names), rows)
                if len(self._known) > _EDGES:
                    del self._known[next(iter(self._known))]
        return [rows]

    def follow(self, renamed: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> None:
        """Segments of edges are others from now on, which say the same."""
        for edge, old, new in renamed:
            known = self._known.get(edge)
            if known is not None and known.names.issuperset(old):
                with self._lock:
                    self._known[edge] = replace(known, names=known.names.difference(old).union(new))

    def keep(self, edges: Collection[str]) -> None:
        """Forget all but these."""
        with self._lock:
            self._known = {edge: known for edge, known in self._known.items() if edge in edges}


class Counts:
    """How many rows each segment has for those who have asked, which never changes: where one asks again, only new ones
    are counted."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[str, int]] = {}
        self._lock = threading.Lock()

    def total(self, reader: Hashable, names: Sequence[str], count: Callable[[str], int]) -> int:
        """Of some segments together."""
        known = self._known.get(reader, {})
        found = {name: known[name] if name in known else count(name) for name in names}
        with self._lock:
            self._known.pop(reader, None)  # the last in order is the last that asked
            self._known[reader] = found
            if len(self._known) > _EDGES:
                del self._known[next(iter(self._known))]
        return sum(found.values())


def rows_between(segment: pl.DataFrame, since: int, until: int) -> tuple[int, float]:
    """How many rows come or go after an instant, and begin by another, and which share of the segment they are; of
    matches, which have no interval of their own, all."""
    if tree_segments.is_tree(segment):
        return tree_segments.size_of(segment), 1.0
    if START not in segment.columns:
        return segment.height, 1.0
    starts, ends = numbers(segment, START), numbers(segment, END)
    found = int((((starts > since) | ((ends > since) & (ends < INF))) & (starts <= until)).sum())
    return found, found / max(segment.height, 1)
