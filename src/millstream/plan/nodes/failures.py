"""What cannot be computed on a row is a row of another relation, of errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.kernel.pending_errors import ERROR
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.plan.nodes.node import Kind, Node, Unary
from millstream.types import Schema


@dataclass(frozen=True)
class Failing(Unary):
    """The errors of expressions on rows for which `where` is true; that one cannot fail."""

    expressions: tuple[Expression, ...]
    where: Expression = TRUE

    @property
    def computed(self) -> tuple[Expression, ...]:
        return (*self.expressions, self.where)

    @property
    def schema(self) -> Schema:
        return ERROR


@dataclass(frozen=True)
class Checked(Node):
    """The rows of a plan, and what else makes the query fail: relations of errors."""

    input: Node
    errors: tuple[Node, ...]

    @property
    def kind(self) -> Kind:
        return self.input.kind

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.input, *self.errors)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        return replace(self, input=children[0], errors=children[1:])
