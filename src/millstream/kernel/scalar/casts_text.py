"""Values as texts, and texts as values, in Spark's formats.

A text that cannot be read gives NULL here; the cast makes that a failure.
"""

from __future__ import annotations

import polars as pl

from millstream.kernel.lists import each
from millstream.kernel.scalar import decimals, floats
from millstream.kernel.scalar.calendar import days_of
from millstream.kernel.scalar.outcome import by_column
from millstream.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INTERVAL,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    to_polars,
)

# Spark trims white space and control characters before it reads a number, date or boolean.
_TRIMMED = "".join(map(chr, (*range(0x21), 0x7F)))
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_NOT_FINITE = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), float("inf")),
    **dict.fromkeys(("-inf", "-infinity"), float("-inf")),
    "nan": float("nan"),
}
_DAY = r"^([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?"
_ZONE = r" ?(?:(?:Z|UTC|GMT|UT)|(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?)"
_WITH_OFFSET = r"^[+-]?[0-9]+-[0-9]+-[0-9]+[ T][0-9:.]+ ?(?:Z|UTC|GMT|UT|(?:UTC|GMT|UT)?[+-][0-9:]+)$"
_SECOND, _MINUTE, _HOUR, _DAY_LENGTH = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def to_text(column: pl.Expr, source: DataType) -> pl.Expr:
    if (element := source.element) is not None:
        return by_column(lambda values: _list_to_text(values, element), [column], pl.String())
    if source.is_fractional:
        return by_column(_double_to_text, [column], pl.String())
    if source in (TIMESTAMP, TIMESTAMP_NTZ):
        # Fractions of a second are shown as far as they go.
        return column.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.replace(r"\.?0+$", "")
    if source == INTERVAL:
        return _interval_to_text(column)
    if source == BINARY:
        return by_column(_binary_to_text, [column], pl.String())
    return column.cast(pl.String)


def _list_to_text(column: pl.Series, element: DataType) -> pl.Series:
    """As Spark shows lists: [1, 2, null]."""
    texts = each(column, lambda value: to_text(value, element).fill_null("null"), pl.String())
    return texts.to_frame("list").select(pl.format("[{}]", pl.col("list").list.join(", "))).to_series()


def _double_to_text(values: pl.Series) -> pl.Series:
    """As Java prints doubles: 1.5, 1.0E7 from ten million on, 1.0E-4 below a thousandth."""
    texts = values.cast(pl.String).alias("text")  # the shortest digits that read back as the same number
    numbers = texts.str.extract_groups(r"^(-?)([0-9]+)(?:\.([0-9]+))?(?:e([+-]?[0-9]+))?$").struct.unnest()
    numbers.columns = ["sign", "whole", "fraction", "exponent"]
    whole, all_digits = pl.col("whole"), pl.concat_str("whole", pl.col("fraction").fill_null(""))
    digits = all_digits.str.strip_chars_start("0")
    zeros = all_digits.str.len_chars().cast(pl.Int32) - digits.str.len_chars().cast(pl.Int32)
    written = pl.col("exponent").cast(pl.Int32, strict=False).fill_null(0)
    parts = numbers.select(
        "sign",
        digits=digits.str.strip_chars_end("0"),
        exponent=written + whole.str.len_chars().cast(pl.Int32) - 1 - zeros,
    ).with_columns(texts, values.alias("value"), size=values.abs())
    first, rest = pl.col("digits").str.slice(0, 1), pl.col("digits").str.slice(1)
    fraction = pl.when(rest == "").then(pl.lit("0")).otherwise(rest)
    scientific = pl.concat_str("sign", first, pl.lit("."), fraction, pl.lit("E"), pl.col("exponent").cast(pl.String))
    value, size = pl.col("value"), pl.col("size")
    shown = (
        pl.when(value.is_infinite())
        .then(pl.when(value > 0).then(pl.lit("Infinity")).otherwise(pl.lit("-Infinity")))
        .when(value.is_nan() | (size == 0) | ((size >= 1e-3) & (size < 1e7)))
        .then(pl.col("text"))
        .otherwise(scientific)
    )
    return parts.select(shown).to_series()


def _interval_to_text(column: pl.Expr) -> pl.Expr:
    size = column.to_physical().abs()
    fraction = pl.concat_str(pl.lit("."), (size % _SECOND).cast(pl.String).str.zfill(6).str.strip_chars_end("0"))
    return pl.concat_str(
        pl.when(column.to_physical() < 0).then(pl.lit("INTERVAL '-")).otherwise(pl.lit("INTERVAL '")),
        (size // _DAY_LENGTH).cast(pl.String),
        pl.lit(" "),
        _two_digits(size // _HOUR % 24),
        pl.lit(":"),
        _two_digits(size // _MINUTE % 60),
        pl.lit(":"),
        _two_digits(size // _SECOND % 60),
        pl.when(size % _SECOND == 0).then(pl.lit("")).otherwise(fraction),
        pl.lit("' DAY TO SECOND"),
    )


def _two_digits(column: pl.Expr) -> pl.Expr:
    return column.cast(pl.String).str.zfill(2)


def _binary_to_text(values: pl.Series) -> pl.Series:
    try:
        return values.cast(pl.String)
    except pl.exceptions.ComputeError:  # bytes that are no UTF-8: rare, and Polars has no lenient decoder
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
        return pl.Series(texts, dtype=pl.String)


def from_text(column: pl.Expr, target: DataType) -> pl.Expr:
    if target == BINARY:
        return column.cast(pl.Binary)
    text = column.str.strip_chars(_TRIMMED)
    if target.is_integer:
        return text.cast(to_polars(target), strict=False)
    if target.is_fractional:
        dtype = to_polars(target)
        return by_column(lambda texts: _text_to_double(texts, dtype), [text], dtype)
    if target.is_decimal:
        return decimals.scaled(by_column(lambda texts: _text_to_digits(texts, target), [text], pl.Int128()), target)
    if target == BOOLEAN:
        values = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
        return text.str.to_lowercase().replace_strict(values, default=None, return_dtype=pl.Boolean)
    if target == DATE:
        return by_column(_text_to_date, [text], pl.Date())
    return by_column(lambda texts: _text_to_timestamp(texts, target), [text], to_polars(target))


def _text_to_digits(texts: pl.Series, target: DataType) -> pl.Series:
    return decimals.fitting(floats.digits_of_text(texts, target.scale), target.precision)


def _text_to_double(texts: pl.Series, dtype: pl.DataType) -> pl.Series:
    plain = texts.cast(dtype, strict=False)
    if plain.null_count() == texts.null_count() and not plain.is_nan().any():
        return plain
    # Java reads a type suffix as part of a number, and Spark names what is no number in its own ways.
    numbers = texts.str.extract(r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?$", 1)
    special = texts.str.to_lowercase().replace_strict(_NOT_FINITE, default=None, return_dtype=dtype)
    return numbers.cast(dtype, strict=False).zip_with(numbers.is_not_null(), special)


def _text_to_date(texts: pl.Series) -> pl.Series:
    """yyyy, yyyy-[m]m, or yyyy-[m]m-[d]d with anything after a blank or T."""
    parts = texts.str.extract_groups(_DAY + r"(?:[ T].*)?)?)?$").struct.unnest()
    days = days_of(_part(1), _part(2, 1), _part(3, 1))
    return parts.select(days.cast(pl.Int32, strict=False).cast(pl.Date)).to_series()


def _text_to_timestamp(texts: pl.Series, target: DataType) -> pl.Series:
    """yyyy-[m]m-[d]d[ |T][h]h:[m]m:[s]s.[fraction][zone], with parts left out from the right; the zone is an offset.

    Names of regions (Europe/Paris) are not read, nor times without a date, which would mean today.
    """
    parts = texts.str.extract_groups(_DAY + r"(?:[ T]" + _CLOCK + f"(?:{_ZONE})?" + r")?)?)?)?)?$").struct.unnest()
    hour, minute, second = _part(4, 0), _part(5, 0), _part(6, 0)
    fraction = pl.col("7").fill_null("").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64)
    offset = _part(9, 0) * _HOUR + _part(10, 0) * _MINUTE
    valid = (hour < 24) & (minute < 60) & (second < 60) & (_part(10, 0) < 60) & (offset <= 18 * _HOUR)
    clock = hour * _HOUR + minute * _MINUTE + second * _SECOND + fraction
    ticks = days_of(_part(1), _part(2, 1), _part(3, 1)).cast(pl.Int128) * _DAY_LENGTH + clock
    if target == TIMESTAMP:  # a TIMESTAMP_NTZ keeps the clock's reading whatever the zone
        ticks = pl.when(pl.col("8") == "-").then(ticks + offset).otherwise(ticks - offset)
    stamps = pl.when(valid).then(ticks).cast(pl.Int64, strict=False).cast(to_polars(target))
    return parts.select(stamps).to_series()


def has_offset(column: pl.Expr) -> pl.Expr:
    """Whether a text that is a timestamp says how far from UTC it is."""
    return column.str.strip_chars(_TRIMMED).str.contains(_WITH_OFFSET)


def _part(index: int, missing: int | None = None) -> pl.Expr:
    """A number among the groups of a pattern; `missing` where it was left out."""
    value = pl.col(str(index)).cast(pl.Int64, strict=False)
    return value if missing is None else value.fill_null(missing)
