"""Changes as they come: for a loop that blocks, or for `async for`, which does not."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pyarrow as pa


class Following(Iterator[pa.Table], AsyncIterator[pa.Table]):
    """The tables of one follower. `end` has what waits for the next of them give up soon.

    In `async for` a thread waits for each table. One whose loop was cancelled goes on where it was: what its thread has
    found meanwhile comes first.
    """

    def __init__(self, tables: Iterator[pa.Table], end: Callable[[], None]) -> None:
        self._tables, self._end = tables, end
        self._found: asyncio.Future[pa.Table | None] | None = None

    def __next__(self) -> pa.Table:
        return next(self._tables)

    def close(self) -> None:
        """Follow no longer: nothing is kept for it any more."""
        self._end()
        if self._found is None and hasattr(self._tables, "close"):
            self._tables.close()
        self._tables, self._found = iter(()), None

    def __del__(self) -> None:
        self._end()

    def __aiter__(self) -> Following:
        return self

    async def __anext__(self) -> pa.Table:
        if self._found is None:
            self._found = _found_by_a_thread(self._tables)
        table = await asyncio.shield(self._found)
        self._found = None
        if table is None:
            raise StopAsyncIteration
        return table

    async def aclose(self) -> None:
        self.close()


def _found_by_a_thread(tables: Iterator[pa.Table]) -> asyncio.Future[pa.Table | None]:
    """The next table; None where there is none any more."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[pa.Table | None] = loop.create_future()

    def finish(table: pa.Table | None, error: BaseException | None) -> None:
        if found.cancelled():
            return
        if error is not None:
            found.set_exception(error)
        else:
            found.set_result(table)

    def look() -> None:
        table, failed = None, None
        try:
            table = next(tables, None)
        except BaseException as error:  # whatever it is, it is raised where it is waited for
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(finish, table, failed)

    threading.Thread(target=look, name="millstream-follower", daemon=True).start()
    return found
