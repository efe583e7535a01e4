"""Runs the service: uvicorn in the main thread, the sources in another, and a stop that takes at most some seconds."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from millstream.database import Database
from millstream.errors import AccessError, SetupError
from millstream.service.app import create_app
from millstream.service.limits import Limits
from millstream.service.sources import SourceReader
from millstream.service.tokens import FILE, Tokens

_log = logging.getLogger(__name__)
STOP_WITHIN = 9.0  # seconds; what is not done by then is left, and is as if the process had been killed
_REQUESTS = 3.0  # of these, for requests under way
_NOT_IN_TIME = 3  # the exit code then


@dataclass(frozen=True)
class Address:
    host: str = "127.0.0.1"
    port: int = 8787

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def tokens_beside(path: Path | None, file: Path | None) -> Tokens | None:
    """The tokens of a database directory, or of a file; None where there is neither."""
    if file is None and path is None:
        return None
    return Tokens(file or (path or Path()) / FILE)


class Server:
    """A database at an address. `serve` returns when it was told to stop, with everything closed but the database."""

    def __init__(
        self,
        database: Database,
        address: Address,
        *,
        version: str,
        tokens: Tokens | None = None,
        limits: Limits | None = None,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        self._tokens = tokens if tokens is not None and len(tokens) else None
        if self._tokens is None and not address.is_loopback:
            raise AccessError(
                f"without tokens the service is for this machine only, and {address.host} is not",
                hint="make one with `millstream token add`, or leave --host out",
            )
        self.sources = SourceReader(database)
        self._announce = announce or (lambda text: None)
        app = create_app(database, version=version, tokens=self._tokens, limits=limits, sources=self.sources)
        self._socket = _bound(address)
        self.address = Address(address.host, self._socket.getsockname()[1])
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=int(_REQUESTS),
            server_header=False,
            ws="none",
        )
        self._server = _Uvicorn(config, app.state.service.stopping)

    def serve(self) -> None:
        """Serve until a signal comes, or `stop` is called in another thread."""
        # Threads that work for requests share the interpreter with epochs: they should not wait long for their turns.
        before = sys.getswitchinterval()
        sys.setswitchinterval(0.0005)
        self.sources.start()
        open_to = "with tokens" if self._tokens is not None else "for this machine only, since there are no tokens"
        self._announce(f"serving at {self.address}, {open_to}")
        try:
            self._server.run(sockets=[self._socket])
        finally:
            sys.setswitchinterval(before)
            self._socket.close()
            if not self.sources.stop(STOP_WITHIN - _REQUESTS - 1):
                _log.warning("a batch of the sources was still under way: it comes again")

    def stop(self) -> None:
        self._server.should_exit = True


class _Uvicorn(uvicorn.Server):
    """Followers are told to go before it waits for them."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address.host, address.port))
    except OSError as error:
        raise SetupError(f"cannot serve at {address}", detail=error.strerror, hint="choose another --port") from None
    return found


def leave_in_time(what: str) -> None:
    """End the process some seconds from now, whatever it is doing: a database can be killed at any time."""

    def leave() -> None:
        _log.error(
            "%s was not done within %g seconds, and is left: what was not committed comes again", what, STOP_WITHIN
        )
        logging.shutdown()
        os._exit(_NOT_IN_TIME)

    timer = threading.Timer(STOP_WITHIN, leave)
    timer.daemon = True
    timer.start()
