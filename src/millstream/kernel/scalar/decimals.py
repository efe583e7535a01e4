"""Decimal arithmetic as Spark does it: exact, then rounded half up to the result's scale.

A decimal column is its unscaled 128-bit integers (1.25 is 125 of scale 2), and all arithmetic here is on those. Up to
38 digits fit. Where the exact result could need more, the operation works on halves of numbers, or digit by digit, for
whole columns at a time; a result that does not fit is NULL, and the caller makes that a failure.

Polars has decimal operators of its own, but they keep the left scale and round to even: not what SQL says.
"""

from __future__ import annotations

import polars as pl

from millstream.kernel.scalar.outcome import by_column
from millstream.types import MAX_DECIMAL_PRECISION, DataType, decimal, to_polars

_INT128 = pl.Int128()
_MINIMUM_SCALE = 6  # what Spark keeps of the fraction when a result must give up digits
_HALF_DIGITS = MAX_DECIMAL_PRECISION // 2


def bounded(precision: int, scale: int) -> DataType:
    """The type of a result, its fraction cut where it would need more than 38 digits (Spark's adjusting rule)."""
    if precision <= MAX_DECIMAL_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_DECIMAL_PRECISION, max(MAX_DECIMAL_PRECISION - whole, min(scale, _MINIMUM_SCALE)))


def result_type(operator: str, left: DataType, right: DataType) -> DataType:
    whole_left, whole_right = left.precision - left.scale, right.precision - right.scale
    scale = max(left.scale, right.scale)
    if operator in ("+", "-"):
        return bounded(max(whole_left, whole_right) + scale + 1, scale)
    if operator == "*":
        return bounded(left.precision + right.precision + 1, left.scale + right.scale)
    if operator == "/":
        scale = max(_MINIMUM_SCALE, left.scale + right.precision + 1)
        return bounded(whole_left + right.scale + scale, scale)
    return bounded(min(whole_left, whole_right) + scale, scale)  # % and pmod


def number(value: int) -> pl.Expr:
    return pl.lit(value, dtype=_INT128)


def unscaled(column: pl.Expr) -> pl.Expr:
    return column.to_physical()


def scaled(digits: pl.Expr, kind: DataType) -> pl.Expr:
    """128-bit integers read as a decimal's digits."""
    return digits.reinterpret(dtype=to_polars(kind))


def within(digits: pl.Expr, precision: int) -> pl.Expr:
    """The digits where they are at most `precision` many, else NULL."""
    limit = 10**precision
    return pl.when((digits < number(limit)) & (digits > number(-limit))).then(digits)


def divide_half_up(digits: pl.Expr, divisor: int) -> pl.Expr:
    """digits / divisor for an even constant divisor, rounded half away from zero."""
    half = number(divisor // 2)
    # Rounding the magnitude and putting the sign back; 1.5 * 10^38 still fits into 127 bits.
    return ((digits.abs() + half) // number(divisor)) * digits.sign()


def truncate(digits: pl.Expr, divisor: int) -> pl.Expr:
    """digits / divisor, towards zero."""
    return (digits.abs() // number(divisor)) * digits.sign() if divisor > 1 else digits


def rescale(digits: pl.Expr, source: DataType, target: DataType) -> pl.Expr:
    """Digits of one decimal type as digits of another; NULL where the number does not fit."""
    shift = target.scale - source.scale
    if shift < 0:
        digits = divide_half_up(digits, 10**-shift)
        fits = target.precision - target.scale > source.precision - source.scale
    else:
        fits = target.precision - target.scale >= source.precision - source.scale
        if not fits:
            digits = within(digits, target.precision - shift)
        return digits * number(10**shift) if shift else digits
    return digits if fits else within(digits, target.precision)


def add(left: pl.Expr, right: pl.Expr, types: tuple[DataType, DataType], result: DataType) -> pl.Expr:
    """left + right, both unscaled, as digits of the result type."""
    one, other = types
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    if whole + scale <= MAX_DECIMAL_PRECISION:
        total = left * number(10 ** (scale - one.scale)) + right * number(10 ** (scale - other.scale))
        if result.scale == scale:
            # A sum of 39 digits wraps around at 2^127, but never back into the range of 38 digits.
            return total if whole + scale < MAX_DECIMAL_PRECISION else within(total, MAX_DECIMAL_PRECISION)
    return by_column(
        lambda a, b: _add_wide(a, b, types, result),
        [left, right],
        _INT128,
    )


def multiply(left: pl.Expr, right: pl.Expr, types: tuple[DataType, DataType], result: DataType) -> pl.Expr:
    one, other = types
    drop = one.scale + other.scale - result.scale
    if one.precision + other.precision <= MAX_DECIMAL_PRECISION:
        product = left * right
        return divide_half_up(product, 10**drop) if drop else product
    return by_column(lambda a, b: _multiply_wide(a, b, drop), [left, right], _INT128)


def divide(left: pl.Expr, right: pl.Expr, types: tuple[DataType, DataType], result: DataType) -> pl.Expr:
    """left / right, rounded half up; NULL where right is 0 or the result does not fit."""
    one, other = types
    digits = result.scale - one.scale + other.scale  # never negative, by the rule for the result's scale

    def compute(a: pl.Series, b: pl.Series) -> pl.Series:
        quotient, rest = _long_division(a.abs(), b.abs(), digits)
        up = (rest >= b.abs() - rest).cast(pl.Int128)
        return fitting((quotient + up) * a.sign() * b.sign(), result.precision)

    return by_column(compute, [left, right], _INT128)


def divide_whole(left: pl.Expr, right: pl.Expr, types: tuple[DataType, DataType]) -> pl.Expr:
    """The whole part of left / right."""
    shift = types[1].scale - types[0].scale

    def compute(a: pl.Series, b: pl.Series) -> pl.Series:
        # Floors nest: dropping digits of the dividend first does not change the whole part.
        dividend = a.abs() // _constant(10**-shift) if shift < 0 else a.abs()
        return _long_division(dividend, b.abs(), max(shift, 0))[0] * a.sign() * b.sign()

    return by_column(compute, [left, right], _INT128)


def remainder(left: pl.Expr, right: pl.Expr, types: tuple[DataType, DataType]) -> pl.Expr:
    """left % right with the sign of left, at the larger of the two scales."""
    shift = types[0].scale - types[1].scale

    def compute(a: pl.Series, b: pl.Series) -> pl.Series:
        if shift < 0:
            return _long_division(a.abs(), b.abs(), -shift)[1] * a.sign()
        unit = _constant(10**shift)
        high, low = a.abs() // unit, a.abs() % unit
        return ((high % b.abs()) * unit + low) * a.sign()

    return by_column(compute, [left, right], _INT128)


def _constant(value: int) -> pl.Series:
    return pl.Series([value], dtype=_INT128)


def fitting(digits: pl.Series, precision: int) -> pl.Series:
    """As `within`, for a column that was computed."""
    return pl.select(within(pl.lit(digits), precision)).to_series()


def _add_wide(a: pl.Series, b: pl.Series, types: tuple[DataType, DataType], result: DataType) -> pl.Series:
    """Whole parts and fractions apart (floors, so that fractions are never negative), then put together."""
    one, other = types
    scale = max(one.scale, other.scale)
    unit, drop = 10**scale, 10 ** (scale - result.scale)
    fraction_a = a % _constant(10**one.scale) * _constant(10 ** (scale - one.scale))
    fraction_b = b % _constant(10**other.scale) * _constant(10 ** (scale - other.scale))
    frame = pl.DataFrame(
        {
            "whole": a // _constant(10**one.scale) + b // _constant(10**other.scale),
            "x": fraction_a,
            "missing": _constant(unit) - fraction_b,  # what x needs to carry; x + fraction_b might not fit
        }
    )
    carries = pl.col("x") >= pl.col("missing")
    frame = frame.select(
        pl.col("whole") + carries.cast(pl.Int128),
        fraction=pl.col("x") - pl.col("missing") + pl.when(carries).then(number(0)).otherwise(number(unit)),
    )
    kept, rest = pl.col("fraction") // number(drop), pl.col("fraction") % number(drop)
    # Half rounds away from zero: up above zero, but down (which a floor has done) below it.
    half = number(drop // 2)
    up = (rest > half) | ((rest == half) & (pl.col("whole") >= 0)) if drop > 1 else pl.lit(False)
    # A whole part that is a floor may lie one below the least that fits, with a fraction that brings it back.
    limit = 10 ** (MAX_DECIMAL_PRECISION - result.scale)
    whole = pl.when(pl.col("whole").is_between(number(-limit), number(limit))).then(pl.col("whole"))
    total = whole * number(10**result.scale) + kept + up.cast(pl.Int128)
    return frame.select(within(total, MAX_DECIMAL_PRECISION)).to_series()


def _multiply_wide(a: pl.Series, b: pl.Series, drop: int) -> pl.Series:
    """The product of up to 76 digits, by halves of 19 digits as in school, without its last `drop` digits."""
    base = _constant(10**_HALF_DIGITS)
    a1, a0, b1, b0 = a.abs() // base, a.abs() % base, b.abs() // base, b.abs() % base
    lowest = a0 * b0
    middle = a1 * b0 + lowest // base
    other = a0 * b1 + middle % base
    frame = pl.DataFrame(
        {
            "high": a1 * b1 + middle // base + other // base,
            "low": other % base * base + lowest % base,
            "sign": a.sign() * b.sign(),
        }
    )
    high, low, unit = pl.col("high"), pl.col("low"), number(10 ** min(drop, MAX_DECIMAL_PRECISION))
    if drop <= MAX_DECIMAL_PRECISION:
        up = low % unit >= number(10**drop // 2) if drop else pl.lit(False)
        kept = pl.when(high < unit).then(high * number(10 ** (MAX_DECIMAL_PRECISION - drop))) + low // unit
    else:
        beyond = 10 ** (drop - MAX_DECIMAL_PRECISION)
        up = high % number(beyond) >= number(beyond // 2)
        kept = high // number(beyond)
    total = (kept + up.cast(pl.Int128)) * pl.col("sign")
    return frame.select(within(total, MAX_DECIMAL_PRECISION)).to_series()


def _long_division(dividend: pl.Series, divisor: pl.Series, digits: int) -> tuple[pl.Series, pl.Series]:
    """Quotient and rest of dividend * 10^digits / divisor, for numbers that are not negative.

    As many digits are brought down at once as the largest divisor of the batch leaves room for. A quotient that
    outgrows 38 digits becomes NULL.
    """
    quotient, rest = dividend // divisor, dividend % divisor
    largest = divisor.max()
    room = MAX_DECIMAL_PRECISION - len(str(largest)) if largest else MAX_DECIMAL_PRECISION
    while digits:
        step = min(digits, room) or 1
        quotient = fitting(quotient, MAX_DECIMAL_PRECISION - step) * _constant(10**step)
        if room:
            rest = rest * _constant(10**step)
            quotient, rest = quotient + rest // divisor, rest % divisor
        else:
            digit, rest = _tenfold(rest, divisor)
            quotient = quotient + digit
        digits -= step
    return quotient, rest


def _tenfold(rest: pl.Series, divisor: pl.Series) -> tuple[pl.Series, pl.Series]:
    """10 * rest / divisor as quotient and rest, for divisors that leave no room for another digit."""
    one = (pl.repeat(0, rest.len(), dtype=_INT128, eager=True), rest)
    two = _sum_of_quotients(one, one, divisor)
    four = _sum_of_quotients(two, two, divisor)
    five = _sum_of_quotients(four, one, divisor)
    return _sum_of_quotients(five, five, divisor)


def _sum_of_quotients(
    one: tuple[pl.Series, pl.Series], other: tuple[pl.Series, pl.Series], divisor: pl.Series
) -> tuple[pl.Series, pl.Series]:
    """(q1 + r1/d) + (q2 + r2/d), never computing a sum that could exceed d."""
    missing = divisor - other[1]
    carry = (one[1] >= missing).cast(pl.Int128)
    return one[0] + other[0] + carry, one[1] - missing + (_constant(1) - carry) * divisor
