"""Many queries in one plan: which of them wants which row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millstream.kernel.scalar.expressions import Expression, Parameter
from millstream.kernel.sharing.cells import CELL
from millstream.plan.nodes.aggregation import AggregateCall
from millstream.plan.nodes.node import Node, Unary
from millstream.types import BIGINT, Field, Schema

QUERY = Field("query", BIGINT)  # the first column where each query of a group has rows of its own


@dataclass(frozen=True)
class Selection(Unary):
    """The rows that some query of a group wants, for all its queries at once.

    Without a key each row comes with the set of queries that want it; with one, for queries that ask for `key = value`,
    there is one row for each of them, the query first.
    """

    group: str
    key: Expression | None = None
    shapes: Mapping[str, Expression] = field(default_factory=dict, compare=False)  # what the queries ask, by name

    @property
    def schema(self) -> Schema:
        return self.input.schema if self.key is None else (QUERY, *self.input.schema)


@dataclass(frozen=True)
class Expand(Unary):
    """One row, the query first, for each query that wants a row."""

    @property
    def schema(self) -> Schema:
        return (QUERY, *self.input.schema)


@dataclass(frozen=True)
class Constants(Unary):
    """The rows of each query, which stands first, with its constants behind: parameters by their numbers."""

    group: str
    parameters: tuple[Parameter, ...]

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, *(Field(str(parameter), parameter.type) for parameter in self.parameters))


@dataclass(frozen=True)
class PartScan(Node):
    """The rows of a part of a plan in which queries differ in several places, before it is lifted."""

    number: int
    columns: Schema = field(compare=False)

    @property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class Parted(Unary):
    """A plan over parts, whose rows come from one input: of each part, where that has its columns. It is lifted, and
    never run."""

    plan: Node
    slots: tuple[tuple[int, ...], ...]

    @property
    def schema(self) -> Schema:
        return self.plan.schema


@dataclass(frozen=True)
class QueryRows(Node):
    """One row from instant 0 on for each query of a group: the query, then NULLs."""

    group: str
    columns: Schema

    @property
    def schema(self) -> Schema:
        return (QUERY, *self.columns)


@dataclass(frozen=True)
class CellSelection(Unary):
    """The rows that some query of a group wants, projected to `columns`; the cell that a row is in, which says whose it
    is, stands before these."""

    group: str
    columns: tuple[Expression, ...]
    names: tuple[str, ...] = field(compare=False)
    shapes: Mapping[str, Expression] = field(default_factory=dict, compare=False)  # what the queries ask, by name

    @property
    def schema(self) -> Schema:
        return (*CELL, *(Field(name, e.type) for name, e in zip(self.names, self.columns, strict=True)))


@dataclass(frozen=True)
class Combined(Unary):
    """The aggregate of groups of which parts were aggregated: rows of `keys` columns, then of totals.

    Calls are over the keys and the `arguments` behind them. `sums` says, by kind and argument of a total, which column
    has it. With `always` a group has a row wherever its key is.
    """

    keys: int
    arguments: Schema
    calls: tuple[AggregateCall, ...]
    sums: tuple[tuple[str, int | None, int], ...]
    always: bool

    @property
    def schema(self) -> Schema:
        return (*self.input.schema[: self.keys], *(Field(str(call), call.type) for call in self.calls))
