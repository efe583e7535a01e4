"""Which instants the rows of a segment are about, so that readers leave out the segments that cannot matter to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from millstream.kernel.batch import END, INF, START
from millstream.kernel.storage.segments import numbers

_REMEMBERED = 200_000  # segments


@dataclass(frozen=True)
class Extent:
    """The first start, the last start, the last end, and the last end that is one."""

    first: int
    last: int
    end: int
    last_known_end: int

    def has_alive(self, at: int) -> bool:
        """Whether rows may hold at an instant."""
        return self.first <= at < self.end

    def has_changes(self, since: int, until: int) -> bool:
        """Whether rows may come or go after an instant, up to another."""
        return self.first <= until and max(self.last, self.last_known_end) > since

    def has_elements(self, since: int, until: int) -> bool:
        """Whether rows may hold at instants after one, up to another."""
        return self.first <= until and self.end > since + 1


Wanted = Callable[[Extent], bool]
_NOTHING = Extent(INF, -1, -1, -1)
_ANYTHING = Extent(-1, INF, INF, INF)  # matches have no interval of their own


class Extents:
    """The extents of segments, which never change. Any thread may ask."""

    def __init__(self) -> None:
        self._known: dict[str, Extent] = {}

    def read(self, name: str, read: Callable[[str], pl.DataFrame], wanted: Wanted | None) -> pl.DataFrame | None:
        """A segment, unless it is known not to be wanted."""
        if wanted is None:
            return read(name)
        extent = self._known.get(name)
        if extent is not None and not wanted(extent):
            return None
        frame = read(name)
        if extent is None:
            if len(self._known) >= _REMEMBERED:
                self._known = {}  # those of segments that are still there are soon known again
            extent = self._known[name] = extent_of(frame)
        return frame if wanted(extent) else None


def extent_of(frame: pl.DataFrame) -> Extent:
    if not frame.height:
        return _NOTHING
    if START not in frame.columns:
        return _ANYTHING
    starts, ends = numbers(frame, START), numbers(frame, END)
    known = ends[ends < INF]
    return Extent(int(starts.min()), int(starts.max()), int(ends.max()), int(known.max()) if len(known) else -1)
