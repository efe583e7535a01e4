"""Shapes: what is left of a condition when the constants are taken out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from millstream.kernel.scalar.evaluate import calls_users, can_fail
from millstream.kernel.scalar.expressions import Call, Expression, InList, Literal, Parameter, columns_used
from millstream.kernel.sharing.keyed_selection import equality_key
from millstream.plan import nodes as lo
from millstream.plan.fingerprint import fingerprint
from millstream.plan.own_columns import with_parameters
from millstream.types import BOOLEAN, STRING, DataType

COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}
_MANY_CONSTANTS = 1_000
_BEFORE = Literal(BOOLEAN, None)  # in the place of constants that were taken before


@dataclass(frozen=True)
class Shape:
    """What one query asks, with parameters; its name is the same in every process."""

    condition: Expression
    parameters: tuple[DataType, ...]
    own_columns: tuple[Expression, ...] = ()  # what a query's own rows are made by when they are read, if by anything
    name: str = field(init=False)

    def __post_init__(self) -> None:
        said = self.condition, self.parameters
        object.__setattr__(self, "name", fingerprint((*said, self.own_columns) if self.own_columns else said))

    @cached_property
    def key(self) -> tuple[Expression, int] | None:
        """The column that queries ask for a value of, and which parameter that is, if they do."""
        asked = equality_key(self.condition)
        if asked is None or asked[0].type == BOOLEAN or not isinstance(asked[1], Parameter):
            return None
        return asked[0], asked[1].index


def has_many_constants(plan: lo.Node) -> bool:
    """Whether a query is not worth a place in a group: its constants would be columns of the query table."""
    return any(len(constants_of(e)) > _MANY_CONSTANTS for node in plan.walk() for e in node.computed)


def constants_of(condition: Expression) -> list[Literal]:
    return [part for part in condition.walk() if isinstance(part, Literal)]


def generalised(condition: Expression, first: int = 0) -> tuple[Expression, list[Literal]]:
    """A condition with parameters for the constants that columns are compared with, numbered from `first` on, and
    these."""
    taken: list[Literal] = [_BEFORE] * first

    def take(constant: Expression) -> Expression:
        if not isinstance(constant, Literal) or constant.value is None or constant.type == BOOLEAN:
            return constant
        taken.append(constant)
        return Parameter(constant.type, len(taken) - 1)

    def compared(node: Call) -> Expression:
        if all(map(columns_used, node.arguments)):  # with one another: v > w + 5
            found = list(taken)
            changed = node.with_children(tuple(with_parameters(each, found) for each in node.arguments))
            if len(found) == len(taken) or can_fail(changed) or calls_users(changed):
                return node
            taken[:] = found
            return changed
        return node.with_children(tuple(take(argument) for argument in node.arguments))

    def generalise(node: Expression) -> Expression:
        if isinstance(node, Call) and node.function in COMPARISONS:
            return compared(node)
        if isinstance(node, InList):
            return replace(node, values=tuple(take(value) for value in node.values))
        prefix = _prefix(node)
        if prefix is not None and isinstance(node, Call):
            return Call(BOOLEAN, "startswith", (node.arguments[0], take(Literal(STRING, prefix))))
        return node

    return condition.transform(generalise), taken[first:]


def _prefix(node: Expression) -> str | None:
    """What a text must begin with to satisfy LIKE 'begin%'."""
    if not (isinstance(node, Call) and node.function == "like" and len(node.arguments) == 2):
        return None
    pattern = node.arguments[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or not pattern.value.endswith("%"):
        return None
    begin = pattern.value[:-1]
    return None if any(sign in begin for sign in "%_\\") else begin
