"""Bound scalar expressions: every name resolved to a column position, every node typed.

Nodes are frozen and compare by structure, so that equal expressions of different queries are found by `==`. Names are
kept for display only. What is worked out of a node once (its hash) stays with the object, and does not travel with it:
hashes of texts differ between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, TypeVar

from millstream.types import BOOLEAN, STRING, DataType

_NOTED = "_noted_"  # begins the names of attributes that are worked out
_Class = TypeVar("_Class", bound=type)
_Value = TypeVar("_Value")


def memoized(node: Expression, name: str, worked_out: Callable[[Any], _Value]) -> _Value:
    """What is worked out of a node once and stays with it in this process: long conditions are asked for it often."""
    name = f"{_NOTED}{name}"
    known: _Value | None = node.__dict__.get(name)
    if known is None:
        known = worked_out(node)
        object.__setattr__(node, name, known)
    return known


def hashed_once(kind: _Class) -> _Class:
    """Have a class of nodes remember their hashes."""
    worked_out: Any = kind.__hash__
    kind.__hash__ = lambda self: memoized(self, "hash", worked_out)  # type: ignore[method-assign, assignment, misc]
    return kind


@dataclass(frozen=True)
class Expression:
    """Base of all scalar expressions."""

    type: DataType

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith(_NOTED)}

    def walk(self) -> Iterator[Expression]:
        waiting: list[Expression] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def transform(self, change: Callable[[Expression], Expression]) -> Expression:
        """Rebuild bottom-up, each node replaced by what `change` makes of it."""
        given = self.children
        if not given:
            return change(self)
        children = tuple([child.transform(change) for child in given])
        return change(self if all(map(is_, children, given)) else self.with_children(children))


@dataclass(frozen=True)
class Column(Expression):
    """The value column at a position of the input row."""

    index: int
    name: str = field(compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal(Expression):
    """A constant: int, float, Decimal, str, bytes, bool, date, datetime, timedelta or None."""

    value: object

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if isinstance(self.value, bool):
            return str(self.value).upper()
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "\\'") + "'"
        if self.type.is_temporal or self.type.name == "INTERVAL":
            return f"{self.type} '{self.value}'"
        return str(self.value)


@dataclass(frozen=True)
class Parameter(Expression):
    """A constant that each query of a template has its own value for: a column of the query table."""

    index: int

    def __str__(self) -> str:
        return f"?{self.index + 1}"


# Chains of many terms: see functions_chain.
TOTAL, TERMS, FACTORS = "sum of terms", "signed terms", "product of factors"
_INFIX = {
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "<=>",
    "and",
    "or",
    "||",
    "like",
    "&",
    "|",
    "^",
}


@hashed_once
@dataclass(frozen=True)
class Call(Expression):
    """A function or operator applied to arguments already cast to what it takes."""

    function: str
    arguments: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        if type(self) is Call:  # long conditions have thousands, and `replace` is slow
            return Call(self.type, self.function, children)
        return replace(self, arguments=children)

    def __str__(self) -> str:
        shown = [str(argument) for argument in self.arguments]
        if self.function in _INFIX and len(shown) == 2:
            return f"({shown[0]} {self.function.upper()} {shown[1]})"
        if self.function in ("isnull", "isnotnull"):
            return f"({shown[0]} IS {'NOT ' if self.function == 'isnotnull' else ''}NULL)"
        if self.function in (TOTAL, FACTORS):
            return f"({' + '.join(shown) if self.function == TOTAL else ' * '.join(shown)})"
        if self.function == TERMS:
            steps = zip(shown[0].strip("'"), shown[2:], strict=True)
            return f"({shown[1]}{''.join(f' {sign} {term}' for sign, term in steps)})"
        if self.function == "not":
            return f"(NOT {shown[0]})"
        if self.function == "[]":
            return f"{shown[0]}[{shown[1]}]"
        return f"{self.function}({', '.join(shown)})"


@hashed_once
@dataclass(frozen=True)
class Case(Expression):
    """CASE: the value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        pairs = tuple((children[i], children[i + 1]) for i in range(0, len(children) - 1, 2))
        return replace(self, branches=pairs, otherwise=children[-1])

    def __str__(self) -> str:
        whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in self.branches)
        return f"CASE {whens} ELSE {self.otherwise} END"


@hashed_once
@dataclass(frozen=True)
class Cast(Expression):
    """A cast; `lenient` (TRY_CAST) gives NULL where a cast would fail."""

    argument: Expression
    lenient: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, argument=children[0])

    def __str__(self) -> str:
        return f"{'TRY_' if self.lenient else ''}CAST({self.argument} AS {self.type})"


@hashed_once
@dataclass(frozen=True)
class InList(Expression):
    """`argument IN (values...)` with SQL's NULL rules."""

    argument: Expression
    values: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument, *self.values)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, argument=children[0], values=children[1:])

    def __str__(self) -> str:
        return f"({self.argument} IN ({', '.join(map(str, self.values))}))"


@hashed_once
@dataclass(frozen=True)
class Tried(Expression):
    """What is known of an expression that can fail: whether it `fails`; of a condition, whether it is true or fails
    (`possible`); its `value`, NULL where it fails; or the `text` of its error, NULL where it has a value. None of these
    ever fails."""

    argument: Expression
    question: str

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, argument=children[0])

    def __str__(self) -> str:
        shown = {"fails": "FAILS({})", "possible": "POSSIBLE({})", "value": "TRY({})", "text": "ERROR({})"}
        return shown[self.question].format(self.argument)


@dataclass(frozen=True)
class Reported(Expression):
    """A value that was computed elsewhere, as aggregates are, with a text that is not NULL where that failed: the
    primary line, then what else there is to say."""

    value: Expression
    error: Expression
    hint: str | None = field(default=None, metadata={"fingerprint": False})

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.value, self.error)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        return replace(self, value=children[0], error=children[1])

    def __str__(self) -> str:
        return str(self.value)


def taken_from(expression: Expression) -> Column | None:
    """The column that a value is taken from as it is, whether or not it could be computed; None if it is another."""
    if isinstance(expression, Reported):
        return taken_from(expression.value)
    return expression if isinstance(expression, Column) else None


def fails(expression: Expression) -> Tried:
    return Tried(BOOLEAN, expression, "fails")


def possible(condition: Expression) -> Tried:
    return Tried(BOOLEAN, condition, "possible")


def value_if_any(expression: Expression) -> Tried:
    return Tried(expression.type, expression, "value")


def error_text(expression: Expression) -> Tried:
    """As `Reported` takes it."""
    return Tried(STRING, expression, "text")


_MANY = 16  # conditions of a chain
TRUE = Literal(BOOLEAN, True)
FALSE = Literal(BOOLEAN, False)


def conjuncts(condition: Expression) -> list[Expression]:
    """The conditions that an AND chain requires, in order."""
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [] if condition == TRUE else [condition]


def conjunction(conditions: list[Expression]) -> Expression:
    """AND of the conditions; TRUE when there are none."""
    return chained("and", conditions) if conditions else TRUE


def chained(function: str, conditions: Sequence[Expression]) -> Expression:
    """AND or OR of conditions: from left to right where they are few, else halved, so that long ones are not deep."""
    if len(conditions) > _MANY:
        half = len(conditions) // 2
        return Call(BOOLEAN, function, (chained(function, conditions[:half]), chained(function, conditions[half:])))
    result = conditions[0]
    for condition in conditions[1:]:
        result = Call(BOOLEAN, function, (result, condition))
    return result


def columns_used(expression: Expression) -> set[int]:
    return set(memoized(expression, "columns", _columns_used))


def _columns_used(expression: Expression) -> frozenset[int]:
    if isinstance(expression, Column):
        return frozenset((expression.index,))
    parts = [child for child in expression.children if not isinstance(child, Literal)]
    return frozenset().union(*[memoized(part, "columns", _columns_used) for part in parts])


def shift_columns(expression: Expression, offset: int) -> Expression:
    """The same expression over a row that has `offset` more columns in front."""
    return map_columns(expression, lambda column: replace(column, index=column.index + offset))


def column_names(expression: Expression) -> tuple[str, ...]:
    """What the columns of an expression are called, in the order in which they stand in it. Expressions are equal
    whatever these are: what is remembered of one and shows them goes by them too."""
    return memoized(expression, "names", _column_names)


def _column_names(expression: Expression) -> tuple[str, ...]:
    return tuple([node.name for node in expression.walk() if isinstance(node, Column)])


def map_columns(expression: Expression, change: Callable[[Column], Expression]) -> Expression:
    return expression.transform(lambda node: change(node) if isinstance(node, Column) else node)
