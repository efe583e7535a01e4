"""Work that is under way for callers: listed, and ended before it is done by whoever may.

Work ends at the next place where it looks whether it is still wanted: between two steps, between two chunks of a join's
pairs, while it waits. What is done elsewhere for it, in a process or a job of its own, is ended at once. A commit that
has begun is not cut short.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from millstream.errors import CancelledError, NameError
from millstream.kernel.step_limits import wanted_while

_current: ContextVar[Work | None] = ContextVar("work", default=None)
_SHOWN = 1_000  # characters


@dataclass(eq=False)
class Work:
    """Something that a caller waits for. What is `guarded` is computed where it can take no more than its share."""

    id: int
    what: str
    caller: str = ""
    guarded: bool = False
    begun: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _ended: CancelledError | None = None
    _enders: dict[int, Callable[[], None]] = field(default_factory=dict, repr=False)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    @property
    def is_cancelled(self) -> bool:
        return self._ended is not None

    def check(self) -> None:
        """Raise if it is not wanted any more."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)

    def cancel(self, error: CancelledError) -> None:
        """End it, once."""
        with self._lock:
            if self._ended is not None:
                return
            self._ended = error
            enders = [*self._enders.values()]
        for end in enders:
            end()

    @contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """What goes on elsewhere within the block is ended by a call from any thread."""
        with self._lock:
            self.check()
            self._enders[id(end)] = end
        try:
            yield
        finally:
            with self._lock:
                self._enders.pop(id(end), None)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """What this thread does within the block is this work."""
        before = _current.set(self)
        try:
            with wanted_while(self.check):
                self.check()
                yield
        finally:
            _current.reset(before)


def current_work() -> Work | None:
    """What this thread is at."""
    return _current.get()


class Works:
    """All that is under way in a database."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._under_way: dict[int, Work] = {}

    def __iter__(self) -> Iterator[Work]:
        """Those that were begun first come first."""
        return iter([*self._under_way.values()])

    @contextmanager
    def begun(self, what: str, caller: str = "", *, guarded: bool = False) -> Iterator[Work]:
        """A piece of work, until the block ends. Whoever does it enters it."""
        work = Work(next(self._numbers), _shown(what), caller, guarded)
        self._under_way[work.id] = work
        try:
            yield work
        finally:
            self._under_way.pop(work.id, None)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """What this thread does within the block is work, if it is not part of some already."""
        if _current.get() is not None:
            yield
            return
        with self.begun(what) as work, work.entered():
            yield

    def find(self, number: int) -> Work:
        found = self._under_way.get(number)
        if found is None:
            raise NameError(f"there is no work {number} under way", hint="it may have ended by itself")
        return found

    def cancel(self, number: int, reason: str = "it was cancelled") -> None:
        self.find(number).cancel(CancelledError(f"the work was ended: {reason}", detail="nothing came of it"))


def _shown(what: object) -> str:
    """The beginning of a text; what is none is refused by whoever reads it."""
    text = str(what)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " .."
