"""Result segments as they are read: what may still matter from an instant on.

Results are kept for as long as they can be asked for, and those who ask now, or follow, need the rows that have not
ended yet. So of every segment the part is remembered that was alive when it was last asked for: it is small where time
has passed, and what has ended is not looked at again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import polars as pl

from millstream.kernel.batch import END, INF, START
from millstream.kernel.columns import only
from millstream.kernel.lazy import ranked_tree
from millstream.kernel.storage.segments import numbers


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


def rows_between(segment: pl.DataFrame, since: int, until: int) -> tuple[int, float]:
    """How many rows come or go after an instant, and begin by another, and which share of the segment they are; of
    matches, which have no interval of their own, all."""
    if ranked_tree.is_tree(segment):
        return ranked_tree.size_of(segment), 1.0
    if START not in segment.columns:
        return segment.height, 1.0
    starts, ends = numbers(segment, START), numbers(segment, END)
    found = int((((starts > since) | ((ends > since) & (ends < INF))) & (starts <= until)).sum())
    return found, found / max(segment.height, 1)
