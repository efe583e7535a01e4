"""What a query means, as a tree that is evaluated from the raw inputs at any instant.

Stream nodes have elements, relation nodes have rows at t. Nothing is kept up to date: a node computes what it is asked
for from its inputs, and remembers it only within one `World`, one state of the database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from tests.oracle import relational
from tests.oracle.errors import OracleError
from tests.oracle.inputs import ChangeTable, Element, Feed, Stream, Table
from tests.oracle.relational import Column, Row
from tests.oracle.sampling import derived_key, kept
from tests.oracle.times import Ticks, shared
from tests.oracle.windows import Window, change_instants, contents, sessions

MAX_RSTREAM_ROWS = 10_000_000


@dataclass(eq=False)
class World:
    """One state of the database. Up to `dense_limit` every instant is visited, beyond only those where something may
    change."""

    half_open: bool
    seed: int
    dense_limit: int
    derived: dict[Any, tuple[int, list[Element]]] = field(default_factory=dict)

    def instants(self, relation: Relation, since: int, upto: int) -> list[int]:
        if upto <= self.dense_limit:
            return list(range(since + 1, upto + 1))
        return sorted(t for t in relation.change_instants(self, upto) | {0} if t > since)


class Node(ABC):
    columns: tuple[Column, ...]

    @property
    @abstractmethod
    def children(self) -> tuple[Node, ...]: ...

    @property
    def feeds(self) -> list[Feed]:
        """The inputs whose heartbeats hold the answer back."""
        return [feed for child in self.children for feed in child.feeds]

    @property
    def tables(self) -> list[Table]:
        """The tables that statements change."""
        return [table for child in self.children for table in child.tables]

    @property
    def names(self) -> set[str]:
        """The streams, tables and views below."""
        return {name for child in self.children for name in child.names}

    @cached_property
    def ticks(self) -> Ticks | None:
        found: Ticks | None = None
        for feed in self.feeds:
            found = shared(found, feed.ticks)
        return found


class StreamNode(Node):
    @abstractmethod
    def elements(self, world: World, upto: int) -> list[Element]:
        """Those with ts <= upto, in timestamp order, ties by arrival or, in a derived stream, by value."""


class Relation(Node):
    monotonic: bool

    @abstractmethod
    def rows(self, world: World, t: int) -> tuple[Row, ...]:
        """The instantaneous relation at t >= 0."""

    @abstractmethod
    def change_instants(self, world: World, upto: int) -> set[int]:
        """Instants among which are all those at which the rows may change."""

    def at(self, world: World, t: int) -> Counter[Row]:
        """R(t); before time 0 every relation is empty."""
        return Counter(self.rows(world, t)) if t >= 0 else Counter()


class BaseStream(StreamNode):
    def __init__(self, stream: Stream) -> None:
        self.stream, self.columns = stream, stream.columns

    children = ()

    @property
    def feeds(self) -> list[Feed]:
        return [self.stream.feed]

    @property
    def names(self) -> set[str]:
        return {self.stream.name.lower()}

    def elements(self, world: World, upto: int) -> list[Element]:
        return self.stream.elements(upto)


class Sampled(StreamNode):
    """Each element is kept or not by a coin of its own, before any window."""

    def __init__(self, stream: StreamNode, percent: Fraction) -> None:
        if not 0 <= percent <= 100:
            raise OracleError("SAMPLE takes 0 to 100 PERCENT")
        self.stream, self.percent, self.columns = stream, percent, stream.columns

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.stream,)

    def elements(self, world: World, upto: int) -> list[Element]:
        return [e for e in self.stream.elements(world, upto) if kept(e.key, self.percent, world.seed)]


class Derived(StreamNode):
    """ISTREAM, DSTREAM or RSTREAM of a relation."""

    def __init__(self, operator: str, relation: Relation, every: int = 1) -> None:
        self.operator, self.relation, self.every = operator, relation, every

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.relation.columns

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.relation,)

    def elements(self, world: World, upto: int) -> list[Element]:
        done, found = world.derived.get(self, (-1, []))
        if upto > done:
            found = found + self._produce(world, done, upto)
            world.derived[self] = upto, found
        return [e for e in found if e.ts <= upto]

    def _produce(self, world: World, since: int, upto: int) -> list[Element]:
        instants = world.instants(self.relation, since, upto)
        if self.operator == "RSTREAM" and (not instants or instants[0] != since + 1):
            instants.insert(0, since + 1)
        found: list[Element] = []
        for t, following in zip(instants, [*instants[1:], upto + 1], strict=True):
            now = self.relation.at(world, t)
            if self.operator == "RSTREAM":
                moments = range(-(-t // self.every) * self.every, following, self.every)
                if len(found) + now.total() * len(moments) > MAX_RSTREAM_ROWS:
                    raise OracleError("RSTREAM has too many rows; declare TICK INTERVAL or use [NOW]")
                for moment in moments if now else ():
                    found += _elements(moment, now)
            else:
                before = self.relation.at(world, t - 1)
                found += _elements(t, now - before if self.operator == "ISTREAM" else before - now)
        return found


def _elements(ts: int, rows: Counter[Row]) -> list[Element]:
    ordered = sorted(rows.elements(), key=_nulls_first)
    return [Element(ts, row, derived_key(ts, rank)) for rank, row in enumerate(ordered)]


def _nulls_first(row: Row) -> list[tuple[Any, ...]]:
    """NULL, then the values in their order, NaN after all other numbers."""
    return [(0,) if v is None else (1, isinstance(v, float) and v != v, 0 if v != v else v) for v in row]


class Windowed(Relation):
    def __init__(self, stream: StreamNode, window: Window) -> None:
        self.stream, self.window, self.columns = stream, window, stream.columns
        self.monotonic = window.monotonic

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.stream,)

    def rows(self, world: World, t: int) -> tuple[Row, ...]:
        elements = self.stream.elements(world, t)
        return tuple(e.values for e in contents(self.window, elements, t, half_open=world.half_open))

    def change_instants(self, world: World, upto: int) -> set[int]:
        return change_instants(self.window, self.stream.elements(world, upto), upto)


class Bounded(Relation):
    """A window that slides, with its bounds as columns."""

    def __init__(self, windowed: Windowed) -> None:
        self.windowed, self.monotonic = windowed, False
        self._ticks = windowed.stream.ticks or Ticks()
        windowed.window.bounds(0)
        kind = "TIMESTAMP" if self._ticks.timestamps else "BIGINT"
        self.columns = (*windowed.columns, Column("window_start", kind), Column("window_end", kind))

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.windowed,)

    def rows(self, world: World, t: int) -> tuple[Row, ...]:
        window = self.windowed.window
        if window.kind == "SESSION":
            elements = self.windowed.stream.elements(world, t)
            found = sessions(window, elements, t, half_open=world.half_open)
            size = window.size or 0
            value = self._ticks.value
            return tuple((*e.values, value(first), value(last + size)) for e, first, last in found)
        bounds = tuple(self._ticks.value(instant) for instant in window.bounds(t))
        return tuple((*row, *bounds) for row in self.windowed.rows(world, t))

    def change_instants(self, world: World, upto: int) -> set[int]:
        step = self.windowed.window.step or 1
        return self.windowed.change_instants(world, upto) | set(range(0, upto + 1, step))


class BaseTable(Relation):
    def __init__(self, table: Table | ChangeTable) -> None:
        self.table, self.columns = table, table.columns
        self.monotonic = table.nature == "APPEND ONLY"

    children = ()

    @property
    def feeds(self) -> list[Feed]:
        return [self.table.feed] if isinstance(self.table, ChangeTable) else []

    @property
    def tables(self) -> list[Table]:
        return [self.table] if isinstance(self.table, Table) else []

    @property
    def names(self) -> set[str]:
        return {self.table.name.lower()}

    def rows(self, world: World, t: int) -> tuple[Row, ...]:
        if self.table.nature == "NON RETROACTIVE":
            raise NotImplementedError("the oracle does not join with NON RETROACTIVE tables")
        return self.table.rows(t)

    def change_instants(self, world: World, upto: int) -> set[int]:
        return self.table.change_instants(upto)


class Renamed(Relation):
    """A view: a relation under the view's name and column names."""

    def __init__(self, relation: Relation, name: str, columns: tuple[Column, ...]) -> None:
        self.relation, self.name, self.columns = relation, name, columns
        self.monotonic = relation.monotonic

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.relation,)

    @property
    def names(self) -> set[str]:
        return super().names | {self.name.lower()}

    def rows(self, world: World, t: int) -> tuple[Row, ...]:
        return self.relation.rows(world, t)

    def change_instants(self, world: World, upto: int) -> set[int]:
        return self.relation.change_instants(world, upto)


class RenamedStream(StreamNode):
    """A view that is a stream."""

    def __init__(self, stream: StreamNode, name: str, columns: tuple[Column, ...]) -> None:
        self.stream, self.name, self.columns = stream, name, columns

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.stream,)

    @property
    def names(self) -> set[str]:
        return super().names | {self.name.lower()}

    def elements(self, world: World, upto: int) -> list[Element]:
        return self.stream.elements(world, upto)


class Relational(Relation):
    """R(t) = O(R1(t), ..., Rn(t)): a SELECT in DuckDB over the leaves at t."""

    def __init__(self, text: str, leaves: tuple[Relation, ...], monotonic: bool) -> None:
        self.text, self.leaves, self.monotonic = text, leaves, monotonic

    @property
    def children(self) -> tuple[Node, ...]:
        return self.leaves

    @cached_property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return unique_names(relational.describe(self.text, tuple(leaf.columns for leaf in self.leaves)))

    def rows(self, world: World, t: int) -> tuple[Row, ...]:
        return relational.evaluate(self.text, tuple((leaf.columns, leaf.rows(world, t)) for leaf in self.leaves))

    def change_instants(self, world: World, upto: int) -> set[int]:
        return {t for leaf in self.leaves for t in leaf.change_instants(world, upto)}


def unique_names(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """a, a, b as a, a_1, b."""
    taken: set[str] = set()
    named: list[Column] = []
    for column in columns:
        name, number = column.name, 0
        while name.lower() in taken:
            number += 1
            name = f"{column.name}_{number}"
        taken.add(name.lower())
        named.append(Column(name, column.type))
    return tuple(named)
