"""Files that are read in the background: no commit removes them before those who read them are done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from millstream.state.snapshot import Snapshot


class Pins:
    """What readers hold. Any thread may come and go, without waiting for an epoch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[object, frozenset[str]] = {}
        self._unpinned: set[str] = set()

    def pin(self, reader: object, names: Iterable[str]) -> frozenset[str]:
        """Hold these instead of those that the reader held before, which are given back."""
        with self._lock:
            before, self._held[reader] = self._held.get(reader, frozenset()), frozenset(names)
        return before

    def unpin(self, reader: object) -> None:
        """The next commit looks whether anybody else needs what the reader held."""
        with self._lock:
            self._unpinned |= self._held.pop(reader, frozenset())

    @property
    def names(self) -> set[str]:
        """All that somebody holds."""
        with self._lock:
            return set().union(*self._held.values())

    def taken_over(self) -> set[str]:
        """What was let go since this was last asked."""
        with self._lock:
            gone, self._unpinned = self._unpinned, set()
        return gone

    @contextmanager
    def reading(
        self, snapshot: Callable[[], Snapshot], names: Callable[[Snapshot], Iterable[str]]
    ) -> Iterator[Snapshot]:
        """The committed snapshot, of which some files are there until the block ends."""
        reader = object()
        try:
            while True:
                found = snapshot()
                self.pin(reader, names(found))
                # A commit makes its snapshot the one that counts before it asks what is held.
                if snapshot() is found:
                    break
            yield found
        finally:
            self.unpin(reader)
