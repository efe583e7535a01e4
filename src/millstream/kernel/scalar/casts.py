"""CAST, column by column, with Spark's ANSI rules: what does not fit is a failure, never a wrapped or cut value.

Texts are read and written in casts_text; this file converts between the other types and knows the way for each pair.
"""

from __future__ import annotations

import polars as pl

from millstream.kernel import lists
from millstream.kernel.scalar import casts_text, decimals, floats
from millstream.kernel.scalar.outcome import Failure, Outcome, by_column, fails_where_null, null_where_failed
from millstream.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_BITS,
    INTEGER_DECIMALS,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
    to_polars,
)

SECOND = 1_000_000  # microseconds
_MAXIMUM = 2**63 - 1
_MICROSECONDS = decimal(19, 6)  # a timestamp as seconds
TRY_CAST = "use TRY_CAST to get NULL instead"
_OTHER_FORMATS = ", or to_timestamp(text, 'dd.MM.yyyy HH:mm') for another format"


def unreadable(column: pl.Expr, target: DataType) -> Failure:
    """A text is none of a type."""
    hint = TRY_CAST + (_OTHER_FORMATS if target.is_temporal else "")
    return fails_where_null([column], f"cannot read a text as {target}", hint)


def cast_column(column: pl.Expr, source: DataType, target: DataType, *, lenient: bool = False) -> Outcome:
    """The column as another type; `source` to `target` must be a cast that exists (see coercion.can_cast). Of lists,
    `lenient` leaves out only the elements that do not fit."""
    if source == target:
        return Outcome(column)
    if source == NULL:
        return Outcome(column.cast(to_polars(target)))
    if source.element is not None and target.element is not None:
        return _list_to_list(column, source.element, target.element, lenient)
    if target == STRING:
        return Outcome(casts_text.to_text(column, source))
    if source == STRING:
        value = casts_text.from_text(column, target)
        return Outcome(value, (unreadable(column, target),))
    if target == BOOLEAN:
        return Outcome(column.to_physical() != 0)
    if source == BOOLEAN:
        return cast_column(column.cast(pl.Int32), INT, target)
    if source.is_numeric and target.is_numeric:
        return _number_to_number(column, source, target)
    return _with_time(column, source, target)


def _list_to_list(column: pl.Expr, source: DataType, target: DataType, lenient: bool) -> Outcome:
    """Element by element; a list fails where one of its elements does."""
    outcome = cast_column(pl.col("element"), source, target, lenient=lenient)
    outcome = Outcome(null_where_failed(outcome)) if lenient else outcome
    failed = [failure.mask(outcome.value).fill_null(False) for failure in outcome.failures]

    def changed(values: pl.Series) -> pl.Series:
        return lists.each(values, lambda _: outcome.value, to_polars(target))

    def fails(values: pl.Series) -> pl.Series:
        return lists.each(values, lambda _: pl.any_horizontal(failed), pl.Boolean()).list.any()

    value = by_column(changed, [column], pl.List(to_polars(target)))
    if not outcome.failures:
        return Outcome(value)
    mask = by_column(fails, [column], pl.Boolean())
    return Outcome(value, (Failure(lambda _: mask, outcome.failures[0].message, TRY_CAST),))


def _number_to_number(column: pl.Expr, source: DataType, target: DataType) -> Outcome:
    if target.is_integer:
        return _to_integer(column, source, target)
    if target.is_decimal:
        return _to_decimal(column, source, target)
    if source.is_decimal:
        exact = floats.quotient_as_float if target == FLOAT else floats.quotient
        return Outcome(exact(decimals.unscaled(column), source.scale))
    return Outcome(column.cast(to_polars(target)))


def overflow(target: DataType, mask: pl.Expr, hint: str | None = TRY_CAST) -> Failure:
    return Failure(lambda _: mask, f"{target} overflow", hint)


def _to_integer(column: pl.Expr, source: DataType, target: DataType) -> Outcome:
    dtype = to_polars(target)
    highest = 2 ** (INTEGER_BITS[target] - 1) - 1
    lowest = -highest - 1
    if source.is_integer:
        if INTEGER_BITS[source] <= INTEGER_BITS[target]:
            return Outcome(column.cast(dtype))
        outside = (column < lowest) | (column > highest)
        return Outcome(column.cast(dtype, strict=False), (overflow(target, outside),))
    if source.is_decimal:
        whole = decimals.truncate(decimals.unscaled(column), 10**source.scale)
        return Outcome(whole.cast(dtype, strict=False), (fails_where_null([column], f"{target} overflow", TRY_CAST),))
    # Fractions are cut before the range is checked. As a double, the largest BIGINT is 2^63, which Java takes for it.
    number = column.cast(pl.Float64)
    outside = ~((number.floor() <= float(highest)) & (number.ceil() >= float(lowest)))
    value = (
        pl.when(number >= float(highest)).then(pl.lit(highest, dtype=dtype)).otherwise(number.cast(dtype, strict=False))
    )
    return Outcome(value, (overflow(target, outside),))


def _to_decimal(column: pl.Expr, source: DataType, target: DataType) -> Outcome:
    if source.is_fractional:
        digits = floats.half_up(column.cast(pl.Float64), target.scale, target.precision)
        # NaN and infinity become NULL, as in Spark, and are no failure.
        known = pl.when(column.is_finite()).then(column)
        failures = (fails_where_null([known], f"{target} overflow", TRY_CAST),)
        return Outcome(decimals.scaled(digits, target), failures)
    if source.is_integer:
        digits, source = column.cast(pl.Int128), decimal(*INTEGER_DECIMALS[source])
    else:
        digits = decimals.unscaled(column)
    value = decimals.scaled(decimals.rescale(digits, source, target), target)
    if target.precision - target.scale >= source.precision - source.scale + (target.scale < source.scale):
        return Outcome(value)
    return Outcome(value, (fails_where_null([column], f"{target} overflow", TRY_CAST),))


def _with_time(column: pl.Expr, source: DataType, target: DataType) -> Outcome:
    """Casts from or to dates, timestamps and intervals. Timestamps and the session are in UTC."""
    if target == DATE or (source.is_temporal and target.is_temporal):
        zone = "UTC" if target == TIMESTAMP else None
        if target == DATE:
            return Outcome(column.dt.date())
        if source == DATE:
            stamp = column.cast(pl.Datetime("us"))
            return Outcome(stamp.dt.replace_time_zone(zone) if zone else stamp)
        return Outcome(column.dt.replace_time_zone(zone))
    if target == TIMESTAMP:
        return _number_to_timestamp(column, source)
    if target == INTERVAL:
        seconds = column.cast(pl.Int64)
        outside = (seconds.abs() > _MAXIMUM // SECOND) | (seconds < -_MAXIMUM)
        return Outcome((seconds * SECOND).cast(pl.Duration("us")), (overflow(INTERVAL, outside),))
    microseconds = column.to_physical()
    if source == INTERVAL:
        return _to_integer(truncated_quotient(microseconds, SECOND), BIGINT, target)
    if target.is_integer:
        return _to_integer(microseconds // SECOND, BIGINT, target)
    if target.is_decimal:
        return _to_decimal(decimals.scaled(microseconds.cast(pl.Int128), _MICROSECONDS), _MICROSECONDS, target)
    return _number_to_number(floats.divide(microseconds.cast(pl.Float64), pl.lit(float(SECOND))), DOUBLE, target)


def truncated_quotient(column: pl.Expr, divisor: int) -> pl.Expr:
    """column / divisor towards zero, for a positive constant; Polars divides towards minus infinity."""
    return pl.when(column < 0).then(-(-column // divisor)).otherwise(column // divisor)


def _number_to_timestamp(column: pl.Expr, source: DataType) -> Outcome:
    """Seconds since 1970; Spark lets what is out of range stop at the first and last timestamp."""
    dtype = to_polars(TIMESTAMP)
    if source.is_integer:
        seconds = column.cast(pl.Int64)
        last = _MAXIMUM // SECOND
        stamp = (
            pl.when(seconds > last)
            .then(_MAXIMUM)
            .when(seconds < -last - 1)
            .then(-_MAXIMUM - 1)
            .otherwise(seconds * SECOND)
        )
        return Outcome(stamp.cast(pl.Int64).cast(dtype))
    if source.is_decimal:
        digits = decimals.rescale(
            decimals.truncate(decimals.unscaled(column), 10 ** max(0, source.scale - 6)),
            decimal(source.precision, min(source.scale, 6)),
            decimal(38, 6),
        )
        failures = (fails_where_null([column], "TIMESTAMP overflow", TRY_CAST),)
        return Outcome(digits.cast(pl.Int64, strict=False).cast(dtype), failures)
    number = column.cast(pl.Float64) * float(SECOND)
    stamp = (
        pl.when(number >= float(_MAXIMUM))
        .then(pl.lit(_MAXIMUM, dtype=pl.Int64))
        .when(number <= -float(_MAXIMUM))
        .then(pl.lit(-_MAXIMUM - 1, dtype=pl.Int64))
        .otherwise(number.cast(pl.Int64, strict=False))
    )
    failure = Failure(lambda _: ~column.is_finite(), "NaN and infinity are not timestamps", TRY_CAST)
    return Outcome(stamp.cast(dtype), (failure,))
