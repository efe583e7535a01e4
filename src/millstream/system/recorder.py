"""What was noticed and is not in the system streams yet.

To notice something must cost an epoch next to nothing, so that rows are only made when somebody reads them. Until then
a bounded number of them waits; the oldest are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from millstream.plan.definitions import StreamDefinition
from millstream.system.streams import TIMESTAMP_COLUMN
from millstream.types import to_polars

WAITING_ROWS = 100_000  # of each stream, at most
RECENT_ROWS = 20_000  # that are remembered for who looks without reading the stream

Row = Sequence[object]


@dataclass(frozen=True)
class _Noted:
    at: int
    count: int
    rows: Callable[[], Sequence[Row]]


class Recorder:
    """The rows of one system stream that wait, in the order of time."""

    def __init__(self, stream: StreamDefinition, limit: int = WAITING_ROWS) -> None:
        self.stream = stream
        self.key = stream.edge
        self._limit = limit
        self._noted: deque[_Noted] = deque()
        self._waiting = 0
        self._recent: deque[_Noted] = deque()
        self._remembered = 0
        fields = stream.columns[:-1]
        self._schema = {field.name: to_polars(field.type) for field in fields}

    def __len__(self) -> int:
        return self._waiting

    def note(self, at: int, count: int, rows: Callable[[], Sequence[Row]]) -> None:
        """So many rows of an instant (microseconds), which are made when they are wanted."""
        if not count:
            return
        noted = _Noted(at, count, rows)
        self._remember(noted)
        self._noted.append(noted)
        self._waiting += count
        while self._waiting > self._limit and len(self._noted) > 1:
            self._waiting -= self._noted.popleft().count

    def _remember(self, noted: _Noted) -> None:
        self._recent.append(noted)
        self._remembered += noted.count
        while self._remembered > RECENT_ROWS and len(self._recent) > 1:
            self._remembered -= self._recent.popleft().count

    def recent(self, since: int, limit: int, until: int | None = None) -> list[dict[str, object]]:
        """The last rows after an instant, and up to another one, whether they are in the stream already or not, in the
        order of time."""
        names, found, left = [*self._schema], list[dict[str, object]](), limit
        for noted in reversed([*self._recent]):
            if noted.at <= since or left <= 0:
                break
            if until is not None and noted.at > until:
                continue
            made = noted.rows()[-left:]
            left -= len(made)
            found += [{**dict(zip(names, row, strict=True)), TIMESTAMP_COLUMN: noted.at} for row in reversed(made)]
        return found[::-1]

    def taken(self, since: int) -> pl.DataFrame | None:
        """All that waits and is not older than an instant, with its timestamps; nothing waits any more."""
        noted, self._noted, self._waiting = self._noted, deque(), 0
        rows, instants = list[Row](), list[int]()
        for each in noted:
            if each.at >= since:
                made = each.rows()
                rows += made
                instants += [each.at] * len(made)
        if not rows:
            return None
        stamps = pl.Series(TIMESTAMP_COLUMN, instants, dtype=pl.Int64).cast(to_polars(self.stream.timestamp.type))
        return pl.DataFrame(rows, schema=self._schema, orient="row").with_columns(stamps)
