"""What reads no column is computed once, when the query is planned.

    v < 60 * 15   =   v < 900

So an index serves such a comparison, it cannot fail, and the constant is one of those by which queries of a group may
differ. What fails stays as it is written: whether it does so in an answer, is said by the rows that reach it.
"""

from __future__ import annotations

import math

import polars as pl

from millstream.errors import Error, EvaluationError
from millstream.kernel.scalar.evaluate import calls_users, constant_value
from millstream.kernel.scalar.expressions import Call, Cast, Expression, Literal
from millstream.plan import nodes as lo
from millstream.plan.rules.context import Context

_OTHER_FAILURES = (OverflowError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def fold_constants(plan: lo.Node, context: Context) -> lo.Node:
    return plan.transform(_folded)


def _folded(node: lo.Node) -> lo.Node:
    # What an aggregate computes is its name too; projections say theirs.
    is_named = isinstance(node, lo.Filter | lo.Join | lo.Project)
    if not is_named or not any(map(_is_constant, (part for each in node.computed for part in each.walk()))):
        return node
    return lo.map_expressions(node, lambda expression: expression.transform(_value))


def _is_constant(expression: Expression) -> bool:
    """Whether it is a number or an instant that constants make. Texts may be long, and conditions are asked of rows in
    any case."""
    return (
        isinstance(expression, Call | Cast)
        and (expression.type.is_numeric or expression.type.is_temporal)
        and bool(expression.children)
        and all(isinstance(argument, Literal) for argument in expression.children)
        and not calls_users(expression)
    )


def certain_failures(plan: lo.Node) -> list[EvaluationError]:
    """What is said by constants of a plan that have no value: by whatever row comes to them, the query fails."""
    parts = (part for node in plan.walk() for each in node.computed for part in each.walk())
    failures = (_failure(part) for part in parts if _is_constant(part))
    return [*{failure.primary: failure for failure in failures if failure is not None}.values()]


def _failure(expression: Expression) -> EvaluationError | None:
    try:
        constant_value(expression)
    except EvaluationError as error:
        return error
    except (Error, *_OTHER_FAILURES):
        pass  # of which rows say what it is
    return None


def _value(expression: Expression) -> Expression:
    if not _is_constant(expression):
        return expression
    try:
        value = constant_value(expression)
    except (Error, *_OTHER_FAILURES):
        return expression
    if isinstance(value, float) and (not value or not math.isfinite(value)):
        return expression  # constants are equal or not: NaN never is, and -0.0 is the same as 0.0
    return Literal(expression.type, value)
