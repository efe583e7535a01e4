"""A service in a thread of the test, at a port of its own."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import millstream as ms
from millstream.service.audit import AuditLog
from millstream.service.certificates import Certificate
from millstream.service.limits import ServiceLimits
from millstream.service.server import Address, Server
from millstream.service.tokens import Tokens

LIMIT = 300.0  # seconds, for what must happen


@contextmanager
def served(
    db: ms.Database,
    tokens: Tokens | None = None,
    limits: ServiceLimits | None = None,
    port: int = 0,
    certificate: Certificate | None = None,
    audit: AuditLog | None = None,
) -> Iterator[str]:
    """The address of a service for a database."""
    server = Server(
        db,
        Address(port=port),
        version="test",
        tokens=tokens,
        limits=limits,
        certificate=certificate,
        audit=audit,
    )
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            server.serve()
        except BaseException as error:  # of a thread: shown below
            failures.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        until(lambda: bool(failures) or _answers(server.address))
        yield str(server.address)
    finally:
        server.stop()
        thread.join(LIMIT)
    assert not thread.is_alive()
    assert not failures


def _answers(address: Address) -> bool:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=LIMIT)
    if address.is_secure:
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(address.host, address.port, timeout=LIMIT, context=context)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def until(holds: Callable[[], Any]) -> None:
    """Wait for something that must come to hold."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, "it never held"
        time.sleep(0.01)
