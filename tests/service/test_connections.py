"""Connections that say nothing, or nonsense, touch nobody else."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.serving import LIMIT, served

import millstream as ms
from millstream.service.connections import Connections
from millstream.service.gate import is_loopback
from millstream.service.limits import ConnectionLimits, ServiceLimits
from millstream.state.store import DirectoryStore


@pytest.fixture(scope="module")
def netloc() -> Iterator[tuple[str, int]]:
    limits = ServiceLimits(connections=ConnectionLimits(40, 30, header_seconds=1.0), body_bytes_per_second=1e9)
    with ms.connect(engine="inprocess") as db, served(db, limits=limits) as url:
        found = urlsplit(url)
        assert found.hostname is not None
        assert found.port is not None
        yield found.hostname, found.port


def sent(netloc: tuple[str, int], content: bytes) -> tuple[int, bytes]:
    with socket.create_connection(netloc, LIMIT) as connection:
        connection.sendall(content)
        return answer_of(connection)


def answer_of(connection: socket.socket) -> tuple[int, bytes]:
    with connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        length = 0
        while (line := file.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return status, file.read(length)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(
            (host, 200)
            for host in (b"127.0.0.1", b"127.0.0.2:80", b"[::1]", b"[::1]:8787", b"localhost", b"LOCALHOST:1")
        ),
        *(
            (host, 400)
            for host in (b"[::1", b"[", b"]", b"127.0.0.1:abc", b"a b", b"\xff", b"", b"127.0.0.1:99999", b"a/b")
        ),
        *((host, 403) for host in (b"evil.example", b"10.0.0.1", b"[2001:db8::1]", b"127.0.0.1.evil.example")),
    ],
)
def test_hosts(netloc: tuple[str, int], host: bytes, status: int) -> None:
    found, body = sent(netloc, b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert found == status
    assert status == 200 or json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        *((b"http://127.0.0.1:8787", 200), (b"http://evil.example", 403), (b"null", 403), (b"http://127.0.0.1:1", 403)),
        *((origin, 400) for origin in (b"http://[::1", b"\xff", b"http://[", b"x", b"http://a b")),
    ],
)
def test_origins(netloc: tuple[str, int], origin: bytes, status: int) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:8787\r\nOrigin: " + origin + b"\r\n\r\n"
    assert sent(netloc, head)[0] == status


def test_headers_that_do_not_come(netloc: tuple[str, int]) -> None:
    half = [socket.create_connection(netloc, LIMIT) for _ in range(20)]
    for connection in half:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
    assert sent(netloc, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[0] == 200
    for connection in half:
        status, body = answer_of(connection)
        assert (status, "headers" in json.loads(body)["error"]["message"]) == (408, True)
        connection.close()


def test_one_request_after_another_on_a_connection(netloc: tuple[str, int]) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(netloc, LIMIT) as connection:
        for _ in range(3):
            connection.sendall(request)
            assert answer_of(connection)[0] == 200
        connection.sendall(request[:20])
        assert answer_of(connection)[0] == 408


def test_more_connections_than_an_address_may_have(netloc: tuple[str, int]) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    held = []
    for _ in range(30):
        connection = socket.create_connection(netloc, LIMIT)
        connection.sendall(request)
        assert answer_of(connection)[0] == 200
        held.append(connection)
    with socket.create_connection(netloc, LIMIT) as one_more:
        status, body = answer_of(one_more)
    assert (status, "30 connections" in json.loads(body)["error"]["message"]) == (503, True)
    held[0].sendall(request)
    assert answer_of(held[0])[0] == 200
    for connection in held:
        connection.close()


def test_descriptors_are_left_to_the_database() -> None:
    found = Connections(ConnectionLimits(connections=10**9))
    assert found.most < 10**9
    found.by_address["a"] = found.most
    refusal = found.refusal("b")
    assert refusal is not None
    assert "connections" in refusal.primary


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EMFILE, "ulimit"), (errno.ENOSPC, "make room"), (errno.EROFS, "read-only")]
)
def test_errors_say_what_is_exhausted(tmp_path: Path, number: int, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DirectoryStore(tmp_path)
    store.prepare()

    def refuse(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ms.Error, match=hint):
        store.adopt_history("s", 0, "e1", b"")


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("10.0.0.1", "example.org", "", "::2", "localhost.evil.example")))
