"""sqlglot's data types as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sqlglot import exp

from millstream import types
from millstream.errors import Place, TypeError
from millstream.types import DataType

_NAMES: dict[exp.DType, DataType] = {
    exp.DType.BOOLEAN: types.BOOLEAN,
    exp.DType.TINYINT: types.TINYINT,
    exp.DType.SMALLINT: types.SMALLINT,
    exp.DType.INT: types.INT,
    exp.DType.BIGINT: types.BIGINT,
    exp.DType.FLOAT: types.FLOAT,
    exp.DType.DOUBLE: types.DOUBLE,
    exp.DType.TEXT: types.STRING,
    exp.DType.VARCHAR: types.STRING,
    exp.DType.CHAR: types.STRING,
    exp.DType.BINARY: types.BINARY,
    exp.DType.DATE: types.DATE,
    exp.DType.TIMESTAMP: types.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: types.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: types.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: types.TIMESTAMP_NTZ,
}


_LISTS = (exp.DType.ARRAY, exp.DType.LIST)
_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR)
_is_stored: ContextVar[bool] = ContextVar("_is_stored", default=False)


@contextmanager
def stored_text() -> Iterator[None]:
    """What is read within was accepted once, by this version or an earlier one, and keeps the meaning it had: lengths
    that nothing keeps were passed over."""
    token = _is_stored.set(True)
    try:
        yield
    finally:
        _is_stored.reset(token)


def is_stored() -> bool:
    return _is_stored.get()


def column_type(kind: exp.DataType, place: Place | None) -> DataType:
    """The type of a declared column: one that is written to, so that the length of VARCHAR(n) is kept."""
    if kind.this != exp.DType.VARCHAR or not kind.expressions:
        return data_type(kind, place)
    length, *more = (_size(parameter, place) for parameter in kind.expressions)
    if more or not length:
        raise TypeError(f"{kind.sql(dialect='spark')} is not possible", hint="VARCHAR(n), n from 1 on", place=place)
    return types.varchar(length)


def data_type(kind: exp.DataType, place: Place | None) -> DataType:
    if kind.this in _TEXTS and [_size(length, place) for length in kind.expressions] and not _is_stored.get():
        raise TypeError(
            f"{kind.sql(dialect='spark')} is not supported",
            detail="texts are not padded, and only columns that are written to have a length, as VARCHAR(n)",
            hint="write STRING, and left(x, n) to cut a text",
            place=place,
        )
    if kind.this == exp.DType.DECIMAL:
        sizes = [_size(parameter, place) for parameter in kind.expressions]
        if len(sizes) > 2:
            raise TypeError(f"a type with {len(sizes)} sizes", place=place)
    if kind.this == exp.DType.DECIMAL:
        precision, scale = (sizes + [10, 0][len(sizes) :])[:2]
        if not (0 < precision <= types.MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
            raise TypeError(
                f"DECIMAL({precision},{scale}) is not possible",
                hint="precision is 1 to 38, scale 0 to precision",
                place=place,
            )
        return types.decimal(precision, scale)
    if kind.this in _LISTS and len(kind.expressions) == 1 and isinstance(element := kind.expressions[0], exp.DataType):
        kind.args.get("nested")  # with < or (, which mean the same
        return types.array(data_type(element, place))
    if kind.this not in _NAMES:
        raise TypeError(
            f"type {kind.sql(dialect='spark')} is not supported",
            hint="there are BOOLEAN, integers, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIMESTAMP, and ARRAY<..>",
            place=place,
        )
    return _NAMES[kind.this]


def _size(parameter: exp.Expr, place: Place | None) -> int:
    size = parameter.this
    if not isinstance(size, exp.Literal) or not size.name.isdigit():
        raise TypeError("the size of a type is a whole number", place=place)
    return int(size.name)
