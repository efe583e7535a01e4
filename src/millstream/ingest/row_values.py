"""Values of Python and of users' Arrow tables, range-checked before native code sees them.

Arrow's own conversion of a decimal reads beyond its table of powers of ten where an exponent is far from the scale; it
would take a bool for a number, cut off a fraction, and refuse a float for a decimal.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from millstream.kernel.scalar.casts_text import from_text
from millstream.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    to_arrow,
    to_polars,
)

MISFITS = (pa.ArrowException, OverflowError, TypeError, ValueError, ArithmeticError)
_SHOWN = 120  # characters of a value in a message
_LEAST = -(1 << 63)
_LISTS = list, tuple, np.ndarray, pl.Series, pa.Array
_INFERRED = {int: BIGINT, float: DOUBLE, str: STRING, bool: BOOLEAN}
_ALIKE = _INFERRED.keys()  # what Polars takes as Arrow does
_EXACT: dict[DataType, set[type]] = {
    STRING: {str},
    BINARY: {bytes},
    BOOLEAN: {bool},
    DATE: {dt.date},
    TIMESTAMP: {dt.datetime},
    TIMESTAMP_NTZ: {dt.datetime},
    INTERVAL: {dt.timedelta},
}


def column_of(values: Sequence[Any], kind: DataType) -> pa.Array:
    """Values of Python as a column; raises one of MISFITS where one does not fit."""
    if kind.element is not None:
        return _lists_of(values, kind.element)
    found = set(map(type, values)) - {type(None)}
    if found <= _taken_as_they_are(kind):
        made = _by_polars(values, kind) if len(found) == 1 and found <= _ALIKE else None
        return pa.array(values, type=to_arrow(kind)) if made is None else made
    if kind.is_temporal and found == {str}:
        return instants_of(pl.Series(values, dtype=pl.String), kind)
    plain = [_plain(value, kind) for value in values]
    if kind.is_decimal:
        check_decimals(plain)
    return pa.array(plain, type=to_arrow(kind))


def _lists_of(values: Sequence[Any], element: DataType) -> pa.Array:
    """Lists, tuples and columns of other libraries; their elements are taken as values of a column are."""
    if not all(value is None or isinstance(value, _LISTS) for value in values):
        raise ValueError
    own = column_of([part for value in values if value is not None for part in value], element)
    sizes = np.array([0, *(0 if value is None else len(value) for value in values)], np.int64)
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(np.cumsum(sizes).astype(np.int32)), own, mask=missing)


def instants_of(texts: pl.Series, kind: DataType) -> pa.Array:
    """Texts of dates or timestamps as CAST reads them; ValueError where one is none."""
    found = texts.to_frame("text").select(from_text(pl.col("text"), kind)).to_series()
    if found.null_count() > texts.null_count():
        raise ValueError
    return found.to_arrow().cast(to_arrow(kind))


def _by_polars(values: Sequence[Any], kind: DataType) -> pa.Array | None:
    """The same by Polars, or None where it has an objection: Arrow would load pandas first, for a part of a second."""
    given = [value for value in values if value is not None]
    if kind.is_fractional and not isinstance(given[0], float):
        return None  # which numbers have no such fraction is for Arrow to say
    if kind.is_integer and not _LEAST <= min(given) <= max(given) <= -1 - _LEAST:
        return None
    try:
        return pl.Series(values, dtype=to_polars(kind), strict=True).to_arrow().cast(to_arrow(kind))
    except (pl.exceptions.PolarsError, *MISFITS):
        return None


def inferred_column(values: Sequence[Any]) -> pa.Array:
    """Values of Python as a column of the type that Arrow finds for them."""
    found = set(map(type, values))
    kind = _INFERRED.get(found.pop()) if len(found) == 1 else None
    made = None if kind is None else _by_polars(values, kind)
    return pa.array(values) if made is None else made


def _taken_as_they_are(kind: DataType) -> set[type]:
    if kind.is_integer:
        return {int}
    return {int, float} if kind.is_fractional else _EXACT.get(kind, set())


def _plain(value: Any, kind: DataType) -> Any:
    """The value as Arrow should take it; nothing is cut off."""
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if kind.is_numeric and isinstance(value, bool):
        raise ValueError
    if kind.is_temporal and isinstance(value, str):
        return instants_of(pl.Series([value], dtype=pl.String), kind)[0].as_py()
    if kind == DATE and isinstance(value, dt.datetime) and value.time() != dt.time():
        raise ValueError
    if isinstance(value, float):
        if kind.is_temporal:
            raise ValueError
        if kind.is_integer:
            if not value.is_integer():
                raise ValueError
            return int(value)
        if kind.is_decimal:
            return Decimal(repr(float(value)))
    if isinstance(value, Decimal) and kind.is_integer:
        if not value.is_finite() or value.adjusted() > MAX_DECIMAL_PRECISION or value != value.to_integral_value():
            raise ValueError
        return int(value)
    return value


def check_decimals(values: Sequence[Any]) -> None:
    """Raise ValueError where Arrow must not be asked to convert a decimal."""
    for value in values:
        if isinstance(value, Decimal):
            exponent = value.as_tuple().exponent
            if not isinstance(exponent, int) or abs(exponent) > MAX_DECIMAL_PRECISION:
                raise ValueError


def checked_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a user's Arrow table as it says it is: offsets within its buffers, texts of UTF-8."""
    column.validate(full=True)
    return column


def shown_value(value: Any) -> str:
    """A value in a message, however large, and whatever it is."""
    try:
        text = repr(value)
    except Exception:  # a number of very many digits, or an object of the user's that cannot be shown
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
