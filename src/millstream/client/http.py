"""Requests to a service by httpx: kept connections, and errors as those of a local database.

What is asked again, and when, is said once, as steps (`_Exchange`). Two thin clients carry steps out: one blocks, and
any thread may ask; the other is for one event loop.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httpx
import pyarrow as pa
from httpx_sse import EventSource, ServerSentEvent, SSEError

from millstream.client.keys import KEY
from millstream.client.talk import Ask, Event, FollowTalk, HttpAnswer, Next, Open, Pause, Talk, Unreachable
from millstream.errors import AccessError, ClosedError, Error, ServiceError
from millstream.wire.errors import error_of

_TIMEOUT = 120.0  # seconds without a byte: longer than a service takes by default
_KEEPS_ALIVE = 45.0  # seconds: to who follows the service says something every 15
_KEPT = 60.0  # seconds that a connection is kept: less than a service does
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds before rows are sent again
_PATIENCE = 60.0  # seconds that requests wait when a service asks for fewer of them
_CUT = httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError, httpx.CloseError
_R = TypeVar("_R")
_E = TypeVar("_E")


def quoted(name: str) -> str:
    """A name as a part of a path; those that mean directories elsewhere are names here."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _before_again(ask: Ask, error: Unreachable, times: int) -> float | None:
    """The seconds before a request that got no answer is sent again, or None.

    A kept connection may just have been closed by the service: so a question is sent once more. What changes something
    is not, since the service may have seen it; but for rows with a key, which count once. Where their first connection
    could not even be made, nobody has seen them, and who asked hears of it.
    """
    if KEY in ask.headers:
        return min(_FIRST_PAUSE * 2**times, _LONGEST_PAUSE) if times or error.is_cut else None
    return 0.0 if error.is_cut and not times and ask.method == "GET" else None


class _Exchange:
    """What both clients have in common: the address, and the steps to an answer."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
            raise ServiceError(f"{url} is not the address of a service", hint="it looks like http://127.0.0.1:8787")
        self.url = url.rstrip("/")
        self.is_closed = False
        if token is not None and not (token.isascii() and token.isprintable()):
            raise AccessError("this is no token", hint="it is a line that `millstream token add` has printed")
        headers = {} if token is None else {"Authorization": f"Bearer {token}".strip()}
        self._settings: dict[str, Any] = {
            "headers": {**headers, "User-Agent": "millstream"},
            "timeout": _TIMEOUT,
            # As many as there are threads or tasks that ask.
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEPT),
            "trust_env": False,  # what the environment says of proxies is not for a database's address
            "verify": ssl.create_default_context() if parts.scheme.lower() == "https" else False,
        }

    def asked(self, ask: Ask) -> Talk[HttpAnswer]:
        """The steps to the answer of a request; what the service says is wrong is raised."""
        deadline, times = time.monotonic() + _PATIENCE, 0
        while True:
            try:
                answer = yield ask
            except Unreachable as error:
                pause = _before_again(ask, error, times)
                if pause is None or time.monotonic() + pause > deadline:
                    raise self.unreachable(error) from None
                times += 1
                if pause:
                    yield Pause(pause)
                continue
            wait = _seconds(answer.headers.get("x-retry-after-seconds"))
            # Refused for its rate, and so not begun: it can be asked again.
            if answer.status != 429 or wait is None or time.monotonic() + wait > deadline:
                break
            yield Pause(wait)
        if answer.status >= 400:
            raise error_from(answer)
        return answer

    def unreachable(self, error: Exception) -> ServiceError:
        return ServiceError(
            f"the service at {self.url} cannot be reached",
            detail=str(error) or type(error).__name__,
            hint="is it running, and is the address right?",
        )

    def _target(self, ask: Ask) -> str:
        given = {name: value for name, value in ask.parameters.items() if value is not None}
        return f"{self.url}{ask.path}" + (f"?{urlencode(given)}" if given else "")

    def _request(self, ask: Ask) -> dict[str, Any]:
        if self.is_closed:
            raise ClosedError("the database is closed", hint="connect again")
        return {"method": ask.method, "url": self._target(ask), "content": ask.body, "headers": dict(ask.headers)}

    def _stream_request(self, ask: Ask) -> dict[str, Any]:
        return {**self._request(ask), "timeout": httpx.Timeout(_TIMEOUT, read=_KEEPS_ALIVE)}


def _seconds(text: str | None) -> float | None:
    """A time to wait, where something says one."""
    try:
        found = float(text or "nan")
    except ValueError:
        return None
    return found if found >= 0 else None


@contextmanager
def _telling() -> Iterator[None]:
    """Errors of the connection, as steps know them."""
    try:
        yield
    except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
        raise Unreachable(str(error) or type(error).__name__, is_cut=isinstance(error, _CUT)) from None
    except SSEError as error:
        raise ServiceError("the service did not answer with events", detail=str(error)) from None


def _answer(response: httpx.Response) -> HttpAnswer:
    return HttpAnswer(
        response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content
    )


def _event(found: ServerSentEvent) -> Event:
    return Event(found.event, found.id, found.data)


class ServiceClient(_Exchange):
    """The service at an address. Any thread may ask."""

    def __init__(self, url: str, token: str | None) -> None:
        super().__init__(url, token)
        self._client = httpx.Client(**self._settings)
        self._streams: set[httpx.Response] = set()

    def do(self, steps: Talk[_R]) -> _R:
        """What comes of steps."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    answer = self._sent(step)
                except (Error, Unreachable) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as done:
            result: _R = done.value
            return result

    def _sent(self, ask: Ask) -> HttpAnswer:
        request = self._request(ask)
        with _telling():
            return _answer(self._client.request(**request))

    def tables(self, steps: FollowTalk) -> Generator[pa.Table | None]:
        """What is given to who follows."""
        reply: Event | None = None
        failed: Exception | None = None
        with ExitStack() as opened:
            events: Iterator[Event] = iter(())
            while True:
                try:
                    step = steps.throw(failed) if failed is not None else steps.send(reply)
                except StopIteration:
                    return
                reply = failed = None
                try:
                    if isinstance(step, Open):
                        opened.close()
                        events = opened.enter_context(closing(self._events(step.ask)))
                        reply = next(events)  # the first says that it was opened
                    elif isinstance(step, Next):
                        reply = next(events, None)
                    elif isinstance(step, Pause):
                        time.sleep(step.seconds)
                    else:
                        yield step.table
                except (Error, Unreachable) as error:
                    failed = error

    def _events(self, ask: Ask) -> Generator[Event]:
        request = self._stream_request(ask)
        with _telling(), self._client.stream(**request) as response:
            if response.status_code >= 400:
                response.read()
                raise error_from(_answer(response))
            self._streams.add(response)
            try:
                yield Event("open", "", "")
                for found in EventSource(response).iter_sse():
                    yield _event(found)
            finally:
                self._streams.discard(response)

    def close(self) -> None:
        self.is_closed = True
        for response in list(self._streams):
            connection = response.extensions["network_stream"].get_extra_info("socket")
            with suppress(OSError):  # it may just have ended by itself
                connection.shutdown(socket.SHUT_RDWR)  # whoever reads from it hears of it at once
        if not self._streams:
            self._client.close()


class AsyncServiceClient(_Exchange):
    """The service at an address, for one event loop."""

    def __init__(self, url: str, token: str | None) -> None:
        super().__init__(url, token)
        self._client = httpx.AsyncClient(**self._settings)
        self._reading: set[asyncio.Future[Any]] = set()

    async def do(self, steps: Talk[_R]) -> _R:
        """What comes of steps."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    answer = await self._sent(step)
                except (Error, Unreachable) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as done:
            result: _R = done.value
            return result

    async def _sent(self, ask: Ask) -> HttpAnswer:
        request = self._request(ask)
        with _telling():
            return _answer(await self._client.request(**request))

    async def tables(self, steps: FollowTalk) -> AsyncGenerator[pa.Table | None]:
        """What is given to who follows."""
        reply: Event | None = None
        failed: Exception | None = None
        events: AsyncGenerator[Event] | None = None
        try:
            while True:
                try:
                    step = steps.throw(failed) if failed is not None else steps.send(reply)
                except StopIteration:
                    return
                reply = failed = None
                try:
                    if isinstance(step, Open):
                        if events is not None:
                            await events.aclose()
                        events = self._events(step.ask)
                        reply = await self._unless_closed(anext(events))
                    elif isinstance(step, Next):
                        reply = None if events is None else await self._unless_closed(anext(events, None))
                    elif isinstance(step, Pause):
                        await asyncio.sleep(step.seconds)
                    else:
                        yield step.table
                except (Error, Unreachable) as error:
                    failed = error
        finally:
            if events is not None:
                await events.aclose()

    async def _unless_closed(self, coming: Awaitable[_E]) -> _E:
        """What comes; who waits when the client is closed hears of it at once."""
        waiting: asyncio.Future[_E] = asyncio.ensure_future(_awaited(coming))
        self._reading.add(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if not self.is_closed:
                raise
            raise ClosedError("the database is closed", hint="connect again") from None
        finally:
            self._reading.discard(waiting)

    async def _events(self, ask: Ask) -> AsyncGenerator[Event]:
        request = self._client.build_request(**self._stream_request(ask))
        with _telling():
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code >= 400:
                    await response.aread()
                    raise error_from(_answer(response))
                yield Event("open", "", "")
                async with aclosing(EventSource(response).aiter_sse()) as found:
                    async for each in found:
                        yield _event(each)
            finally:
                await response.aclose()

    async def close(self) -> None:
        self.is_closed = True
        for waiting in list(self._reading):
            waiting.cancel()
        await self._client.aclose()


async def _awaited(coming: Awaitable[_E]) -> _E:
    return await coming


def error_from(answer: HttpAnswer) -> Error:
    """The error that a service answered with."""
    try:
        found = error_of(json.loads(answer.body))
    except ValueError:
        found = None
    return found or ServiceError(f"the service answered {answer.status}", detail=repr(answer.body[:200]))
