"""Reads the changes of a query from a bookmark on: for callers, followers and sinks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millstream.answers.following import Following
from millstream.engine.answers import changes_between, first_instants, from_instant
from millstream.engine.bookmarks import Bookmark
from millstream.engine.life import Life, under_way
from millstream.errors import ClosedError, TimeError
from millstream.kernel.batch import Batch, empty_batch
from millstream.plan.analysis.lifetime import OPEN
from millstream.query.columns import columns_of
from millstream.query.context import QueryContext
from millstream.state.snapshot import SinkCursor

if TYPE_CHECKING:
    from millstream.query.query import Query

Span = tuple[str, int, int, int]  # of one part of a template: numbers from .. to - 1, and from which instant on
_GLANCE = 0.5  # seconds
# Followers that are woken together read by turns: it is short, and many that want to would only wait for one another.
_FOLLOWING = threading.BoundedSemaphore(2)


class ChangeReader:
    """Reads one query. A view of the query, made where it is needed."""

    def __init__(self, query: Query, context: QueryContext) -> None:
        self._query, self._context, self._engine = query, context, context.engine
        self._instants = query.instants

    @property
    def life(self) -> Life:
        return self._engine.life

    def bookmark(self, since: Any = None) -> Bookmark:
        """Where changes after an instant begin; those of all instants with what holds at the first answerable one. What
        they change must be answerable itself."""
        first = self._instants.first
        if since is None and first == OPEN:
            return Bookmark(self._query, self._instants.frontier, OPEN)
        if since is None:
            return Bookmark(self._query, first - 1, first)
        seen = self._instants.tick(since)
        if seen < first:
            raise self._forgotten(seen, first)
        return Bookmark(self._query, seen)

    def begun(self, bookmark: Bookmark) -> Bookmark:
        """The place, with where it begins if that was not known yet and is now."""
        if bookmark.start == OPEN:
            bookmark.start = self._instants.first_by_past()
        return bookmark

    def resumed(self, cursor: SinkCursor) -> Bookmark:
        """The place of a sink that was served so far."""
        return Bookmark(self._query, cursor.until, cursor.start)

    def cursor(self, bookmark: Bookmark) -> SinkCursor:
        """That of a sink that was given nothing after a place."""
        return SinkCursor(bookmark.seen, 0, bookmark.seen, bookmark.start)

    def told_of(self, bookmark: Bookmark) -> tuple[Span, ...]:
        """Of queries that are read together, which ones the holder of a place is told of, and from when on."""
        return ()

    def mark(self, bookmark: Bookmark) -> str:
        """What a reader that comes back has to say besides an instant: nothing, for one query."""
        return ""

    def keep(self, bookmark: Bookmark, most: int | None = None) -> Bookmark:
        """Keep what comes after a place for as long as somebody has it, or until that is more than so many bytes."""
        bookmark.most = most
        return self._engine.retention.bookmarks.keep(bookmark)

    @under_way
    def given(self, bookmark: Bookmark, until: int, most: int | None = None) -> tuple[pa.Table, int]:
        """What comes next for a place, up to an instant that is final, or as many instants as have about so many
        changes; and the last of them."""
        self._check_kept(bookmark)
        if until <= self.begun(bookmark).seen or until < bookmark.start:
            return self._changes(empty_batch(self._query.common.schema), -1, -1), bookmark.seen
        if bookmark.needed < (first := self._instants.first_by_past()):
            # A sink's: the query was made again since, from what was kept then.
            raise self._forgotten(bookmark.seen, first)
        whole, since = bookmark.is_new and self._query.kind == "relation", max(bookmark.seen, bookmark.start - 1)
        start = bookmark.start if whole else since
        rows = self._query.answer(lambda final: (start, until), whole=whole).rows
        if whole:
            rows, since = from_instant(rows, start), start - 1
        if most is not None:
            is_stream, domain = self._query.kind == "stream", self._query.common.domain
            until = first_instants(rows, stream=is_stream, since=since, until=until, most=most, domain=domain)
        return self._changes(rows, since, until), until

    def _check_kept(self, bookmark: Bookmark) -> None:
        """Refuse to go on where more would have had to be kept than may be."""
        if bookmark.lost is not None:
            lost = self._instants.shown(bookmark.lost)
            raise TimeError(
                f"{self._since(bookmark.seen)} no longer kept",
                detail=f"more than max_follower_bytes were kept for this reader, from {lost} back",
                hint="read faster, or raise max_follower_bytes",
            )

    @under_way
    def next_changes(self, bookmark: Bookmark, most: int) -> tuple[pa.Table, int]:
        """The changes after a place, of as many instants as have about so many, and the last of them."""
        self._query.check_open()
        final = -1 if self._query.is_filling else self._instants.final
        return self.given(bookmark, final, most)

    def following(self, since: Any, timeout: float | None) -> Following:
        """A follower of its own, which holds its place for as long as somebody has it."""
        bookmark = self.keep(self.bookmark(since))

        def end() -> None:  # also called wherever the last reference goes: so nobody is woken, who looks soon anyway
            bookmark.is_left = True

        return Following(self.follow(bookmark, timeout), end)

    def follow(self, bookmark: Bookmark, timeout: float | None) -> Iterator[pa.Table]:
        """Changes after a place as they become final; ends when nothing has come for so many seconds."""
        self._engine.notifier.wait_until(lambda: self._query.has_ended or not self._query.is_filling, timeout)
        while not self._query.has_ended and not bookmark.is_left:
            if self._query.is_filling:
                return  # for longer than anybody wants to wait
            try:
                final = self._instants.reached()
                changes = self._more(bookmark)
                if changes is None or not changes.num_rows:
                    seen = final if bookmark.start == OPEN else max(bookmark.seen, bookmark.start - 1)
                    self._wait(bookmark, seen, timeout)
                    if not self._query.has_ended and self._instants.reached() <= seen:
                        return  # nothing came
                    continue
            except ClosedError:
                if self._query.has_ended:
                    return  # between two looks
                raise
            yield changes

    @under_way
    def _more(self, bookmark: Bookmark) -> pa.Table | None:
        """What has become final since a follower was here."""
        final = self._instants.reached()
        if final <= self.begun(bookmark).seen or final < bookmark.start:
            return None
        with _FOLLOWING:
            changes, bookmark.seen = self.given(bookmark, final)
        return changes

    def _wait(self, bookmark: Bookmark, seen: int, timeout: float | None) -> None:
        """Until more is final; streams that follow the clock of day are looked at now and then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._query.has_ended and not bookmark.is_left and self._instants.reached() <= seen:
            left = _GLANCE if deadline is None else min(_GLANCE, deadline - time.monotonic())
            if left <= 0:
                return
            self._engine.notifier.wait_until(
                lambda: self._query.has_ended or bookmark.is_left or self._instants.final > seen, left
            )

    def _forgotten(self, seen: int, first: int) -> TimeError:
        return self._instants.forgotten(self._since(seen), first)

    def _since(self, seen: int) -> str:
        return f"the changes of {self._query.name} since {self._instants.shown(seen)} are"

    def _changes(self, rows: Batch, since: int, until: int) -> pa.Table:
        return changes_between(
            rows,
            columns_of(self._query),
            stream=self._query.kind == "stream",
            since=since,
            until=until,
            domain=self._query.common.domain,
            limits=self._context.engine.limits.answers,
        )
