"""The parameters of templates: rows of values, as typed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from millstream import types
from millstream.errors import InputError
from millstream.ingest.row_values import MISFITS, inferred_column
from millstream.ingest.typed_rows import as_arrow
from millstream.kernel.batch import value_column
from millstream.language.statement_parser import parse_type
from millstream.types import DataType, decimal, to_arrow

_KINDS: dict[pa.DataType, DataType] = {
    pa.bool_(): types.BOOLEAN,
    pa.int8(): types.TINYINT,
    pa.int16(): types.SMALLINT,
    pa.int32(): types.INT,
    pa.int64(): types.BIGINT,
    pa.float32(): types.FLOAT,
    pa.float64(): types.DOUBLE,
    pa.string(): types.STRING,
    pa.large_string(): types.STRING,
    pa.string_view(): types.STRING,
    pa.date32(): types.DATE,
    pa.null(): types.NULL,
}


def parameter_columns(rows: Any, count: int) -> tuple[tuple[DataType, ...], pl.DataFrame]:
    """The values of `count` parameters per row: their types, and the columns c0, c1, ... of a query table."""
    arrays = parameter_arrays(rows, count)
    kinds = tuple(_kind(array.type, place) for place, array in enumerate(arrays))
    columns = [
        pl.Series(value_column(place), array.cast(to_arrow(kind)))
        for place, (array, kind) in enumerate(zip(arrays, kinds, strict=True))
    ]
    return kinds, pl.DataFrame(columns)


def stored_kinds(texts: Sequence[str]) -> tuple[DataType, ...]:
    """The types of parameters, as an entry of the catalog has them; those of which there were no values are NULL."""
    return tuple(_stored_kind(text) for text in texts)


def _stored_kind(text: str) -> DataType:
    if text == str(types.NULL):
        return types.NULL
    if text.startswith("ARRAY<"):
        return types.array(_stored_kind(text[len("ARRAY<") : -1]))
    return parse_type(text)


def parameter_arrays(rows: Any, count: int) -> list[pa.Array]:
    """The values of each parameter."""
    table = as_arrow(rows)
    arrays = _from_records(rows, count) if table is None else [column.combine_chunks() for column in table.columns]
    if len(arrays) != count:
        raise InputError(f"the template has {count} parameters, and the rows {len(arrays)} columns")
    return arrays


def _from_records(rows: Any, count: int) -> list[pa.Array]:
    if isinstance(rows, Mapping | str | bytes) or not hasattr(rows, "__iter__"):
        raise InputError(
            "the rows of a template are a list of tuples, or a pyarrow, polars or pandas table",
            detail=f"got {type(rows).__name__}",
        )
    records = [_values(record, number, count) for number, record in enumerate(rows)]
    return [_array([record[place] for record in records], place) for place in range(count)]


def _values(record: Any, number: int, count: int) -> Sequence[Any]:
    if count == 1 and (isinstance(record, str) or not isinstance(record, Sequence | Mapping)):
        return (record,)
    if isinstance(record, Mapping | str | bytes) or not isinstance(record, Sequence):
        raise InputError(f"row {number + 1} is a {type(record).__name__}, not a tuple", hint="parameters go by place")
    if len(record) != count:
        raise InputError(f"row {number + 1} has {len(record)} values, and the template {count} parameters")
    return record


def _array(values: list[Any], place: int) -> pa.Array:
    try:
        array = inferred_column(values)
    except MISFITS as error:
        raise InputError(f"parameter {place + 1} has values of different types", detail=str(error)) from None
    return _narrowed(array)


def _narrowed(array: pa.Array) -> pa.Array:
    """Whole numbers as the same ones in a text would be, in lists too."""
    if pa.types.is_list(array.type):
        narrow = _narrowed(array.flatten()).type
        return array if narrow == array.type.value_type else array.cast(pa.list_(narrow))
    if pa.types.is_int64(array.type) and len(array):
        least, most = pc.min_max(array).as_py().values()
        if least is not None and least >= -(1 << 31) and most < 1 << 31:
            return array.cast(pa.int32())
    return array


def _kind(found: pa.DataType, place: int) -> DataType:
    if pa.types.is_decimal(found):
        return decimal(found.precision, max(found.scale, 0))
    if pa.types.is_timestamp(found):
        return types.TIMESTAMP
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return types.array(_kind(found.value_type, place))
    if found not in _KINDS:
        raise InputError(f"parameter {place + 1} is a {found}, which no query can compare with")
    return _KINDS[found]
