"""Tables of rows as JSON, lines of JSON, CSV and Arrow IPC, and back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from millstream.errors import InputError
from millstream.types import DataType, Schema
from millstream.wire.media import RowFormat
from millstream.wire.values import from_json, from_text, is_safe, json_value, plain, type_name

_FEW = 100  # rows that are sooner written one by one than by a query of Polars
NOTE = b"millstream"  # what is said beside the rows, in the metadata of an Arrow schema


def columns_of(schema: pa.Schema) -> list[dict[str, str]]:
    """The columns of rows as JSON documents name them."""
    return [{"name": field.name, "type": type_name(field.type)} for field in schema]


def encode(table: pa.Table, form: RowFormat, note: Mapping[str, Any] | None = None) -> bytes:
    """The rows in a format; JSON and Arrow also carry a note."""
    match form:
        case RowFormat.JSON:
            head = json.dumps({**(note or {}), "columns": columns_of(table.schema)})
            return b"".join((head[:-1].encode(), b', "rows": [', b",".join(json_rows(table)), b"]}"))
        case RowFormat.NDJSON:
            return b"".join(line + b"\n" for line in json_rows(table))
        case RowFormat.CSV:
            return _csv(table)
        case RowFormat.ARROW:
            return to_arrow_stream(table, note)


def json_rows(table: pa.Table) -> list[bytes]:
    """Each row as a JSON object."""
    columns = {name: plain(table.column(place)) for place, name in enumerate(table.column_names)}
    if not table.num_rows:
        return []
    if table.num_rows > _FEW and columns and all(map(is_safe, columns.values())):
        return pl.DataFrame(columns).write_ndjson().encode().splitlines()
    values = {name: [json_value(value) for value in column] for name, column in columns.items()}
    rows = zip(*values.values(), strict=True) if values else (() for _ in range(table.num_rows))
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return [dump(dict(zip(values, row, strict=True))).encode() for row in rows]


def _csv(table: pa.Table) -> bytes:
    columns = {}
    for place, name in enumerate(table.column_names):
        column = plain(table.column(place))
        if not is_safe(column) and column.dtype in (pl.Float32, pl.Float64):
            column = pl.Series(
                [value if value is None else str(json_value(value)) for value in column], dtype=pl.String
            )
        columns[name] = column.to_arrow() if column.dtype != pl.Null else column.cast(pl.String).to_arrow()
    content = io.BytesIO()
    if columns:
        pyarrow.csv.write_csv(pa.table(columns), content)
    return content.getvalue()


def to_arrow_stream(table: pa.Table, note: Mapping[str, Any] | None = None) -> bytes:
    schema = table.schema.with_metadata({NOTE: json.dumps(note)} if note else None)
    content = io.BytesIO()
    with pa.ipc.new_stream(content, schema) as writer:
        writer.write_table(table.cast(schema) if note else table.replace_schema_metadata(None))
    return content.getvalue()


def parquet(table: pa.Table) -> bytes:
    """A Parquet file."""
    content = io.BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata(None), content)
    return content.getvalue()


def from_arrow_stream(body: bytes) -> tuple[pa.Table, dict[str, Any]]:
    """The rows of an Arrow stream or file, and the note."""
    try:
        reader = pa.ipc.open_file(body) if body[:6] == b"ARROW1" else pa.ipc.open_stream(body)
        table = reader.read_all()
        table.validate(full=True)
        note = (table.schema.metadata or {}).get(NOTE)
        return table.replace_schema_metadata(None), json.loads(note) if note else {}
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError("the body is not an Arrow stream or file", detail=str(error).split("\n")[0]) from None


def decode(body: bytes, form: RowFormat, columns: Schema, owner: str) -> Any:
    """Rows for `insert`, whose columns are known; it checks them."""
    match form:
        case RowFormat.ARROW:
            return from_arrow_stream(body)[0]
        case RowFormat.CSV:
            return _from_csv(body, columns, owner)
        case RowFormat.JSON:
            document = parsed(body, exact=any(field.type.is_decimal for field in columns))
            rows = document.get("rows") if isinstance(document, dict) else document
            if not isinstance(rows, list):
                raise InputError(f"{owner}: the body is a list of rows, each a list or an object")
        case RowFormat.NDJSON:
            exact = any(field.type.is_decimal for field in columns)
            rows = [parsed(line, exact=exact) for line in body.splitlines() if line.strip()]
    return list(_records(rows, columns, owner))


def parsed(body: bytes, *, exact: bool = False) -> Any:
    """A JSON document; fractions as decimals where they are wanted exactly."""
    try:
        return json.loads(body, parse_float=Decimal if exact else None)
    except RecursionError:
        raise InputError("the body is nested too deeply") from None
    except ValueError as error:
        raise InputError("the body is not JSON", detail=str(error)) from None


def _records(rows: Sequence[Any], columns: Schema, owner: str) -> Iterable[Any]:
    kinds = {field.name.lower(): field for field in columns}
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            yield {
                name: _value(value, kinds[name.lower()].type, name, number, owner) if name.lower() in kinds else value
                for name, value in row.items()
            }
        elif isinstance(row, list) and len(row) == len(columns):
            yield tuple(
                _value(value, field.type, field.name, number, owner) for value, field in zip(row, columns, strict=True)
            )
        else:
            yield row


def _value(value: Any, kind: DataType, name: str, number: int, owner: str) -> Any:
    try:
        return from_json(value, kind)
    except (ValueError, OverflowError):
        raise InputError(f'{owner}: row {number + 1}, column "{name}": {value!r} is not a {kind}') from None


def _from_csv(body: bytes, columns: Schema, owner: str) -> pa.Table:
    """CSV with a header; a column is found by its name."""
    try:
        header = next(csv.reader(io.TextIOWrapper(io.BytesIO(body), "utf-8-sig", newline="")), [])
        texts = pyarrow.csv.read_csv(
            io.BytesIO(body),
            # In a file of one column, a line with nothing in it is a NULL.
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(header) != 1),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{owner}: the body is not CSV with a header", detail=str(error).split("\n")[0]) from None
    kinds = {field.name.lower(): field.type for field in columns}
    if len({name.lower() for name in texts.column_names}) != texts.num_columns:
        raise InputError(f"{owner}: a column comes twice", detail=f"the header is {', '.join(texts.column_names)}")
    return pa.table(
        {
            # One that is not there is left for those who check rows.
            name: from_text(texts.column(name), kinds[name.lower()], name, owner)
            if name.lower() in kinds
            else texts[name]
            for name in texts.column_names
        }
    )
