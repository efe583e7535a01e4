"""Who waits for commits, and is told of each one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from millstream.engine.life import Life


class Notifier:
    """Tells of every commit and of the end. Any thread may wait."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._changed = threading.Condition()
        self._changes = 0
        self._listeners: list[Callable[[], None]] = []  # told as well, without a thread of theirs that waits

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call something after each commit and at the end, which must not wait for anything; gives what ends that."""
        with self._changed:
            self._listeners = [*self._listeners, listener]

        def end() -> None:
            with self._changed:
                self._listeners = [other for other in self._listeners if other is not listener]

        return end

    def notify(self) -> None:
        """Something has changed that others may wait for."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()
            for listener in self._listeners:
                listener()

    def wait_until(self, holds: Callable[[], bool], timeout: float | None) -> None:
        """Wait for a commit that makes something hold, for the end, or for so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            known = self._changes
            if self._life.is_closing or holds():
                return
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            with self._changed:
                # Not asking what is waited for here: that may need the engine's lock, whose owner may be telling.
                self._changed.wait_for(lambda known=known: self._life.is_closing or self._changes != known, left)  # type: ignore[misc]
