"""Rows as users give them, checked and turned into typed columns: all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa

from millstream.errors import InputError, did_you_mean
from millstream.types import DataType, Schema, arrow_schema, to_arrow

_MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError)


def typed_table(rows: Any, columns: Schema, owner: str) -> pa.Table:
    """The rows as an Arrow table of exactly these columns."""
    table = as_arrow(rows)
    if table is not None:
        return _cast_table(table, columns, owner)
    if isinstance(rows, Mapping | str | bytes) or not hasattr(rows, "__iter__"):
        raise InputError(
            f"{owner}: rows are given as a list of tuples or dicts, or as a pyarrow, polars or pandas table",
            detail=f"got {type(rows).__name__}",
        )
    return _from_records(list(rows), columns, owner)


def as_arrow(rows: Any) -> pa.Table | None:
    """A table of any library as Arrow's; None where rows are something else."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pl.DataFrame):
        return rows.to_arrow()
    if type(rows).__module__.split(".")[0] == "pandas" and hasattr(rows, "columns"):
        return pa.Table.from_pandas(rows, preserve_index=False)
    return None


def _cast_table(table: pa.Table, columns: Schema, owner: str) -> pa.Table:
    given = {name.lower(): name for name in table.column_names}
    _check_names(given, columns, owner)
    arrays = [_cast_column(table.column(given[f.name.lower()]), f.type, f.name, owner) for f in columns]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _check_names(given: Mapping[str, str], columns: Schema, owner: str) -> None:
    wanted = {field.name.lower(): field.name for field in columns}
    unknown = [name for key, name in given.items() if key not in wanted]
    if unknown:
        raise InputError(f'{owner} has no column "{unknown[0]}"', hint=did_you_mean(unknown[0], wanted.values()))
    missing = [name for key, name in wanted.items() if key not in given]
    if missing:
        raise InputError(f'{owner}: column "{missing[0]}" is missing', detail=f"the columns are {_listed(columns)}")


def _cast_column(column: pa.ChunkedArray, kind: DataType, name: str, owner: str) -> pa.ChunkedArray:
    target = to_arrow(kind)
    if column.type == target:
        return column
    if not _same_family(column.type, target):
        raise InputError(f'{owner}: column "{name}" is {kind}, not {column.type}')
    try:
        return column.cast(target)
    except pa.ArrowInvalid as error:
        raise InputError(f'{owner}: column "{name}" does not fit {kind}', detail=str(error)) from None


def _same_family(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast only changes how values are kept, and not what they are."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_dictionary(source):
        return _same_family(source.value_type, target)
    tests = (
        lambda t: pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t),
        lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
        lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t),
        lambda t: pa.types.is_timestamp(t) or pa.types.is_date(t),
        pa.types.is_boolean,
    )
    return any(test(source) and test(target) for test in tests)


def _from_records(records: Sequence[Any], columns: Schema, owner: str) -> pa.Table:
    tuples = [_values(record, index, columns, owner) for index, record in enumerate(records)]
    arrays = []
    for position, field in enumerate(columns):
        values = [values[position] for values in tuples]
        try:
            arrays.append(_array(values, field.type))
        except _MISFITS:
            raise _first_misfit(values, field.name, field.type, owner) from None
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _values(record: Any, index: int, columns: Schema, owner: str) -> Sequence[Any]:
    if isinstance(record, Mapping):
        given = {str(name).lower(): str(name) for name in record}
        _check_names(given, columns, owner)
        return [record[given[field.name.lower()]] for field in columns]
    if isinstance(record, str | bytes) or not isinstance(record, Sequence):
        raise InputError(f"{owner}: row {index + 1} is a {type(record).__name__}, not a tuple or dict")
    if len(record) != len(columns):
        raise InputError(
            f"{owner}: row {index + 1} has {len(record)} values, not {len(columns)}",
            detail=f"the columns are {_listed(columns)}",
        )
    return record


def _array(values: list[Any], kind: DataType) -> pa.Array:
    return pa.array([_plain(value, kind) for value in values], type=to_arrow(kind))


def _plain(value: Any, kind: DataType) -> Any:
    """The value as Arrow should take it: it would take a bool for a number, cut off a fraction, refuse a float for
    a decimal."""
    if kind.is_numeric and isinstance(value, bool):
        raise ValueError
    if isinstance(value, float):
        if kind.is_integer:
            if not value.is_integer():
                raise ValueError
            return int(value)
        if kind.is_decimal:
            return Decimal(repr(value))
    return value


def _first_misfit(values: list[Any], name: str, kind: DataType, owner: str) -> InputError:
    for index, value in enumerate(values):
        try:
            _array([value], kind)
        except _MISFITS:
            return InputError(f'{owner}: row {index + 1}, column "{name}": {value!r} is not a {kind}')
    return InputError(f'{owner}: column "{name}" does not fit {kind}')


def _listed(columns: Schema) -> str:
    return ", ".join(field.name for field in columns)
