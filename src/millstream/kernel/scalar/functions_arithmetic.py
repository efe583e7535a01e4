"""The arithmetic operators: + - * / % DIV, PMOD, unary minus, ABS, SIGN, and the operators on bits.

Integers are computed in their common type and overflow there; decimals as in decimals.py; everything else in DOUBLE.
One departure from Spark: `/` on two integers is the integer quotient, truncated towards zero, as CQL's examples need.
Dates, timestamps and intervals meet the same operators; their half of the rules is in functions_time_arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import polars as pl

from millstream.kernel.scalar import decimals, floats
from millstream.kernel.scalar import functions_time_arithmetic as time_arithmetic
from millstream.kernel.scalar.coercion import as_decimal, common_type
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.outcome import Failure, Outcome, by_column, fails_where_null
from millstream.kernel.scalar.signature import (
    LONG,
    NUMBER_OR_INTERVAL,
    WHOLE,
    Evaluation,
    Function,
    Signature,
    Slot,
    TypeRule,
    first_type,
    row,
)
from millstream.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGER_BITS,
    INTERVAL,
    MONTHS,
    NULL,
    STRING,
    DataType,
    decimal,
    to_polars,
)

BY_ZERO = "use NULLIF(divisor, 0) to get NULL instead"
WIDER = "cast an operand to a wider type, such as BIGINT, DECIMAL or DOUBLE"


def _decimal_of(operand: Expression) -> DataType:
    """The decimal an integer operand becomes next to a decimal: a constant takes only the digits it has."""
    if isinstance(operand, Literal) and isinstance(operand.value, int) and operand.type.is_integer:
        return decimal(len(str(abs(operand.value))), 0)
    return as_decimal(operand.type)


def _numbers(operator: str, arguments: Sequence[Expression]) -> Signature | None:
    """The numeric half of a binary operator's rule."""
    types = [argument.type for argument in arguments]
    if not all(kind.is_numeric or kind in (STRING, NULL) for kind in types):
        return None
    if not any(kind.is_numeric for kind in types):
        return Signature((DOUBLE, DOUBLE), DOUBLE) if types == [NULL, NULL] else None
    common = common_type(types)
    if common is None:
        return None
    if common.is_decimal:
        left, right = (
            common if kind == NULL else _decimal_of(argument) for argument, kind in zip(arguments, types, strict=True)
        )
        return Signature((left, right), decimals.result_type(operator, left, right))
    if operator == "/" and (STRING in types or not common.is_integer):
        common = DOUBLE  # floats are divided as doubles
    return Signature((common, common), common)


def _binary(operator: str) -> TypeRule:
    def bind(arguments: Sequence[Expression]) -> Signature | None:
        if len(arguments) != 2:
            return None
        return _numbers(operator, arguments) or time_arithmetic.bind(operator, arguments)

    return TypeRule(time_arithmetic.TAKES.get(operator, "(number, number)"), bind)


def _types(node: Call) -> tuple[DataType, DataType]:
    return node.arguments[0].type, node.arguments[1].type


def _decimal_outcome(node: Call, digits: pl.Expr, arguments: Sequence[pl.Expr], *, may_fail: bool = True) -> Outcome:
    value = decimals.scaled(digits, node.type)
    failures = (fails_where_null(arguments, f"{node.type} overflow", WIDER),) if may_fail else ()
    return Outcome(value, failures)


def _sum(node: Call, left: pl.Expr, right: pl.Expr, sign: int) -> pl.Expr | Outcome:
    if node.type.is_decimal:
        one, other = decimals.unscaled(left), decimals.unscaled(right)
        digits = decimals.add(one, other if sign > 0 else decimals.number(0) - other, _types(node), node.type)
        return _decimal_outcome(node, digits, (left, right), may_fail=node.type.precision == 38)
    total = left + right if sign > 0 else left - right
    if not node.type.is_integer:
        return total

    def overflows(result: pl.Expr) -> pl.Expr:
        # Polars wraps around. The sign of a sum is wrong if it differs from that of both operands; of a difference,
        # if the operands differ in sign and the result does not have the left one's.
        other = (right ^ result) if sign > 0 else (left ^ right)
        return ((left ^ result) & other) < 0

    low, high = _bounds(left), _bounds(right)[::sign]
    suspicion = _outside(node.type, low[0] + sign * high[0], low[1] + sign * high[1])
    return Outcome(total, (Failure(overflows, f"{node.type} overflow", WIDER, suspicion),))


def _bounds(column: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The least and the greatest value of a batch: what is within range for them is so for all."""
    return column.min().cast(pl.Int128), column.max().cast(pl.Int128)


def _outside(kind: DataType, least: pl.Expr, greatest: pl.Expr) -> pl.Expr:
    limit = 2 ** (INTEGER_BITS[kind] - 1)
    return (least < decimals.number(-limit)) | (greatest >= decimals.number(limit))


def _add(node: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr | Outcome:
    temporal = time_arithmetic.add(node, left, right, 1)
    return _sum(node, left, right, 1) if temporal is None else temporal


def _subtract(node: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr | Outcome:
    temporal = time_arithmetic.add(node, left, right, -1)
    return _sum(node, left, right, -1) if temporal is None else temporal


def _multiply(node: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr | Outcome:
    if node.type in (INTERVAL, MONTHS):
        return time_arithmetic.multiply(node, left, right)
    if node.type.is_decimal:
        one, other = _types(node)
        digits = decimals.multiply(decimals.unscaled(left), decimals.unscaled(right), (one, other), node.type)
        return _decimal_outcome(node, digits, (left, right), may_fail=one.precision + other.precision > 38)
    if not node.type.is_integer:
        return left * right
    wide = pl.Int128 if node.type == BIGINT else pl.Int64

    def overflows(result: pl.Expr) -> pl.Expr:
        return left.cast(wide) * right.cast(wide) != result.cast(wide)

    largest = [pl.max_horizontal(part.abs() for part in _bounds(side)) for side in (left, right)]
    product = largest[0] * largest[1]
    suspicion = _outside(node.type, decimals.number(0) - product, product)
    return Outcome(left * right, (Failure(overflows, f"{node.type} overflow", WIDER, suspicion),))


def _divides_by_zero(left: pl.Expr, right: pl.Expr, message: str = "division by zero") -> Failure:
    return Failure(lambda _: (right.to_physical() == 0) & left.is_not_null(), message, BY_ZERO)


def _of_divisor(node: Call, by_zero: Failure, overflow: Failure | None = None) -> tuple[Failure, ...]:
    """The failures that there are with this divisor: constants are neither zero nor -1, as a rule."""
    divisor = node.arguments[1]
    if not isinstance(divisor, Literal):
        return (by_zero,) if overflow is None else (by_zero, overflow)
    value = divisor.value if isinstance(divisor.value, int | float | Decimal) else 1
    found = by_zero if value == 0 else overflow if value == -1 else None
    return () if found is None else (found,)


def _divide(node: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    by_zero = _divides_by_zero(left, right)
    if node.type in (INTERVAL, MONTHS):
        return time_arithmetic.divide(node, left, right, by_zero)
    if node.type.is_decimal:
        digits = decimals.divide(decimals.unscaled(left), decimals.unscaled(right), _types(node), node.type)
        outcome = _decimal_outcome(node, digits, (left, right))
        return Outcome(outcome.value, (by_zero, *outcome.failures))
    if not node.type.is_integer:
        return Outcome(floats.divide(left, right), _of_divisor(node, by_zero))
    lowest = -(2 ** (INTEGER_BITS[node.type] - 1))
    overflow = Failure(lambda _: (left == lowest) & (right == -1), f"{node.type} overflow", WIDER)
    return Outcome(_truncating_quotient(left, right), _of_divisor(node, by_zero, overflow))


def _truncating_quotient(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """Polars rounds quotients down; a negative quotient with a rest must go up by one."""
    down = left // right
    inexact = ((left ^ right) < 0) & (down * right != left)
    return down + inexact.cast(pl.Int8)


def _divide_whole(node: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    """DIV, which gives BIGINT whatever the operands are."""
    by_zero = _divides_by_zero(left, right)
    kind = node.arguments[0].type
    if kind.is_decimal:
        whole = decimals.divide_whole(decimals.unscaled(left), decimals.unscaled(right), _types(node))
        nonzero = pl.when(right.to_physical() != 0).then(right)
        overflow = fails_where_null((left, nonzero), "BIGINT overflow", WIDER)
        return Outcome(whole.cast(pl.Int64, strict=False), (by_zero, overflow))
    one, other = left.to_physical(), right.to_physical()
    overflow = Failure(lambda _: (one == -(2**63)) & (other == -1), "BIGINT overflow", WIDER)
    return Outcome(_truncating_quotient(one, other), _of_divisor(node, by_zero, overflow))


def _bind_whole(arguments: Sequence[Expression]) -> Signature | None:
    if len(arguments) != 2:
        return None
    types = [argument.type for argument in arguments]
    if INTERVAL in types and all(kind in (INTERVAL, NULL) for kind in types):
        return Signature((INTERVAL, INTERVAL), BIGINT)
    if all(kind.is_integer or kind == NULL for kind in types):
        return Signature((BIGINT, BIGINT), BIGINT)
    numbers = _numbers("/", arguments)
    if numbers is None or not numbers.arguments[0].is_decimal:
        return None
    return Signature(numbers.arguments, BIGINT)


def _remainder_value(node: Call, left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """left % right with the sign of left; as unscaled digits for decimals."""
    if node.type.is_decimal:
        return decimals.remainder(decimals.unscaled(left), decimals.unscaled(right), _types(node))
    if not node.type.is_integer:
        rest = floats.by_numpy(np.fmod, left.cast(pl.Float64), right.cast(pl.Float64))
        return rest.cast(to_polars(node.type))
    floored = left % right  # has the sign of right
    return floored - pl.when((floored != 0) & ((left < 0) != (right < 0))).then(right).otherwise(0).cast(
        to_polars(node.type)
    )


def _remainder(node: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    rest = _remainder_value(node, left, right)
    value = decimals.scaled(rest, node.type) if node.type.is_decimal else rest
    return Outcome(value, _of_divisor(node, _divides_by_zero(left, right, "remainder by zero")))


def _positive_remainder(node: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    """PMOD: the remainder, with a positive divisor added to it where it is negative."""
    by_zero = _divides_by_zero(left, right, "remainder by zero")
    rest = _remainder_value(node, left, right)
    if not node.type.is_decimal:
        return Outcome(pl.when((rest < 0) & (right > 0)).then(rest + right).otherwise(rest), _of_divisor(node, by_zero))
    divisor = node.arguments[1].type
    shift = node.type.scale - divisor.scale
    digits = decimals.unscaled(right)
    added = decimals.within(digits, 38 - shift) * decimals.number(10**shift) + rest
    value = pl.when((rest < 0) & (digits > 0)).then(decimals.within(added, node.type.precision)).otherwise(rest)
    nonzero = pl.when(digits != 0).then(digits)
    overflow = fails_where_null((left, nonzero), f"{node.type} overflow", WIDER)
    return Outcome(decimals.scaled(value, node.type), (by_zero, overflow))


def _negative(node: Call, value: pl.Expr) -> pl.Expr | Outcome:
    if node.type.is_decimal:
        return decimals.scaled(decimals.number(0) - decimals.unscaled(value), node.type)
    return -value if node.type.is_fractional else _without_lowest(node, -value.to_physical())


def _absolute(node: Call, value: pl.Expr) -> pl.Expr | Outcome:
    if node.type.is_decimal:
        return decimals.scaled(decimals.unscaled(value).abs(), node.type)
    return value.abs() if node.type.is_fractional else _without_lowest(node, value.to_physical().abs())


def _without_lowest(node: Call, result: pl.Expr) -> Outcome:
    """Of all integers only the lowest has no opposite: its negation wraps around to itself."""
    bits = 32 if node.type == MONTHS else INTEGER_BITS.get(node.type, 64)
    failure = Failure(lambda value: value.to_physical() == -(2 ** (bits - 1)), f"{node.type} overflow", WIDER)
    return Outcome(result.cast(to_polars(node.type)), (failure,))


def _sign(node: Call, value: pl.Expr) -> pl.Expr:
    return value.to_physical().sign().cast(pl.Float64)


def _bind_bits(arguments: Sequence[Expression]) -> Signature | None:
    common = common_type(argument.type for argument in arguments)
    if len(arguments) != 2 or common is None or not (common.is_integer or common == NULL):
        return None
    common = INT if common == NULL else common
    return Signature((common, common), common)


def _shift(function: np.ufunc, *, unsigned: bool = False) -> Evaluation:
    def evaluate(node: Call, value: pl.Expr, by: pl.Expr) -> pl.Expr:
        bits = INTEGER_BITS[node.type]
        dtype = to_polars(node.type)

        def compute(values: pl.Series, distances: pl.Series) -> pl.Series:
            numbers = values.fill_null(0).to_numpy()
            if unsigned:
                numbers = numbers.view(np.uint64 if bits == 64 else np.uint32)
            # As in Java, only the low bits of the distance count: shifting an INT by 33 is shifting it by 1.
            moved = function(numbers, (distances.fill_null(0).to_numpy() & (bits - 1)).astype(numbers.dtype))
            known = values.is_not_null() & distances.is_not_null()
            signed = moved.view(np.int64 if bits == 64 else np.int32)
            return pl.Series(signed, dtype=dtype).zip_with(known, pl.Series([None], dtype=dtype))

        return by_column(compute, [value, by], dtype)

    return evaluate


_SHIFTED = Slot(
    "integer",
    lambda kind: BIGINT if kind == BIGINT else INT if kind.is_integer or kind in (STRING, NULL) else None,
)
_INTEGER = Slot("integer", lambda kind: kind if kind.is_integer else INT if kind == NULL else None)
_COUNTED = Slot("integer or boolean", lambda kind: BOOLEAN if kind == BOOLEAN else LONG.accept(kind))
_BITS = TypeRule("(integer, integer)", _bind_bits)
_SHIFTS = row(_SHIFTED, WHOLE, result=first_type)

FUNCTIONS = (
    Function("+", _binary("+"), _add, is_local=True),
    Function("-", _binary("-"), _subtract, is_local=True),
    Function("*", _binary("*"), _multiply),
    Function("/", _binary("/"), _divide),
    Function("div", TypeRule("(integer or decimal, the same)", _bind_whole), _divide_whole),
    Function("%", _binary("%"), _remainder, aliases=("mod",)),
    Function("pmod", _binary("pmod"), _positive_remainder),
    Function("negative", row(NUMBER_OR_INTERVAL, result=first_type), _negative),
    Function("positive", row(NUMBER_OR_INTERVAL, result=first_type), lambda node, value: value, reads_once=True),
    Function("abs", row(NUMBER_OR_INTERVAL, result=first_type), _absolute),
    Function("sign", row(NUMBER_OR_INTERVAL, result=DOUBLE), _sign, aliases=("signum",), reads_once=True),
    Function("&", _BITS, lambda node, left, right: left & right, reads_once=True),
    Function("|", _BITS, lambda node, left, right: left | right, reads_once=True),
    Function("^", _BITS, lambda node, left, right: left ^ right, reads_once=True),
    Function("~", row(_INTEGER, result=first_type), lambda node, value: ~value, reads_once=True),
    Function("shiftleft", _SHIFTS, _shift(np.left_shift)),
    Function("shiftright", _SHIFTS, _shift(np.right_shift)),
    Function("shiftrightunsigned", _SHIFTS, _shift(np.right_shift, unsigned=True)),
    # Counted in 64 bits whatever the integer's type, as Spark does: BIT_COUNT(-1) is 64.
    Function(
        "bit_count",
        row(_COUNTED, result=INT),
        lambda node, value: value.cast(pl.Int64).bitwise_count_ones().cast(pl.Int32),
        reads_once=True,
    ),
)
