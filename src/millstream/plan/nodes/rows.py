"""What is done with rows one by one, or with all that are equal: σ, π, δ, and the set operations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal as OneOf

from millstream.kernel.scalar.expressions import Expression
from millstream.plan.nodes.node import Node, Unary, check, check_columns
from millstream.types import BOOLEAN, INT, NULL, Field, Schema

SetKind = OneOf["union all", "union", "intersect all", "intersect", "except all", "except"]
ProjectRole = OneOf["", "within", "existence", "domain"]


@dataclass(frozen=True)
class Filter(Unary):
    condition: Expression

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "a filter on a stream")
        check(self.condition.type == BOOLEAN, "a condition that is not boolean")
        check_columns(self.condition, self.input.schema)

    @property
    def computed(self) -> tuple[Expression, ...]:
        return (self.condition,)


@dataclass(frozen=True)
class Project(Unary):
    """Its role says why it is there where no SELECT says so: `within` a block it drops what subqueries have added; it
    is the select list of a subquery of which only `existence` counts; or the `domain` of a correlated one, a copy of
    what stands elsewhere too."""

    expressions: tuple[Expression, ...]
    names: tuple[str, ...] = field(compare=False)
    role: ProjectRole = field(default="", compare=False)

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "a projection of a stream")
        check(len(self.expressions) == len(self.names), "names and expressions differ in number")
        schema = self.input.schema
        for expression in self.expressions:
            check_columns(expression, schema)

    @property
    def computed(self) -> tuple[Expression, ...]:
        return self.expressions

    @cached_property  # whatever is built above asks for it
    def schema(self) -> Schema:
        return tuple(Field(name, e.type) for name, e in zip(self.names, self.expressions, strict=True))


@dataclass(frozen=True)
class Unnest(Unary):
    """The rows of the input, once for each element of the list in their last column: it stands in the list's place.
    Its number in the list, from 0 on, may come behind; `outer` keeps rows without elements, with NULL. Of several
    `lists` in the last columns the elements come side by side, NULL beyond the end of one."""

    position: bool = False
    outer: bool = False
    lists: int = field(default=1, metadata={"fingerprint": "where given"})

    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "a stream is unnested")
        check(all(f.type.is_list for f in self.input.schema[-self.lists :]), "what is unnested is no list")

    @cached_property
    def schema(self) -> Schema:
        own, listed = self.input.schema[: -self.lists], self.input.schema[-self.lists :]
        number = (Field("pos", INT),) if self.position else ()
        return (*own, *(Field(field.name, field.type.element or NULL) for field in listed), *number)


@dataclass(frozen=True)
class Distinct(Unary):
    def __post_init__(self) -> None:
        check(self.input.kind == "relation", "DISTINCT of a stream")


@dataclass(frozen=True)
class SetOperation(Node):
    operation: SetKind
    left: Node
    right: Node

    def __post_init__(self) -> None:
        check(self.left.kind == self.right.kind == "relation", "a set operation of streams")
        types = [tuple(f.type for f in child.schema) for child in self.children]
        check(types[0] == types[1], f"{self.operation} of different types")

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, left=children[0], right=children[1])

    @property
    def schema(self) -> Schema:
        return self.left.schema
