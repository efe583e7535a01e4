"""What a service answers by a name: rows at an instant, changes, and changes as they come."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import suppress
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from millstream.answers.following import Following
from millstream.answers.visible import Answering
from millstream.client.http import AsyncServiceClient, ServiceClient, quoted
from millstream.client.talk import (
    Ask,
    Asynchronous,
    Event,
    FollowTalk,
    Give,
    HttpAnswer,
    Next,
    Open,
    Pause,
    Service,
    Synchronous,
    Talk,
    Unreachable,
    asked_property,
    asks,
    get,
)
from millstream.errors import ClosedError, InputError, NameError, ServiceError
from millstream.wire.arrow import from_arrow_stream
from millstream.wire.errors import error_of
from millstream.wire.media import RowFormat
from millstream.wire.values import arrow_type, shown_timestamp

_AGAIN = 1.0  # seconds between attempts to come back


class AnswerCalls:
    """What a query or a template of a service can be asked, by its name."""

    what = "query"
    path = "queries"
    _service: Service

    def _begin(self, about: dict[str, Any]) -> None:
        """`about` is what the service says of it; what is not there is asked for when it is needed."""
        self.name: str = about["name"]
        self._kind: str = about["kind"]
        self.mode: str = about["mode"]
        self._known = about
        self._dropped = False

    @property
    def kind(self) -> str:
        """`"stream"` or `"relation"`."""
        return self._kind

    @asked_property
    def schema(self) -> Talk[pa.Schema]:
        columns = yield from self._about("columns")
        return pa.schema([(column["name"], arrow_type(column["type"])) for column in columns])

    @asked_property
    def final(self) -> Talk[Any]:
        """The instant up to which the answer is final; None where nothing is yet, or it has failed."""
        said = yield from self._ask("")
        return instant_from(said["final"])

    @asks
    def result(self, at: Any = None) -> Talk[pa.Table]:
        """R(at) of a relation; of a stream all elements up to `at`, their timestamps first. The default is now."""
        return (yield from self._rows("/result", at=instant_to(at)))

    @asks
    def changes(self, since: Any = None) -> Talk[pa.Table]:
        """The final changes after `since`: _ts, _weight and the columns, in time order."""
        return (yield from self._rows("/changes", since=instant_to(since)))

    @asks
    def drop(self) -> Talk[None]:
        """Forget it and what only it needed."""
        yield from self._named(Ask("DELETE", self._path("")))
        self._dropped = True

    def _following(self, since: str | None, timeout: float | None, is_left: Callable[[], bool]) -> FollowTalk:
        """The steps of who follows, who is told first that there is something to follow. A connection that is lost is
        made again, and goes on where it was."""
        place, heard, is_open = since, time.monotonic(), False
        while not (self._dropped or self._service.is_closed or is_left()):
            try:
                yield Open(self._follow_from(place, timeout))
                if not is_open:
                    is_open = True
                    yield Give(None)
                while (event := (yield Next())) is not None:
                    place = event.id or place
                    if self._service.is_closed or event.kind == "end" or is_left():
                        return
                    table = self._given(event)
                    if table is not None:
                        yield Give(table)
                        heard = time.monotonic()
                    elif timeout is not None and time.monotonic() - heard >= timeout:
                        return
                lost: Exception = OSError("the service ended it")
            except NameError:
                self._dropped = True
                if not is_open:
                    raise self._was_dropped() from None
                return
            except ClosedError:
                if not is_open and not self._service.is_closed:
                    raise
                return  # dropped, or closed by another thread
            except Unreachable as error:
                if not is_open:
                    raise self._service.unreachable(error) from None
                lost = error
            if self._service.is_closed:
                return
            if timeout is not None and time.monotonic() - heard >= timeout:
                raise self._service.unreachable(lost)
            yield Pause(_AGAIN)

    def _follow_from(self, place: str | None, timeout: float | None) -> Ask:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": place} if place else {})}
        said = None if timeout is None or timeout > 15 else max(timeout, 0.001)
        return Ask("GET", self._path("/follow"), {"rows": "arrow", "timeout": said}, headers=headers)

    def _given(self, event: Event) -> pa.Table | None:
        """The changes of an event; one without data says how far it is, or that the service is there."""
        if event.kind == "error":
            raise error_of(json.loads(event.data)) or ServiceError(event.data)
        return self._table(base64.b64decode(event.data)) if event.data else None

    def _about(self, what: str) -> Talk[Any]:
        if what not in self._known:
            self._known = yield from self._ask("")
        return self._known[what]

    def _ask(self, path: str, **parameters: Any) -> Talk[Any]:
        answer = yield from self._named(get(self._path(path), **parameters))
        return answer.json()

    def _rows(self, path: str, **parameters: Any) -> Talk[pa.Table]:
        answer = yield from self._named(get(self._path(path), RowFormat.ARROW, **parameters))
        return self._table(answer.body)

    def _named(self, ask: Ask) -> Talk[HttpAnswer]:
        """It was there when this object was made: if there is none by its name, it was dropped."""
        self._check_open()
        try:
            return (yield from self._service.asked(ask))
        except NameError:
            self._dropped = True
            raise self._was_dropped() from None

    def _table(self, body: bytes) -> pa.Table:
        return from_arrow_stream(body)[0]

    def _path(self, path: str) -> str:
        return f"/v1/{self.path}/{quoted(self.name)}{path}"

    def _check_open(self) -> None:
        if self._dropped:
            raise self._was_dropped()

    def _was_dropped(self) -> ClosedError:
        return ClosedError(f'{self.what} "{self.name}" was dropped')


class RemoteAnswers(AnswerCalls, Synchronous, Answering):
    """A query or a template of a service."""

    def __init__(self, service: ServiceClient, about: dict[str, Any]) -> None:
        self._client = self._service = service
        self._begin(about)

    def follow(self, since: Any = None, timeout: float | None = None) -> Following:
        """The final changes after `since`, as they become final: tables like those of `changes`, none of them empty.

        Blocks until there are some, and ends when it is dropped or the database closed, or when nothing has come
        for `timeout` seconds. A connection that is lost is made again, and goes on where it was.
        """
        self._check_open()
        left = threading.Event()
        tables = self._client.tables(self._following(instant_to(since), timeout, left.is_set))
        next(tables, None)  # what is wrong is said now, and not when changes are asked for
        return Following(tables, left.set)


class AsyncAnswers(AnswerCalls, Asynchronous):
    """A query or a template of a service, for who awaits."""

    def __init__(self, service: AsyncServiceClient, about: dict[str, Any]) -> None:
        self._client = self._service = service
        self._begin(about)

    def follow(self, since: Any = None, timeout: float | None = None) -> AsyncFollowing:
        """The final changes after `since`, as they become final, for `async for`: tables like those of `changes`, none
        of them empty.

        It ends when it is dropped or the database closed, or when nothing has come for `timeout` seconds. A connection
        that is lost is made again, and goes on where it was.
        """
        self._check_open()
        left = threading.Event()
        tables = self._client.tables(self._following(instant_to(since), timeout, left.is_set))
        return AsyncFollowing(tables, left)


class _Ended:
    """There are no more tables."""


_ENDED = _Ended()


class AsyncFollowing(AsyncIterator[pa.Table]):
    """The tables of one follower. One that was cancelled goes on where it was. Who awaits it itself (`following = await
    query.follow()`) is told at once if there is nothing to follow."""

    def __init__(self, tables: AsyncGenerator[pa.Table | None], left: threading.Event) -> None:
        self._tables, self._left = tables, left
        self._found: asyncio.Future[pa.Table | _Ended | None] | None = None
        self._is_open = False

    def __await__(self) -> Generator[Any, None, AsyncFollowing]:
        return self._opened().__await__()

    async def _opened(self) -> AsyncFollowing:
        if not self._is_open:
            await anext(self._tables, None)
            self._is_open = True
        return self

    def __aiter__(self) -> AsyncFollowing:
        return self

    async def __anext__(self) -> pa.Table:
        await self._opened()
        while True:
            if self._found is None:
                self._found = asyncio.ensure_future(anext(self._tables, _ENDED))
            table = await asyncio.shield(self._found)
            self._found = None
            if isinstance(table, _Ended):
                raise StopAsyncIteration
            if table is not None:
                return table

    async def aclose(self) -> None:
        """Follow no longer: nothing is kept for it any more."""
        self._left.set()
        if self._found is not None:
            self._found.cancel()
            with suppress(asyncio.CancelledError):
                await self._found
        await self._tables.aclose()


def instant_to(value: Any) -> str | None:
    """An instant as requests have it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | str | date):
        raise InputError(f"{value!r} is not an instant", hint="give a number of ticks or a timestamp")
    if isinstance(value, datetime):
        return shown_timestamp(value) if value.tzinfo is not None else value.isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def instant_from(value: Any) -> Any:
    """An instant as answers have it."""
    if not isinstance(value, str):
        return value
    return int(value) if value.lstrip("-").isdigit() else datetime.fromisoformat(value)
