"""Segments that this process has mapped already, within a budget of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache

import polars as pl

DEFAULT_BUDGET = 4 << 30


class SegmentCache:
    """The most recently used segments by name. What falls out is mapped again when it is asked for."""

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self.budget = budget
        self._frames: OrderedDict[str, tuple[pl.DataFrame, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        return self._bytes

    def get(self, name: str, size: int, load: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        with self._lock:
            if name in self._frames:
                self._frames.move_to_end(name)
                return self._frames[name][0]
        frame = load()
        with self._lock:
            if name not in self._frames:
                self._frames[name] = frame, size
                self._bytes += size
            while self._bytes > self.budget and len(self._frames) > 1:
                _, (_, dropped) = self._frames.popitem(last=False)
                self._bytes -= dropped
        return frame

    def forget(self, names: set[str]) -> None:
        """Names that nobody asks for any more."""
        with self._lock:
            for name in names & self._frames.keys():
                self._bytes -= self._frames.pop(name)[1]


@cache
def cache_for(directory: str) -> SegmentCache:
    """One cache per database and process, however often its store is unpickled."""
    return SegmentCache()
