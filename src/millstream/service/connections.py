"""Connections: how many there may be, and for how long one may say nothing.

A connection that does not send its headers, or sends its body drop by drop, is closed. There are never more of them
than leave the database the file descriptors that it needs. What a caller does not take of its answer is given up by
the system, as if the caller had gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from millstream.errors import Error, LimitError
from millstream.wire.errors import document

_log = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between warnings
_RESERVE = 256  # file descriptors for segments, sources, processes and logs
_ANSWERED = 64  # connections beyond those that are taken, which hear why they are not
_LEAST = 16  # connections, however few descriptors there are
_STALLED = 60_000  # milliseconds after which a caller that takes nothing has gone


@dataclass(frozen=True)
class ConnectionLimits:
    """0 stands for no limit."""

    connections: int = 4096
    per_address: int = 2048
    header_seconds: float = 10.0  # for the headers of a request, from its first byte or the connection's begin


@dataclass
class Connections:
    """Those that are open."""

    limits: ConnectionLimits
    most: int = field(init=False)
    by_address: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    _logged: float = float("-inf")

    def __post_init__(self) -> None:
        room = max(_descriptors() - _RESERVE, _LEAST)
        self.most = min(self.limits.connections or room, room)

    def refuse(self, reason: LimitError) -> None:
        """Count it, and log it now and then."""
        self.refused += 1
        now = time.monotonic()
        if now - self._logged >= _EVERY:
            self._logged = now
            said = {"reason": reason.primary, "refused": self.refused}
            _log.warning("a connection was refused: %s (%d so far)", reason.primary, self.refused, extra={"data": said})

    def refusal(self, address: str) -> LimitError | None:
        """Why another one is not taken."""
        per_address = self.limits.per_address
        if per_address and self.by_address[address] >= per_address:
            return LimitError(
                f"{address} has {per_address} connections already",
                hint="close some, or start the service with a larger --max-connections-per-address",
            )
        if self.by_address.total() >= self.most:
            return LimitError(
                f"there are {self.most} connections already, as many as the service takes",
                hint="come back later, or start the service with a larger --max-connections and more file descriptors",
            )
        return None


def _descriptors() -> int:
    """The file descriptors that the process may have; as many as it is allowed to ask for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return soft


class BoundedSocket(socket.socket):
    """A listening socket that takes no more connections than there may be, and a few that are told so: those too that
    have not even begun to say who they are, as TLS has it."""

    def __init__(self, most: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._room = most + _ANSWERED
        self._open: set[socket.socket] = set()

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        if len(self._open) >= self._room:
            self._open = {each for each in self._open if each.fileno() >= 0}  # the others are closed
        if len(self._open) >= self._room:
            connection.close()
            raise BlockingIOError("there are too many connections")
        self._open.add(connection)
        return connection, address


def protocol_of(connections: Connections) -> type[asyncio.Protocol]:
    """What uvicorn makes for each connection."""

    class BoundedConnection(H11Protocol):
        """HTTP/1.1 with a bound on how long its headers may take."""

        _address = ""
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            found = (self.client or ("",))[0]
            refusal = connections.refusal(found)
            if refusal is not None:
                connections.refuse(refusal)
                self._close_with(503, refusal)
                return
            self._address = found
            connections.by_address[found] += 1
            _give_up_on_silence(transport.get_extra_info("socket"))
            self._wait_for_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._headers_came()
            if self._address:
                connections.by_address[self._address] -= 1
                if not connections.by_address[self._address]:
                    del connections.by_address[self._address]
                self._address = ""
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._waiting is None and self.conn.their_state is h11.IDLE:
                self._wait_for_headers()  # those of the next request on the connection
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._headers_came()

        def _wait_for_headers(self) -> None:
            seconds = connections.limits.header_seconds
            if seconds:
                self._waiting = self.loop.call_later(seconds, self._give_up)

        def _headers_came(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _give_up(self) -> None:
            self._waiting = None
            seconds = connections.limits.header_seconds
            refusal = LimitError(f"the headers of a request did not come within {seconds:g} seconds")
            connections.refuse(refusal)
            self._close_with(408, refusal)

        def _close_with(self, status: int, error: Error) -> None:
            body = json.dumps(document(error)).encode()
            head = f"HTTP/1.1 {status} {'Request Timeout' if status == 408 else 'Service Unavailable'}\r\n"
            fields = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            if not self.transport.is_closing():
                self.transport.write((head + fields).encode() + body)
                self.transport.close()

    return BoundedConnection


def _give_up_on_silence(connection: socket.socket | None) -> None:
    """Have the system close a connection whose other side is gone, or takes nothing of what was sent."""
    if connection is not None:
        with suppress(OSError, AttributeError):  # not TCP, or not Linux
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _STALLED)
