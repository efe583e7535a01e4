"""The memory of a process: one pool for the segments that are mapped, what is kept beside them, and merges.

    budget >= segments + beside + merging

Segments are kept in the order of their last use, and the oldest go when something else needs the room: what falls out
is mapped again when it is asked for. What is beside a segment, such as the directory of its keys, goes with it. Whoever
gets no room does without it: a look-up searches, a merge takes fewer segments or waits.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import polars as pl

PROCESSES = (os.cpu_count() or 1) + 1  # that have a pool on a machine: a worker per core, and the driver


def default_budget() -> int:
    """A quarter of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


@dataclass(frozen=True)
class PoolUse:
    """The pool of a process: bytes now and at most so far, how many segments went, and how often there was no room."""

    process: str
    budget: int
    segments: int
    beside: int
    peak: int
    evicted: int
    refused: int


class Account:
    """What one operator takes from a pool while it runs."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.most = 0

    def room_for(self, size: int) -> bool:
        fits = self._pool.room_for(size)
        self.most = max(self.most, size if fits else 0)
        return fits

    def keep_index(self, segment: pl.DataFrame, size: int) -> bool:
        return self._pool.keep_index(segment, size)


class Pool:
    """Counts bytes. What it counts is held elsewhere, but for the segments, which it holds itself."""

    def __init__(self) -> None:
        self.budget = default_budget() // PROCESSES
        self.segments = self.beside = self.merging = 0
        self._frames: OrderedDict[str, tuple[pl.DataFrame, int]] = OrderedDict()
        self._owned: dict[str, set[str]] = {}
        self._index_bytes: dict[int, int] = {}  # by the id of the segment
        self._peak = self._evicted = self._refused = 0
        self._lock = threading.RLock()  # a segment may die, and say so, while its own pool is at work

    @property
    def bytes(self) -> int:
        return self.segments + self.beside + self.merging

    @property
    def use(self) -> PoolUse:
        process = f"{socket.gethostname()}:{os.getpid()}"
        return PoolUse(process, self.budget, self.segments, self.beside, self._peak, self._evicted, self._refused)

    def limit(self, budget: int | None) -> None:
        """The bytes of all processes of a machine together; None leaves it to us."""
        with self._lock:
            self.budget = (budget or default_budget()) // PROCESSES
            self._shrink()

    def segment(self, name: str, size: int, load: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """A segment that is here already, or else loaded, and kept as long as there is room."""
        frame = self.kept(name)
        if frame is None:
            frame = load()
            self.keep(name, size, frame)
        return frame

    def kept(self, name: str) -> pl.DataFrame | None:
        """A segment, if it is here."""
        with self._lock:
            if name not in self._frames:
                return None
            self._frames.move_to_end(name)
            return self._frames[name][0]

    def keep(self, name: str, size: int, frame: pl.DataFrame) -> None:
        """A segment is here, as long as there is room; it may take less on disk than here."""
        size = max(size, int(frame.estimated_size()))
        with self._lock:
            if name not in self._frames and size <= self.budget:
                self._frames[name] = frame, size
                self.segments += size
                self._shrink()

    def forget(self, names: set[str]) -> None:
        """Names that nobody asks for any more."""
        with self._lock:
            for name in names & self._frames.keys():
                self.segments -= self._frames.pop(name)[1]

    def clear(self) -> None:
        """Nothing is known to be as it was."""
        with self._lock:
            self.forget({*self._frames})
            self._owned.clear()

    def only(self, owner: str, names: Iterable[str]) -> None:
        """An owner has these segments now: what it had before is not asked for any more.

        Processes that run tasks hear of it when they next work for the owner, and not when the files are removed.
        """
        with self._lock:
            now = set(names)
            self.forget(self._owned.pop(owner, set()) - now)
            if now:
                self._owned[owner] = now

    def keep_index(self, segment: pl.DataFrame, size: int) -> bool:
        """Whether there is room for something that lasts as long as the segment; it is counted from now on."""
        with self._lock:
            if not self.room_for(size):
                return False
            if id(segment) not in self._index_bytes:
                weakref.finalize(segment, self._gone, id(segment))
            self._index_bytes[id(segment)] = self._index_bytes.get(id(segment), 0) + size
            self.beside += size
            return True

    def index_bytes(self, segment: pl.DataFrame) -> int:
        return self._index_bytes.get(id(segment), 0)

    def room_for(self, size: int) -> bool:
        """Whether so many bytes fit in, if need be in place of segments that are only kept for later."""
        with self._lock:
            if self.bytes + size > self.budget:
                for_later = sum(held + self.index_bytes(frame) for frame, held in self._frames.values())
                if self.bytes - for_later + size <= self.budget:
                    self._shrink(size)
            fits = self.bytes + size <= self.budget
            self._refused += not fits
            self._peak = max(self._peak, self.bytes + size if fits else self.bytes)
            return fits

    @contextmanager
    def merge(self, size: int) -> Iterator[bool]:
        """Room for a merge until the block ends; tells whether there is any."""
        with self._lock:
            taken = size if self.room_for(size) else 0
            self.merging += taken
        try:
            yield taken == size
        finally:
            with self._lock:
                self.merging -= taken

    def _shrink(self, wanted: int = 0) -> None:
        """Let the segments go that were not used for the longest time, until so many bytes more fit in."""
        while self._frames and self.bytes + wanted > self.budget:
            _, (_, dropped) = self._frames.popitem(last=False)
            self.segments -= dropped
            self._evicted += 1
        self._peak = max(self._peak, self.bytes)

    def _gone(self, segment: int) -> None:
        with self._lock:
            self.beside -= self._index_bytes.pop(segment)


@cache
def pool_for(directory: str) -> Pool:
    """One pool per database and process, however often its store is unpickled."""
    return Pool()
