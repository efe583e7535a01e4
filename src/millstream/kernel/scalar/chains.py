"""Long chains of AND and OR, taken apart so that they are computed at once and not two by two.

x = 1 OR x = 2 OR ..      = x IN (1, 2, ..)
x <> 1 AND x <> 2 AND ..  = NOT x IN (1, 2, ..)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal
from millstream.types import DATE, STRING, to_polars

LONG = 16  # conditions, from which on a chain is taken apart
_COMPARED = {"or": "=", "and": "<>"}


def operands(node: Call, is_whole: Callable[[Expression], bool]) -> list[Expression]:
    """The conditions that one AND or OR is made of, from left to right; what is whole is not taken apart."""
    found: list[Expression] = []
    waiting: list[Expression] = list(reversed(node.arguments))
    while waiting:
        part = waiting.pop()
        if type(part) is Call and part.function == node.function and not is_whole(part):
            waiting.extend(reversed(part.arguments))
        else:
            found.append(part)
    return found


def memberships(function: str, parts: Sequence[Expression]) -> tuple[list[pl.Expr], list[Expression]]:
    """Comparisons of one column with many constants as one lookup each, and the other conditions."""
    constants: dict[Column, list[object]] = {}
    others: list[Expression] = []
    for part in parts:
        compared = _compared(part, _COMPARED[function])
        if compared is None:
            others.append(part)
        else:
            constants.setdefault(compared[0], []).append(compared[1])
    return [_looked_up(column, values, function) for column, values in constants.items()], others


def _compared(part: Expression, function: str) -> tuple[Column, object] | None:
    if not (isinstance(part, Call) and part.function == function):
        return None
    column, constant = part.arguments
    if isinstance(column, Literal):
        column, constant = constant, column
    if not (isinstance(column, Column) and isinstance(constant, Literal)) or constant.value is None:
        return None
    # Of these types what is equal is the same.
    exact = column.type.is_integer or column.type in (STRING, DATE)
    return (column, constant.value) if exact and column.type == constant.type else None


def _looked_up(column: Column, values: list[object], function: str) -> pl.Expr:
    found = pl.col(value_column(column.index)).is_in(pl.Series(values, dtype=to_polars(column.type)).implode())
    return found if function == "or" else ~found
