"""A bound SELECT before it is planned, and the subqueries that its expressions hold.

A block keeps the clauses apart, because a correlated subquery can be planned only where it is used: there the values
that it takes from the outer row (`OuterColumn`) are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from millstream.kernel.scalar.expressions import Expression
from millstream.plan.definitions import TimeDomain
from millstream.plan.nodes import AggregateCall, Node
from millstream.types import Field, Schema


@dataclass
class Block:
    """SELECT select FROM source WHERE where GROUP BY keys HAVING having.

    `where` and the arguments of `calls` and `keys` are over the source's row; once grouped, `having` and `select` are
    over (keys, calls).
    """

    source: Node
    where: list[Expression] = field(default_factory=list)
    grouped: bool = False
    keys: list[Expression] = field(default_factory=list)
    calls: list[AggregateCall] = field(default_factory=list)
    having: Expression | None = None
    select: list[Expression] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    distinct: bool = False

    @property
    def is_simple(self) -> bool:
        """Its rows are rows of its source: nothing is grouped."""
        return not self.grouped


@dataclass
class BoundSubquery:
    """A bound query inside another: its plan, output names and time domain."""

    plan: Node
    names: list[str]
    domain: TimeDomain | None

    @property
    def schema(self) -> Schema:
        return tuple(Field(n, f.type) for n, f in zip(self.names, self.plan.schema, strict=True))


@dataclass(frozen=True)
class AggregateReference(Expression):
    """An aggregate inside an expression, before the GROUP BY it belongs to is planned."""

    call: AggregateCall

    def __str__(self) -> str:
        return str(self.call)


@dataclass(frozen=True)
class SubqueryExpression(Expression):
    """EXISTS, IN or a scalar subquery inside an expression.

    `operands` are the values of the outer row that the block's OuterColumns stand for; for IN, `argument` is what is
    looked for.
    """

    form: OneOf["exists", "in", "scalar"]
    operands: tuple[Expression, ...]
    argument: Expression | None
    block: Block = field(compare=False)
    identity: int = 0  # two subqueries are the same only if they are the same text

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.operands if self.argument is None else (*self.operands, self.argument)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        if self.argument is None:
            return replace(self, operands=children)
        return replace(self, operands=children[:-1], argument=children[-1])

    def __str__(self) -> str:
        return f"{self.form.upper()} (...)"
