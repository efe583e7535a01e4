"""Requests to a service: kept connections, one for each thread at a time, and errors as those of a local database."""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from millstream.errors import ClosedError, Error, ServiceError
from millstream.wire.errors import error_of
from millstream.wire.media import RowFormat

_TIMEOUT = 120.0  # seconds without a byte: longer than a service takes by default
KEY = "Idempotency-Key"
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 2.0  # seconds before rows are sent again
_PATIENCE = 60.0  # seconds that requests wait when a service asks for fewer of them


class ConnectionLost(ServiceError):
    """A service that cannot be reached, or not any more; whether it may have seen the request."""

    def __init__(self, primary: str, *, detail: str, hint: str, was_sent: bool) -> None:
        super().__init__(primary, detail=detail, hint=hint)
        self.was_sent = was_sent


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    kind: str
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise ServiceError(
                "the service did not answer as one of ours", detail=repr(self.body[:200]), hint="is the address right?"
            ) from None


class ServiceClient:
    """The service at an address. Any thread may ask."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ServiceError(f"{url} is not the address of a service", hint="it looks like http://127.0.0.1:8787")
        self.url = url.rstrip("/")
        self._is_secure = parts.scheme == "https"
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._free: list[http.client.HTTPConnection] = []
        self._streams: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self.is_closed = False

    def get(self, path: str, accept: RowFormat = RowFormat.JSON, **parameters: Any) -> HttpAnswer:
        return self.ask("GET", path, parameters, accept=accept)

    def post(
        self, path: str, content: Any = None, *, body: bytes | None = None, kind: RowFormat = RowFormat.JSON,
        accept: RowFormat = RowFormat.JSON,
    ) -> HttpAnswer:  # fmt: skip
        return self.ask("POST", path, {}, json.dumps(content).encode() if body is None else body, kind, accept)

    def insert(self, path: str, body: bytes, kind: RowFormat, key: str) -> HttpAnswer:
        """Send rows, and send them again as long as a connection is lost: by their key they count once. Where the first
        cannot even be made, nobody has seen them."""
        begun, wait = time.monotonic(), _FIRST_WAIT
        while True:
            try:
                return self.ask("POST", path, {}, body, kind, more={KEY: key})
            except ConnectionLost as error:
                is_first = wait == _FIRST_WAIT
                if (is_first and not error.was_sent) or time.monotonic() + wait > begun + _PATIENCE:
                    raise
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def ask(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Any],
        body: bytes | None = None,
        kind: RowFormat = RowFormat.JSON,
        accept: RowFormat = RowFormat.JSON,
        more: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """The answer; what the service says is wrong is raised."""
        headers = {"Accept": str(accept), **({"Content-Type": str(kind)} if body is not None else {}), **(more or {})}
        deadline = time.monotonic() + _PATIENCE
        while True:
            with self._response(method, path, parameters, body, headers) as response:
                answer = HttpAnswer(response.status, response.getheader("content-type", ""), response.read())
                wait = response.getheader("x-retry-after-seconds")
            # Refused for its rate, and so not begun: it can be asked again.
            if answer.status != 429 or wait is None or time.monotonic() + float(wait) > deadline:
                break
            time.sleep(float(wait))
        if answer.status >= 400:
            raise error_from(answer)
        return answer

    @contextmanager
    def _response(
        self, method: str, path: str, parameters: Mapping[str, Any], body: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        connection, is_used = self._connection()
        try:
            try:
                response = self._sent(connection, method, path, parameters, body, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # A kept connection that the service has closed meanwhile. What changes something is not sent twice,
                # unless the service cannot have seen it.
                connection.close()
                if not is_used or method != "GET":
                    raise
                response = self._sent(connection, method, path, parameters, body, headers)
            yield response
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionLost(
                f"the service at {self.url} cannot be reached",
                detail=str(error) or type(error).__name__,
                hint="is it running, and is the address right?",
                was_sent=not isinstance(error, ConnectionRefusedError | socket.gaierror | ssl.SSLError),
            ) from None
        except BaseException:
            connection.close()
            raise
        self._keep(connection)

    def _sent(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        parameters: Mapping[str, Any],
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        given = {name: value for name, value in parameters.items() if value is not None}
        target = f"{self._prefix}{path}" + (f"?{urlencode(given)}" if given else "")
        connection.request(method, target, body, {**self._headers, **headers})
        return connection.getresponse()

    @contextmanager
    def stream(self, path: str, parameters: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[Any]:
        """A response that is read as it comes, on a connection of its own."""
        self._check_open()
        connection = self._new()
        with self._lock:
            self._streams.add(connection)
        try:
            response = self._sent(connection, "GET", path, parameters, None, headers)
            if response.status >= 400:
                raise error_from(HttpAnswer(response.status, "", response.read()))
            yield response
        finally:
            with self._lock:
                self._streams.discard(connection)
            connection.close()

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        self._check_open()
        while True:
            with self._lock:
                if not self._free:
                    return self._new(), False
                connection = self._free.pop()
            if _is_alive(connection):
                return connection, True
            connection.close()

    def _new(self) -> http.client.HTTPConnection:
        if self._is_secure:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=_TIMEOUT, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if self.is_closed:
                connection.close()
            elif isinstance(connection.sock, socket.socket):
                self._free.append(connection)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ClosedError("the database is closed", hint="connect again")

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            for connection in self._free:
                connection.close()
            self._free.clear()
            for connection in self._streams:
                if connection.sock is not None:
                    with suppress(OSError):  # it may just have ended by itself
                        connection.sock.shutdown(socket.SHUT_RDWR)  # whoever reads from it hears of it at once


def _is_alive(connection: http.client.HTTPConnection) -> bool:
    """Whether a kept connection is still good: one that has something to say has been closed at the other end."""
    readable, _, _ = select.select([connection.sock], [], [], 0)
    return not readable


def error_from(answer: HttpAnswer) -> Error:
    """The error that a service answered with."""
    try:
        found = error_of(json.loads(answer.body))
    except ValueError:
        found = None
    return found or ServiceError(f"the service answered {answer.status}", detail=repr(answer.body[:200]))
