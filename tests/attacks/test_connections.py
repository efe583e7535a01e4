"""Connections that say nothing, or something that no client says."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest
from tests.attacks.victim import Victim, attacked, check_said, scaled
from tests.support.serving import LIMIT, until

pytestmark = pytest.mark.slow


def _open(victim: Victim) -> socket.socket:
    return socket.create_connection(("127.0.0.1", victim.service.port), timeout=LIMIT)


def _said(connection: socket.socket) -> tuple[int, str]:
    """All that is answered until the other side closes."""
    found = b""
    with contextlib.suppress(OSError):
        while part := connection.recv(65536):
            found += part
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head.startswith(b"HTTP/1.1 ") else 0, body.decode("utf-8", "replace")


def test_half_open_headers_and_slow_bodies(tmp_path: Path) -> None:
    with attacked(tmp_path / "db", "--in-process", "--header-timeout", "2") as victim, contextlib.ExitStack() as held:
        half = [held.enter_context(_open(victim)) for _ in range(300)]
        for connection in half:
            connection.sendall(b"GET /v1/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")
        slow = [held.enter_context(_open(victim)) for _ in range(20)]
        for connection in slow:
            connection.sendall(
                b"POST /v1/streams/s/rows HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-type: text/csv\r\n"
                b"content-length: 1000000\r\n\r\nk,"
            )
        sent = victim.sent
        for connection in half:
            status, said = _said(connection)
            assert status in (0, 408), said
        for connection in slow:
            status, said = _said(connection)  # after its patience
            assert status in (0, 408), said
        until(lambda: victim.sent > sent)


_HEADS = [
    *("Host: ", "Host: [", "Host: a b", "Host: 127.0.0.1:99999", "Host: evil.example", "Host: [::1", "Host: \xff"),
    *("Host: 127.0.0.1\r\nOrigin: x", "Host: 127.0.0.1\r\nOrigin: ://", "Host: 127.0.0.1\r\nOrigin: http://[::", ""),
    *(
        "Host: 127.0.0.1\r\nOrigin: null",
        "Host: 127.0.0.1\r\nOrigin: http://evil.example",
        "Host: 127.0.0.1\r\nHost: b",
    ),
    *("Host: 127.0.0.1\r\nContent-Length: -1", "Host: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2"),
    *("Host: 127.0.0.1\r\nTransfer-Encoding: x", "Host: 127.0.0.1\r\nContent-Length: 99999999999999999999"),
    *(
        "Host: 127.0.0.1\r\nAuthorization: Bearer \x80\xff",
        "Host: 127.0.0.1\r\nAccept: \xff/;;",
        "Host: 127.0.0.1\r\n: x",
    ),
    *("Host: 127.0.0.1\r\nIdempotency-Key: \xff", "Host: 127.0.0.1\r\nLast-Event-ID: \xff", "Host: \x00"),
    *(
        "Host: 127.0.0.1\r\nX-Request-ID: " + "x" * 60_000,
        "Host: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 5",
    ),
]
_FIRST = [
    *("GET /v1/queries HTTP/1.1", "POST /v1/execute HTTP/1.1", "POST /v1/streams/s/rows HTTP/1.1", "BREW / HTTP/1.1"),
    *(
        "GET /v1/queries/q/follow?timeout=0.01 HTTP/1.1",
        "GET http://[ HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /%ff%00 HTTP/1.1",
    ),
    *(
        "GET / HTTP/9.9",
        "\x16\x03\x01\x02\x00",
        "PRI * HTTP/2.0",
        "GET /" + "x" * 70_000 + " HTTP/1.1",
        "OPTIONS * HTTP/1.1",
    ),
]


def test_malformed_heads(victim: Victim) -> None:
    for first in _FIRST:
        for head in _HEADS[: scaled(len(_HEADS) * 10)]:
            with _open(victim) as connection:
                connection.sendall(f"{first}\r\n{head}\r\nConnection: close\r\n\r\n".encode("latin-1"))
                with contextlib.suppress(OSError):  # it may be closed already
                    connection.shutdown(socket.SHUT_WR)
                status, said = _said(connection)
                if status:
                    check_said(status, said, (first[:200], head[:200]))
