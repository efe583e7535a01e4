"""Commands that last: SIGINT and SIGTERM end them cleanly, and within ten seconds.

The work is done by a thread, so that the main one is free to hear signals whatever the work waits for.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from millstream.state.running import forget_all

WITHIN = 9.0  # seconds that a stop may take; a database can be killed at any time, so what is left then is not lost
NOT_IN_TIME = 3  # the exit codes: the stop took longer,
INTERRUPTED = 130  # or came before the work was done
_GLANCE = 0.05


class Stop:
    """Whether a signal came; a second one does not wait any more."""

    def __init__(self) -> None:
        self.came = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def again(self) -> None:
        """Hear signals again, after something else (Spark's start) has taken them over."""
        for number in self._before:
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            leave("stopped at once")
        self.came = True


def work_until_stopped(stop: Stop, work: Callable[[], None], end: Callable[[], None]) -> bool:
    """Do the work in a thread; when a signal comes, `end` is called until it has ended. Whether it was done by itself.

    What the work raises is raised. Work that does not end in time is left, with the process.
    """
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    worker = threading.Thread(target=guarded, name="millstream-work", daemon=True)
    worker.start()
    deadline: float | None = None
    while worker.is_alive():
        worker.join(_GLANCE)
        if stop.came:
            deadline = deadline or time.monotonic() + WITHIN
            if time.monotonic() >= deadline:
                leave(_too_late())
            end()
    if failures:
        raise failures[0]
    return deadline is None


def leave(text: str) -> None:
    """End the process as it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    forget_all()
    os._exit(NOT_IN_TIME)


def leave_later() -> None:
    """End the process when the time for a stop is over, if it has not ended by then."""
    timer = threading.Timer(WITHIN, leave, [_too_late()])
    timer.daemon = True
    timer.start()


def _too_late() -> str:
    return f"not stopped within {WITHIN:g} seconds: what was not committed comes again"
