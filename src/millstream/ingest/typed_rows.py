"""Rows as users give them, checked and turned into typed columns: all of them or none.

Columns are converted as wholes where all their values are of the types that Arrow takes as they are; the row that does
not fit is looked for only where one does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import polars as pl
import pyarrow as pa

from millstream.errors import InputError, did_you_mean
from millstream.ingest import utf8
from millstream.ingest.row_values import MISFITS, checked_column, column_of, instants_of, shown_value
from millstream.kernel.scalar.value_size import MAX_VALUE_BYTES, first_too_long, largest_value, too_large
from millstream.types import BINARY, STRING, DataType, Schema, arrow_schema, to_arrow


def typed_table(rows: Any, columns: Schema, owner: str, most: int = MAX_VALUE_BYTES) -> pa.Table:
    """The rows as an Arrow table of exactly these columns; no value has more than so many bytes."""
    table = as_arrow(rows)
    if table is not None:
        typed = _cast_table(table, columns, owner)
    elif isinstance(rows, Mapping | str | bytes) or not hasattr(rows, "__iter__"):
        raise InputError(
            f"{owner}: rows are given as a list of tuples or dicts, or as a pyarrow, polars or pandas table",
            detail=f"got {type(rows).__name__}",
        )
    else:
        typed = _from_records(list(rows), columns, owner)
    _check_sizes(typed, columns, owner, most)
    return typed


def as_arrow(rows: Any) -> pa.Table | None:
    """A table of any library as Arrow's; None where rows are something else."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if isinstance(rows, pl.LazyFrame):
        rows = rows.collect()
    if isinstance(rows, pl.DataFrame):
        return rows.to_arrow()
    if type(rows).__module__.split(".")[0] == "pandas" and hasattr(rows, "columns"):
        try:
            return pa.Table.from_pandas(rows, preserve_index=False)
        except MISFITS as error:
            raise InputError(
                "the pandas table has a column of mixed types", detail=str(error).partition("\n")[0]
            ) from None
    if hasattr(rows, "__arrow_c_stream__"):
        try:
            return pa.table(rows)
        except MISFITS as error:
            raise InputError(f"a {type(rows).__name__} is not a table", detail=str(error).partition("\n")[0]) from None
    return None


def _cast_table(table: pa.Table, columns: Schema, owner: str) -> pa.Table:
    given = _by_key(table.column_names, owner)
    _check_names(given, columns, owner)
    arrays = [_cast_column(table.column(given[f.name.lower()]), f.type, f.name, owner) for f in columns]
    for array, field in zip(arrays, columns, strict=True):
        if field.type == STRING:
            _check_texts(array, field.name, owner)
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _by_key(names: Sequence[Any], owner: str) -> dict[str, Any]:
    """Columns by their names in lower case."""
    found: dict[str, Any] = {}
    for name in names:
        if str(name).lower() in found:
            raise InputError(f'{owner}: column "{name}" comes twice')
        found[str(name).lower()] = name
    return found


def _check_texts(column: pa.ChunkedArray, name: str, owner: str) -> None:
    """Whoever made the table may have put bytes into it that are no text."""
    if utf8.is_valid(column):
        return
    _, broken = utf8.readable(column.combine_chunks())
    for row, value in broken:
        raise InputError(f'{owner}: row {row + 1}, column "{name}" is not UTF-8', detail=utf8.shown(value))


def _check_names(given: Mapping[str, Any], columns: Schema, owner: str) -> None:
    wanted = {field.name.lower(): field.name for field in columns}
    unknown = [str(name) for key, name in given.items() if key not in wanted]
    if unknown:
        raise InputError(f'{owner} has no column "{unknown[0]}"', hint=did_you_mean(unknown[0], wanted.values()))
    missing = [name for key, name in wanted.items() if key not in given]
    if missing:
        raise InputError(f'{owner}: column "{missing[0]}" is missing', detail=f"the columns are {_listed(columns)}")


def _cast_column(column: pa.ChunkedArray, kind: DataType, name: str, owner: str) -> pa.ChunkedArray:
    target = to_arrow(kind)
    if kind.is_temporal and pa.types.is_string(_values_type(column.type)):
        try:
            return pa.chunked_array([instants_of(pl.Series(checked_column(column)).cast(pl.String), kind)])
        except (pa.ArrowInvalid, ValueError):
            raise InputError(f'{owner}: column "{name}" has a text that is not a {kind}') from None
    if column.type != target and not _same_family(column.type, target):
        raise InputError(f'{owner}: column "{name}" is {kind}, not {column.type}')
    try:
        column = checked_column(column)
        return column if column.type == target else column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f'{owner}: column "{name}" does not fit {kind}', detail=str(error)) from None


def _values_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values: texts are kept in several ways, which mean the same."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


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
    arrays = []
    for values, field in zip(_by_column(records, columns, owner), columns, strict=True):
        try:
            arrays.append(column_of(values, field.type))
        except MISFITS:
            raise _first_misfit(values, field.name, field.type, owner) from None
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _by_column(records: Sequence[Any], columns: Schema, owner: str) -> Sequence[Sequence[Any]]:
    """The values of each column; records of one shape are not looked at one by one."""
    shapes = set(map(type, records))
    if shapes <= {tuple, list} and set(map(len, records)) <= {len(columns)}:
        return [list(map(itemgetter(place), records)) for place in range(len(columns))]
    if shapes == {dict} and len(names := set(map(tuple, records))) == 1:
        given = _by_key(names.pop(), owner)
        _check_names(given, columns, owner)
        return [list(map(itemgetter(given[field.name.lower()]), records)) for field in columns]
    rows = [_values(record, index, columns, owner) for index, record in enumerate(records)]
    return [[row[place] for row in rows] for place in range(len(columns))]


def _values(record: Any, index: int, columns: Schema, owner: str) -> Sequence[Any]:
    if isinstance(record, Mapping):
        given = _by_key([*record], owner)
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


def _first_misfit(values: Sequence[Any], name: str, kind: DataType, owner: str) -> InputError:
    for index, value in enumerate(values):
        try:
            column_of([value], kind)
        except MISFITS:
            return InputError(f'{owner}: row {index + 1}, column "{name}": {shown_value(value)} is not a {kind}')
    return InputError(f'{owner}: column "{name}" does not fit {kind}')


def _check_sizes(table: pa.Table, columns: Schema, owner: str, most: int) -> None:
    """Refuse values that are larger than one may be; a column that is smaller as a whole has none."""
    for place, field in enumerate(columns):
        column = table.column(place)
        if (long := first_too_long(pl.Series(column), field.type)) is not None:
            raise InputError(f'{owner}: row {long[0] + 1}, column "{field.name}": {long[1]}')
        if field.type not in (STRING, BINARY) or column.nbytes <= most:
            continue
        values = pl.Series(column)
        if largest_value(values) > most:
            sizes = values.cast(pl.Binary).bin.size()
            row = int((sizes > most).arg_max() or 0)
            raise too_large(
                f'{owner}: row {row + 1}, column "{field.name}": a value of {sizes[row]:,} bytes', most, InputError
            )


def _listed(columns: Schema) -> str:
    return ", ".join(field.name for field in columns)
