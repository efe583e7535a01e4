"""Rows whose answer is lost after they were committed: clients of both kinds send them again, and they count once."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from tests.support.serving import LIMIT, served

import millstream as ms
from millstream.client.keys import KEY

STREAM = "CREATE STREAM s (k INT) TIMESTAMP BY ts"


class Cutting:
    """A proxy that cuts the connection when the service has answered: of rows with a key the first two times, of what
    is said in `lost` each time. What its caller gets is nothing, or the beginning of an answer."""

    def __init__(self, url: str) -> None:
        self._netloc = urlsplit(url).netloc
        self.sent: Counter[str] = Counter()  # by key, and by path where there is none
        self.lost: set[str] = set()
        self._lock = threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with closing(http.client.HTTPConnection(self._netloc, timeout=LIMIT)) as service:
            service.request(handler.command, handler.path, body, dict(handler.headers.items()))
            answer = service.getresponse()
            said = answer.read()  # the service has done what it was asked
        key = handler.headers.get(KEY)
        with self._lock:
            self.sent[key or handler.path] += 1
            times = self.sent[key or handler.path]
        is_lost = handler.path in self.lost if key is None else times <= 2
        if is_lost and times % 2:
            handler.close_connection = True
            return
        handler.send_response(answer.status)
        for name in ("Content-Type", "X-Request-ID"):
            handler.send_header(name, answer.getheader(name, ""))
        handler.send_header("Content-Length", str(len(said)))
        handler.end_headers()
        handler.wfile.write(said[: len(said) // 2] if is_lost else said)
        handler.close_connection = is_lost


@contextmanager
def cut(url: str) -> Iterator[tuple[str, Cutting]]:
    cutting = Cutting(url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            cutting.answer(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True  # they wait for what comes by connections that are kept
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", cutting
        finally:
            server.shutdown()
            thread.join(LIMIT)


@pytest.fixture
def proxied() -> Iterator[tuple[ms.Database, str, Cutting]]:
    with ms.connect(engine="inprocess") as db, served(db) as url, cut(url) as (proxy, cutting):
        db.execute(STREAM)
        yield db, proxy, cutting


def _check(db: ms.Database, cutting: Cutting, inserts: int) -> None:
    """Each was sent three times, by a key of its own, and is there once."""
    assert [*cutting.sent.values()].count(3) == inserts
    db.advance(to=5)
    found = db.execute("SELECT k FROM s [RANGE UNBOUNDED] ORDER BY k").table
    assert found is not None
    assert found["k"].to_pylist() == [*range(inserts)]
    assert db.stats()["streams"]["s"]["arrived"] == inserts


def test_by_who_waits(proxied: tuple[ms.Database, str, Cutting]) -> None:
    db, url, cutting = proxied
    with ms.connect(url) as remote:
        told: list[int] = []

        def feed(first: int) -> None:
            told.extend(remote.insert("s", [(k, 1)]).accepted for k in range(first, first + 5))

        threads = [threading.Thread(target=feed, args=[5 * number]) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert told == [1] * 15
    _check(db, cutting, 15)


def test_by_who_awaits(proxied: tuple[ms.Database, str, Cutting]) -> None:
    db, url, cutting = proxied

    async def feed() -> list[ms.InsertResult]:
        async with ms.connect_async(url) as remote:
            return await asyncio.gather(*(remote.insert("s", [(k, 1)]) for k in range(15)))

    assert [told.accepted for told in asyncio.run(feed())] == [1] * 15
    _check(db, cutting, 15)


def test_statements_are_not_sent_again(proxied: tuple[ms.Database, str, Cutting]) -> None:
    """Whether they were taken is not known to who asked; the service was asked once."""
    db, url, cutting = proxied
    cutting.lost.add("/v1/execute")

    async def by_who_awaits() -> None:
        async with ms.connect_async(url) as remote:
            await remote.execute("CREATE STREAM second (k INT) TIMESTAMP BY ts")

    with ms.connect(url) as remote, pytest.raises(ms.ServiceError, match="cannot be reached"):
        remote.execute("CREATE STREAM first (k INT) TIMESTAMP BY ts")
    with pytest.raises(ms.ServiceError, match="cannot be reached"):
        asyncio.run(by_who_awaits())
    assert cutting.sent["/v1/execute"] == 2
    assert {"first", "second"} <= db.stats()["streams"].keys()
