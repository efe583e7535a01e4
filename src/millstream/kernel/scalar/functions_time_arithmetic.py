"""What + - * / mean for dates, timestamps and intervals.

    DATE ± days                   DATE            DATE - DATE, timestamp - timestamp    INTERVAL
    DATE or timestamp ± INTERVAL  timestamp       INTERVAL ± INTERVAL                   INTERVAL
    INTERVAL * or / number        INTERVAL (rounded half up to a microsecond)
    DATE ± months                 DATE            timestamp ± months                    timestamp
    months ± months               months          months * or / number                  months (rounded half up)

Months are intervals of years and months: the day of the month stays, or becomes the last one of a month that is
shorter, and the time of day stays. Other intervals are days to microseconds; there is no interval type for days alone,
so a constant INTERVAL of whole days added to a DATE stays a DATE (as INTERVAL '1' DAY does in Spark), and any other
INTERVAL makes it a timestamp.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.scalar import decimals, floats
from millstream.kernel.scalar.calendar import date_after_months, ticks_after_months
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.outcome import Failure, Outcome, fails_where_null
from millstream.kernel.scalar.signature import Signature
from millstream.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    MONTHS,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
    decimal,
    to_polars,
)

TAKES = {
    "+": "(number, number), (date, days), (date or timestamp, interval) or (interval, interval)",
    "-": "(number, number), (date, days), (date, date), (timestamp, timestamp or interval) or (interval, interval)",
    "*": "(number, number) or (interval, number)",
    "/": "(number, number) or (interval, number)",
}
_SPANS = (INTERVAL, MONTHS)
_STAMPS = (TIMESTAMP, TIMESTAMP_NTZ)
_DAYS = (TINYINT, SMALLINT, INT)
_DAY = 86_400_000_000


def bind(operator: str, arguments: Sequence[Expression]) -> Signature | None:
    left, right = (argument.type for argument in arguments)
    if operator in ("*", "/"):
        return _bind_scaling(operator, left, right)
    if operator not in ("+", "-"):
        return None
    for kind in (INTERVAL, MONTHS):
        if (left == kind and right in (kind, NULL)) or (right == kind and left == NULL):
            return Signature((kind, kind), kind)
    if operator == "+" and (right.is_temporal and left in (*_DAYS, INTERVAL, MONTHS, NULL)):
        # What is added may stand first; the date or timestamp decides.
        flipped = bind(operator, (arguments[1], arguments[0]))
        return flipped and Signature((flipped.arguments[1], flipped.arguments[0]), flipped.result)
    if left.is_temporal and right == MONTHS:
        return Signature((left, MONTHS), left)
    if left == DATE and right in _DAYS:
        return Signature((DATE, INT), DATE)
    if operator == "-" and (left.is_temporal or right.is_temporal):
        difference = _bind_difference(left, right)
        if difference is not None:
            return difference
    if left.is_temporal and right in (INTERVAL, NULL):
        if left == DATE and _is_whole_days(arguments[1]):
            return Signature((DATE, INTERVAL), DATE)
        stamp = TIMESTAMP if left == DATE else left
        return Signature((stamp, INTERVAL), stamp)
    return None


def _bind_difference(left: DataType, right: DataType) -> Signature | None:
    """Dates are days apart; with a timestamp on either side both are timestamps."""
    kinds = {left, right}
    if not kinds <= {DATE, *_STAMPS, STRING, NULL}:
        return None
    if kinds <= {DATE, STRING, NULL}:
        return Signature((DATE, DATE), INTERVAL)
    stamp = TIMESTAMP if TIMESTAMP in kinds else TIMESTAMP_NTZ
    return Signature((stamp, stamp), INTERVAL)


def _bind_scaling(operator: str, left: DataType, right: DataType) -> Signature | None:
    if operator == "*" and right in _SPANS and left not in _SPANS:
        flipped = _bind_scaling(operator, right, left)
        return flipped and Signature((flipped.arguments[1], flipped.arguments[0]), flipped.result)
    if left not in _SPANS:
        return None
    if right.is_integer:
        return Signature((left, BIGINT), left)
    if right.is_decimal:
        return Signature((left, right), left)
    return Signature((left, DOUBLE), left) if right.is_fractional or right in (STRING, NULL) else None


def _is_whole_days(argument: Expression) -> bool:
    value = argument.value if isinstance(argument, Literal) else None
    return isinstance(value, dt.timedelta) and value % dt.timedelta(days=1) == dt.timedelta(0)


def add(node: Call, left: pl.Expr, right: pl.Expr, sign: int) -> Outcome | None:
    """left + sign * right where time is involved; None where it is not."""
    one, other = (argument.type for argument in node.arguments)
    if not (one.is_temporal or other.is_temporal or one in _SPANS or other in _SPANS):
        return None
    if MONTHS in (one, other):
        return _add_months(node, left, right, sign)
    if node.type == INTERVAL and one == DATE:
        days = left.to_physical().cast(pl.Int64) - right.to_physical().cast(pl.Int64)
        return Outcome((days * _DAY).cast(pl.Duration("us")))
    if node.type == DATE:
        return _add_days(left, right, one, other, sign)
    # Everything else counts microseconds in 64 bits.
    first, second = left.to_physical(), right.to_physical()
    total = first + second if sign > 0 else first - second

    def overflows(result: pl.Expr) -> pl.Expr:
        ticks = result.to_physical()
        return ((first ^ ticks) & ((second ^ ticks) if sign > 0 else (first ^ second))) < 0

    return Outcome(total.cast(to_polars(node.type)), (Failure(overflows, f"{node.type} overflow"),))


def _add_months(node: Call, left: pl.Expr, right: pl.Expr, sign: int) -> Outcome:
    if node.type == MONTHS:
        return _months(left.cast(pl.Int64) + sign * right.cast(pl.Int64), (left, right))
    moment, months = (left, right) if node.arguments[1].type == MONTHS else (right, left)
    months = sign * months.cast(pl.Int64)
    if node.type == DATE:
        value = date_after_months(moment, months)
    else:
        value = ticks_after_months(moment, months).cast(to_polars(node.type))
    return Outcome(value, (fails_where_null((left, right), f"{node.type} overflow"),))


def _add_days(left: pl.Expr, right: pl.Expr, one: DataType, other: DataType, sign: int) -> Outcome:
    def days_of(column: pl.Expr, kind: DataType) -> pl.Expr:
        days = column.to_physical().cast(pl.Int64)
        return days // _DAY if kind == INTERVAL else days

    total = days_of(left, one) + sign * days_of(right, other)
    value = total.cast(pl.Int32, strict=False).cast(pl.Date)
    return Outcome(value, (fails_where_null((left, right), "DATE overflow"),))


def multiply(node: Call, left: pl.Expr, right: pl.Expr) -> Outcome:
    kinds = [argument.type for argument in node.arguments]
    span, factor, kind = (left, right, kinds[1]) if kinds[0] in _SPANS else (right, left, kinds[0])
    ticks = span.to_physical()
    if kind == BIGINT:
        product = ticks.cast(pl.Int128) * factor.cast(pl.Int128)
    elif kind.is_decimal:
        types = (decimal(20, 0), kind)
        product = decimals.multiply(ticks.cast(pl.Int128), decimals.unscaled(factor), types, decimal(38, 0))
    else:
        return _rounded(ticks.cast(pl.Float64) * factor, (left, right), node.type)
    return _span(product, (left, right), node.type)


def divide(node: Call, left: pl.Expr, right: pl.Expr, by_zero: Failure) -> Outcome:
    kind = node.arguments[1].type
    ticks = left.to_physical()
    nonzero = pl.when(right.to_physical() != 0).then(right)
    if kind.is_fractional:
        outcome = _rounded(floats.divide(ticks.cast(pl.Float64), right), (left, nonzero), node.type)
    else:
        exact = kind if kind.is_decimal else decimal(20, 0)
        divisor = decimals.unscaled(right) if kind.is_decimal else right.cast(pl.Int128)
        quotient = decimals.divide(ticks.cast(pl.Int128), divisor, (decimal(20, 0), exact), decimal(38, 0))
        outcome = _span(quotient, (left, nonzero), node.type)
    return Outcome(outcome.value, (by_zero, *outcome.failures))


def _rounded(number: pl.Expr, arguments: Sequence[pl.Expr], kind: DataType) -> Outcome:
    return _span(floats.by_numpy(_half_away_from_zero, number), arguments, kind)


def _half_away_from_zero(values: floats.Doubles) -> floats.Doubles:
    whole: floats.Doubles = np.trunc(values)
    away: floats.Doubles = np.sign(values) * (np.abs(values - whole) >= 0.5)
    return whole + away


def _span(number: pl.Expr, arguments: Sequence[pl.Expr], kind: DataType) -> Outcome:
    return _interval(number, arguments) if kind == INTERVAL else _months(number, arguments)


def _interval(microseconds: pl.Expr, arguments: Sequence[pl.Expr]) -> Outcome:
    value = microseconds.cast(pl.Int64, strict=False).cast(pl.Duration("us"))
    return Outcome(value, (fails_where_null(arguments, "INTERVAL overflow"),))


def _months(months: pl.Expr, arguments: Sequence[pl.Expr]) -> Outcome:
    return Outcome(months.cast(pl.Int32, strict=False), (fails_where_null(arguments, "INTERVAL overflow"),))
