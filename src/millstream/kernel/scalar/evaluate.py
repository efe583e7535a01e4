"""Computes scalar expressions over batches.

Expressions are compiled once (`compiler`), and run in two ways: statements raise where one fails on a row; operators
go on with any value (`attempt`), and it is for steps of their own to tell on which rows that is an error (`failures`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.columns import is_small, only
from millstream.kernel.scalar.comparisons import where_true
from millstream.kernel.scalar.compiler import compile_expressions
from millstream.kernel.scalar.expressions import (
    FALSE,
    Call,
    Case,
    Column,
    Expression,
    InList,
    Literal,
    Parameter,
    Reported,
    conjunction,
    possible,
    taken_from,
    value_if_any,
)
from millstream.kernel.scalar.functions_user import UserCall
from millstream.types import BOOLEAN


def evaluate(frame: pl.DataFrame, expressions: Sequence[Expression], names: Sequence[str]) -> pl.DataFrame:
    """One column per expression, named by `names`, over the frame's value columns (c0, c1, ...)."""
    return compile_expressions(tuple(expressions)).run(frame, names)


def constant_value(expression: Expression) -> object:
    """The value of an expression that reads no column."""
    return evaluate(pl.DataFrame({"_row": [0]}), [expression], ["value"]).to_series().to_list()[0]


def attempt(frame: pl.DataFrame, expressions: Sequence[Expression], names: Sequence[str]) -> pl.DataFrame:
    """The same, with some value where an expression fails: the same one for equal rows."""
    return compile_expressions(tuple(expressions)).attempt(frame, names)


def failures(frame: pl.DataFrame, expressions: Sequence[Expression]) -> pl.DataFrame | None:
    """The rows on which one of the expressions fails, by number, and the error; None if there are none."""
    if all(_is_without_reports(frame, expression) for expression in expressions):
        return None
    return compile_expressions(tuple(expressions)).failures(frame)


def _is_without_reports(frame: pl.DataFrame, expression: Expression) -> bool:
    """Whether it can fail by errors only that a column reports, and that reports none."""
    if (
        not isinstance(expression, Reported)
        or taken_from(expression) is None
        or not isinstance(expression.error, Column)
    ):
        return False
    return frame.get_column(value_column(expression.error.index)).null_count() == frame.height


def select_true(frame: pl.DataFrame, condition: Expression) -> pl.DataFrame:
    """The rows on which the condition is true; neither those where it is false nor those where it is NULL."""
    return frame.filter(evaluate(frame, [condition], ["condition"]).to_series())


def select_attempted(frame: pl.DataFrame, condition: Expression) -> pl.DataFrame:
    """The same; a condition is not true on a row on which it fails, and whether that is an error is told elsewhere."""
    if is_small(frame.height) and (rows := where_true(frame, condition)) is not None:
        return only(frame, rows)
    program = compile_expressions((value_if_any(condition) if can_fail(condition) else condition,))
    if not program.stages and not program.checks:
        try:
            return frame.filter(program.values[0])
        except pl.exceptions.PanicException:  # the program finds the rows
            pass
    return frame.filter(program.attempt(frame, ["condition"]).to_series())


# Of long conditions, most of which are made of these, nothing has to be compiled.
_FAILING_BY_ARGUMENTS = {"and", "or", "not", "=", "<>", "<", "<=", ">", ">=", "<=>", "isnull", "isnotnull"}


def can_fail(expression: Expression) -> bool:
    """Whether there may be rows on which it cannot be computed, whatever constants stand for its parameters."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Column | Literal | Parameter):
            continue
        if type(part) is Call and part.function in _FAILING_BY_ARGUMENTS:
            waiting.extend(part.arguments)
        elif isinstance(part, InList) and all(isinstance(value, Literal) for value in part.values):
            waiting.append(part.argument)
        elif part.children and _can_fail(part):
            return True
    return False


@lru_cache(maxsize=4096)
def _can_fail(expression: Expression) -> bool:
    plain = expression.transform(lambda e: Column(e.type, 0, "?") if isinstance(e, Parameter) else e)
    return compile_expressions((plain,)).can_fail


def calls_users(expression: Expression) -> bool:
    return any(isinstance(node, UserCall) for node in expression.walk())


def where_possible(before: Sequence[Expression], condition: Expression) -> Expression:
    """A condition that is asked of rows only which others do not leave out: there it is false."""
    if not before:
        return condition
    reached = conjunction([possible(part) if can_fail(part) else part for part in before])
    return Case(BOOLEAN, ((reached, condition),), FALSE)
