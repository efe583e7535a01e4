"""Rounding, roots, powers and logarithms.

Roots, powers and logarithms may differ from Java's StrictMath in the last digit of a double.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from millstream import errors
from millstream.kernel.scalar import decimals, floats
from millstream.kernel.scalar.casts import cast_column
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.outcome import Outcome, fails_where_null
from millstream.kernel.scalar.signature import NUMBER, REAL, Evaluation, Function, Signature, Slot, TypeRule, row
from millstream.types import (
    BIGINT,
    DOUBLE,
    INT,
    MAX_DECIMAL_PRECISION,
    DataType,
    decimal,
    to_polars,
)


def constant_integer(argument: Expression, what: str) -> int | None:
    """The value of an argument that must be constant."""
    if not isinstance(argument, Literal):
        raise errors.TypeError(f"{what} must be a constant, not {argument}")
    return None if argument.value is None else int(argument.value)  # type: ignore[call-overload]


def _bind_round(arguments: Sequence[Expression]) -> Signature | None:
    kind = NUMBER.accept(arguments[0].type) if 1 <= len(arguments) <= 2 else None
    if kind is None:
        return None
    digits = _digits(arguments)
    if not kind.is_decimal or digits is None:
        return Signature((kind, INT)[: len(arguments)], kind)
    whole = kind.precision - kind.scale + 1
    if digits < 0:
        result = decimal(min(max(whole, 1 - digits), MAX_DECIMAL_PRECISION), 0)
    else:
        scale = min(kind.scale, digits)
        result = decimal(min(whole + scale, MAX_DECIMAL_PRECISION), scale)
    return Signature((kind, INT)[: len(arguments)], result)


def _digits(arguments: Sequence[Expression]) -> int | None:
    return constant_integer(arguments[1], "the number of digits") if len(arguments) > 1 else 0


def _round(node: Call, value: pl.Expr, _: pl.Expr | None = None) -> pl.Expr | Outcome:
    """ROUND: half away from zero at a decimal digit, counted left of the point where negative."""
    source, digits = node.arguments[0].type, _digits(node.arguments)
    if digits is None:
        return pl.lit(None, dtype=to_polars(node.type))
    if source.is_fractional:
        return floats.round_double(value.cast(pl.Float64), digits).cast(to_polars(node.type))
    if source.is_decimal:
        units = _round_units(decimals.unscaled(value), source.scale - digits, node.type.scale - digits)
        rounded = decimals.within(units, node.type.precision)
        return Outcome(decimals.scaled(rounded, node.type), (fails_where_null([value], f"{node.type} overflow"),))
    if digits >= 0:
        return value
    units = _round_units(value.cast(pl.Int128), -digits, -digits)
    failure = fails_where_null([value], f"{node.type} overflow")
    return Outcome(units.cast(to_polars(node.type), strict=False), (failure,))


def _round_units(digits: pl.Expr, drop: int, restore: int) -> pl.Expr:
    """Without the last `drop` digits, half up, then with `restore` zeros instead."""
    if drop <= 0:
        return digits
    if drop > MAX_DECIMAL_PRECISION:
        return digits * decimals.number(0)
    return decimals.divide_half_up(digits, 10**drop) * decimals.number(10 ** max(0, restore))


def _whole_type(types: tuple[DataType, ...]) -> DataType:
    kind = types[0]
    if not kind.is_decimal:
        return BIGINT
    return kind if kind.scale == 0 else decimals.bounded(kind.precision - kind.scale + 1, 0)


def _accept_whole(kind: DataType) -> DataType | None:
    accepted = NUMBER.accept(kind)
    if accepted is None or accepted.is_decimal:
        return accepted
    return BIGINT if accepted.is_integer else DOUBLE


def _whole(*, up: bool) -> Evaluation:
    """CEIL or FLOOR."""

    def evaluate(node: Call, value: pl.Expr) -> pl.Expr | Outcome:
        source = node.arguments[0].type
        if source.is_integer:
            return value
        if source.is_decimal:
            digits, unit = decimals.unscaled(value), decimals.number(10**source.scale)
            # Dividing rounds down; the opposite of the opposite rounds up.
            zero = decimals.number(0)
            return decimals.scaled(zero - (zero - digits) // unit if up else digits // unit, node.type)
        whole = value.ceil() if up else value.floor()
        outcome = cast_column(whole.fill_nan(0.0), DOUBLE, BIGINT)  # NaN becomes 0, as in Java
        return Outcome(outcome.value, outcome.failures)

    return evaluate


def _real(function: Callable[..., floats.Doubles]) -> Evaluation:
    return lambda node, *values: floats.by_numpy(function, *values)


def _logarithm(function: Callable[..., floats.Doubles]) -> Evaluation:
    """NULL for what has no logarithm: zero and below (NaN stays NaN)."""
    return lambda node, value: pl.when(~(value <= 0)).then(floats.by_numpy(function, value))


def _log(node: Call, base: pl.Expr, value: pl.Expr | None = None) -> pl.Expr:
    """LOG(x) is natural; LOG(base, x)."""
    if value is None:
        return pl.when(~(base <= 0)).then(floats.by_numpy(np.log, base))
    quotient = floats.divide(floats.by_numpy(np.log, value), floats.by_numpy(np.log, base))
    return pl.when(~(base <= 0) & ~(value <= 0)).then(quotient)


_ROUNDED = Slot("number", _accept_whole)

FUNCTIONS = (
    Function("round", TypeRule("(number, [constant integer])", _bind_round), _round),
    Function("ceil", row(_ROUNDED, result=_whole_type), _whole(up=True), aliases=("ceiling",)),
    Function("floor", row(_ROUNDED, result=_whole_type), _whole(up=False)),
    Function("sqrt", row(REAL, result=DOUBLE), _real(np.sqrt)),
    Function("cbrt", row(REAL, result=DOUBLE), _real(np.cbrt)),
    Function("power", row(REAL, REAL, result=DOUBLE), _real(np.power), aliases=("pow",)),
    Function("exp", row(REAL, result=DOUBLE), _real(np.exp)),
    Function("ln", row(REAL, result=DOUBLE), _logarithm(np.log)),
    Function("log", row(REAL, REAL, optional=1, result=DOUBLE), _log),
    Function("log2", row(REAL, result=DOUBLE), _logarithm(np.log2)),
    Function("log10", row(REAL, result=DOUBLE), _logarithm(np.log10)),
    Function("sin", row(REAL, result=DOUBLE), _real(np.sin)),
    Function("cos", row(REAL, result=DOUBLE), _real(np.cos)),
    Function("tan", row(REAL, result=DOUBLE), _real(np.tan)),
    Function("asin", row(REAL, result=DOUBLE), _real(np.arcsin)),
    Function("acos", row(REAL, result=DOUBLE), _real(np.arccos)),
    Function("atan", row(REAL, result=DOUBLE), _real(np.arctan)),
    Function("atan2", row(REAL, REAL, result=DOUBLE), _real(np.arctan2)),
    Function("degrees", row(REAL, result=DOUBLE), _real(np.degrees)),
    Function("radians", row(REAL, result=DOUBLE), _real(np.radians)),
    Function("hypot", row(REAL, REAL, result=DOUBLE), _real(np.hypot)),
    Function("pi", row(result=DOUBLE), lambda node: pl.lit(float(np.pi))),
    Function("e", row(result=DOUBLE), lambda node: pl.lit(float(np.e))),
)
