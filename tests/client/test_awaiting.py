"""The client for who awaits: many at a time, given up and gone on with, closed while somebody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import served

import millstream as ms
from millstream.answers.visible import Answering

LIMIT = 300.0
STREAM = "CREATE STREAM s (k INT) TIMESTAMP BY ts"


def against_a_service(work: Any) -> None:
    with ms.connect(engine="inprocess") as local, served(local) as url:
        asyncio.run(asyncio.wait_for(work(url), LIMIT))


def test_many_at_a_time_and_one_that_was_given_up() -> None:
    async def work(url: str) -> None:
        async with ms.connect_async(url) as db:
            await db.execute(STREAM)
            query = await db.register("SELECT k FROM s [RANGE 5]", name="q")
            template = await db.register_many("SELECT k FROM s WHERE k = ?", [1, 2], template="t")
            assert [each.name async for each in template] == [each.name for each in await template.queries()]
            assert await template.count() == 2
            following = query.follow()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(following), 0.05)
            await asyncio.gather(*(db.insert("s", [(k, 1)]) for k in range(20)))
            await db.advance(to=3)
            found = await anext(following)  # by who gave up once, and goes on
            assert sorted(found["k"].to_pylist()) == [*range(20)]
            answers = await asyncio.gather(*(query.result() for _ in range(20)))
            assert {answer.num_rows for answer in answers} == {20}
            assert await query.final == 3
            await following.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(following)

    against_a_service(work)


def test_closed_while_somebody_waits() -> None:
    async def work(url: str) -> None:
        db = await ms.connect_async(url)
        await db.execute(STREAM)
        query = await db.register("SELECT k FROM s", name="q")
        following = await query.follow()
        waiting = asyncio.ensure_future(_all(following))
        await asyncio.sleep(0.05)
        await db.close()
        assert await waiting == []
        assert db.is_closed
        with pytest.raises(ms.ClosedError):
            await db.queries()

    against_a_service(work)


async def _all(following: Any) -> list[Any]:
    return [table async for table in following]


def test_what_is_wrong_is_told_when_one_connects(tmp_path: Path) -> None:
    async def connected(url: str) -> None:
        await ms.connect_async(url)

    with pytest.raises(ms.ServiceError, match="cannot be reached"):
        asyncio.run(connected("http://127.0.0.1:9"))
    with pytest.raises(ms.SetupError, match="is not the address of a service"):
        asyncio.run(connected(str(tmp_path)))


def test_methods_are_those_of_the_other_client() -> None:
    from millstream.client.database import AsyncDatabase, RemoteDatabase
    from millstream.client.query import AsyncQuery, RemoteQuery

    of_tables = {name for name in dir(Answering) if not name.startswith("_")}  # as `await query.result()` has them
    for blocking, awaiting in ((RemoteDatabase, AsyncDatabase), (RemoteQuery, AsyncQuery)):
        missing = {name for name in dir(blocking) if not name.startswith("_")} - {*dir(awaiting)}
        assert missing <= of_tables, blocking


def test_a_coroutine_is_given() -> None:
    async def work(url: str) -> None:
        db = await ms.connect_async(url)
        asked: Coroutine[Any, Any, dict[str, Any]] = db.stats()
        assert (await asked)["queries"] == 0
        await db.close()

    against_a_service(work)
