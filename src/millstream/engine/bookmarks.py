"""Bookmarks: how far sinks and followers were given what a query says. What comes after one is kept for its holder."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Protocol

from millstream.plan.analysis.lifetime import OPEN as OPEN


class AnsweredFrom(Protocol):
    """What answers are made from: edges that are shown, and in the end sources."""

    @property
    def edges(self) -> tuple[str, ...]: ...

    @property
    def inputs(self) -> frozenset[str]: ...


class BookmarkedQuery(Protocol):
    """A query, or several that are read together: what is kept for it, which may change as it comes to a group."""

    @property
    def materialization(self) -> AnsweredFrom: ...


@dataclass(eq=False)
class Bookmark:
    """All changes up to `seen` were given. Where that is before `start`, all of R(start) comes first, as insertions.

    Where it is OPEN, `start` is still to be found, and lies after `seen`.

    `most` is how many bytes may be kept for it alone, None for any number; `lost` is the instant from which on more
    would have had to be kept.
    """

    query: BookmarkedQuery
    seen: int
    start: int = -1
    most: int | None = None
    lost: int | None = None
    is_left: bool = False  # its holder waits no longer

    @property
    def is_new(self) -> bool:
        """Whether nothing was given yet."""
        return self.seen < self.start

    @property
    def needed(self) -> int:
        """The first instant whose answer is still needed: later ones are told by what changes."""
        return self.seen if self.start == OPEN else max(self.seen, self.start)


class Bookmarks:
    """Those that are held. Whoever holds one has the object: once nobody has it any more, it is let go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, weakref.ref[Bookmark]] = {}

    def keep(self, bookmark: Bookmark) -> Bookmark:
        key = id(bookmark)
        reference = weakref.ref(bookmark, lambda gone: self._forget(key, gone))
        with self._lock:
            self._held[key] = reference
        return bookmark

    def release(self, bookmark: Bookmark) -> None:
        with self._lock:
            self._held.pop(id(bookmark), None)

    def _forget(self, key: int, gone: weakref.ref[Bookmark]) -> None:
        # Called wherever the last reference goes, perhaps by who has the lock: so without it.
        if self._held.get(key) is gone:
            self._held.pop(key, None)

    def all(self) -> list[Bookmark]:
        with self._lock:
            found = [reference() for reference in [*self._held.values()]]
        return [bookmark for bookmark in found if bookmark is not None]
