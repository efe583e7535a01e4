"""What was told to a database, kept by the test itself: elements as they were accepted, heartbeats, and tables.

Lateness, heartbeats and the clock follow DESIGN, section 2. Tables live in DuckDB: statements that change them are run
there as text, and their rows are noted after each, so that R(t) of a table is a list of versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import duckdb
from tests.text_oracle.kinds import Column, Text
from tests.text_oracle.values import plain_rows
from tests.text_oracle.windows import INF, Element, Interval, Row


@dataclass
class Stream:
    """`heartbeat` is how it rises with elements: by their delay, or (None) not at all."""

    name: str
    columns: tuple[Column, ...]
    types: tuple[Text, ...]
    clause: str
    delay: int | None = 0
    shows_time: bool = False
    retain: int | None = None  # ticks; None for ever
    cut: int = 0  # elements before it may be gone
    elements: list[Element] = field(default_factory=list)
    heartbeat: int = -1
    greatest: int = -1
    numbers: list[int] = field(default_factory=list)  # of arrival, for SAMPLE
    arrived: int = 0

    def take(self, row: Row, instant: int) -> bool:
        """An element in the order of its arrival; late ones are refused."""
        self.arrived += 1
        if instant <= self.heartbeat:
            return False
        self.elements.append(Element(instant, row))
        self.numbers.append(self.arrived - 1)
        self.greatest = max(self.greatest, instant)
        if self.delay is not None:
            self.heartbeat = max(self.heartbeat, self.greatest - self.delay - 1)
        return True

    def ordered(self, until: int) -> list[Element]:
        """Up to an instant, as ROWS windows count: by instants, ties in the order of arrival."""
        return sorted((e for e in self.elements if e.instant <= until), key=lambda element: element.instant)


@dataclass
class Table:
    """A table and its versions: (instant, rows), each valid up to the next one."""

    name: str
    columns: tuple[Column, ...]
    types: tuple[Text, ...]
    clause: str = ""
    versions: list[tuple[int, Counter[Row]]] = field(default_factory=list)
    has_key: bool = False  # its first column
    fed: Stream | None = None  # CHANGES BY: what comes, the last value of a row being what it does

    @property
    def only_grows(self) -> bool:
        """Then its rows have, as those of streams, a part in when a combination is generated."""
        return self.clause in ("APPEND ONLY", "STATIC")

    @property
    def last_change(self) -> int:
        return self.versions[-1][0] if self.versions else -1

    def intervals(self, until: int) -> list[Interval]:
        found: list[Interval] = []
        versions = self.versions if self.fed is None else _fed(self.fed.ordered(until), self.has_key)
        for index, (start, rows) in enumerate(versions):
            end = versions[index + 1][0] if index + 1 < len(versions) else INF
            if start < end:
                found += [Interval(row, start, end) for row in rows.elements()]
        return found


def _fed(changes: Sequence[Element], has_key: bool) -> list[tuple[int, Counter[Row]]]:
    """Versions by changes in the order of time: a copy in, a copy out if there is one, all rows of a key replaced."""
    versions: list[tuple[int, Counter[Row]]] = []
    rows: Counter[Row] = Counter()
    for instant, (*values, what) in changes:
        row = tuple(values)
        if what in ("-", "delete"):
            rows = rows - Counter([row])
        elif what == "update" and has_key:
            rows = Counter({other: n for other, n in rows.items() if other[0] != row[0]}) + Counter([row])
        else:
            rows = rows + Counter([row])
        if versions and versions[-1][0] == instant:
            versions.pop()
        versions.append((instant, rows))
    return versions


_NUMBERS = count()


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    """One for all worlds, which are databases in it: to open it takes longer than many a case."""
    return duckdb.connect(config={"threads": 1})


class World:
    def __init__(self, half_open: bool = False) -> None:
        self.half_open = half_open
        self.streams: dict[str, Stream] = {}
        self.tables: dict[str, Table] = {}
        self.clock = -1
        self.readers: dict[str, set[str]] = {}  # what registered queries read
        self.answers: dict[tuple[str, str], Counter[Row]] = {}  # of DuckDB, by a text and the rows that it reads
        self.duck, self._place = _duckdb().cursor(), f"world_{next(_NUMBERS)}"
        self.duck.execute(f"ATTACH ':memory:' AS {self._place}; USE {self._place}; SET TimeZone = 'UTC'")
        # It takes a FULL JOIN with an empty side for one row at most, and then leaves out the LIMIT 1 of an EXISTS.
        # And rows are few: to plan a query costs more than to run it, so that plans are simple, and kept.
        self.duck.execute("SET disabled_optimizers = 'statistics_propagation'; PRAGMA disable_optimizer")
        self.duck.execute("CREATE TABLE moment (t BIGINT); INSERT INTO moment VALUES (0)")
        self.held: dict[str, list[Interval]] = {}  # rows that DuckDB has, by leaves
        self._prepared: dict[str, str] = {}

    def close(self) -> None:
        self.duck.execute(f"USE memory; DETACH {self._place}")
        self.duck.close()

    def asked(self, text: str, instant: int) -> list[Row]:
        """What DuckDB says of the rows that it has, at an instant."""
        self.duck.execute(f"UPDATE moment SET t = {instant}")
        if text not in self._prepared:
            self._prepared[text] = f"asked_{len(self._prepared)}"
            self.duck.execute(f"PREPARE {self._prepared[text]} AS {text}")
        return self.duck.execute(f"EXECUTE {self._prepared[text]}").fetchall()

    def add_stream(self, stream: Stream) -> None:
        self.streams[stream.name] = stream

    def add_table(self, table: Table) -> None:
        self.tables[table.name] = table
        declared = ", ".join(f"{c.name} {kind.duck}" for c, kind in zip(table.columns, table.types, strict=True))
        self.duck.execute(f"CREATE TABLE {table.name} ({declared})")

    def insert(self, name: str, rows: Sequence[tuple[Row, int]]) -> tuple[int, int]:
        """Rows with their instants: how many were accepted, and how many were late."""
        stream = self.feeds[name]
        accepted = sum(stream.take(row, instant) for row, instant in rows)
        self._tick()
        return accepted, len(rows) - accepted

    def advance(self, name: str | None, to: int) -> None:
        for stream in self.feeds.values():
            if name in (None, stream.name):
                stream.heartbeat = max(stream.heartbeat, to)
        if name is None:
            self.clock = max(self.clock, to)
        self._tick()

    def _tick(self) -> None:
        self.clock = max([self.clock, *(stream.heartbeat for stream in self.feeds.values())])
        self.cut()

    def cut(self) -> None:
        """At the least of heartbeat - RETAIN and of final - RETAIN of all queries that read a stream."""
        for stream in self.streams.values():
            if stream.retain is None:
                continue
            finals = [self.final(reads) for reads in self.readers.values() if stream.name in reads]
            due = min([stream.heartbeat, *finals]) - stream.retain
            if due > stream.cut and (stream.cut or any(e.instant < due for e in stream.elements)):
                stream.cut = due

    @property
    def feeds(self) -> dict[str, Stream]:
        """All that has a heartbeat: streams, and tables that rows change."""
        return self.streams | {name: table.fed for name, table in self.tables.items() if table.fed is not None}

    def earliest(self, name: str) -> int:
        """When a table may change next."""
        return max(self.clock + 1, self.tables[name].last_change)

    def change(self, name: str, text: str, at: int | None = None) -> int:
        """Run a statement on a table; the instant at which it takes effect."""
        table = self.tables[name]
        instant = self.earliest(name) if at is None else at
        self.duck.execute(text)
        columns = ", ".join(column.name for column in table.columns)
        rows = Counter(plain_rows(self.duck.execute(f"SELECT {columns} FROM {name}").fetchall()))
        if table.last_change == instant:
            table.versions.pop()
        table.versions.append((instant, rows))
        return instant

    def final(self, names: set[str]) -> int:
        """Up to where what reads these is final."""
        heartbeats = [stream.heartbeat for stream in self.feeds.values() if stream.name in names]
        if heartbeats:
            return min(heartbeats)
        # What reads nothing cannot change: instant 0 is final before time begins. Tables may still change at 0.
        return self.clock if names else max(self.clock, 0)
