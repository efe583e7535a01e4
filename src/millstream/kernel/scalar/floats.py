"""Doubles where SQL looks at their decimal digits, and the functions of doubles.

Spark rounds a double (ROUND, casts to DECIMAL) as the shortest decimal that stands for it, half up: 1.005 to two digits
is 1.01, although the double itself lies below 1.005.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.scalar.decimals import fitting
from millstream.kernel.scalar.outcome import by_column

# Up to 15 digits every decimal has its own double, so that comparing doubles is comparing decimals; one digit of
# them goes to the half.
_EXACT = 1e14
_EXACT_POWER = 22  # the largest power of ten that a double holds
NO_DOUBLE = pl.Series([None], dtype=pl.Float64)


def half_up(column: pl.Expr, digits: int, precision: int) -> pl.Expr:
    """column * 10^digits rounded half up, as Int128; NULL for NaN, infinity and beyond `precision` digits."""
    return by_column(lambda values: fitting(_half_up(values, digits), precision), [column], pl.Int128())


def _half_up(values: pl.Series, digits: int) -> pl.Series:
    finite = values.zip_with(values.is_finite(), NO_DOUBLE)
    if abs(digits) > _EXACT_POWER:
        return _half_up_by_text(finite, digits)
    power = 10.0 ** abs(digits)
    magnitude = finite.abs().fill_null(0.0).to_numpy()
    with np.errstate(over="ignore"):
        shifted = magnitude * power if digits >= 0 else magnitude / power
        below = np.floor(shifted)
        # The half above, as the double nearest to it: one exact number divided (or multiplied) by another.
        half = (below * 2 + 1) / (2 * power) if digits >= 0 else (below * 2 + 1) * (power / 2)
    rounded = np.copysign(below + (magnitude >= half), finite.fill_null(0.0).to_numpy())
    large = pl.Series(shifted >= _EXACT)
    result = pl.Series(np.where(large, 0.0, rounded)).cast(pl.Int128)
    if large.any():
        result = _half_up_by_text(finite.zip_with(large, NO_DOUBLE), digits).zip_with(large, result)
    return result.zip_with(finite.is_not_null(), pl.Series([None], dtype=pl.Int128))


def _half_up_by_text(values: pl.Series, digits: int) -> pl.Series:
    return digits_of_text(values.cast(pl.String), digits)


def digits_of_text(texts: pl.Series, scale: int) -> pl.Series:
    """Texts of numbers as integers of units 10^-scale, half up; NULL where there is no number or too many digits."""
    numbers = texts.str.extract_groups(r"^([+-]?)0*([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]{1,9}))?$").struct.unnest()
    numbers.columns = ["sign", "whole", "fraction", "exponent"]
    whole, exponent = pl.col("whole"), pl.col("exponent").cast(pl.Int64, strict=False).fill_null(0)
    parts = numbers.select(
        sign=pl.when(pl.lit(texts).str.contains(r"^[+-]?\.?[0-9]")).then(pl.col("sign")),
        digits=pl.concat_str(whole, pl.col("fraction")),
        kept=(whole.str.len_chars().cast(pl.Int64) + exponent + scale).clip(-1, 400),
    )
    digits, kept = pl.col("digits"), pl.col("kept")
    parts = parts.with_columns(
        front=digits.str.slice(0, kept.clip(0)).str.pad_end(kept.clip(0), "0").str.strip_chars_start("0"),
        # Half up looks only at the first of the digits that are dropped.
        up=pl.when(kept >= 0).then(digits.str.slice(kept.clip(0), 1) >= "5").fill_null(False),
    )
    front = pl.when(pl.col("front").str.len_chars() <= 38).then(pl.concat_str(pl.lit("0"), pl.col("front")))
    units = front.cast(pl.Int128, strict=False) + pl.col("up").cast(pl.Int128)
    signed = (
        pl.when(pl.col("sign") == "-")
        .then(pl.lit(0, dtype=pl.Int128) - units)
        .when(pl.col("sign").is_not_null())
        .then(units)
    )
    return parts.select(signed).to_series()


def quotient(digits: pl.Expr, scale: int) -> pl.Expr:
    """digits / 10^scale as the nearest double."""
    if scale == 0:
        return digits.cast(pl.Float64)
    return by_column(lambda values: _quotient(values, scale, pl.Float64()), [digits], pl.Float64())


def quotient_as_float(digits: pl.Expr, scale: int) -> pl.Expr:
    return by_column(lambda values: _quotient(values, scale, pl.Float32()), [digits], pl.Float32())


def _quotient(values: pl.Series, scale: int, dtype: pl.DataType) -> pl.Series:
    largest = values.abs().max()
    if dtype == pl.Float64 and 0 <= scale <= _EXACT_POWER and (largest is None or largest < _EXACT):  # type: ignore[operator]
        # Both numbers are exact, so the one rounding of the division is right. Not Polars' own division: by a constant
        # it multiplies with the reciprocal, which rounds twice.
        quotients = values.cast(pl.Float64).fill_null(0.0).to_numpy() / 10.0**scale
        return pl.Series(quotients).zip_with(values.is_not_null(), NO_DOUBLE)
    text = pl.select(pl.concat_str(pl.lit(values).cast(pl.String), pl.lit(f"e{-scale}")))
    return text.to_series().cast(dtype)


def round_double(column: pl.Expr, digits: int) -> pl.Expr:
    """The double nearest to the column rounded half up at a decimal digit."""

    def compute(values: pl.Series) -> pl.Series:
        # Beyond 17 digits a double has no more to round; what is 0 after rounding keeps no sign, as in Spark.
        if digits > 340:
            return values
        units = _half_up(values, digits)
        return _quotient(units, digits, pl.Float64()).zip_with(units.is_not_null(), values)

    return by_column(compute, [column], pl.Float64())


Doubles = npt.NDArray[np.float64]


def by_numpy(function: Callable[..., Doubles], *columns: pl.Expr) -> pl.Expr:
    """A NumPy function of doubles, where Polars has none or misses the last digit."""

    def compute(*values: pl.Series) -> pl.Series:
        known = values[0].is_not_null()
        for value in values[1:]:
            known = known & value.is_not_null()
        with np.errstate(all="ignore"):
            result = function(*(value.fill_null(0.0).to_numpy() for value in values))
        return pl.Series(result, dtype=pl.Float64).zip_with(known, NO_DOUBLE)

    return by_column(compute, columns, pl.Float64())


def divide(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """left / right as IEEE 754 says; Polars multiplies with the reciprocal where one side is constant."""
    return by_numpy(np.divide, left, right)
