"""Constants: how Spark types the numbers in a query text, and how constants enter and leave Polars."""

from __future__ import annotations

import datetime as dt
import re
from decimal import ROUND_HALF_UP, Context, Decimal

import polars as pl

from millstream import errors
from millstream.kernel.scalar.expressions import Literal
from millstream.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGER_BITS,
    MAX_DECIMAL_PRECISION,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
    decimal,
    to_polars,
)

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(BD|[LSYFD])?", re.IGNORECASE)
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.(?:[0-9]{3}|[0-9]{6}))?)?")
_HALF_UP = Context(prec=2 * MAX_DECIMAL_PRECISION + 2, rounding=ROUND_HALF_UP)
_MOST_DIGITS = 1_000
_DAY = 86_400_000_000  # microseconds
_FIRST_DAY, _LAST_DAY = (day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max))
_SUFFIX_TYPES = {"L": BIGINT, "S": SMALLINT, "Y": TINYINT, "F": FLOAT, "D": DOUBLE}


def number_literal(text: str) -> Literal:
    """The constant that a number in a query text stands for.

    As in Spark: 1 is INT (BIGINT, then DECIMAL, where it does not fit), 1L BIGINT, 1S SMALLINT, 1Y TINYINT, 1.5
    DECIMAL(2,1), 1.5BD DECIMAL too, 1e0 and 1D DOUBLE, 1F FLOAT. A sign belongs to the number: -2147483648 is INT.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise errors.TypeError(f'"{text}" is not a number')
    digits, suffix = match[1], (match[2] or "").upper()
    if suffix == "BD" or (not suffix and "." in digits and "e" not in digits.lower()):
        return _decimal_literal(Decimal(digits), text)
    if suffix in ("F", "D") or (not suffix and "e" in digits.lower()):
        return Literal(_SUFFIX_TYPES.get(suffix, DOUBLE), float(digits))
    if "." in digits or "e" in digits.lower():
        raise errors.TypeError(f'"{text}" has the suffix of an integer, but is none')
    if len(digits) > _MOST_DIGITS:  # Python itself refuses some thousand
        raise errors.TypeError(f"a number of {len(digits):,} digits", hint="write it as a DOUBLE, such as 1e40")
    value = int(digits)
    for kind in (_SUFFIX_TYPES[suffix],) if suffix else (INT, BIGINT):
        if in_integer_range(value, kind):
            return Literal(kind, value)
    if suffix:
        raise errors.TypeError(f'"{text}" is out of the range of {_SUFFIX_TYPES[suffix]}')
    return _decimal_literal(Decimal(value), text)


def _decimal_literal(value: Decimal, text: str) -> Literal:
    digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale, 1)
    if precision > MAX_DECIMAL_PRECISION:
        raise errors.TypeError(
            f'"{text}" has more than {MAX_DECIMAL_PRECISION} digits', hint="write it as a DOUBLE, such as 1e40"
        )
    return Literal(decimal(precision, scale), value)


def in_integer_range(value: int, kind: DataType) -> bool:
    bits = INTEGER_BITS[kind]
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def convert_instant(value: object, target: DataType) -> dt.datetime | dt.date | None:
    """The instant or day that a text in ISO's plain form names; None where it is none, or of another form."""
    if not isinstance(value, str) or target not in (TIMESTAMP, TIMESTAMP_NTZ, DATE) or not _INSTANT.fullmatch(value):
        return None
    try:
        moment = dt.datetime.fromisoformat(value)
    except ValueError:
        return None
    if target == DATE:
        return moment.date()
    return moment.replace(tzinfo=dt.UTC) if target == TIMESTAMP else moment


def convert_number(value: object, target: DataType) -> int | float | Decimal | None:
    """An exact number as another number type; None where it is none or does not fit."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if target == DOUBLE:
        return float(value)
    if target.is_integer:
        return int(value) if in_integer_range(int(value), target) else None
    if target.is_decimal:
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-target.scale), context=_HALF_UP)
        return rounded if abs(rounded) < Decimal(10) ** (target.precision - target.scale) else None
    return None


def to_expr(literal: Literal) -> pl.Expr:
    value, dtype = literal.value, to_polars(literal.type)
    if isinstance(value, int) and literal.type.is_fractional:
        value = float(value)
    return pl.lit(value, dtype=dtype)


def from_column(column: pl.Series, kind: DataType) -> Literal | None:
    """The constant in a column of one row that Polars computed; None for dates and times that Python cannot hold.

    Timestamps are kept with UTC as their zone, plainly, so that equal ones are equal.
    """
    ticks = column.to_physical().item() if kind.is_temporal else None
    if ticks is not None:
        first, last = (_FIRST_DAY, _LAST_DAY) if kind == DATE else (_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1)
        if not first <= ticks <= last:
            return None
    value = column.item()
    return Literal(kind, value.astimezone(dt.UTC) if kind == TIMESTAMP and value is not None else value)
