"""What all nodes have in common: kind, schema, children; and the checks that they make when they are built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from millstream.kernel.scalar.expressions import Expression, columns_used
from millstream.types import Schema

Kind = OneOf["stream", "relation"]


@dataclass(frozen=True)
class Node:
    """Base of all nodes."""

    @property
    def kind(self) -> Kind:
        return "relation"

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return self

    @property
    def computed(self) -> tuple[Expression, ...]:
        """The expressions that the node itself computes, over the columns of its inputs in order."""
        return ()

    def walk(self) -> Iterator[Node]:
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def transform(self, change: Callable[[Node], Node]) -> Node:
        """Rebuild bottom-up, each node replaced by what `change` makes of it."""
        children = tuple(child.transform(change) for child in self.children)
        return change(self if children == self.children else self.with_children(children))


@dataclass(frozen=True)
class Unary(Node):
    """Base of nodes with one input, whose columns they have unless they say otherwise."""

    input: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, input=children[0])

    @property
    def schema(self) -> Schema:
        return self.input.schema


def check(condition: bool, message: str) -> None:
    # A plan that fails here was built wrongly by Millstream; users' mistakes are found by the binder.
    if not condition:
        raise AssertionError(message)


def check_columns(expression: Expression, schema: Schema) -> None:
    outside = [index for index in columns_used(expression) if not 0 <= index < len(schema)]
    if outside:
        check(False, f"{expression} uses columns {outside} of an input with {len(schema)}")
