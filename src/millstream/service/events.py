"""Following a query over HTTP: server-sent events.

    id: 41                                          all changes up to this instant have been sent
    data: {"columns": [...], "rows": [...]}         tables like those of `changes`

A reader that comes back with the last id it has seen (Last-Event-ID) misses nothing and sees nothing twice. Events are
made from committed segments when the reader has taken the one before: a slow reader holds one piece of changes of a few
thousand rows, and the next is read when it is ready, however far it is behind. Readers that are at the same place share
what is read and written for them.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, Literal

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus

from millstream.errors import ClosedError, Error
from millstream.query import Bookmark, Query, Template
from millstream.service.answers import notes_of
from millstream.service.request_ids import error_document
from millstream.service.work import DatabaseService
from millstream.wire.arrow import to_arrow_stream
from millstream.wire.media import RowFormat
from millstream.wire.rows import encode
from millstream.wire.values import shown_instant

Body = Literal["json", "arrow"]
_MOST = 4096  # rows of an event, unless a single instant has more
_ALIVE_EVERY = 15.0  # seconds
ALIVE = b"event: alive\n\n"  # without data: no event to a browser, and a sign of life to who reads lines
_STALLED = 60.0  # seconds after which a reader that takes nothing is left
_At = tuple[int, int, int, Body, int]  # a query, how far a reader is and where it began, what it reads, and its mark
_Followed = Query | Template
_Piece = tuple[bytes, int]


class Follows:
    """The followers of all queries."""

    def __init__(self, service: DatabaseService) -> None:
        self._service = service
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        self._is_notified = False
        self._pieces: dict[_At, asyncio.Task[_Piece]] = {}
        self._end = service.database.engine.notifier.listen(self._committed)
        self._stop = asyncio.create_task(self._when_stopping())

    def close(self) -> None:
        self._end()
        self._stop.cancel()

    @property
    def moved(self) -> asyncio.Event:
        """Set by the next commit, or when the service stops."""
        return self._moved

    async def rest(self, seconds: float) -> None:
        """Wait, unless the service stops."""
        await happens(self._service.stopping, seconds)

    async def _when_stopping(self) -> None:
        await self._service.stopping.wait()
        self._wake()

    def _committed(self) -> None:
        """Called by whoever commits, in its thread."""
        if not self._is_notified:
            self._is_notified = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_notified = False
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def events(
        self, query: _Followed, bookmark: Bookmark, body: Body, timeout: float | None
    ) -> AsyncGenerator[bytes]:
        """The events of one reader, from the first that it has not seen."""
        self.count += 1
        try:
            async for each in self._events(query, bookmark, body, timeout):
                yield each
        except ClosedError:
            pass  # dropped, or the service is stopping, while it was read
        except Error as error:
            yield event("error", json.dumps(error_document(error)))
        finally:
            self.count -= 1
        if query.has_ended and not self._service.stopping.is_set():
            kind = "query" if isinstance(query, Query) else "template"
            yield event("end", json.dumps({"reason": f'{kind} "{query.name}" was dropped'}))

    async def _events(
        self, query: _Followed, bookmark: Bookmark, body: Body, timeout: float | None
    ) -> AsyncGenerator[bytes]:
        said = bookmark.seen
        yield b": following\n\n"
        while not query.has_ended and not self._service.stopping.is_set():
            moved = self._moved  # before looking, so that no commit is missed in between
            if (
                query.instants.committed > query.reader.begun(bookmark).seen
                and query.instants.committed >= bookmark.start
            ):
                piece, until = await self._piece(query, bookmark, body)
                if until > bookmark.seen:
                    bookmark.seen = until
                    if piece:
                        yield piece
                        said = until
                    continue
            if not await happens(moved, min(timeout or _ALIVE_EVERY, _ALIVE_EVERY)):
                if timeout is not None and timeout <= _ALIVE_EVERY:
                    yield event("end", json.dumps({"reason": "nothing came"}))
                    return
                # A reader that comes back need not begin before what had nothing for it.
                yield _progress(query, bookmark) if bookmark.seen != said else ALIVE
                said = bookmark.seen

    async def _piece(self, query: _Followed, bookmark: Bookmark, body: Body) -> _Piece:
        """What comes next for readers at a place: read by the first who asks, for all who ask meanwhile."""
        # What a reader of a template is told depends on which queries it was told of before.
        own = 0 if isinstance(query, Query) else id(bookmark)
        at = id(query), bookmark.seen, bookmark.start if bookmark.is_new else -1, body, own
        found = self._pieces.get(at)
        if found is None or bookmark.lost is not None:
            found = asyncio.create_task(self._service.follow(lambda: _piece_of(query, bookmark, body)))
            self._pieces[at] = found
            found.add_done_callback(lambda done: self._forget(at, done))
        return await asyncio.shield(found)

    def _forget(self, at: _At, done: asyncio.Task[_Piece]) -> None:
        """A moment later: readers that were woken together ask one after the other."""
        if not done.cancelled():
            done.exception()  # every reader that waits is told; nobody may be left
        self._loop.call_later(0.2, self._pieces.pop, at, None)


def _piece_of(query: _Followed, bookmark: Bookmark, body: Body) -> _Piece:
    changes, until = query.reader.next_changes(bookmark, _MOST)
    if not changes.num_rows:
        return b"", until
    if body == "json":
        content = encode(changes, RowFormat.JSON, notes_of(changes)).decode()
    else:
        content = base64.b64encode(to_arrow_stream(changes, notes_of(changes))).decode()
    return event(None, content, _id(query, bookmark, until)), until


def event(kind: str | None, content: str, bookmark: str | None = None) -> bytes:
    """One event, as it is sent."""
    return ServerSentEvent(content, event=kind, id=bookmark, sep="\n").encode()


def _progress(query: _Followed, bookmark: Bookmark) -> bytes:
    """No data, so that it is no event to a browser, which notes the id all the same."""
    return ServerSentEvent(event="alive", id=_id(query, bookmark, bookmark.seen), sep="\n").encode()


def _id(query: _Followed, bookmark: Bookmark, seen: int) -> str:
    return f"{shown_instant(query.instants.shown(seen))}{query.reader.mark(bookmark)}"


async def happens(awaited: asyncio.Event, seconds: float) -> bool:
    """Whether something happens within so many seconds."""
    try:
        await asyncio.wait_for(awaited.wait(), seconds)
    except TimeoutError:
        return False
    return True


class EventStream(EventSourceResponse):
    """A response that goes on until its reader leaves, takes nothing for a minute, or there is no more.

    Those who make events say that they are there, and end when the service stops: so nothing is said or ended here.
    """

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__(events, ping=0, sep="\n", send_timeout=_STALLED)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with suppress(OSError, TimeoutError):  # its reader has gone, or takes nothing: it comes back by its last id
            await super().__call__(scope, receive, send)


AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
