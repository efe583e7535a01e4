"""The outermost layer of the service: each request gets a name, and is counted, timed and logged when it has ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from millstream.service.metrics import Metrics
from millstream.service.request_ids import HEADER, begin_request

AsgiScope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
App = Callable[[AsgiScope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

_log = logging.getLogger(__name__)
_METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH")
_REFUSED = (401, 403, 408, 413, 429, 503)
_EVERY = 1.0  # seconds between warnings of refusals for the same reason: those between are counted


class RequestLog:
    """Wraps an app."""

    def __init__(self, app: App, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics
        self._refusals: dict[tuple[int, str], tuple[float, int]] = {}  # when it was logged, and how many came since

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), None)
        name, begun, status = begin_request(given).encode(), time.perf_counter(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (HEADER, name)]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception:
            status = 500  # as those say it who are asked next
            raise
        finally:
            self._ended(scope, status, time.perf_counter() - begun)

    def _ended(self, scope: AsgiScope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.request(method, _route(scope), status, seconds)
        level = logging.DEBUG if status < 400 else logging.INFO if status < 500 else logging.WARNING
        count = 1
        if status in _REFUSED:
            level, count = self._level_of_refusal(status, str(scope.get("caller", "")))
        if not _log.isEnabledFor(level):
            return
        caller, path = str(scope.get("caller") or (scope.get("client") or ("",))[0]), str(scope["path"])[:500]
        data = {"method": scope["method"], "path": path, "status": status, "ms": round(1e3 * seconds, 3)}
        more = f", and {count - 1} more of the kind" if count > 1 else ""
        _log.log(
            level,
            "%s %s %s in %.1f ms for %s%s",
            *(scope["method"], path, status or "without an answer", 1e3 * seconds, caller or "nobody", more),
            extra={"data": {**data, "caller": caller, **({"count": count} if count > 1 else {})}},
        )

    def _level_of_refusal(self, status: int, caller: str) -> tuple[int, int]:
        """A warning now and then: who is refused a thousand times a second shall not fill a disk."""
        now, place = time.monotonic(), (status, caller)
        logged, count = self._refusals.get(place, (-_EVERY, 0))
        if now - logged < _EVERY:
            self._refusals[place] = logged, count + 1
            return logging.DEBUG, 1
        if len(self._refusals) > _REMEMBERED:
            self._refusals.clear()
        self._refusals[place] = now, 0
        return logging.WARNING, count + 1


_REMEMBERED = 10_000


def _route(scope: AsgiScope) -> str:
    """The path as the service declares it: there are few of them."""
    path = str(getattr(scope.get("route"), "path", "other"))
    # Of a router within a router it is what that one adds.
    return f"/v1{path}" if scope["path"].startswith("/v1/") and path[0] == "/" and path[:4] != "/v1/" else path
