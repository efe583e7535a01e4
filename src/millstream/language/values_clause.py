"""Binds VALUES where a query or an item of FROM may stand: rows of constants, whose columns are col1, col2, ..."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream.errors import BindError, Error, TypeError
from millstream.kernel.scalar.coercion import cast, common_type
from millstream.kernel.scalar.expressions import Call, Case, Cast, Expression, InList, Literal
from millstream.language.blocks import BoundSubquery
from millstream.language.expressions import ExpressionBinder, ExpressionContext
from millstream.language.instants import folded
from millstream.language.row_values import row_of
from millstream.language.scope import Scope
from millstream.language.set_operations import combined
from millstream.language.syntax import place_of
from millstream.plan import nodes as lo
from millstream.types import MONTHS, DataType, Field


def bind_values(node: exp.Values, binder: ExpressionContext) -> BoundSubquery:
    """Rows whose values are known now are one relation; one that fails, or is a parameter, is computed as SELECT is."""
    rows = [_row(row, binder) for row in node.expressions]
    for row, written in zip(rows, node.expressions, strict=True):
        if len(row) != len(rows[0]):
            raise BindError(
                f"VALUES has rows of {len(rows[0])} and of {len(row)} values", place=place_of(written, binder.text)
            )
    kinds = [_common(column, number, node, binder) for number, column in enumerate(zip(*rows, strict=True), 1)]
    columns = tuple(Field(f"col{number}", kind) for number, kind in enumerate(kinds, 1))
    rows = [[_known(cast(value, kind)) for value, kind in zip(row, kinds, strict=True)] for row in rows]
    constant = tuple(tuple(value for value in row if isinstance(value, Literal)) for row in rows)
    names = tuple(column.name for column in columns)
    known = [row for row in constant if len(row) == len(columns)]
    parts: list[lo.Node] = [lo.Values(columns, tuple(known))] if known else []
    open_rows = [row for row, found in zip(rows, constant, strict=True) if len(found) < len(columns)]
    parts += [lo.Project(lo.OneRow(), tuple(row), names) for row in open_rows]
    return BoundSubquery(combined("union all", parts), list(names), None)


def _row(row: exp.Expr, binder: ExpressionContext) -> list[Expression]:
    values = row_of(row)
    bound = ExpressionBinder(binder, Scope(), "VALUES")
    return [bound.bind(value) for value in ([row] if values is None else values)]


def _common(column: Sequence[Expression], number: int, node: exp.Expr, binder: ExpressionContext) -> DataType:
    common = common_type([value.type for value in column])
    if common is None:
        shown = " and ".join(dict.fromkeys(str(value.type) for value in column))
        raise TypeError(f"column {number} of VALUES has no common type: {shown}", place=place_of(node, binder.text))
    if common == MONTHS:
        raise TypeError(f"column {number} of VALUES is an interval of months", place=place_of(node, binder.text))
    return common


def _known(value: Expression) -> Expression:
    """The constant that an expression is, if it is one."""
    plain = all(isinstance(part, Literal | Call | Case | Cast | InList) for part in value.walk())
    if isinstance(value, Literal) or value.type.is_list or not plain:
        return value
    try:
        return Literal(value.type, folded(value))
    except Error:
        return value
