"""What a service answers by a name: rows at an instant, changes, and changes as they come."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from millstream.answers.following import Following
from millstream.answers.visible import Answering
from millstream.client.http import ServiceClient
from millstream.errors import ClosedError, InputError, NameError, ServiceError
from millstream.wire.arrow import from_arrow_stream
from millstream.wire.errors import error_of
from millstream.wire.media import RowFormat
from millstream.wire.values import arrow_type, shown_timestamp

_KEEPS_ALIVE = 45.0  # seconds: the service says something every 15
_AGAIN = 1.0  # seconds between attempts to come back
_GLANCE = 0.1  # seconds
_Events = Iterator[tuple[str, str | None, str]]


class RemoteAnswers(Answering):
    """A query or a template of a service."""

    what = "query"
    path = "queries"

    def __init__(self, service: ServiceClient, about: dict[str, Any]) -> None:
        """`about` is what the service says of it; what is not there is asked for when it is needed."""
        self.name: str = about["name"]
        self._kind: str = about["kind"]
        self.mode: str = about["mode"]
        self._service = service
        self._known = about
        self._dropped = False

    @property
    def kind(self) -> str:
        """`"stream"` or `"relation"`."""
        return self._kind

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(column["name"], arrow_type(column["type"])) for column in self._about("columns")])

    @property
    def final(self) -> Any:
        """The instant up to which the answer is final; None where nothing is yet, or it has failed."""
        return instant_from(self._ask("")["final"])

    def result(self, at: Any = None) -> pa.Table:
        """R(at) of a relation; of a stream all elements up to `at`, their timestamps first. The default is now."""
        return self._rows("/result", at=instant_to(at))

    def changes(self, since: Any = None) -> pa.Table:
        """The final changes after `since`: _ts, _weight and the columns, in time order."""
        return self._rows("/changes", since=instant_to(since))

    def follow(self, since: Any = None, timeout: float | None = None) -> Following:
        """The final changes after `since`, as they become final: tables like those of `changes`, none of them empty.

        Blocks until there are some, and ends when it is dropped or the database closed, or when nothing has come
        for `timeout` seconds. A connection that is lost is made again, and goes on where it was.
        """
        self._check_open()
        place = instant_to(since)
        events = self._events(place, timeout)
        try:
            next(events)  # the first has no data: what is wrong is said now, and not when changes are asked for
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        left = threading.Event()
        return Following(self._follow(events, place, timeout, left), left.set)

    def _follow(
        self, events: _Events, place: str | None, timeout: float | None, left: threading.Event
    ) -> Iterator[pa.Table]:
        heard = time.monotonic()
        while not self._dropped and not self._service.is_closed and not left.is_set():
            try:
                for kind, said, content in events:
                    place = said or place
                    if self._service.is_closed or kind == "end" or left.is_set():
                        return
                    if kind == "error":
                        raise error_of(json.loads(content)) or ServiceError(content)
                    if content:
                        yield self._table(base64.b64decode(content))
                        heard = time.monotonic()
                    elif timeout is not None and time.monotonic() - heard >= timeout:
                        return
            except ClosedError:
                return  # dropped, or closed by another thread
            except (OSError, http.client.HTTPException) as error:
                lost: Exception = error
            else:
                lost = OSError("the service ended it")
            if self._service.is_closed:
                return
            if timeout is not None and time.monotonic() - heard >= timeout:
                raise self._unreachable(lost)
            time.sleep(_AGAIN)
            events = self._events(place, timeout)

    def _unreachable(self, error: Exception) -> ServiceError:
        return ServiceError(f"the service at {self._service.url} cannot be reached", detail=str(error))

    def _events(self, place: str | None, timeout: float | None) -> _Events:
        """The events from a place on: kind, id and data; those without data say how far it is."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": place} if place else {})}
        parameters = {"rows": "arrow", "timeout": None if timeout is None or timeout > 15 else max(timeout, 0.001)}
        with self._known_by_name(), self._service.stream(self._path("/follow"), parameters, headers) as response:
            response.fp.raw._sock.settimeout(_KEEPS_ALIVE)
            event: dict[str, str] = {}
            for line in response:
                text = line.decode().rstrip("\r\n")
                if text:
                    name, _, value = text.partition(":")
                    event[name] = value.removeprefix(" ")
                else:
                    yield event.get("event", ""), event.get("id"), event.get("data", "")
                    event = {}

    def drop(self) -> None:
        """Forget it and what only it needed."""
        self._check_open()
        with self._known_by_name():
            self._service.ask("DELETE", self._path(""), {})
        self._dropped = True

    def _about(self, what: str) -> Any:
        if what not in self._known:
            self._known = self._ask("")
        return self._known[what]

    def _ask(self, path: str, **parameters: Any) -> Any:
        self._check_open()
        with self._known_by_name():
            return self._service.get(self._path(path), **parameters).json()

    def _rows(self, path: str, **parameters: Any) -> pa.Table:
        self._check_open()
        with self._known_by_name():
            answer = self._service.get(self._path(path), RowFormat.ARROW, **parameters)
        return self._table(answer.body)

    def _table(self, body: bytes) -> pa.Table:
        return from_arrow_stream(body)[0]

    def _path(self, path: str) -> str:
        return f"/v1/{self.path}/{quote(self.name, safe='')}{path}"

    def _check_open(self) -> None:
        if self._dropped:
            raise ClosedError(f'{self.what} "{self.name}" was dropped')

    @contextmanager
    def _known_by_name(self) -> Iterator[None]:
        """It was there when this object was made: if there is none by its name, it was dropped."""
        try:
            yield
        except NameError:
            self._dropped = True
            raise ClosedError(f'{self.what} "{self.name}" was dropped') from None


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
