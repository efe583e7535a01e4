"""Windows that are longer than what a query asks for: instants as columns, and rows that end by them."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.plan.nodes.node import Unary, check
from millstream.types import BIGINT, Field, Schema


@dataclass(frozen=True)
class Stamped(Unary):
    """The rows with the instant at which they start as a further column."""

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "instants of a stream")

    @property
    def schema(self) -> Schema:
        return (*self.input.schema, Field("instant", BIGINT))


@dataclass(frozen=True)
class Shortened(Unary):
    """The rows, each ending so many ticks after an instant at the latest: pairs (column of the instant, ticks)."""

    ends: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        check(all(self.input.schema[column].type == BIGINT for column, _ in self.ends), "an instant of another type")
