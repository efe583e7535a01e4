"""Evaluates generated queries with DuckDB, instant by instant, over relations that are built here.

A query's text for DuckDB reads views, `leaf_1`, `leaf_2`, ...: a stream under its window, a table, or a derived stream
under a window, each as it is at the instant that `moment` has. A relation changes only where one of its leaves does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.text_oracle.kinds import Column, Text
from tests.text_oracle.sampling import is_sampled
from tests.text_oracle.values import plain_rows, sort_key
from tests.text_oracle.windows import BOUNDS, INF, Element, Interval, Row, Window
from tests.text_oracle.world import World

Bag = Counter[Row]


@dataclass(frozen=True)
class Leaf:
    """What FROM names: a stream or a table by its name, or a query that makes a stream."""

    name: str
    columns: tuple[Column, ...]
    source: str | Query
    window: Window | None = None  # none for tables
    percent: int | None = None  # of SAMPLE
    runs: bool = False  # of presence, of the different rows of a query


@dataclass(frozen=True)
class Query:
    """`text.duck` is the relation below the operator; `text.cql` is all of it."""

    text: Text
    columns: tuple[Column, ...]
    leaves: tuple[Leaf, ...] = ()  # those that the text reads, innermost first
    operator: str | None = None
    failures: tuple[str, ...] = ()  # texts for DuckDB: rows on which the query fails
    every: int = 1  # the instants at which RSTREAM is said are its multiples
    sees_past: bool = False  # answers depend on more than what holds at an instant

    @property
    def can_fail(self) -> bool:
        return bool(self.failures) or any(
            isinstance(leaf.source, Query) and leaf.source.failures for leaf in self.leaves
        )

    @property
    def reads(self) -> set[str]:
        """The streams and tables that it reads, also through derived streams."""
        found: set[str] = set()
        for leaf in self.leaves:
            found |= {leaf.source} if isinstance(leaf.source, str) else leaf.source.reads
        return found


@dataclass
class Evaluator:
    """Of what a world holds now, up to an instant; of the elements of some streams only those from an instant on."""

    world: World
    until: int
    kept: Mapping[str, int] = field(default_factory=dict)
    _intervals: dict[str, list[Interval]] = field(default_factory=dict)

    def relation(self, query: Query) -> list[tuple[int, Bag]]:
        """R as pieces: from each instant on, the rows until the next."""
        return list(self._pieces(query, query.text.duck))

    def elements(self, query: Query, operator: str | None = None) -> list[Element]:
        """The elements of a stream query, in order of time and then of values."""
        pieces = self.relation(query)
        found: list[Element] = []
        before: Bag = Counter()
        for index, (start, rows) in enumerate(pieces):
            end = pieces[index + 1][0] if index + 1 < len(pieces) else self.until + 1
            match operator or query.operator:
                case "ISTREAM":
                    found += _elements(start, rows - before)
                case "DSTREAM":
                    found += _elements(start, before - rows)
                case "RSTREAM":
                    every = query.every
                    for instant in range(-(-start // every) * every, end, every) if rows else ():
                        found += _elements(instant, rows)
                case other:
                    raise AssertionError(other)
            before = rows
        return found

    def first_failure(self, query: Query, since: int = 0) -> int | None:
        """The first instant, from one on, at which the query meets a row that it fails on."""
        ends = [*self._failures(query)]
        for leaf in query.leaves:
            if isinstance(leaf.source, Query):
                ends += self._failures(leaf.source)
        return min((max(start, since) for start, end in ends if end > since), default=None)

    def _failures(self, query: Query) -> Iterator[tuple[int, int]]:
        """Spans of instants at which it fails."""
        for text in query.failures:
            pieces = [*self._pieces(query, text)]
            ends = [*(start for start, _ in pieces[1:]), self.until + 1]
            yield from ((start, end) for (start, rows), end in zip(pieces, ends, strict=True) if rows)

    def _pieces(self, query: Query, text: str) -> Iterator[tuple[int, Bag]]:
        """What DuckDB has said of the same rows before is not asked again: most instants are looked at many times."""
        read = [self._intervals_of(leaf) for leaf in query.leaves]
        points = {0, *(p for intervals in read for i in intervals for p in (i.start, i.end))}
        for point in sorted(point for point in points if 0 <= point <= self.until):
            held: object = [[i.row for i in intervals if i.start <= point < i.end] for intervals in read]
            seen = text, repr((point, read) if query.sees_past else held)
            if seen not in self.world.answers:
                self.world.answers[seen] = self._asked(query, text, point)
            yield point, self.world.answers[seen]

    def _asked(self, query: Query, text: str, point: int) -> Bag:
        for leaf in query.leaves:
            if leaf.name not in self.world.held:
                self._create(leaf)
            self._fill(leaf)
        return Counter(plain_rows(self.world.asked(text, point)))

    def _intervals_of(self, leaf: Leaf) -> list[Interval]:
        if leaf.name not in self._intervals:
            self._intervals[leaf.name] = sorted(self._read(leaf), key=lambda interval: interval.order)
        return self._intervals[leaf.name]

    def _create(self, leaf: Leaf) -> None:
        duck, names = self.world.duck, [column.name for column in leaf.columns]
        if isinstance(leaf.source, str):
            source = self.world.streams.get(leaf.source) or self.world.tables[leaf.source]
            types = [kind.duck for kind in source.types]
        else:
            types = [row[1] for row in duck.execute(f"DESCRIBE {leaf.source.text.duck}").fetchall()]
        if leaf.window is not None and leaf.window.tick is not None:
            types += ["TIMESTAMP" if leaf.window.tick else "BIGINT"] * len(BOUNDS)
        declared = [f"{name} {kind}" for name, kind in zip(names, types, strict=True)]
        listed = ", ".join([*declared, "_from BIGINT", "_until BIGINT", "_order BIGINT"])
        now = f"FROM rows_of_{leaf.name}, moment WHERE _from <= moment.t AND moment.t < _until"
        columns = ", ".join(names)
        duck.execute(
            f"CREATE TABLE rows_of_{leaf.name} ({listed});"
            f"CREATE VIEW {leaf.name} AS SELECT {columns} {now};"
            f"CREATE VIEW {leaf.name}_ordered AS SELECT {columns}, _order {now};"
            f"CREATE VIEW {leaf.name}_born AS SELECT {columns}, _from AS _born {now}"
        )

    def _fill(self, leaf: Leaf) -> None:
        intervals, held = self._intervals_of(leaf), self.world.held
        if held.get(leaf.name, []) != intervals:
            self.world.duck.execute(f"DELETE FROM rows_of_{leaf.name}")
            marks = ", ".join(f"({', '.join('?' * (len(leaf.columns) + 3))})" for _ in intervals)
            values = [_given(value) for i in intervals for value in (*i.row, i.start, i.end, i.order)]
            if intervals:
                self.world.duck.execute(f"INSERT INTO rows_of_{leaf.name} VALUES {marks}", values)
        held[leaf.name] = intervals

    def _read(self, leaf: Leaf) -> list[Interval]:
        if isinstance(leaf.source, Query) and leaf.runs:
            return _runs(self.relation(leaf.source))
        if leaf.window is None:
            assert isinstance(leaf.source, str)
            return self.world.tables[leaf.source].intervals(self.until)
        if isinstance(leaf.source, str):
            stream = self.world.streams[leaf.source]
            taken = zip(stream.elements, stream.numbers, strict=True)
            first = self.kept.get(leaf.source, 0)
            elements = [e for e, n in taken if first <= e.instant <= self.until and is_sampled(n, leaf.percent)]
            elements.sort(key=lambda element: element.instant)  # ties stay in the order of arrival
        else:
            elements = self.elements(leaf.source)
        return leaf.window.intervals(elements, self.world.half_open)


def _given(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _runs(pieces: Sequence[tuple[int, Bag]]) -> list[Interval]:
    """From when until when each row is there without a break."""
    begun: dict[Row, int] = {}
    found: list[Interval] = []
    for start, rows in [*pieces, (INF, Counter[Row]())]:
        found += [Interval(row, since, start) for row, since in begun.items() if row not in rows]
        begun = {row: begun.get(row, start) for row in rows}
    return found


def _elements(instant: int, rows: Bag) -> list[Element]:
    return [Element(instant, row) for row in sorted(rows.elements(), key=sort_key)]


def at(pieces: Sequence[tuple[int, Bag]], instant: int) -> Bag:
    found: Bag = Counter()
    for start, rows in pieces:
        if start > instant:
            break
        found = rows
    return found


def begun_at(pieces: Sequence[tuple[int, Bag]], first: int) -> list[tuple[int, Bag]]:
    """What is left of a relation that begins at an instant, with all that holds then."""
    return [(first, at(pieces, first)), *((start, rows) for start, rows in pieces if start > first)]


def changes(pieces: Sequence[tuple[int, Bag]]) -> Counter[tuple[int, Row]]:
    """Net changes by instant and row."""
    found: Counter[tuple[int, Row]] = Counter()
    before: Bag = Counter()
    for start, rows in pieces:
        for row in rows.keys() | before.keys():
            if weight := rows[row] - before[row]:
                found[start, row] = weight
        before = rows
    return found
