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
import pyarrow as pa

from millstream.types import (
    BINARY,
    BOOLEAN,
    DATE,
    INTERVAL,
    MAX_DECIMAL_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    to_arrow,
)

MISFITS = (pa.ArrowException, OverflowError, TypeError, ValueError, ArithmeticError)
_SHOWN = 120  # characters of a value in a message
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
    if set(map(type, values)) - {type(None)} <= _taken_as_they_are(kind):
        return pa.array(values, type=to_arrow(kind))
    plain = [_plain(value, kind) for value in values]
    if kind.is_decimal:
        check_decimals(plain)
    return pa.array(plain, type=to_arrow(kind))


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
