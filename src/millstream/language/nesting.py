"""Room for texts that are nested: parentheses inside parentheses cost the parser some twenty calls each.

And quiet for those that are long: the trees of ten thousand terms are all alive until they are done with, and whoever
looks for garbage walks all of them, again and again, which takes longer than making them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

_CALLS = 8_000  # enough for 300 parentheses, and far from what a thread's stack holds


class _Shared:
    """A setting of the whole process that holds while some thread is within a block: what was before comes back when
    the last of them has left, in whatever order they came and went."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end
        self._lock = Lock()
        self._inside = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._begin()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._end()


class _Limit:
    """The depth of calls. Another one that somebody has set meanwhile stays."""

    before = 0

    def rise(self) -> None:
        now = sys.getrecursionlimit()
        if now < _CALLS:
            self.before = now
            sys.setrecursionlimit(_CALLS)

    def fall(self) -> None:
        if self.before and sys.getrecursionlimit() == _CALLS:
            try:
                sys.setrecursionlimit(self.before)
            except RecursionError:  # this thread is deeper by itself, since the room was there: the next one will do it
                return
        self.before = 0


class _Collector:
    was_on = False

    def pause(self) -> None:
        self.was_on = gc.isenabled()
        gc.disable()

    def resume(self) -> None:
        if self.was_on:
            gc.enable()


_limit, _collector = _Limit(), _Collector()
room_to_nest = _Shared(_limit.rise, _limit.fall)
without_collecting = _Shared(_collector.pause, _collector.resume)
