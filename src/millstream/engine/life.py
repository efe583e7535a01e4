"""The life of a database in this process: what is under way in it, and its end.

`close` waits for what others are at, and after it nothing is committed. In a process that was forked from the one that
opened a database it does not live at all: the threads that compute did not come along, and the lock is not its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, Self, TypeVar

from millstream.errors import ClosedError, SetupError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_first_process: list[int] = []  # the one that this or its parent process opened a database in


class Life:
    """Entered by whoever does something with the database. Any thread may, several times over."""

    def __init__(self) -> None:
        self._process = os.getpid()
        if not _first_process:
            _first_process.append(self._process)
        self._changed = threading.Condition()  # by whose lock a thread may be admitted twice: signals come at any time
        self._busy: Counter[int] = Counter()  # per thread: how often it has entered
        self._closer: int | None = None  # the thread that closes it
        self._close_after: Callable[[], None] | None = None
        self.is_closing = False  # nobody is admitted any more
        self.is_over = False  # nothing is committed any more

    @property
    def is_elsewhere(self) -> bool:
        return os.getpid() != self._process

    def check(self) -> None:
        """Raise unless something may be begun, or the thread is at something already."""
        self._check_process()
        if self.is_closing and (self.is_over or not self._busy.get(threading.get_ident())):
            raise closed()

    def check_commits(self) -> None:
        """Raise unless something may be committed."""
        self._check_process()
        if self.is_over:
            raise closed()

    def check_goes_on(self) -> None:
        """Raise once it ends: what was waited for does not come any more."""
        if self.is_closing:
            raise closed()

    def _check_process(self) -> None:
        if self.is_elsewhere:
            raise ClosedError(
                "the database was opened in another process",
                detail=f"in process {self._process}, from which this one, {os.getpid()}, was forked",
                hint="use it there; or serve it, and connect to the service's address here",
            )

    def __enter__(self) -> None:
        self.check()
        with self._changed:
            self.check()
            self._busy[threading.get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        after = None
        with self._changed:
            me = threading.get_ident()
            self._busy[me] -= 1
            if not self._busy[me]:
                del self._busy[me]
                after, self._close_after = self._close_after, None
                self._changed.notify_all()
        if after is not None:
            after()

    def end(self, stop: Callable[[], None], finish: Callable[[], None], timeout: float | None = None) -> None:
        """Have all that is under way end, by `stop`, wait for it, and `finish`. Whoever comes second waits for the
        first. A thread that is at something itself does not wait for that: all of this comes right after it."""
        if self.is_elsewhere:
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        me = threading.get_ident()
        with self._changed:
            self.is_closing = True
            if self._busy.get(me):
                self._close_after = lambda: self.end(stop, finish)
                return
            while self._closer is not None and self._closer != me and not self.is_over:
                if not self._changed.wait(_left(deadline)):
                    return
            if self.is_over or self._closer == me:
                return
            self._closer = me
        try:
            stop()
            if self._is_quiet(deadline):
                finish()
        finally:
            with self._changed:
                self._closer = None
                self._changed.notify_all()

    def _is_quiet(self, deadline: float | None) -> bool:
        with self._changed:
            while self._busy:
                if not self._changed.wait(_left(deadline)):
                    return False
        return True


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def closed() -> ClosedError:
    return ClosedError("the database is closed", hint="connect again")


def check_not_forked() -> None:
    """Refuse to open a database where the threads are missing that compute: it would wait for them for ever."""
    if _first_process and _first_process[0] != os.getpid():
        raise SetupError(
            "this process was forked from one that has used Millstream",
            detail=f"process {_first_process[0]}: the threads that compute did not come along",
            hint='start processes by multiprocessing.get_context("spawn"), or fork before connecting',
        )


class Living(Protocol):
    @property
    def life(self) -> Life: ...


_Self = TypeVar("_Self", bound=Living)


def under_way(method: Callable[Concatenate[_Self, _P], _R]) -> Callable[Concatenate[_Self, _P], _R]:
    """A method that is refused once its database is closed, and waited for by who closes it."""

    @wraps(method)
    def entered(self: _Self, /, *args: _P.args, **given: _P.kwargs) -> _R:
        with self.life:
            return method(self, *args, **given)

    return entered


class Closable:
    """Something whose life one ends by `close`, or by leaving its `with` block."""

    @property
    def life(self) -> Life:
        raise NotImplementedError

    def _stop(self) -> None:
        """Have what is under way end."""
        raise NotImplementedError

    def _finish(self) -> None:
        """It has ended."""
        raise NotImplementedError

    @property
    def is_closed(self) -> bool:
        return self.life.is_closing

    def check_open(self) -> None:
        self.life.check()

    def close(self, timeout: float | None = None) -> None:
        """End what is under way, wait for it (or for so many seconds), and give the directory up.

        Runs finish the batches they are at, inserts and deliveries end, followers too; from then on everything is
        refused. Called in the middle of one of these, a sink's callable say, it takes effect when that has ended.
        """
        self.life.end(self._stop, self._finish, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
