"""What the routes share: the database, the threads that work for requests, and what is counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from millstream.database import Database
from millstream.errors import ClosedError, LimitError
from millstream.query import Query
from millstream.service.limits import ServiceLimits
from millstream.service.sources import SourceReader

T = TypeVar("T")
_READERS = 8
_FOLLOWING = 2  # what they do is short, and many that want to do it would only wait for one another
_WRITERS = 4
_GLANCE = 0.02  # seconds


class DatabaseService:
    """A database that is served.

    The database is synchronous, so that requests are worked on by threads. What reads committed segments has threads of
    its own: it never waits for what waits for the database's lock.
    """

    def __init__(self, database: Database, limits: ServiceLimits, sources: SourceReader) -> None:
        self.database, self.limits, self.sources = database, limits, sources
        self.stopping = asyncio.Event()
        self.answered: Counter[tuple[str, int]] = Counter()  # by method and status
        self.refused = 0
        self._readers = ThreadPoolExecutor(_READERS, "millstream-read")
        self._following = ThreadPoolExecutor(_FOLLOWING, "millstream-follow")
        self._writers = ThreadPoolExecutor(_WRITERS, "millstream-write")

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
        return await self._within_limit(self._readers, work)

    async def follow(self, work: Callable[[], T]) -> T:
        """Read the next changes for followers."""
        return await self._within_limit(self._following, work)

    async def write(self, work: Callable[[], T]) -> T:
        """Do something that may wait for the database's lock, or take long."""
        return await self._within_limit(self._writers, work)

    async def _within_limit(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self.stopping.is_set():
            raise ClosedError("the service is stopping", hint="ask again when it is back")
        seconds = self.limits.seconds or None
        try:
            return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(threads, work), seconds)
        except TimeoutError:
            raise LimitError(
                f"no answer within {seconds:g} seconds",
                detail="what was begun goes on: whether it was done is seen by asking later",
                hint="ask for less, or start the service with a larger --time-limit",
            ) from None

    def close(self) -> None:
        """Nothing new is begun; what is under way ends by itself, or with the process."""
        for threads in (self._readers, self._following, self._writers):
            threads.shutdown(wait=False, cancel_futures=True)
