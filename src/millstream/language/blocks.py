"""A bound SELECT before it is planned, and the subqueries that its expressions hold.

A block keeps the clauses apart, because a correlated subquery can be planned only where it is used: there the values
that it takes from the outer row (`OuterColumn`) are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from millstream.errors import Place
from millstream.kernel.ordering.frames import WHOLE_UP_TO_PEERS, Frame
from millstream.kernel.ordering.sort_keys import SortKey
from millstream.kernel.ordering.top import Places
from millstream.kernel.ordering.window_functions import WindowFunction
from millstream.kernel.scalar.expressions import Expression
from millstream.language.generators import Generator
from millstream.plan.definitions import TimeDomain
from millstream.plan.nodes import AggregateCall, JoinKind, Node
from millstream.types import Field, Schema


@dataclass(frozen=True)
class OrderItem:
    """An item of ORDER BY."""

    expression: Expression
    descending: bool
    nulls_first: bool


@dataclass
class LateralSource:
    """LATERAL (SELECT ..) in FROM; `operands` are the values of the row to the left that its OuterColumns stand for."""

    block: Block
    operands: tuple[Expression, ...]

    @property
    def width(self) -> int:
        return len(self.block.select)


@dataclass
class JoinedSource:
    """A join in FROM that is planned with its block: one with subqueries or columns of outer queries in ON, or with
    LATERAL to the right of it, or with another such join below."""

    left: Source
    right: Source | LateralSource
    join: JoinKind
    condition: Expression
    place: Place

    @property
    def width(self) -> int:
        return width_of(self.left) + (0 if self.join in ("semi", "anti") else width_of(self.right))


@dataclass(frozen=True)
class UnnestedSource:
    """FROM with rows of lists in it: these are over the row of what stands before it, and the condition of a join is
    over all of it."""

    left: Source
    lists: tuple[Expression, ...]
    generator: Generator
    condition: Expression

    @property
    def width(self) -> int:
        return width_of(self.left) + self.generator.width


Source = Node | JoinedSource | UnnestedSource


def width_of(source: Source | LateralSource) -> int:
    return len(source.schema) if isinstance(source, Node) else source.width


@dataclass
class Block:
    """SELECT select FROM source WHERE where GROUP BY keys HAVING having QUALIFY qualify ORDER BY order LIMIT places.

    `where` and the arguments of `calls` and `keys` are over the source's row; once grouped, `having`, `select`,
    `qualify` and `order` are over (keys, calls), and over a number that says which keys are left out where there are
    several sets.
    """

    source: Source
    where: list[Expression] = field(default_factory=list)
    grouped: bool = False
    keys: list[Expression] = field(default_factory=list)
    calls: list[AggregateCall] = field(default_factory=list)
    sets: list[tuple[int, ...]] | None = None  # of keys, by their places, where GROUP BY names several
    having: Expression | None = None
    select: list[Expression] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    distinct: bool = False
    qualify: Expression | None = None
    order: list[OrderItem] = field(default_factory=list)
    places: Places | None = None
    generated: tuple[tuple[Expression, ...], Generator] | None = None  # rows of a list, which the select list makes

    @property
    def is_simple(self) -> bool:
        """Its rows are rows of its source: nothing is grouped, and all are taken."""
        whole = not self.grouped and self.generated is None
        return whole and self.places is None and self.qualify is None and not self.has_windows

    @property
    def has_windows(self) -> bool:
        """Whether something in it goes with OVER."""
        found = [*self.select, *([] if self.qualify is None else [self.qualify])]
        found += [item.expression for item in self.order]
        return any(isinstance(node, WindowReference) for item in found for node in item.walk())


@dataclass
class BoundSubquery:
    """A bound query inside another: its plan, output names and time domain."""

    plan: Node
    names: list[str]
    domain: TimeDomain | None
    order: tuple[SortKey, ...] = ()  # of the answer of the outermost query
    added_keys: int = 0  # how many columns only say what comes first
    hidden: int = 0  # of the last columns, those that `*` does not show: the bounds of a window
    without_bounds: str = ""  # why there are none
    inputs: int = 0  # of what WITH names: how many streams and tables it reads

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
class WindowReference(Expression):
    """A function with its OVER inside an expression, before that is planned. An aggregate has its argument among the
    arguments; LAG and LEAD have their default behind the value."""

    function: WindowFunction
    arguments: tuple[Expression, ...] = ()
    number: int = 1
    ignores_nulls: bool = False
    partition: tuple[Expression, ...] = ()
    order: tuple[OrderItem, ...] = ()
    frame: Frame = WHOLE_UP_TO_PEERS
    aggregate: AggregateCall | None = None

    @property
    def children(self) -> tuple[Expression, ...]:
        return (*self.arguments, *self.partition, *(item.expression for item in self.order))

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        given, keys = len(self.arguments), len(self.order)
        items = zip(self.order, children[len(children) - keys :], strict=True)
        arguments = children[:given]
        called = self.aggregate
        if called is not None and given:
            called = replace(called, argument=arguments[0], others=arguments[1:])
        return replace(
            self,
            arguments=arguments,
            partition=children[given : len(children) - keys],
            order=tuple(replace(item, expression=child) for item, child in items),
            aggregate=called,
        )

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.arguments))
        return f"{self.aggregate or f'{self.function}({shown})'} OVER (...)"


@dataclass(frozen=True)
class SubqueryExpression(Expression):
    """EXISTS, IN or a scalar subquery inside an expression.

    `operands` are the values of the outer row that the block's OuterColumns stand for; for IN, `arguments` are what is
    looked for, a row or one value, and `operator` is how it is compared: by = unless ANY or ALL say otherwise.
    """

    form: OneOf["exists", "in", "scalar"]
    operands: tuple[Expression, ...]
    arguments: tuple[Expression, ...]
    block: Block = field(compare=False)
    identity: int = 0  # two subqueries are the same only if they are the same text
    operator: str = "="

    @property
    def children(self) -> tuple[Expression, ...]:
        return (*self.operands, *self.arguments)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        taken = len(self.operands)
        return replace(self, operands=children[:taken], arguments=children[taken:])

    def __str__(self) -> str:
        return f"{self.form.upper()} (...)"
