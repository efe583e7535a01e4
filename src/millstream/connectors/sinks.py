"""Sinks: followers of queries, each with its own committed cursor.

A delivery is all changes after the cursor up to what was final when it was first offered. That span is committed
before the delivery is tried, and the cursor after it succeeded: so a delivery is the same however often it is tried,
and a sink that tells deliveries apart by their numbers sees every change once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from millstream.engine.bookmarks import Bookmark
from millstream.engine.engine import Engine
from millstream.errors import CatalogError, Error, EvaluationError, NameError, Place, did_you_mean
from millstream.query import Query, Template
from millstream.query.template_reader import TemplateBookmark
from millstream.state.faults import reach
from millstream.state.snapshot import SinkCursor, Snapshot

_log = logging.getLogger(__name__)
Deliver = Callable[[int, pa.Table], object]
CALLABLE = "python"  # the target of a sink that is a callable
_ATTEMPTS = 3


@dataclass
class Sink:
    """Where the changes of a query or template go. `deliver` is None while a Python callable is not attached."""

    name: str
    query: Query | Template
    target: str
    deliver: Deliver | None
    error: str | None = None
    bookmark: Bookmark | None = None  # what comes after it is kept, whatever the state

    @property
    def state(self) -> str:
        if self.error is not None:
            return "paused"
        return "active" if self.deliver is not None else "detached"

    @property
    def follows(self) -> str:
        """What it follows, as people say it."""
        return f"template {self.query.name}" if isinstance(self.query, Template) else f"query {self.query.name}"

    @property
    def error_text(self) -> str:
        """What is wrong with it, or with queries that it follows."""
        if self.error is not None or not isinstance(self.query, Template) or self.query.has_ended:
            return self.error or ""
        return "; ".join(self.query.failures)


@dataclass(frozen=True)
class Delivery:
    """What became of one."""

    sink: Sink
    number: int
    rows: int
    seconds: float


class Sinks:
    """All sinks of a database, served one after the other. One that fails is paused and holds up none of the others."""

    def __init__(self, engine: Engine, pause: float = 0.5) -> None:
        self.engine = engine
        self.pause = pause  # seconds, before the second attempt; twice that before the third
        self.by_name: dict[str, Sink] = {}
        self.lock = threading.RLock()  # taken before the engine's, never while that is held
        self._serving = False
        self.on_delivery: Callable[[Delivery], None] = lambda delivery: None
        self.before_deliveries: Callable[[], None] = lambda: None

    def add(self, sink: Sink) -> None:
        """A new one begins with what can be asked for now."""
        key = sink.name.lower()
        with self.engine.lock:
            cursor = self.engine.snapshot.sinks.get(key, SinkCursor())
            reader = sink.query.reader
            if cursor == SinkCursor():
                cursor = reader.cursor(reader.bookmark())
                self.engine.commit(self._moved(sink, cursor))
            sink.bookmark = reader.keep(reader.resumed(cursor))
            self.by_name[key] = sink

    def find(self, name: str, place: Place | None = None) -> Sink:
        if name.lower() not in self.by_name:
            hint = did_you_mean(name, [sink.name for sink in list(self.by_name.values())])
            raise NameError(f'there is no sink called "{name}"', hint=hint, place=place)
        return self.by_name[name.lower()]

    def check_free(self, name: str, place: Place | None = None) -> None:
        if name.lower() in self.by_name:
            sink = self.by_name[name.lower()]
            raise CatalogError(
                f'there is a sink "{sink.name}" for {sink.follows} already',
                hint="drop it first, or choose another name",
                place=place,
            )

    def is_callable_for(self, name: str, query: Query | Template) -> bool:
        """Whether a callable of this name was attached to the query before, by this process or an earlier one."""
        sink = self.by_name.get(name.lower())
        return sink is not None and sink.query is query and sink.target == CALLABLE

    def shown(self) -> list[dict[str, Any]]:
        return [
            {
                "name": sink.name,
                "query": sink.query.name if isinstance(sink.query, Query) else f"TEMPLATE {sink.query.name}",
                "target": sink.target,
                "state": sink.state,
                "deliveries": self.cursor(sink).deliveries,
                "until": self.cursor(sink).until,
                "error": sink.error_text,
                **self._held(sink),
            }
            for sink in list(self.by_name.values())
        ]

    def _held(self, sink: Sink) -> dict[str, Any]:
        """What is kept that was not delivered yet, and since when."""
        bookmark = sink.bookmark
        if bookmark is None or bookmark.seen >= sink.query.instants.frontier:
            return {"rows": 0, "bytes": 0, "since": None}
        rows, size = self.engine.retention.held(bookmark)
        return {"rows": rows, "bytes": size, "since": sink.query.instants.shown(bookmark.needed) if rows else None}

    def of(self, query: Query | Template) -> list[str]:
        return [sink.name for sink in list(self.by_name.values()) if sink.query is query]

    def of_any(self, template: Template, queries: Collection[Query]) -> list[str]:
        """Those of a template or of one of its queries."""
        return [sink.name for sink in list(self.by_name.values()) if sink.query is template or sink.query in queries]

    def drop(self, key: str, catalog: tuple[Mapping[str, Any], ...]) -> None:
        with self.lock, self.engine.lock:
            self.forgive(self.by_name[key])
            self.engine.commit(self.engine.snapshot.without_sink(key).with_catalog(catalog))
            self.by_name.pop(key).bookmark = None

    def cursor(self, sink: Sink) -> SinkCursor:
        return self.engine.snapshot.sinks.get(sink.name.lower(), SinkCursor())

    def flush(self) -> None:
        """Deliver what has become final since the last time, to every sink that takes it."""
        with self.lock:
            if self._serving:
                return  # a callable that itself puts rows in: they are delivered after it has returned
            self._serving = True
            try:
                self.before_deliveries()
                for sink in list(self.by_name.values()):
                    while sink.state == "active" and self._serve(sink):
                        pass
            finally:
                self._serving = False
            self.engine.retention.cut()

    def _serve(self, sink: Sink) -> bool:
        """Make one delivery; False when there is nothing to deliver, or it failed."""
        if sink.query.is_filling or self.engine.life.is_closing:
            return False  # until its past is there: sinks are served again then, or when the database is opened next
        try:
            with self.engine.runner.caution.guarded(self._place(sink)):
                return self._delivery(sink)
        except EvaluationError as error:
            sink.error = str(error)
            _log.warning("sink %s is paused: %s", sink.name, error.primary, extra={"data": {"sink": sink.name}})
            return False

    def _place(self, sink: Sink) -> str:
        return f"delivery {self.cursor(sink).deliveries + 1} of the sink {sink.name}"

    def forgive(self, sink: Sink) -> None:
        """Its next delivery is to be tried, whatever happened to processes that were at it."""
        self.engine.runner.caution.forgive(self._place(sink))

    def _delivery(self, sink: Sink) -> bool:
        with self.engine.lock:
            try:
                cursor, changes = self._next(sink)
            except Error as error:
                sink.error = str(error)
                return False
        if changes is None:
            return False
        number, begun = cursor.deliveries + 1, time.perf_counter()
        is_delivered = self._delivered(sink, number, changes)
        self.on_delivery(Delivery(sink, number, changes.num_rows, time.perf_counter() - begun))
        if not is_delivered:
            return False
        reach("sink-written")
        self._commit(sink, replace(cursor, until=cursor.offered, deliveries=cursor.deliveries + 1))
        return True

    def _next(self, sink: Sink) -> tuple[SinkCursor, pa.Table | None]:
        """The delivery that is due, its span committed."""
        cursor, bookmark, query = self.cursor(sink), sink.bookmark, sink.query
        if bookmark is None:
            return cursor, None  # dropped meanwhile
        cursor = replace(cursor, start=query.reader.begun(bookmark).start)
        if cursor.offered > cursor.until:
            changes, reached = query.reader.given(bookmark, cursor.offered)
            return cursor, changes if reached == cursor.offered else None
        final = query.instants.final
        if final <= cursor.until or final < cursor.start:
            return cursor, None
        changes, reached = query.reader.given(bookmark, final)
        if reached < final:
            return cursor, None  # the past of some queries of a template is worked through first
        cursor = replace(cursor, spans=query.reader.told_of(bookmark))
        if not changes.num_rows:
            # So that it need not be looked at again; nothing is lost if no commit comes to carry it.
            bookmark.seen = final
            self.engine.commits.note(self._moved(sink, replace(cursor, until=final, offered=final)))
            return cursor, None
        cursor = replace(cursor, offered=final)
        self._commit(sink, cursor)
        return cursor, changes

    def _commit(self, sink: Sink, cursor: SinkCursor) -> None:
        with self.engine.lock:
            self.engine.commit(self._moved(sink, cursor))
            if sink.bookmark is not None:
                sink.bookmark.seen = cursor.until
                if isinstance(sink.bookmark, TemplateBookmark):
                    sink.bookmark.promised = cursor.offered

    def _moved(self, sink: Sink, cursor: SinkCursor) -> Snapshot:
        return self.engine.snapshot.with_sink(sink.name.lower(), cursor)

    def _delivered(self, sink: Sink, number: int, changes: pa.Table) -> bool:
        if sink.deliver is None:
            return False
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                sink.deliver(number, changes)
            except Exception as error:  # whatever a user's callable or a format raises: it is shown with the sink
                sink.error = f"delivery {number}: {error if isinstance(error, Error) else repr(error)}"
            else:
                sink.error = None
                return True
            if attempt == _ATTEMPTS or self.engine.life.is_closing:
                break
            _log.info("sink %s: %s; it is tried again", sink.name, sink.error, extra={"data": {"sink": sink.name}})
            time.sleep(self.pause * attempt)
        said = {"sink": sink.name, "delivery": number, "rows": changes.num_rows}
        _log.warning("sink %s is paused: %s", sink.name, sink.error, extra={"data": said})
        return False
