"""Functions whose result may be much larger than what they are given: measured first, and made only where it is
small enough.

    size(a_1, .., a_n) <= max_value_bytes on every row, or the row fails;
    all of them together <= max_column_bytes, or the step does

A size is an upper bound that costs little. Only where it is too large on some row of a batch is a closer one asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from millstream.kernel.scalar.outcome import Outcome, by_column, fails_where_null
from millstream.kernel.step_limits import check_column, step_limits
from millstream.types import DataType, to_polars

Sizes = Callable[..., pl.Expr]
_SLACK = 8  # what is made may be so many times too large where no size is exact


def bytes_of(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.Binary).bin.size().cast(pl.Int64)


def grown(
    arguments: Sequence[pl.Expr],
    kind: DataType,
    value: Callable[..., pl.Expr],
    size: Sizes,
    closer: Sizes | None = None,
    known: Sequence[pl.Expr] | None = None,
) -> Outcome:
    """The value, where it is small enough; it is NULL only where one of `known` is (by default, an argument)."""
    limits, dtype = step_limits(), to_polars(kind)
    most = limits.value_bytes
    columns = [pl.col(f"a{place}") for place in range(len(arguments))]

    def compute(*series: pl.Series) -> pl.Series:
        frame = pl.DataFrame({f"a{place}": column for place, column in enumerate(series)})
        largest, total = _sizes(frame, size(*columns), most)
        if total > limits.column_bytes and closer is not None:
            total = _sizes(frame, closer(*columns), most)[1]
        check_column(total, limits)
        if largest <= most:
            return frame.select(value(*columns)).to_series()
        fits = (closer or size)(*columns) <= (most if closer is None else _SLACK * most)
        kept = frame.with_columns(pl.when(fits).then(column).alias(column.meta.output_name()) for column in columns)
        made = kept.with_columns(fits.alias("fits"), value(*columns).alias("made"))
        small = pl.col("fits") & (bytes_of(pl.col("made")) <= most)
        return made.select(pl.when(small).then("made")).to_series()

    message = f"a value of more than {most:,} bytes"
    failure = fails_where_null(known or arguments, message, "SET max_value_bytes")
    return Outcome(by_column(compute, arguments, dtype), (failure,))


def _sizes(frame: pl.DataFrame, size: pl.Expr, most: int) -> tuple[int, int]:
    """The largest, and all together that are made."""
    counted = frame.select(size.max().alias("largest"), size.filter(size <= most).sum().alias("total"))
    largest, total = counted.row(0)
    return int(largest or 0), int(total or 0)
