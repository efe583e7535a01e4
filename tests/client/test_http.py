"""The client beside services that misbehave: an error that says so, nothing sent twice that changes something."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import millstream as ms
from millstream.client.http import ServiceClient
from millstream.client.talk import get, post

Reply = tuple[int, dict[str, str], bytes]
FINE: Reply = (200, {}, b'{"queries": []}')
CUT: Reply = (0, {}, b"")  # the connection is closed without an answer


class Scripted(ThreadingHTTPServer):
    """Answers by a script, and the last of it for ever; counts what was asked."""

    daemon_threads = True

    def __init__(self, script: list[Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script, self.asked = script, Counter[str]()
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked[self.command] += 1
        self.server.keys.append(self.headers.get("Idempotency-Key"))
        status, headers, body = self.server.script[0]
        if len(self.server.script) > 1:
            self.server.script.pop(0)
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        if int(headers.get("content-length", 0)) > len(body):
            self.close_connection = True

    do_GET = do_POST = _answer  # noqa: N815 - as the library calls them

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nobody reads it."""


@contextmanager
def answering(*script: Reply) -> Iterator[Scripted]:
    server = Scripted(list(script))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def connected(*script: Reply) -> Iterator[tuple[Scripted, Any]]:
    """A client that was answered once."""
    with answering(FINE, *script) as server, ms.connect(server.url) as db:
        yield server, db


def test_what_is_no_service_of_ours_is_told() -> None:
    page: Reply = (200, {}, b"<html>welcome</html>")
    with connected(page) as (_, db), pytest.raises(ms.ServiceError, match="did not answer as one of ours") as raised:
        db.queries()
    assert "welcome" in str(raised.value.detail)


@pytest.mark.parametrize("body", [b"", b"Bad Gateway", b"[]", b'{"error": null}', b"\xff\xfe"])
def test_an_error_without_a_document_has_its_status(body: bytes) -> None:
    with answering((502, {}, body)) as server, pytest.raises(ms.ServiceError, match="the service answered 502"):
        ms.connect(server.url)


def test_an_error_with_a_document_is_that_error() -> None:
    told = json.dumps({"error": {"class": "NameError", "primary": 'there is no query "q"'}}).encode()
    with connected((404, {}, told)) as (_, db), pytest.raises(ms.NameError, match='there is no query "q"'):
        db.query("q")


def test_half_an_answer_is_no_answer() -> None:
    with (
        connected((200, {"content-length": "500"}, b'{"queries": [')) as (_, db),
        pytest.raises(ms.ServiceError, match="cannot be reached"),
    ):
        db.queries()


def test_rows_that_are_cut_short_are_an_error() -> None:
    arrow = {"content-type": "application/vnd.apache.arrow.stream"}
    with (
        connected((200, arrow, b"\xff\xff\xff\xff\x10")) as (_, db),
        pytest.raises(ms.InputError, match="not an Arrow stream"),
    ):
        db.results()


def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long this thread would have slept; those of others sleep as they do."""
    slept, sleep, asking = list[float](), time.sleep, threading.get_ident()

    def noted(seconds: float) -> None:
        slept.append(seconds) if threading.get_ident() == asking else sleep(seconds)

    monkeypatch.setattr(time, "sleep", noted)
    return slept


def test_what_was_refused_for_its_rate_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = sleeps(monkeypatch)
    refused: Reply = (429, {"x-retry-after-seconds": "0.25"}, b"{}")
    with connected(refused, refused, FINE) as (server, db):
        db.advance(to=3)
        assert slept == [0.25, 0.25]
        assert server.asked["POST"] == 3


def test_nobody_waits_longer_than_it_makes_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = sleeps(monkeypatch)
    told = json.dumps({"error": {"class": "ServiceError", "primary": "too many requests"}}).encode()
    with (
        connected((429, {"x-retry-after-seconds": "3600"}, told)) as (_, db),
        pytest.raises(ms.ServiceError, match="too many requests"),
    ):
        db.advance(to=3)
    assert slept == []


@pytest.mark.parametrize(("method", "times"), [("GET", 2), ("POST", 1)])
def test_only_questions_are_sent_again_when_a_kept_connection_ends(method: str, times: int) -> None:
    """A statement may have been executed by a service that died before it could say so."""
    with answering(FINE, CUT, FINE) as server:
        service = ServiceClient(server.url, None)
        service.do(service.asked(get("/v1/queries")))
        before = server.asked[method]
        if method == "GET":
            assert service.do(service.asked(get("/v1/queries"))).json() == {"queries": []}
        else:
            with pytest.raises(ms.ServiceError, match="cannot be reached"):
                service.do(service.asked(post("/v1/execute", {"text": "INSERT INTO s VALUES (1)"})))
        assert server.asked[method] - before == times
        service.close()


def test_rows_are_sent_again_with_their_key() -> None:
    taken: Reply = (200, {}, b'{"accepted": 1, "late": 0}')
    with connected(CUT, CUT, taken, CUT, taken) as (server, db):
        assert db.insert("s", [(1, 1)]).accepted == 1
        assert db.insert("s", [(1, 1)], key="mine").accepted == 1
        first, second, third, *own = server.keys[-5:]
        assert first == second == third
        assert first is not None
        assert own == ["mine", "mine"]


def test_a_closed_client_asks_nothing() -> None:
    with answering(FINE) as server:
        db = ms.connect(server.url)
        db.close()
        asked = server.asked.total()
        with pytest.raises(ms.ClosedError):
            db.queries()
        assert server.asked.total() == asked


@pytest.mark.parametrize("url", ["http://", "http:///v1", "https:/x", "http://:80"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(ms.ServiceError, match="is not the address of a service"):
        ServiceClient(url, None)
