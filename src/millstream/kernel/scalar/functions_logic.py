"""Comparisons, three-valued logic, NULL handling, and the functions that choose between values.

AND, OR and COALESCE stop at the first argument that decides: what stands after it is evaluated only on the rows that
go on (`proceeds`). IF, NVL, NULLIF and their like are ways to write CASE and COALESCE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import polars as pl

from millstream import errors
from millstream.kernel.lists import ranks
from millstream.kernel.scalar.coercion import cast, common_type
from millstream.kernel.scalar.expressions import Call, Case, Expression, InList, Literal
from millstream.kernel.scalar.outcome import by_column
from millstream.kernel.scalar.signature import (
    ANY,
    CONDITION,
    REAL,
    Function,
    Rewrite,
    Signature,
    TypeRule,
    row,
)
from millstream.types import BOOLEAN, DOUBLE, FLOAT, NULL, STRING, DataType, to_polars


def _bind_comparison(arguments: Sequence[Expression]) -> Signature | None:
    common = common_type(argument.type for argument in arguments)
    if len(arguments) != 2 or common is None:
        return None
    common = BOOLEAN if common == NULL else common
    return Signature((common, common), BOOLEAN)


def _bind_logic(arguments: Sequence[Expression]) -> Signature | None:
    """Conditions, and texts (read as booleans) only beside a condition."""
    types = {argument.type for argument in arguments}
    if len(arguments) != 2 or not types <= {BOOLEAN, STRING, NULL} or (STRING in types and BOOLEAN not in types):
        return None
    return Signature((BOOLEAN, BOOLEAN), BOOLEAN)


_LOGIC = TypeRule("(boolean, boolean)", _bind_logic)
_COMPARISON = TypeRule("two values of comparable types", _bind_comparison)


def _comparison(name: str, operator: Callable[[pl.Expr, pl.Expr], pl.Expr], *aliases: str) -> Function:
    # Polars orders as Spark does: NaN equals itself and is the greatest double, and 0.0 = -0.0.
    def evaluate(node: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr:
        if node.arguments[0].type.is_list and name != "<=>":
            left, right = (by_column(partial(_rank_of, side), [left, right], pl.UInt32()) for side in (0, 1))
        return operator(left, right)

    return Function(name, _COMPARISON, evaluate, aliases, reads_once=True)


def _rank_of(side: int, *columns: pl.Series) -> pl.Series:
    """Lists, which Polars does not compare, as numbers that it does."""
    return ranks(*columns)[side]


def _same_type(*, at_least: int, promote_strings: bool = True) -> TypeRule:
    """All arguments take their common type, which is the result's."""

    def bind(arguments: Sequence[Expression]) -> Signature | None:
        types = [argument.type for argument in arguments]
        common = common_type(types)
        if len(arguments) < at_least or common is None:
            return None
        if not promote_strings and STRING in types and common != STRING:
            return None
        return Signature((common,) * len(types), common)

    return TypeRule("(any, ...) of one type", bind)


def _extreme(*, greatest: bool) -> Callable[..., pl.Expr]:
    """GREATEST or LEAST: NULLs are passed over; of equal values the first is taken (0.0 and -0.0 are equal)."""

    def evaluate(node: Call, *values: pl.Expr) -> pl.Expr:
        if node.type == NULL:
            return values[0]
        if node.type.is_list:
            return by_column(partial(_extreme_list, greatest), values, to_polars(node.type))
        if not node.type.is_fractional:
            return pl.max_horizontal(values) if greatest else pl.min_horizontal(values)
        # Polars' own functions pass over NaN too, which for Spark is the greatest value.
        best = values[0]
        for value in values[1:]:
            better = value > best if greatest else value < best
            best = pl.when(best.is_null() | better).then(value).otherwise(best)
        return best

    return evaluate


def _extreme_list(greatest: bool, *columns: pl.Series) -> pl.Series:
    best, best_rank = columns[0], (known := ranks(*columns))[0]
    for column, rank in zip(columns[1:], known[1:], strict=True):
        better = best_rank.is_null() | ((rank > best_rank) if greatest else (rank < best_rank))
        best, best_rank = (
            column.zip_with(better.fill_null(False), best),
            rank.zip_with(better.fill_null(False), best_rank),
        )
    return best


def _nanvl(arguments: Sequence[Expression]) -> Signature | None:
    if len(arguments) != 2:
        return None
    types = [argument.type for argument in arguments]
    if any(REAL.accept(kind) is None for kind in types):
        return None
    kind = FLOAT if all(kind == FLOAT for kind in types) else DOUBLE
    return Signature((kind, kind), kind)


def case(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression | None = None) -> Case:
    """CASE over conditions and values of any types; without ELSE it is NULL."""
    otherwise = Literal(NULL, None) if otherwise is None else otherwise
    conditions = []
    for condition, _ in branches:
        if condition.type not in (BOOLEAN, NULL):
            raise errors.TypeError(f"WHEN takes a condition, not a {condition.type}")
        conditions.append(cast(condition, BOOLEAN))
    values = [value for _, value in branches]
    common = _common([*values, otherwise], "the branches of CASE have no common type")
    cases = tuple((c, cast(v, common)) for c, v in zip(conditions, values, strict=True))
    return Case(common, cases, cast(otherwise, common))


def in_list(argument: Expression, values: Sequence[Expression]) -> InList:
    """`argument IN (values...)`."""
    common = _common([argument, *values], "IN compares values that have no common type")
    return InList(BOOLEAN, cast(argument, common), tuple(cast(value, common) for value in values))


def _common(expressions: Sequence[Expression], complaint: str) -> DataType:
    kinds = list(dict.fromkeys(expression.type for expression in expressions))
    common = common_type(kinds)
    if common is None:
        shown = ", ".join(map(str, kinds))
        raise errors.TypeError(complaint, detail=f"they are {shown}")
    return common


def _coalesced(*arguments: Expression) -> Expression | None:
    common = common_type(argument.type for argument in arguments)
    if common is None:
        return None
    return Call(common, "coalesce", tuple(cast(argument, common) for argument in arguments))


def _nvl(arguments: Sequence[Expression]) -> Expression | None:
    return _coalesced(*arguments) if len(arguments) == 2 else None


def _if(arguments: Sequence[Expression]) -> Expression | None:
    if len(arguments) != 3 or arguments[0].type not in (BOOLEAN, NULL):
        return None
    condition, value, otherwise = arguments
    return case([(condition, value)], otherwise)


def _nvl2(arguments: Sequence[Expression]) -> Expression | None:
    if len(arguments) != 3:
        return None
    tested = Call(BOOLEAN, "isnotnull", (arguments[0],))
    return case([(tested, arguments[1])], arguments[2])


def _nullif(arguments: Sequence[Expression]) -> Expression | None:
    """The first argument unless it equals the second, in the first's own type."""
    signature = _bind_comparison(arguments)
    if signature is None:
        return None
    value = arguments[0]
    sides = tuple(cast(a, kind) for a, kind in zip(arguments, signature.arguments, strict=True))
    return Case(value.type, ((Call(BOOLEAN, "=", sides), Literal(value.type, None)),), value)


FUNCTIONS = (
    _comparison("=", lambda left, right: left == right, "=="),
    _comparison("<>", lambda left, right: left != right, "!="),
    _comparison("<", lambda left, right: left < right),
    _comparison("<=", lambda left, right: left <= right),
    _comparison(">", lambda left, right: left > right),
    _comparison(">=", lambda left, right: left >= right),
    _comparison("<=>", lambda left, right: left.eq_missing(right), "equal_null"),
    Function(
        "and",
        _LOGIC,
        lambda node, left, right: left & right,
        reads_once=True,
        proceeds=lambda left: left.fill_null(True),
    ),
    Function(
        "or",
        _LOGIC,
        lambda node, left, right: left | right,
        reads_once=True,
        proceeds=lambda left: ~left.fill_null(False),
    ),
    Function("not", row(CONDITION, result=BOOLEAN), lambda node, value: ~value, ("!",), reads_once=True),
    Function("isnull", row(ANY, result=BOOLEAN), lambda node, value: value.is_null(), reads_once=True),
    Function("isnotnull", row(ANY, result=BOOLEAN), lambda node, value: value.is_not_null(), reads_once=True),
    Function(
        "coalesce",
        _same_type(at_least=1),
        lambda node, *values: pl.coalesce(*values),
        reads_once=True,
        proceeds=lambda value: value.is_null(),
    ),
    Function("greatest", _same_type(at_least=2, promote_strings=False), _extreme(greatest=True)),
    Function("least", _same_type(at_least=2, promote_strings=False), _extreme(greatest=False)),
    Function(
        "isnan",
        row(REAL, result=BOOLEAN),
        lambda node, value: value.is_nan().fill_null(False),
        reads_once=True,
    ),
    Function(
        "nanvl",
        TypeRule("(number, number)", _nanvl),
        lambda node, value, otherwise: pl.when(value.is_nan()).then(otherwise).otherwise(value),
        proceeds=lambda value: value.is_nan(),
    ),
)

REWRITES = (
    Rewrite("nvl", "(any, any) of one type", _nvl, aliases=("ifnull",)),
    Rewrite("nvl2", "(any, any, any), the last two of one type", _nvl2),
    Rewrite("if", "(boolean, any, any), the last two of one type", _if, aliases=("iff",)),
    Rewrite("nullif", "two values of comparable types", _nullif),
)
