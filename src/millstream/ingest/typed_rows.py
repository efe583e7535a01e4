"""Rows as users give them, checked and turned into typed columns: all of them or none.

Columns are converted as wholes where all their values are of the types that Arrow takes as they are; the row that does
not fit is looked for only where one does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from millstream.errors import ConstraintError, InputError, did_you_mean
from millstream.ingest import utf8
from millstream.ingest.row_values import MISFITS, checked_column, column_of, instants_of, shown_value
from millstream.kernel.scalar.value_size import MAX_VALUE_BYTES, first_too_long, largest_value, list_sizes, too_large
from millstream.plan.definitions import NO_RULES, ColumnRules
from millstream.types import BINARY, STRING, DataType, Field, Schema, arrow_schema, to_arrow

_NONE = object()  # no name of a column
_OF_INSTANTS = "a column of type TIMESTAMP holds it, as in TIMESTAMP BY ts TIMESTAMP"


def typed_table(
    rows: Any, columns: Schema, owner: str, most: int = MAX_VALUE_BYTES, rules: ColumnRules = NO_RULES
) -> pa.Table:
    """The rows as an Arrow table of exactly these columns; no value has more than so many bytes."""
    table = as_arrow(rows)
    if table is not None:
        typed = _cast_table(table, columns, owner, rules)
    elif isinstance(rows, Mapping | str | bytes) or not hasattr(rows, "__iter__"):
        raise InputError(
            f"{owner}: rows are given as a list of tuples or dicts, or as a pyarrow, polars or pandas table",
            detail=f"got {type(rows).__name__}",
            hint="one row is a list of one: [(1, 'a')] or [{'k': 1, 'v': 'a'}]",
        )
    else:
        typed = _from_records(list(rows), columns, owner, rules)
    _check_sizes(typed, columns, owner, most)
    _check_required(typed, columns, owner, rules)
    return typed


def typed_pieces(
    pieces: Iterable[Any],
    columns: Schema,
    owner: str,
    most: int = MAX_VALUE_BYTES,
    check: Callable[[int, int], None] = lambda rows, size: None,
    rules: ColumnRules = NO_RULES,
) -> pa.Table:
    """The same of rows that come in pieces; `check` is told the rows and bytes of all so far."""
    found: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        try:
            found.append(typed_table(piece, columns, owner, most, rules))
        except InputError as error:
            raise _further(error, owner, rows) from None
        rows, size = rows + found[-1].num_rows, size + found[-1].nbytes
        check(rows, size)
    return found[0] if len(found) == 1 else pa.concat_tables([typed_table([], columns, owner), *found])


def _further(error: InputError, owner: str, rows: int) -> InputError:
    """What is wrong with a row of a piece, which has so many rows before it."""
    said = re.sub(rf"^{re.escape(owner)}: row (\d+)", lambda at: f"{owner}: row {int(at[1]) + rows}", error.primary)
    return type(error)(said, detail=error.detail, hint=error.hint)


def as_altered(table: pa.Table, before: Schema, now: Schema, rules: ColumnRules) -> pa.Table:
    """Rows that were read when columns were others: those that were added since stand behind them."""
    if before == now:
        return table
    names = {old.name: new.name for old, new in zip(before, now, strict=False)}
    given = {names[name]: table.column(name) for name in table.column_names if name in names}
    given |= {field.name: repeated(rules, field, table.num_rows) for field in now[len(before) :]}
    # A timestamp and an operation that are no columns.
    return pa.table({**given, **{name: table.column(name) for name in table.column_names if name not in names}})


def repeated(rules: ColumnRules, field: Field, count: int) -> pa.Array:
    """So many times what a column has that rows leave out."""
    return pa.repeat(column_of([rules.default(field.name)], field.type)[0], count)


def _check_required(table: pa.Table, columns: Schema, owner: str, rules: ColumnRules) -> None:
    for place, field in enumerate(columns):
        column = table.column(place)
        if rules.is_required(field.name) and column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise ConstraintError(f'{owner}: row {row + 1}: column "{field.name}" is NOT NULL', hint="give it a value")


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


def _cast_table(table: pa.Table, columns: Schema, owner: str, rules: ColumnRules) -> pa.Table:
    given = _by_key(table.column_names, owner)
    _check_names(given, columns, owner, rules)
    arrays = [
        _cast_column(table.column(given[f.name.lower()]), f.type, f.name, owner)
        if f.name.lower() in given
        else pa.chunked_array([repeated(rules, f, table.num_rows)])
        for f in columns
    ]
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


def _check_names(given: Mapping[str, Any], columns: Schema, owner: str, rules: ColumnRules) -> None:
    wanted = {field.name.lower(): field.name for field in columns}
    unknown = [str(name) for key, name in given.items() if key not in wanted]
    if unknown:
        raise InputError(f'{owner} has no column "{unknown[0]}"', hint=did_you_mean(unknown[0], wanted.values()))
    missing = [name for key, name in wanted.items() if key not in given and not rules.has_default(key)]
    if missing:
        raise InputError(f'{owner}: column "{missing[0]}" is missing', detail=f"the columns are {_listed(columns)}")


def _cast_column(column: pa.ChunkedArray, kind: DataType, name: str, owner: str) -> pa.ChunkedArray:
    target = to_arrow(kind)
    if kind.element is not None and _is_list(column.type):
        return _cast_lists(column, kind.element, name, owner)
    if kind.is_temporal and pa.types.is_string(_values_type(column.type)):
        try:
            return pa.chunked_array([instants_of(pl.Series(checked_column(column)).cast(pl.String), kind)])
        except (pa.ArrowInvalid, ValueError):
            raise InputError(f'{owner}: column "{name}" has a text that is not a {kind}') from None
    if pa.types.is_decimal(_values_type(column.type)):
        _check_decimal(_values_type(column.type), name, owner)
    if column.type != target and not _same_family(column.type, target):
        raise InputError(f'{owner}: column "{name}" is {kind}, not {column.type}')
    try:
        column = checked_column(column)
        return column if column.type == target else column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f'{owner}: column "{name}" does not fit {kind}', detail=str(error)) from None


def _check_decimal(kind: pa.DataType, name: str, owner: str) -> None:
    """Arrow casts decimals by a table of the powers of ten, and reads beyond it where it is told to."""
    if not 0 <= kind.scale <= kind.precision:
        raise InputError(f'{owner}: column "{name}" is {kind}', hint="a scale is between 0 and the precision")


def _is_list(kind: pa.DataType) -> bool:
    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view
    return any(test(kind) for test in tests)


def _cast_lists(column: pa.ChunkedArray, element: DataType, name: str, owner: str) -> pa.ChunkedArray:
    """Element by element, as columns of such values are."""
    array = checked_column(column).combine_chunks()
    sizes = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = _cast_column(pa.chunked_array([pc.list_flatten(array)]), element, name, owner).combine_chunks()
    offsets = pa.array(np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))).astype(np.int32))
    made = pa.ListArray.from_arrays(offsets, values, type=pa.list_(to_arrow(element)), mask=array.is_null())
    return pa.chunked_array([made])


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


def _from_records(records: Sequence[Any], columns: Schema, owner: str, rules: ColumnRules) -> pa.Table:
    arrays = []
    for values, field in zip(_by_column(records, columns, owner, rules), columns, strict=True):
        try:
            arrays.append(column_of(values, field.type))
        except MISFITS:
            raise _first_misfit(values, field.name, field.type, owner) from None
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _by_column(records: Sequence[Any], columns: Schema, owner: str, rules: ColumnRules) -> Sequence[Sequence[Any]]:
    """The values of each column; records of one shape are not looked at one by one."""
    shapes = set(map(type, records))
    if shapes <= {tuple, list} and set(map(len, records)) <= {len(columns)}:
        return [list(map(itemgetter(place), records)) for place in range(len(columns))]
    if shapes == {dict} and len(names := set(map(tuple, records))) == 1:
        given = _by_key(names.pop(), owner)
        _check_names(given, columns, owner, rules)
        return [
            list(map(itemgetter(given[field.name.lower()]), records))
            if field.name.lower() in given
            else [rules.default(field.name)] * len(records)
            for field in columns
        ]
    rows = [_values(record, index, columns, owner, rules) for index, record in enumerate(records)]
    return [[row[place] for row in rows] for place in range(len(columns))]


def _values(record: Any, index: int, columns: Schema, owner: str, rules: ColumnRules) -> Sequence[Any]:
    if isinstance(record, Mapping):
        given = _by_key([*record], owner)
        _check_names(given, columns, owner, rules)
        found = ((field.name, given.get(field.name.lower(), _NONE)) for field in columns)
        return [rules.default(name) if there is _NONE else record[there] for name, there in found]
    if isinstance(record, str | bytes) or not isinstance(record, Sequence):
        said = f"{owner}: row {index + 1} is a {type(record).__name__}, not a tuple or dict"
        raise InputError(said, hint="one row is a list of one: [(1, 'a')] or [{'k': 1, 'v': 'a'}]")
    if len(record) != len(columns):
        raise InputError(
            f"{owner}: row {index + 1} has {len(record)} value{'' if len(record) == 1 else 's'}, not {len(columns)}",
            detail=f"the columns are {_listed(columns)}",
        )
    return record


def _first_misfit(values: Sequence[Any], name: str, kind: DataType, owner: str) -> InputError:
    for index, value in enumerate(values):
        try:
            column_of([value], kind)
        except MISFITS:
            return InputError(
                f'{owner}: row {index + 1}, column "{name}": {shown_value(value)} is not {_article(kind)} {kind}',
                hint=_OF_INSTANTS if isinstance(value, datetime) and kind.is_numeric else None,
            )
    return InputError(f'{owner}: column "{name}" does not fit {kind}')


def _article(kind: DataType) -> str:
    return "an" if str(kind)[0] in "AEIOU" else "a"


def _check_sizes(table: pa.Table, columns: Schema, owner: str, most: int) -> None:
    """Refuse values that are larger than one may be; a column that is smaller as a whole has none."""
    for place, field in enumerate(columns):
        column = table.column(place)
        if (long := first_too_long(pl.Series(column), field.type)) is not None:
            raise InputError(f'{owner}: row {long[0] + 1}, column "{field.name}": {long[1]}')
        if not (field.type in (STRING, BINARY) or field.type.is_list) or column.nbytes <= most:
            continue
        values = pl.Series(column)
        if largest_value(values) > most:
            sizes = pl.Series(list_sizes(values)) if field.type.is_list else values.cast(pl.Binary).bin.size()
            row = int((sizes > most).arg_max() or 0)
            raise too_large(
                f'{owner}: row {row + 1}, column "{field.name}": a value of {sizes[row]:,} bytes', most, InputError
            )


def _listed(columns: Schema) -> str:
    return ", ".join(field.name for field in columns)
