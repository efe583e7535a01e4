"""Values as JSON and CSV have them, each exactly as it is.

| type | in JSON | in CSV |
|---|---|---|
| BOOLEAN, STRING, TINYINT, SMALLINT, INT | as JSON has them | the text |
| BIGINT | a number; a text beyond ±(2^53 - 1), where JavaScript's numbers lose digits | the digits |
| FLOAT, DOUBLE | the shortest number that is read back as the same; "NaN", "Infinity", "-Infinity" | the same |
| DECIMAL | a text, "12.50" | the same |
| DATE, TIMESTAMP, TIMESTAMP_NTZ | "2026-01-31", "2026-01-31T10:00:00.000000Z", the latter without Z | the same |
| BINARY | a text in base64 | the same |
| INTERVAL | a number of microseconds | the same |
| ARRAY | a list of such values | the list in JSON |

NULL is null, and in CSV nothing, whereas an empty text has quotes. All of it is read as it is written; numbers and
timestamps may also come as texts, and timestamps without a zone are in UTC.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute

from millstream import types
from millstream.errors import InputError
from millstream.types import DataType, to_arrow

EXACT = (1 << 53) - 1  # the largest integer up to which JavaScript's numbers are exact
_INTEGER = re.compile(r"[+-]?\d{1,19}")
_ARROW_MISFITS = pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError
_HAS_ZONE = r"(Z|z|[ T]\S*[+-]\d\d(:?\d\d)?)$"


def type_name(kind: pa.DataType) -> str:
    """A column's type as the language writes it."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{type_name(kind.value_type)}>"
    return next((str(known) for known in _SCALAR if to_arrow(known) == kind), str(kind))


_SCALAR = (
    *(types.BOOLEAN, types.TINYINT, types.SMALLINT, types.INT, types.BIGINT, types.FLOAT, types.DOUBLE, types.STRING),
    *(types.BINARY, types.DATE, types.TIMESTAMP, types.TIMESTAMP_NTZ, types.INTERVAL, types.NULL),
)


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a column whose type is written so."""
    if found := re.fullmatch(r"ARRAY<(.*)>", name):
        return pa.list_(arrow_type(found[1]))
    if found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name):
        return pa.decimal128(int(found[1]), int(found[2]))
    return to_arrow(next(known for known in _SCALAR if known.name == name))


# Out


def plain(column: pa.ChunkedArray) -> pl.Series:
    """A column of numbers, texts and truth values that stand for its values."""
    values = pl.Series(column)
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _plain_lists(column.combine_chunks())
    if pa.types.is_decimal(kind):
        return values.cast(pl.String)
    if pa.types.is_timestamp(kind):
        text = pl.Series(column.cast(pa.string()))
        return text.str.replace(" ", "T", literal=True)
    if pa.types.is_date(kind):
        return pl.Series(column.cast(pa.string()))
    if pa.types.is_duration(kind):
        return pl.Series(column.cast(pa.duration("us")).cast(pa.int64()))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return values.bin.encode("base64")
    return values


def _plain_lists(lists: pa.Array) -> pl.Series:
    own = plain(pa.chunked_array([lists.flatten()])).to_arrow()
    ends = pa.compute.cumulative_sum(pa.compute.list_value_length(lists).cast(pa.int64()).fill_null(0))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    return pl.Series(pa.LargeListArray.from_arrays(offsets, own, mask=lists.is_null()))


def is_safe(column: pl.Series) -> bool:
    """Whether JSON's own numbers carry all values of a plain column."""
    if isinstance(column.dtype, pl.List):
        return is_safe(column.explode())
    if column.dtype == pl.Int64:
        least, most = column.min(), column.max()
        return column.null_count() == len(column) or (int(least) >= -EXACT and int(most) <= EXACT)  # type: ignore[arg-type]
    if column.dtype in (pl.Float32, pl.Float64):
        return bool(column.is_finite().all())
    return True


def json_value(value: Any) -> Any:
    """One value of a plain column, or of a document, as JSON can carry it."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -EXACT <= value <= EXACT else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else _NOT_FINITE[str(value)]
    if isinstance(value, datetime):
        return shown_timestamp(value)
    if isinstance(value, dict):
        return {str(key): json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset | pl.Series):
        return [json_value(part) for part in value]
    return str(value)


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def shown_timestamp(value: datetime) -> str:
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def shown_instant(value: int | datetime) -> str:
    """An instant as the ids of events and the parameters of requests have it."""
    return str(value) if isinstance(value, int) else shown_timestamp(value)


def literal(value: bool | int | str) -> str:
    """A value as a statement writes it."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value).upper()


def instant_of(text: str) -> int | str:
    """What a request's `at`, `since` or `to` means: a number of ticks, or a timestamp's text."""
    return int(text) if _INTEGER.fullmatch(text) else text


# In


def from_json(value: Any, kind: DataType) -> Any:
    """A JSON value as the value of a column; what does not fit is left for those who check rows."""
    if kind.element is not None and isinstance(value, list):
        return [from_json(part, kind.element) for part in value]
    if isinstance(value, Decimal) and not kind.is_decimal:
        return float(value)
    if not isinstance(value, str) or (kind not in _FROM_TEXT and not kind.is_decimal):
        if kind == types.INTERVAL and isinstance(value, int) and not isinstance(value, bool):
            return timedelta(microseconds=value)
        return value
    return (_decimal if kind.is_decimal else _FROM_TEXT[kind])(value)


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def _timestamp(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def _binary(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_FROM_TEXT: dict[DataType, Callable[[str], Any]] = {
    **dict.fromkeys((types.TINYINT, types.SMALLINT, types.INT, types.BIGINT), _integer),
    **dict.fromkeys((types.FLOAT, types.DOUBLE), float),
    types.DATE: date.fromisoformat,
    types.TIMESTAMP: _timestamp,
    types.TIMESTAMP_NTZ: datetime.fromisoformat,
    types.BINARY: _binary,
    types.INTERVAL: lambda text: timedelta(microseconds=_integer(text)),
}


def from_text(column: pa.ChunkedArray, kind: DataType, name: str, owner: str) -> pa.ChunkedArray:
    """A column of texts as values of a type."""
    try:
        if kind.is_list:
            values = [None if text is None else from_json(json.loads(text), kind) for text in column.to_pylist()]
            return pa.chunked_array([pa.array(values, to_arrow(kind))])
        if kind == types.BINARY:
            return pa.chunked_array([pl.Series(column).str.decode("base64", strict=True).to_arrow()]).cast(pa.binary())
        if kind == types.INTERVAL:
            return column.cast(pa.int64()).cast(pa.duration("us"))
        if kind.is_decimal:
            _check_scales(pl.Series(column))
        if kind == types.TIMESTAMP:
            texts = pl.Series(column)
            zoned = pl.select(
                pl.when(texts.str.contains(_HAS_ZONE)).then(texts).otherwise(_with_time(texts) + "Z")
            ).to_series()
            column = pa.chunked_array([zoned.to_arrow()])
        return column.cast(to_arrow(kind))
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        pl.exceptions.PolarsError,
        ValueError,
    ) as error:
        raise InputError(f'{owner}: column "{name}" does not fit {kind}', detail=str(error)) from None


def _check_scales(texts: pl.Series) -> None:
    """Arrow reads beyond its table of powers of ten where an exponent is far away, and cuts what has more digits than
    a number of 128 bits."""
    exponents = texts.str.extract(r"[eE]([+-]?\d+)\s*$", 1)
    numbers = exponents.cast(pl.Int64, strict=False)
    fractions = texts.str.extract(r"\.(\d*)", 1).str.len_chars().cast(pl.Int64).fill_null(0)
    scales = fractions - numbers.fill_null(0)
    digits = texts.str.extract(r"^\s*[+-]?([0-9.]*)", 1).str.replace(".", "", literal=True).str.strip_chars_start("0")
    most = types.MAX_DECIMAL_PRECISION
    unread = exponents.is_not_null() & numbers.is_null()
    too_far = (scales.abs() > most) | (digits.str.len_chars() > most) | unread
    if too_far.any():
        raise ValueError(f"{texts.filter(too_far)[0][:100]!r} is out of range")


def _with_time(texts: pl.Series) -> pl.Series:
    """Arrow reads a zone behind a time only."""
    return pl.select(
        pl.when(texts.str.contains(r"^-?\d+-\d\d-\d\d$")).then(texts + "T00:00:00").otherwise(texts)
    ).to_series()
