"""Runs the service: uvicorn in the main thread, the sources in another, and a stop that takes at most some seconds."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn

from millstream.database import Database
from millstream.errors import AccessError, SetupError
from millstream.service.app import create_app
from millstream.service.audit import AuditLog
from millstream.service.certificates import Certificate, LiveCertificate
from millstream.service.connections import BoundedSocket, Connections, protocol_of
from millstream.service.gate import is_loopback
from millstream.service.limits import ServiceLimits
from millstream.service.sources import SourceReader
from millstream.service.throttle import throttled
from millstream.service.tokens import Tokens

_log = logging.getLogger(__name__)
_UVICORN = logging.getLogger("uvicorn.error")
_REQUESTS, _SOURCES = 3.0, 5.0  # seconds that a stop leaves to requests and to batches of sources under way


@dataclass(frozen=True)
class Address:
    host: str = "127.0.0.1"
    port: int = 8787
    is_secure: bool = False

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_secure else 'http'}://{host}:{self.port}"


def check_open_to(address: Address, tokens: Tokens | None) -> None:
    """Refuse to serve other machines where there are no tokens."""
    if not address.is_loopback and not (tokens is not None and len(tokens)):
        raise AccessError(
            f"without tokens the service is for this machine only, and {address.host} is not",
            hint="make one with `millstream token add`, or leave --host out",
        )


def check_free(address: Address) -> None:
    """Refuse an address that somebody else serves at."""
    with _bound(address, socket.socket):
        pass


class Server:
    """A database at an address. `serve` returns when it was told to stop, with everything closed but the database."""

    def __init__(
        self,
        database: Database,
        address: Address,
        *,
        version: str,
        tokens: Tokens | None = None,
        limits: ServiceLimits | None = None,
        certificate: Certificate | None = None,
        audit: AuditLog | None = None,
        announce: Callable[[str], None] | None = None,
        stopping: Callable[[], None] | None = None,
    ) -> None:
        """`announce` is given where it serves; `stopping` is called when a signal has come."""
        check_open_to(address, tokens)
        self._tokens = tokens
        self._database, self.sources = database, SourceReader(database)
        self._announce = announce or (lambda text: None)
        app = create_app(database, version=version, tokens=tokens, limits=limits, sources=self.sources, audit=audit)
        self._certificate = None if certificate is None else LiveCertificate(certificate)
        self.connections = Connections((limits or ServiceLimits()).connections)
        app.state.service.connections = self.connections
        self._socket = _bound(address, lambda *kind: BoundedSocket(self.connections.most, *kind))
        self.address = Address(address.host, self._socket.getsockname()[1], certificate is not None)
        config = uvicorn.Config(
            app,
            http=protocol_of(self.connections),
            log_config=None,  # whoever runs it says where logs go
            access_log=False,
            timeout_graceful_shutdown=int(_REQUESTS),
            server_header=False,
            timeout_keep_alive=75,
            ws="none",
            ssl_certfile=None if certificate is None else certificate.file,
            ssl_keyfile=None if certificate is None else certificate.key,
        )
        self._server = _Uvicorn(config, app.state.service.stopping, stopping)

    def serve(self) -> None:
        """Serve until a signal comes, or `stop` is called in another thread."""
        # Threads that work for requests share the interpreter with epochs: they should not wait long for their turns.
        before = sys.getswitchinterval()
        sys.setswitchinterval(0.0005)
        self.sources.start()
        if (workers := self._database.engine.evaluation.workers) is not None:
            threading.Thread(target=workers.warm, name="millstream-warm", daemon=True).start()
        has_tokens = self._tokens is not None and self._tokens.are_asked_for()
        open_to = "with tokens" if has_tokens else "for this machine only, since there are no tokens"
        self._announce(f"serving at {self.address}, {open_to}")
        _log.info("serving at %s, %s", self.address, open_to, extra={"data": {"address": str(self.address)}})
        ending = threading.Event()
        if (certificate := self._certificate) is not None:
            self._server.serve_by(certificate)
            threading.Thread(target=certificate.watch, args=[ending], name="millstream-tls", daemon=True).start()
        try:
            with throttled(_UVICORN):
                self._server.run(sockets=[self._socket])
        finally:
            ending.set()
            sys.setswitchinterval(before)
            self._socket.close()
            if not self.sources.stop(_SOURCES):
                _log.warning("a batch of the sources was still under way: it comes again")
            _log.info("stopped serving")

    def stop(self) -> None:
        self._server.should_exit = True


class _Uvicorn(uvicorn.Server):
    """Followers are told to go before it waits for them."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event, on_stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._stopping, self._on_stop = stopping, on_stop

    def serve_by(self, certificate: LiveCertificate) -> None:
        self.config.load()
        if self.config.ssl is None:
            raise AssertionError("it does not speak TLS")
        certificate.serve_by(self.config.ssl)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._on_stop is not None and not self.should_exit:
            self._on_stop()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)


def _bound(address: Address, made: Callable[[int, int, int], socket.socket]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        # The protocol is named: asyncio sends small parts at once only where it sees that it is TCP.
        found = made(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _unserved(address, error) from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address.host, address.port))
        found.listen(2048)  # who comes before the first turn of the loop waits, and is not refused
    except OSError as error:
        found.close()
        raise _unserved(address, error) from None
    return found


def _unserved(address: Address, error: OSError) -> SetupError:
    return SetupError(f"cannot serve at {address}", detail=error.strerror, hint="choose another --port")
