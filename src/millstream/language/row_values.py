"""Rows of values, `(a, b)`, in comparisons and IN; and comparisons with ANY, SOME and ALL of a list.

Rows are compared as Spark compares them: value by value from the left, NULL equals NULL and comes before everything
else, so that a comparison of rows is never NULL itself. Only IN with a subquery goes by columns, as SQL asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.errors import BindError, NotSupportedError, TypeError
from millstream.kernel.scalar.expressions import FALSE, TRUE, Expression, conjunction
from millstream.kernel.scalar.functions import call
from millstream.kernel.scalar.functions_logic import case

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
# What is true, false or unknown where the other is false, true or unknown.
COMPLEMENTS = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
Side = Expression | Sequence[Expression]  # of a comparison: a value or a row of them
_TURNED = {">": "<", ">=": "<="}


def row_of(node: exp.Expr | None) -> Sequence[exp.Expr] | None:
    """The values of a row that is written `(a, b)`, ROW(a, b) or STRUCT(a, b)."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Tuple):
        return node.expressions
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("row", "struct"):
        return node.expressions
    return None


def compared(operator: str, left: Side, right: Side) -> Expression:
    """Two values, or two rows, which are compared as Spark compares structs."""
    if isinstance(left, Expression) and isinstance(right, Expression):
        return call(operator, [left, right])
    if isinstance(left, Expression) or isinstance(right, Expression):
        raise BindError("a row is compared with what is none", hint="write both as rows: (a, b) = (c, d)")
    if len(left) != len(right):
        raise TypeError(f"a row of {len(left)} is compared with one of {len(right)}")
    return _rows(operator, left, right)


def _rows(operator: str, left: Sequence[Expression], right: Sequence[Expression]) -> Expression:
    if operator == "<>":
        return call("not", [_rows("=", left, right)])
    if operator in ("=", "<=>"):
        return conjunction([call("<=>", [one, other]) for one, other in zip(left, right, strict=True)])
    if operator in _TURNED:
        operator, left, right = _TURNED[operator], right, left
    result: Expression = TRUE if operator == "<=" else FALSE
    for one, other in zip(reversed(left), reversed(right), strict=True):
        first = case([(call("isnull", [one]), call("isnotnull", [other]))], call("<", [one, other]))
        less = case([(call("isnull", [other]), FALSE)], first)
        result = call("or", [less, call("and", [call("<=>", [one, other]), result])])
    return result


def by_columns(operator: str, left: Sequence[Expression], right: Sequence[Expression]) -> Expression:
    """What IN or ANY asks of a row of its subquery: unknown where a NULL leaves it open."""
    if len(left) == 1:
        return call(operator, [left[0], right[0]])
    equal = conjunction([call("=", [one, other]) for one, other in zip(left, right, strict=True)])
    return equal if operator == "=" else call("not", [equal])


def listed_quantifier(node: exp.Expr) -> tuple[str, Sequence[exp.Expr]] | None:
    """ANY, SOME or ALL of a list of values: which of them, and the values."""
    if isinstance(node, exp.Any | exp.All) and isinstance(node.this, exp.Tuple):
        return "any" if isinstance(node, exp.Any) else "all", node.this.expressions
    # Of one value they are aggregates.
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("some", "all") and len(node.expressions) > 1:
        return "any" if node.name.lower() == "some" else "all", node.expressions
    return None


def quantified_subquery(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """ANY, SOME or ALL of a subquery: which of them, and the query."""
    if not isinstance(node, exp.Any | exp.All):
        return None
    query = node.this
    while isinstance(query, exp.Subquery | exp.Paren) and not query.args.get("alias"):
        query = query.this
    if not isinstance(query, exp.Query):
        return None
    return "any" if isinstance(node, exp.Any) else "all", query


def of_each(quantifier: str, tests: Sequence[Expression]) -> Expression:
    """Whether one of the tests holds, or all of them."""
    result = tests[0]
    for condition in tests[1:]:
        result = call("or" if quantifier == "any" else "and", [result, condition])
    return result


def complement_of(operator: str, value: Side) -> str:
    if operator not in COMPLEMENTS:
        raise NotSupportedError(f"{operator} with ANY or ALL of a subquery", hint="use = ANY, or EXISTS (SELECT ..)")
    if not isinstance(value, Expression) and operator not in ("=", "<>"):
        raise BindError(f"rows are compared with ANY and ALL by = and <>, not by {operator}", hint="use EXISTS")
    return COMPLEMENTS[operator]
