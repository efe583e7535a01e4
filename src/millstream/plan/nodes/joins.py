"""Joins of two relations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal as OneOf

from millstream.kernel.joins.asof import Nearest
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.plan.nodes.node import Node, check, check_columns
from millstream.types import Schema

JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Join(Node):
    """Any join; the condition is over the left columns followed by the right ones.

    `foretold` asks an anti join to say ahead when rows come back because their partners leave. That it is what a view
    shows (`of_view`) changes nothing but how it is planned together with others; that it was `attached` to a block, to
    bring it the value of a subquery, nothing but that it is no outer join that somebody wrote.
    """

    left: Node
    right: Node
    join: JoinKind
    condition: Expression = TRUE
    foretold: bool = False
    of_view: bool = field(default=False, compare=False)
    attached: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        check(self.left.kind == self.right.kind == "relation", "a join of streams")
        check_columns(self.condition, self.left.schema + self.right.schema)

    @property
    def computed(self) -> tuple[Expression, ...]:
        return (self.condition,)

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, left=children[0], right=children[1])

    @cached_property  # it is asked again and again, and goes down to all inputs
    def schema(self) -> Schema:
        return self.left.schema if self.join in ("semi", "anti") else self.left.schema + self.right.schema


@dataclass(frozen=True)
class AsofJoin(Node):
    """Each row of the left with the nearest one of the right: `keys` are pairs of equal columns, `nearest` says which
    columns are compared and how (left, operator, right). An outer one keeps rows that have no partner."""

    left: Node
    right: Node
    keys: tuple[tuple[int, int], ...]
    nearest: tuple[int, Nearest, int]
    outer: bool = False

    def __post_init__(self) -> None:
        check(self.left.kind == self.right.kind == "relation", "a join of streams")
        for own, other in (*self.keys, (self.nearest[0], self.nearest[2])):
            check(
                self.left.schema[own].type == self.right.schema[other].type, "columns of different types are compared"
            )

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, left=children[0], right=children[1])

    @property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema
