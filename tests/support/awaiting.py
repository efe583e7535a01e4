"""Objects that are awaited, for tests that call them as those that block."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import millstream as ms
from millstream.client.answers import AsyncAnswers, AsyncFollowing
from millstream.client.database import AsyncDatabase
from millstream.client.result import AsyncResult
from millstream.client.template import AsyncTemplate

LIMIT = 300.0  # seconds


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


class Blocking:
    """An object of the client for who awaits: whatever it gives to be awaited is awaited."""

    def __init__(self, awaited: Any, loop: Loop) -> None:
        self.awaited, self._loop = awaited, loop

    def __getattr__(self, name: str) -> Any:
        return self._shown(getattr(self.awaited, name))

    def _shown(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            return self._shown(self._loop.run(value))
        if inspect.ismethod(value):
            return functools.wraps(value)(lambda *args, **kwargs: self._called(value, args, kwargs))
        if isinstance(value, AsyncFollowing):
            self._loop.run(_opened(value))  # those that block say at once what is wrong
            return BlockingTables(value, self._loop)
        if isinstance(value, AsyncAnswers | AsyncResult):
            return Blocking(value, self._loop)
        return [self._shown(each) for each in value] if isinstance(value, list) else value

    def _called(self, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = [[_awaited(each) for each in arg] if isinstance(arg, list) else _awaited(arg) for arg in args]
        return self._shown(method(*given, **kwargs))

    def __str__(self) -> str:
        return str(self.awaited)

    def __len__(self) -> int:
        return int(self._loop.run(self.awaited.count()))

    def __getitem__(self, index: Any) -> Any:
        return self._shown(self._loop.run(self.awaited.queries()))[index]

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.awaited, AsyncTemplate):
            return iter(self._shown(self._loop.run(self.awaited.queries())))
        raise TypeError(f"{self.awaited} is nothing to go through")


class BlockingTables(Blocking):
    """The tables of a follower."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.run(_next(self.awaited))
        except StopAsyncIteration:
            raise StopIteration from None

    def __len__(self) -> int:
        raise TypeError("nobody knows how many there will be")


async def _next(following: AsyncFollowing) -> Any:
    return await anext(following)


async def _opened(following: AsyncFollowing) -> None:
    await following


@contextmanager
def blocking(url: str) -> Iterator[Blocking]:
    """The database of a service by `ms.connect_async`, for who blocks."""
    loop = Loop()
    try:
        database = loop.run(_connected(url))
        try:
            yield Blocking(database, loop)
        finally:
            loop.run(database.close())
    finally:
        loop.close()


async def _connected(url: str) -> AsyncDatabase:
    return await ms.connect_async(url)


def _awaited(value: Any) -> Any:
    return value.awaited if isinstance(value, Blocking) else value
