"""Followers in `async for`: only the task waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa
import pytest
from tests.support.serving import served

import millstream as ms
from millstream.database import Database

T = TypeVar("T")
STREAM = "CREATE STREAM s (v INT) TIMESTAMP BY t"


@pytest.fixture
def db() -> Database:
    db = ms.connect(engine="inprocess")
    db.execute(STREAM)
    db.register("SELECT v FROM s", name="q")
    return db


def put(db: Database, v: int) -> None:
    db.insert("s", [(v, v)])
    db.advance("s", to=v)


def run(work: Callable[[], Coroutine[None, None, T]]) -> T:
    """In a thread of its own: others leave a loop in the main one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result(120)


async def first_values(tables: AsyncIterator[pa.Table], count: int) -> list[int]:
    found: list[int] = []
    async for table in tables:
        found += table.column("v").to_pylist()
        if len(found) >= count:
            break
    return found


def test_two_followers_and_a_writer_in_one_loop(db: Database) -> None:
    async def write() -> None:
        for v in range(1, 6):
            await asyncio.to_thread(put, db, v)

    async def work() -> list[list[int]]:
        query = db.query("q")
        one, other = (first_values(query.follow(timeout=30), 5) for _ in range(2))
        found = await asyncio.gather(one, other, write())
        return [found[0], found[1]]

    assert run(work) == [[1, 2, 3, 4, 5]] * 2


def test_one_that_was_cancelled_goes_on_where_it_was(db: Database) -> None:
    async def work() -> list[int]:
        following = db.query("q").follow()
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(following), 0.05)
        await asyncio.to_thread(put, db, 1)
        await asyncio.to_thread(put, db, 2)
        found = await first_values(following, 2)
        await following.aclose()
        return found

    assert run(work) == [1, 2]


def test_it_ends_with_the_query_or_when_nothing_comes(db: Database) -> None:
    async def work() -> list[list[int]]:
        query = db.query("q")
        nothing = await first_values(query.follow(timeout=0.05), 1)
        following = asyncio.create_task(first_values(query.follow(), 5))
        await asyncio.to_thread(put, db, 1)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(query.drop)
        return [nothing, await asyncio.wait_for(following, 30)]

    assert run(work) == [[], [1]]


def test_threads_of_those_who_left_end(db: Database) -> None:
    async def work() -> None:
        following = [db.query("q").follow() for _ in range(5)]
        for each in following:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(each), 0.02)
        for each in following:
            await each.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(following[0])

    run(work)
    deadline = time.monotonic() + 30
    while any(thread.name == "millstream-follower" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_over_http(db: Database) -> None:
    with served(db) as url, ms.connect(url, token=None) as remote:

        async def work() -> list[int]:
            following = asyncio.create_task(first_values(remote.query("q").follow(timeout=30), 2))
            await asyncio.to_thread(put, db, 1)
            await asyncio.to_thread(put, db, 2)
            return await following

        assert run(work) == [1, 2]
