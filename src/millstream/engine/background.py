"""The thread that commits for those who read, and looks after plans.

A read never commits: where an answer needs that queries are admitted, or that a clock goes on, the reader asks for it
and waits, and then reads what is committed. So an interrupt ends the wait and not the commit, and no reader holds the
lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from millstream.engine.life import Life
from millstream.engine.lock import CommitLock


class Background:
    """One thread, begun when it is first needed."""

    def __init__(self, life: Life, lock: CommitLock) -> None:
        self._life, self._lock = life, lock
        self._starting = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Have something done and wait for it; raises what it fails with. A thread that holds the lock is at a commit
        of its own, and does it itself: the other one would wait for it for ever."""
        if self._lock.is_mine or threading.current_thread().name.startswith(_NAME):
            work()
            return
        self._submit(work).result()

    def begin(self, work: Callable[[], None]) -> None:
        """Have something done, after what was asked for before; the work itself sees to what fails."""
        self._submit(work)

    def _submit(self, work: Callable[[], None]) -> Future[None]:
        with self._starting:
            self._life.check()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix=_NAME)
            return self._thread.submit(work)

    def close(self) -> None:
        """Nobody reads any more."""
        with self._starting:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=not threading.current_thread().name.startswith(_NAME))


_NAME = "millstream-background"
