"""Many queries in one plan: which of them wants which row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from millstream.kernel.ordering.first_rows_of_queries import LIMIT
from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.ordering.top import Places
from millstream.kernel.scalar.expressions import Expression, Parameter
from millstream.kernel.sharing.cells import CELL
from millstream.kernel.sharing.query_windows import SizedWindow
from millstream.kernel.sharing.rows_of_queries import SIZE
from millstream.kernel.windows.time import Rows
from millstream.plan.nodes.aggregation import Aggregate, AggregateCall
from millstream.plan.nodes.node import Node, Unary
from millstream.plan.nodes.windows import Window
from millstream.types import BIGINT, Field, Schema

_LEAST_ROWS = 1 << 10  # of windows that count rows and keep these together

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
    """One row, the query first, for each query that wants a row; equal ones are one, unless they keep the order
    in which they came."""

    in_order: bool = field(default=False, metadata={"fingerprint": "where given"})

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
class QueryWindow(Unary):
    """The elements of a stream that queries want, each in the window of its query. Its sizes are parameters."""

    window: SizedWindow

    @property
    def computed(self) -> tuple[Expression, ...]:
        return tuple(Parameter(BIGINT, place) for place in self.window.sizes)


@dataclass(frozen=True)
class SizedRows(Window):
    """The elements of a stream in windows that count rows, of a size for each query: a parameter, by its place. The
    window has the most rows that there may be. Rows have a further column: the size of the windows that they leave,
    NULL where they enter all of them."""

    place: int = 0

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, SIZE)

    def has_room_for(self, rows: object) -> bool:
        """Whether a window of so many rows has its elements here, and not with larger or smaller ones."""
        return isinstance(self.window, Rows) and isinstance(rows, int) and most_rows(rows) == self.window.rows


@dataclass(frozen=True)
class SizedTop(Unary):
    """The first rows of a relation, as many for each query as it wants: a parameter, by its place. There are as many as
    may be wanted at most. Rows have a further column: the limit of the queries whose they are."""

    order: RowOrder
    places: Places
    place: int = 0

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, LIMIT)

    def has_room_for(self, limit: object) -> bool:
        """Whether so many of the first rows are found here, and not with more or fewer of others."""
        return isinstance(limit, int) and most_places(replace(self.places, limit=limit)) == self.places


def most_places(places: Places) -> Places:
    """The places that queries may want which find their rows together with one that wants these."""
    return replace(places, limit=most_rows(places.limit or 0))


def most_rows(rows: int) -> int:
    """How many rows windows may have that keep their elements together with one of so many: what is kept must not
    depend on who comes and goes."""
    return max(1 << (rows - 1).bit_length(), _LEAST_ROWS)


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
class Cases(Unary):
    """Rows once for each case that they are in, as columns of that case. It is pulled up, and never run."""

    conditions: tuple[Expression, ...]
    columns: tuple[tuple[Expression, ...], ...]
    names: tuple[str, ...] = field(compare=False)

    @property
    def computed(self) -> tuple[Expression, ...]:
        return (*self.conditions, *(e for columns in self.columns for e in columns))

    @property
    def schema(self) -> Schema:
        return tuple(Field(name, e.type) for name, e in zip(self.names, self.columns[0], strict=True))


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
    window: SizedWindow | None = field(default=None, metadata={"fingerprint": "where given"})  # of each query

    @property
    def schema(self) -> Schema:
        return (*CELL, *(Field(name, e.type) for name, e in zip(self.names, self.columns, strict=True)))


@dataclass(frozen=True)
class Combined(Unary):
    """The aggregate of groups of which parts were aggregated: rows of `keys` columns, then of totals and extremes.

    Calls of extremes are over the columns of these rows, others over the `arguments` behind them. `sums` says, by kind
    and argument of a total, which column has it. With `always` a group has a row wherever its key is. Where a
    column has `copies`, extremes are of as many of their values.
    """

    keys: int
    arguments: Schema
    calls: tuple[AggregateCall, ...]
    sums: tuple[tuple[str, int | None, int], ...]
    always: bool
    copies: int | None = field(default=None, metadata={"fingerprint": "where given"})

    @property
    def schema(self) -> Schema:
        return (*self.input.schema[: self.keys], *(Field(str(call), call.type) for call in self.calls))


@dataclass(frozen=True)
class CheckedSums(Aggregate):
    """Sums by cell of which those of a query may not fit: `members` is what is made of them for queries that are asked,
    and fails where they do not."""

    members: Node
