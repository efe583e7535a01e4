"""The raw inputs, exactly as they came: elements of streams and changes of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracle.errors import OracleError
from tests.oracle.relational import Column, Row, canonical
from tests.oracle.times import Ticks

from millstream.language.statements import Heartbeat


class Element(NamedTuple):
    """An element of a stream. `key` is its arrival number, or for derived streams what SAMPLE tosses its coin with."""

    ts: int
    values: Row
    key: int


class Taken(NamedTuple):
    accepted: int
    late: int


@dataclass
class Feed:
    """A stream of rows with a heartbeat. `accepted` is in arrival order."""

    name: str
    inputs: tuple[str, ...]
    timestamp: int
    ticks: Ticks
    heartbeat_rule: Heartbeat
    heartbeat: int = -1
    offered: int = 0
    accepted: list[Element] = field(default_factory=list)
    late: list[Element] = field(default_factory=list)

    def offer(self, rows: Iterable[Sequence[object]]) -> Taken:
        """All rows or none; lateness is judged row by row, in arrival order."""
        before = len(self.accepted), len(self.late)
        for ts, row in [(self._timestamp_of(row), row) for row in rows]:
            element = Element(ts, tuple(canonical(value) for value in row), self.offered)
            self.offered += 1
            if ts <= self.heartbeat:
                self.late.append(element)
                continue
            self.accepted.append(element)
            if self.heartbeat_rule.kind == "ASCENDING":
                self.advance(ts - 1)
            elif self.heartbeat_rule.kind == "DELAY":
                assert self.heartbeat_rule.delay is not None
                self.advance(ts - self.ticks.span(self.heartbeat_rule.delay) - 1)
        return Taken(len(self.accepted) - before[0], len(self.late) - before[1])

    def _timestamp_of(self, row: Sequence[object]) -> int:
        if len(row) != len(self.inputs):
            raise OracleError(f"{self.name} takes {len(self.inputs)} values ({', '.join(self.inputs)})")
        ts = self.ticks.instant(row[self.timestamp])  # type: ignore[arg-type]
        if ts < 0:
            raise OracleError(f"timestamp {ts} is negative")
        return ts

    def advance(self, to: int) -> None:
        self.heartbeat = max(self.heartbeat, to)

    def in_time_order(self, upto: int) -> list[Element]:
        return sorted((e for e in self.accepted if e.ts <= upto), key=lambda e: (e.ts, e.key))


@dataclass
class Stream:
    name: str
    columns: tuple[Column, ...]
    feed: Feed

    def elements(self, upto: int) -> list[Element]:
        """In timestamp order, ties in arrival order; the timestamp is seen only where it is a declared column."""
        width = len(self.columns)
        return [Element(e.ts, e.values[:width], e.key) for e in self.feed.in_time_order(upto)]


@dataclass
class Table:
    """A table that statements change: its contents from each instant of a change on."""

    name: str
    columns: tuple[Column, ...]
    nature: str
    versions: list[tuple[int, tuple[Row, ...]]] = field(default_factory=list)

    @property
    def last_change(self) -> int:
        return self.versions[-1][0] if self.versions else 0

    def rows(self, t: int) -> tuple[Row, ...]:
        return next((rows for ts, rows in reversed(self.versions) if ts <= t), ())

    def change_instants(self, upto: int) -> set[int]:
        return {ts for ts, _ in self.versions if ts <= upto}


@dataclass
class ChangeTable:
    """A CHANGES BY table: rows that say what they do, applied in timestamp order, ties in arrival order."""

    name: str
    columns: tuple[Column, ...]
    nature: str
    key: tuple[int, ...]
    operation: int
    feed: Feed
    enforced: bool = False  # whether `+` of a key that is there is malformed

    def check(self, row: Sequence[object]) -> None:
        allowed = ("+", "insert", "-", "delete", *(("update",) if self.key else ()))
        if len(row) > self.operation and str(row[self.operation]).lower() not in allowed:
            raise OracleError(f"{self.name}: a row says {row[self.operation]!r}, which is none of {allowed}")

    def rows(self, t: int) -> tuple[Row, ...]:
        contents: list[Row] = []
        for element in self.feed.in_time_order(t):
            row = element.values[: len(self.columns)]
            operation = str(element.values[self.operation]).lower()
            if operation in ("+", "insert"):
                key = [row[i] for i in self.key]
                if not (self.enforced and any([other[i] for i in self.key] == key for other in contents)):
                    contents.append(row)  # else the row is malformed
            elif operation in ("-", "delete"):
                if row in contents:  # else the row is malformed
                    contents.remove(row)
            else:
                key = [row[i] for i in self.key]
                contents = [other for other in contents if [other[i] for i in self.key] != key] + [row]
        return tuple(contents)

    def change_instants(self, upto: int) -> set[int]:
        return {element.ts for element in self.feed.accepted if element.ts <= upto}
