"""What goes by the order of rows: the first of them, and functions over windows."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.kernel.ordering.sort_keys import RowOrder
from millstream.kernel.ordering.top import Places
from millstream.kernel.ordering.window_functions import WindowCall
from millstream.kernel.scalar.expressions import Expression
from millstream.plan.nodes.node import Unary, check
from millstream.types import Field, Schema


@dataclass(frozen=True)
class Top(Unary):
    """ORDER BY .. LIMIT: at every instant the rows at some places of each partition. Keys, and what decides between
    rows of equal keys, are columns of the input."""

    order: RowOrder
    places: Places
    # Where queries of a group differ in how many they want: a parameter, or the column that it is in.
    limit: Expression | None = field(default=None, kw_only=True, metadata={"fingerprint": "where given"})

    @property
    def computed(self) -> tuple[Expression, ...]:
        return () if self.limit is None else (self.limit,)

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "the first rows of a stream")
        check(
            all(0 <= column < len(self.schema) for column in self.order.columns),
            "an order by no columns",
        )


@dataclass(frozen=True)
class Over(Unary):
    """Functions over one window: the columns of the input, then one for each call. What these read, and what the rows
    of a partition are ordered by, are columns of the input."""

    order: RowOrder
    calls: tuple[WindowCall, ...]
    names: tuple[str, ...] = field(compare=False)

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "OVER of a stream")
        check(len(self.calls) == len(self.names), "names and calls differ in number")
        used = {column for call in self.calls for column in call.columns} | self.order.columns
        check(all(0 <= column < len(self.input.schema) for column in used), "OVER columns that are not there")

    @property
    def schema(self) -> Schema:
        results = (Field(name, call.type) for name, call in zip(self.names, self.calls, strict=True))
        return (*self.input.schema, *results)
