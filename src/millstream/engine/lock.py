"""The engine's lock: what a commit makes of the snapshot is not cut short.

An interrupt may come between any two steps of Python. If it came between a commit and what memory is to know of it, the
two would differ, and what was committed would be removed as if it had failed. So from a commit on, interrupts wait
until the lock is given up.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class CommitLock:
    """A lock that a thread may take several times."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._owner: int | None = None
        self._before: dict[int, Any] = {}
        self._came: list[tuple[int, FrameType | None]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._lock.acquire(blocking, timeout):
            self._depth += 1
            self._owner = threading.get_ident()
            return True
        return False

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
        ended = not self._depth and bool(self._before)
        before: dict[int, Any] = {}
        came: list[tuple[int, FrameType | None]] = []
        if ended:
            before, self._before = self._before, {}
            came, self._came = self._came, []
            for number, handler in before.items():
                signal.signal(number, handler)
        self._lock.release()
        for number, frame in came:
            before[number](number, frame)

    @property
    def is_mine(self) -> bool:
        """Whether this thread has it."""
        return self._owner == threading.get_ident()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def defer_interrupts(self) -> None:
        """Until the lock is given up; by a thread that has it. Only the main one is told of interrupts."""
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):  # and not ignored, or left to the system
                self._before[number] = handler
                signal.signal(number, self._wait)

    def _wait(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, frame))
