"""Reads the changes of a template's queries together, from a bookmark on.

S(q)  the instant from which on a query is told of: its first answerable one, or when it came to a reader that was
      there before it; at S(q) all that holds is told as insertions, after it what changes
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from millstream.engine.answers import changes_between, first_instants
from millstream.engine.bookmarks import Bookmark
from millstream.engine.groups.many import Numbers
from millstream.engine.life import under_way
from millstream.errors import EvaluationError, InputError
from millstream.kernel.batch import Batch, empty_batch
from millstream.plan.analysis.lifetime import OPEN
from millstream.query.context import QueryContext
from millstream.query.instants import QueryInstants
from millstream.query.members import Flags, Members
from millstream.query.reader import ChangeReader, Span
from millstream.state.snapshot import SinkCursor

if TYPE_CHECKING:
    from millstream.query.template import Template


@dataclass(eq=False)
class TemplateBookmark(Bookmark):
    """Also says which queries its holder is told of, and from which instant on. What comes up to `promised` is fixed:
    queries that come later are told of after it."""

    spans: list[Span] = field(default_factory=list)
    promised: int = -1

    def starts(self, keys: Sequence[tuple[str, Numbers, Numbers]], size: int) -> Numbers:
        """By place: from which instant on a query is told of; OPEN for those that are not yet."""
        found = np.full(size, OPEN, np.int64)
        for part, numbered, places in keys:
            for key, first, past, start in self.spans:
                if key == part:
                    found[places[(numbered >= first) & (numbered < past)]] = start
        return found

    def include(self, keys: Sequence[tuple[str, Numbers, Numbers]], ready: Flags, start: int) -> None:
        """Tell of queries that have come since, from an instant on: of those before the first that is not ready."""
        self._merge()
        for part, numbered, places in keys:
            known = max((past for key, _, past, _ in self.spans if key == part), default=0)
            held_up = numbered[~ready[places] & (numbered >= known)]
            new = numbered[(numbered >= known) & (numbered < held_up.min(initial=OPEN))]
            if new.size:
                self.spans.append((part, known, int(new.max()) + 1, start))

    def _merge(self) -> None:
        """Queries that were told of before are one span: when that began does not matter any more."""
        merged: dict[tuple[str, int | None], Span] = {}
        for part, first, past, start in self.spans:
            key = part, None if start <= self.seen else first
            begin, began = (merged[key][1], merged[key][3]) if key in merged else (first, start)
            merged[key] = part, begin, past, max(began, start)
        self.spans = [*merged.values()]


class TemplateInstants(QueryInstants):
    """The instants that the queries of a template can be asked for together: from the first one of any of them on."""

    def __init__(self, template: Template, context: QueryContext) -> None:
        super().__init__(template, context)  # type: ignore[arg-type]
        self._template = template

    @property
    def committed(self) -> int:
        return self.final

    def first_by_past(self) -> int:
        firsts = self._template.members.firsts()
        return int(firsts.min()) if firsts.size else 0

    @property
    def final(self) -> int:
        self._template.check_some_go_on()
        return self.frontier


class TemplateReader(ChangeReader):
    """Reads all queries of a template by one pass. A view of the template, made where it is needed."""

    def __init__(self, template: Template, context: QueryContext) -> None:
        super().__init__(template, context)  # type: ignore[arg-type]
        self._template = template

    def bookmark(self, since: Any = None) -> TemplateBookmark:
        """Where changes of all queries after an instant begin, or those of all instants. A query that cannot be asked
        for the instant yet begins with its first one."""
        members, floor = self._template.members, self._retained()
        starts = np.maximum(members.firsts(), floor)
        first = int(starts.min()) if starts.size else floor
        if since is None:
            seen = self._instants.frontier if first == OPEN else first - 1
            bookmark = TemplateBookmark(self._template, seen, -1 if first == OPEN else first)
            bookmark.include(members.keys, np.ones(len(members), np.bool_), floor)
            return bookmark
        seen = self._instants.tick(since)
        if seen < first:
            raise self._forgotten(seen, first)
        bookmark = TemplateBookmark(self._template, seen)
        bookmark.include(members.keys, np.ones(len(members), np.bool_), 0)
        return bookmark

    def _retained(self) -> int:
        return self._engine.sources.first_answerable(self._template.materialization.inputs)

    def resumed(self, cursor: SinkCursor) -> TemplateBookmark:
        return TemplateBookmark(
            self._template, cursor.until, cursor.start, spans=[*cursor.spans], promised=cursor.offered
        )

    def cursor(self, bookmark: Bookmark) -> SinkCursor:
        return replace(super().cursor(bookmark), spans=self.told_of(bookmark))

    def told_of(self, bookmark: Bookmark) -> tuple[Span, ...]:
        return tuple(bookmark.spans) if isinstance(bookmark, TemplateBookmark) else ()

    def mark(self, bookmark: Bookmark) -> str:
        """Which queries a reader was told of."""
        return f";{base64.urlsafe_b64encode(json.dumps(self.told_of(bookmark)).encode()).decode()}"

    def marked(self, bookmark: TemplateBookmark, mark: str) -> TemplateBookmark:
        """The bookmark of a reader that comes back with what it was told."""
        if mark:
            try:
                spans = json.loads(base64.urlsafe_b64decode(mark))
                bookmark.spans = [(str(part), int(first), int(past), int(start)) for part, first, past, start in spans]
            except (ValueError, TypeError):
                raise InputError(f'"{mark}" is not where a reader of {self._template.name} has been') from None
        return bookmark

    def begun(self, bookmark: Bookmark) -> Bookmark:
        return bookmark

    @under_way
    def given(self, bookmark: Bookmark, until: int, most: int | None = None) -> tuple[pa.Table, int]:
        """What comes next for a bookmark, up to an instant that is final, or as many instants as have about so many
        changes; and the last of them."""
        if not isinstance(bookmark, TemplateBookmark):
            raise AssertionError("a bookmark of one query")
        self._check_kept(bookmark)
        members = self._template.members
        if until <= bookmark.seen or until < bookmark.start:
            return self._nothing(members), bookmark.seen
        members.admit()
        filling, firsts = members.filling(), members.firsts()
        known = bookmark.starts(members.keys, len(members))
        if (filling & (known < OPEN)).any():
            return self._nothing(members), bookmark.seen
        bookmark.include(members.keys, ~filling, max(bookmark.seen, bookmark.promised) + 1)
        starts = np.maximum(bookmark.starts(members.keys, len(members)), firsts)
        rows, failed = members.rows(starts, bookmark.seen, until)
        is_stream = members.common.kind == "stream"
        if most is not None:
            seen, domain = bookmark.seen, members.common.domain
            until = first_instants(rows, stream=is_stream, since=seen, until=until, most=most, domain=domain)
        return self._labelled(members, rows, bookmark.seen, until, failed), until

    def follow(self, bookmark: Bookmark, timeout: float | None) -> Iterator[pa.Table]:
        """Changes after a bookmark as they become final; ends when nothing has come for so many seconds."""
        self._template.members.wait(timeout)
        yield from super().follow(bookmark, timeout)

    def _nothing(self, members: Members) -> pa.Table:
        return self._labelled(members, empty_batch(members.schema), -1, -1, {})

    def _labelled(
        self, members: Members, rows: Batch, since: int, until: int, failed: Mapping[int, EvaluationError]
    ) -> pa.Table:
        found = changes_between(
            rows,
            members.schema,
            stream=members.common.kind == "stream",
            since=since,
            until=until,
            domain=members.common.domain,
            limits=self._context.engine.limits.answers,
        )
        return self._template.labelled(members, found, failed)
