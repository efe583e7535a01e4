"""What is kept of a plan for queries that are computed when they are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.kernel.scalar.expressions import Expression
from millstream.plan.nodes.aggregation import AggregateCall
from millstream.plan.nodes.node import Node, Unary, check
from millstream.types import BIGINT, Field, Schema


@dataclass(frozen=True)
class Matches(Unary):
    """Combinations of a FROM list whose elements lie within `kept` ticks (None: however far apart), with the instants
    of their elements in the last columns. They are kept without windows, which are applied when a query is asked.

    `timed` tells that there is more to when they hold than these instants: tables, or what other queries made.
    """

    instants: int
    kept: int | None
    timed: bool

    def __post_init__(self) -> None:
        last = self.input.schema[len(self.input.schema) - self.instants :]
        check(self.instants > 0 and all(f.type == BIGINT for f in last), "matches without instants")


@dataclass(frozen=True)
class MatchedSelection(Unary):
    """The matches of many queries over one FROM list, each row once with the queries that want it; `columns` are made
    of the rows that are selected, the last of them being instants."""

    group: str
    key: Expression | None
    columns: tuple[Expression, ...]
    instants: int
    kept: int | None
    timed: bool
    names: tuple[str, ...] = field(compare=False)
    shapes: Mapping[str, Expression] = field(default_factory=dict, compare=False)

    @property
    def schema(self) -> Schema:
        return tuple(Field(name, e.type) for name, e in zip(self.names, self.columns, strict=True))


@dataclass(frozen=True)
class RankedTree(Unary):
    """The rows of an aggregate with the instants of their elements in the last columns, kept as a tree that answers the
    calls for any window; the first columns are the keys, and calls read columns."""

    instants: int
    keys: int
    calls: tuple[AggregateCall, ...]
    kept: int | None
    shifts: tuple[int | None, ...] = ()  # by how much instants are shifted in its order, where windows differ

    def __post_init__(self) -> None:
        last = self.input.schema[len(self.input.schema) - self.instants :]
        check(self.instants > 0 and all(f.type == BIGINT for f in last), "a tree without instants")


@dataclass(frozen=True)
class TreeSelection(Unary):
    """The rows of an aggregate for many queries over one FROM list, each row once, with a tree for each query;
    `columns` are made of the rows that are selected, the last of them being instants."""

    group: str
    key: Expression | None
    columns: tuple[Expression, ...]
    instants: int
    keys: int
    calls: tuple[AggregateCall, ...]
    kept: int | None
    shifts: tuple[int | None, ...]
    names: tuple[str, ...] = field(compare=False)
    shapes: Mapping[str, Expression] = field(default_factory=dict, compare=False)

    @property
    def schema(self) -> Schema:
        return tuple(Field(name, e.type) for name, e in zip(self.names, self.columns, strict=True))


@dataclass(frozen=True)
class MatchScan(Node):
    """What is kept of a part of a plan, as a source of the plan above it."""

    name: str
    columns: Schema = field(compare=False)
    retracting: bool

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class Guard(Unary):
    """Nothing, but a failure where the plan below fails."""

    @property
    def schema(self) -> Schema:
        return ()
