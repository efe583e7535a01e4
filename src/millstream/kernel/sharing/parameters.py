"""Conditions with parameters: what each query of a shape has its own value for.

The query table of a shape has a row per query: its number, and the values of its parameters as columns c0, c1, ...
"""

from __future__ import annotations

from collections.abc import Sequence

from millstream.kernel.scalar.compiler import compile_expressions
from millstream.kernel.scalar.expressions import Column, Expression, Literal, Parameter
from millstream.kernel.scalar.functions_user import UserCall

QUERY = "query"


def synopsis_of(shape: str) -> str:
    """The name under which an operator finds the query table of a shape in its state."""
    return f"queries/{shape}"


def parameters_as_columns(expression: Expression, width: int) -> Expression:
    """The same expression over a row of `width` columns that is followed by the values of the parameters."""

    def change(node: Expression) -> Expression:
        return Column(node.type, width + node.index, str(node)) if isinstance(node, Parameter) else node

    return expression.transform(change)


def with_values(expression: Expression, values: Sequence[object]) -> Expression:
    """The expression of a single query, given the values of its parameters."""

    def change(node: Expression) -> Expression:
        return Literal(node.type, values[node.index]) if isinstance(node, Parameter) else node

    return expression.transform(change)


def parameters_used(expression: Expression) -> set[int]:
    return {node.index for node in expression.walk() if isinstance(node, Parameter)}


def never_fails(expression: Expression) -> bool:
    """Whether the expression has a value on every row: no cast that may not fit, no division, no user's code.

    What can fail must not be evaluated on rows that its query would have left out before.
    """
    if not expression.children:
        return True
    if any(isinstance(node, UserCall) for node in expression.walk()):
        return False
    columns = [node.index for node in expression.walk() if isinstance(node, Column)]
    return not compile_expressions((parameters_as_columns(expression, max(columns, default=-1) + 1),)).checks
