"""What every request passes first: who asks, from where, how often, and how much is sent.

An ASGI layer of its own, since it must act before a body is read. Without tokens everybody on the machine may do
everything; pages of other sites that a browser of this machine shows may not: their requests come with another Origin,
or (by a name that was made to mean this machine) with another Host.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from starlette.exceptions import HTTPException

from millstream.errors import AccessError, Error, InputError, LimitError
from millstream.service.callers import Budget, Caller, set_caller
from millstream.service.limits import Rates, ServiceLimits
from millstream.service.request_ids import error_document
from millstream.service.static_files import is_static
from millstream.service.tokens import Role, Token, Tokens, granted
from millstream.service.writable import WritableNames

AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[AsgiScope, Receive, AsgiSend], Awaitable[None]]

_AUTHORITY = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]{1,255}))(?::(?P<port>[0-9]{1,5}))?")
_ROWS = re.compile(r"/v1/streams/.+/rows", re.DOTALL)
_ANY = 1 << 62
_OPEN = ("/healthz", "/readyz")  # to whom has no token; who has one is told more
_PATIENCE = 20.0  # seconds before it counts how fast a body comes
_READ_AWAY_BYTES, _READ_AWAY_SECONDS = 256 << 20, 5.0

_SEND = (
    'send one as "Authorization: Bearer ...", made by `millstream token add`; '
    "the shell takes --token, Python ms.connect(url, token=..)"
)


class RequestRefused(HTTPException):
    """A request that gets no further; of the kind that the app passes on when it is raised while it reads a body."""

    def __init__(self, status: int, error: Error, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(status, error.primary)
        self.error, self.more = error, headers


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _authority(text: str, header: str) -> tuple[str, str]:
    """The host that a header names, and what it says in all, in lower case; 400 where that is no host."""
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None or (found["port"] and int(found["port"]) > 65535):
        raise RequestRefused(400, InputError(f"the {header} header names no host", detail=repr(text)[:200]))
    return found["address"] or found["name"], text.lower()


class RequestGate:
    """Lets requests through to an app; `scope["role"]` and `scope["caller"]` say who it was."""

    def __init__(self, app: App, tokens: Tokens | None, limits: ServiceLimits, refused: Callable[[], None]) -> None:
        self._app, self._tokens, self._limits, self._refused = app, tokens, limits, refused
        self._rates = Rates(limits.requests_per_second)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            budget, writable = self._admit(scope)
            scope["budget"] = budget
            address = (scope.get("client") or ("",))[0]
            path = f"{scope['method']} {scope['path']}"
            set_caller(Caller(scope["caller"], path, budget, receive, writable, address))
            await self._app(scope, self._counted(scope, receive), send)
        except RequestRefused as refusal:
            self._refused()
            await _read_away(scope, receive)
            await answer_refused(send, refusal)

    def _admit(self, scope: AsgiScope) -> tuple[Budget, WritableNames]:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        self._check_origin(headers)
        self._check_key(scope, headers)
        address, budget, writable = (scope.get("client") or ("",))[0], Budget(), WritableNames()
        if not self._asks_for_tokens():
            scope["role"], scope["caller"] = Role.ADMIN, address
        elif scope["path"] in _OPEN or is_static(scope["path"]):
            token = self._token_of(headers)
            is_known = token is not None and not token.has_expired()
            scope["role"], scope["caller"] = granted(token.role)[0] if token and is_known else None, address
        else:
            secret, token = headers.get(b"authorization"), self._token_of(headers)
            if token is None or token.has_expired():
                self._check_rate(address)  # so that nobody tries many
                said = "an unknown token" if secret else "no token"
                said = said if token is None else f"the token {token.name} has expired"
                raise RequestRefused(
                    401,
                    AccessError(said, hint=_SEND if token is None else "`millstream token rotate` makes another one"),
                    ((b"www-authenticate", b"Bearer"),),
                )
            (scope["role"], writable), scope["caller"] = granted(token.role), f"token {token.name}"
            budget = token.budget
        self._check_rate(scope["caller"])
        return budget, writable

    def _asks_for_tokens(self) -> bool:
        return self._tokens is not None and self._tokens.are_asked_for()

    def _check_key(self, scope: AsgiScope, headers: dict[bytes, str]) -> None:
        """Nobody may take a statement for one that counts once."""
        if b"idempotency-key" in headers and not _ROWS.fullmatch(scope["path"]):
            raise RequestRefused(
                400,
                InputError(
                    "an Idempotency-Key is for rows", hint="send rows to /v1/streams/{name}/rows, or leave it out"
                ),
            )

    def _token_of(self, headers: dict[bytes, str]) -> Token | None:
        kind, _, secret = headers.get(b"authorization", "").partition(" ")
        return self._tokens.find(secret.strip()) if self._tokens is not None and kind.lower() == "bearer" else None

    def _check_origin(self, headers: dict[bytes, str]) -> None:
        host, given = _authority(headers.get(b"host", ""), "Host")
        if not self._asks_for_tokens() and not is_loopback(host):
            raise RequestRefused(
                403,
                AccessError(
                    f'this service is for this machine only, and was asked for as "{host}"',
                    hint="ask for 127.0.0.1 or localhost, or make tokens",
                ),
            )
        origin = headers.get(b"origin")
        if origin is None:
            return
        _, _, where = origin.partition("://")
        if origin == "null" or _authority(where, "Origin")[1] != given:
            raise RequestRefused(403, AccessError(f"pages of {origin} may not ask this service"))

    def _check_rate(self, caller: str) -> None:
        wait = self._rates.wait(caller)
        if wait:
            raise RequestRefused(
                429,
                LimitError(
                    f"more than {self._limits.requests_per_second:g} requests a second",
                    hint=f"wait {wait:.3f} s; put more rows into each request",
                ),
                ((b"retry-after", b"1"), (b"x-retry-after-seconds", f"{wait:.3f}".encode())),
            )

    async def _in_time(self, receive: Receive, begun: float, taken: int) -> MutableMapping[str, Any]:
        """The next part of a body, unless it comes too slowly."""
        rate = self._limits.body_bytes_per_second
        if not rate:
            return await receive()
        left = begun + _PATIENCE + taken / rate - time.monotonic()
        try:
            return await asyncio.wait_for(receive(), max(left, 0.001))
        except TimeoutError:
            raise RequestRefused(
                408,
                LimitError(f"the body came more slowly than {rate:g} bytes a second"),
                ((b"connection", b"close"),),
            ) from None

    def _counted(self, scope: AsgiScope, receive: Receive) -> Receive:
        """The body, of which no more is read than is allowed."""
        most, taken = self._limits.request_bytes or _ANY, 0
        said = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        too_large = RequestRefused(
            413,
            LimitError(f"a request of more than {most} bytes", hint="send rows in parts, each an insert of its own"),
            ((b"connection", b"close"),),
        )
        if not said.isdigit() or int(said) > most:
            raise too_large

        # Whoever looks whether the caller is still there may have taken the message that says that there is no body.
        begun, is_whole = time.monotonic(), not _has_body(scope)

        async def counted() -> MutableMapping[str, Any]:
            nonlocal taken, is_whole
            message = await (receive() if is_whole else self._in_time(receive, begun, taken))
            is_whole = not message.get("more_body", False)
            taken += len(message.get("body", b""))
            if taken > most:
                if message.get("more_body", False):
                    await _read_away(scope, receive)
                raise too_large
            return message

        return counted


def _has_body(scope: AsgiScope) -> bool:
    sizes = dict(scope["headers"])
    return b"transfer-encoding" in sizes or sizes.get(b"content-length", b"0").strip(b"0") != b""


async def _read_away(scope: AsgiScope, receive: Receive) -> None:
    """Reads what a caller is still sending, as far as is bearable: one that is cut off amid sending sees a broken
    connection instead of the answer."""
    if any(name == b"expect" for name, _ in scope["headers"]):
        return  # it waits for a word before it sends anything
    taken = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_READ_AWAY_SECONDS):
            while taken <= _READ_AWAY_BYTES:
                message = await receive()
                taken += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def answer_refused(send: AsgiSend, refusal: RequestRefused) -> None:
    body = json.dumps(error_document(refusal.error)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *refusal.more]
    await send({"type": "http.response.start", "status": refusal.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
