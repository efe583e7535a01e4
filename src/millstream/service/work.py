"""What the routes share: the database, the threads that work for requests, and what is counted.

    read       what is committed: answers of EAGER and LAZY queries, lists, plans
    compute    from history: ad-hoc queries, EXPLAIN, NONE; by a few processes that may die alone
    write      what takes the database's lock
    follow     the next changes for followers

Each has threads of its own, so that none waits for another kind. Work ends with its request: when that takes too long,
when its caller goes, and when somebody ends it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

from millstream.database import Database
from millstream.errors import CancelledError, ClosedError, LimitError
from millstream.query import Query
from millstream.service.audit import AuditLog
from millstream.service.callers import Caller, current_caller
from millstream.service.connections import Connections
from millstream.service.limits import ServiceLimits
from millstream.service.metrics import Metrics
from millstream.service.request_ids import request_id
from millstream.service.sources import SourceReader

T = TypeVar("T")
_READERS = 8
_FOLLOWING = 2  # what they do is short, and many that want to do it would only wait for one another
_WRITERS = 4
_GLANCE = 0.02  # seconds
_GRACE = 5.0  # seconds that work has to end by itself once it is cancelled


class DatabaseService:
    """A database that is served."""

    def __init__(
        self, database: Database, limits: ServiceLimits, sources: SourceReader, audit: AuditLog | None = None
    ) -> None:
        self.audit = audit
        self.database, self.limits, self.sources = database, limits, sources
        self.stopping = asyncio.Event()
        self.metrics = Metrics()
        self.connections: Connections | None = None  # of whoever serves it
        self.is_degraded = False
        self._busy: Counter[str] = Counter()  # pieces of work by caller
        self._readers = ThreadPoolExecutor(_READERS, "millstream-read")
        self._following = ThreadPoolExecutor(_FOLLOWING, "millstream-follow")
        self._writers = ThreadPoolExecutor(_WRITERS, "millstream-write")
        self._computers = ThreadPoolExecutor(max(limits.workers, 1), "millstream-compute")
        # Who watches is to be answered when all others are busy.
        self.watching = ThreadPoolExecutor(1, "millstream-watch")
        self._pools = {
            "read": self._readers,
            "follow": self._following,
            "write": self._writers,
            "compute": self._computers,
        }
        self._at_work: Counter[str] = Counter()  # threads that work, by what for
        self._counting = threading.Lock()
        database.compute_apart(limits.workers, limits.worker_memory)

    async def filled(self, queries: Iterable[Query]) -> None:
        """Wait until the past of queries has been worked through, without keeping a thread that reads from others."""
        await self.until_idle(lambda: any(query.is_filling for query in queries))

    async def until_idle(self, is_busy: Callable[[], bool]) -> None:
        """Wait until something has ended, without keeping a thread that reads from others."""
        deadline = time.monotonic() + (self.limits.seconds or float("inf"))
        while is_busy() and time.monotonic() < deadline:
            await asyncio.sleep(_GLANCE)

    async def read(self, work: Callable[[], T]) -> T:
        """Do something that reads what is committed."""
        return await self._done(self._readers, "", work)

    async def follow(self, work: Callable[[], T]) -> T:
        """Read the next changes for followers, who share them: nobody in particular waits for it."""
        return await self._done(self._following, "follow", work, caller=_NOBODY)

    async def compute(self, what: str, work: Callable[[], T]) -> T:
        """Do something that computes from history, and changes nothing."""
        return await self._done(self._computers, what, work, guarded=True)

    async def write(self, what: str, work: Callable[[], T]) -> T:
        """Do something that may wait for the database's lock."""
        return await self._done(self._writers, what, work)

    async def _done(
        self,
        threads: ThreadPoolExecutor,
        what: str,
        work: Callable[[], T],
        *,
        guarded: bool = False,
        caller: Caller | None = None,
    ) -> T:
        if self.stopping.is_set():
            raise ClosedError("the service is stopping", hint="ask again when it is back")
        caller = caller or current_caller()
        self._admit(caller)
        path, works = caller.path, self.database.engine.works
        try:
            with works.begun(what or path, caller.name, guarded=guarded) as piece:

                def entered() -> T:
                    with piece.entered(), self._working(threads):
                        return work()

                future = threads.submit(copy_context().run, entered)
                reason = await _ended(future, caller, self._seconds(caller))
                if reason is not None:
                    piece.cancel(reason)
                    if future.cancel():
                        raise reason
                    if not await _ends(future):
                        goes_on = "what was begun could not be ended, and goes on: look for what it did"
                        raise LimitError(reason.primary, detail=goes_on, hint=reason.hint)
                return future.result()
        finally:
            self._busy[caller.name] -= 1

    @contextmanager
    def _working(self, threads: ThreadPoolExecutor) -> Iterator[None]:
        name = self._name_of(threads)
        with self._counting:
            self._at_work[name] += 1
        try:
            yield
        finally:
            with self._counting:
                self._at_work[name] -= 1

    def _name_of(self, threads: ThreadPoolExecutor) -> str:
        return next(name for name, known in self._pools.items() if known is threads)

    def pools(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The threads that there are by what for, how many of them work, and how much waits for one."""
        sizes = {name: threads._max_workers for name, threads in self._pools.items()}
        busy = {name: self._at_work[name] for name in self._pools}
        return sizes, busy, {name: threads._work_queue.qsize() for name, threads in self._pools.items()}

    def _seconds(self, caller: Caller) -> float | None:
        own = [limit for limit in (self.limits.seconds, caller.budget.seconds) if limit]
        return min(own) if own else None

    def _admit(self, caller: Caller) -> None:
        """Refuse more work at a time than a caller may have."""
        own = [limit for limit in (self.limits.concurrent, caller.budget.concurrent) if limit]
        if own and caller is not _NOBODY and self._busy[caller.name] >= min(own):
            raise LimitError(
                f"{caller.name} has {min(own)} pieces of work under way already",
                hint="wait for one of them, or end it: GET /v1/work lists them",
            )
        self._busy[caller.name] += 1
        if len(self._busy) > _REMEMBERED:
            self._busy = +self._busy

    def changed(self, did: str, *names: str, **more: Any) -> None:
        """Write down that the caller has changed something."""
        if self.audit is not None:
            caller = current_caller()
            self.audit.note(caller.name, did, names, **{"from": caller.address, "request": request_id()}, **more)

    def close(self) -> None:
        """Nothing new is begun; what is under way ends by itself, or with the process."""
        for piece in self.database.engine.works:
            if piece.guarded:
                piece.cancel(CancelledError("the service is stopping", hint="ask again when it is back"))
        for threads in (*self._pools.values(), self.watching):
            threads.shutdown(wait=False, cancel_futures=True)


_REMEMBERED = 10_000
_NOBODY = Caller()


async def _ends(future: Future[T]) -> bool:
    """Whether work that was cancelled ends soon."""
    deadline = time.monotonic() + _GRACE
    while not future.done() and time.monotonic() < deadline:
        await asyncio.sleep(_GLANCE)
    return future.done()


async def _ended(future: Future[T], caller: Caller, seconds: float | None) -> CancelledError | None:
    """Wait for work; why it should end before it is done, if it should."""
    wrapped: asyncio.Future[Any] = asyncio.wrap_future(future)
    gone: asyncio.Future[Any] = asyncio.ensure_future(caller.gone())
    try:
        done, _ = await asyncio.wait([wrapped, gone], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
    if wrapped in done:
        if not wrapped.cancelled():
            wrapped.exception()  # which is raised by who asks for the result
        return None
    wrapped.add_done_callback(lambda ended: None if ended.cancelled() else ended.exception())
    if gone in done:
        return CancelledError("the work was ended: its caller has gone")
    return CancelledError(
        f"no answer within {seconds:g} seconds",
        detail="the work was ended, and nothing came of it",
        hint="ask for less, or start the service with a larger --time-limit",
    )
