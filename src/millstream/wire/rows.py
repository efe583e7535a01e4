"""Tables of rows as JSON, lines of JSON, CSV, Arrow IPC and Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from millstream.wire.arrow import to_arrow_stream
from millstream.wire.media import RowFormat
from millstream.wire.values import is_safe, json_value, plain, type_name

_FEW = 100  # rows that are sooner written one by one than by a query of Polars


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
        if isinstance(column.dtype, pl.List):
            texts = [None if value is None else json.dumps(json_value(value)) for value in column]
            column = pl.Series(texts, dtype=pl.String)
        columns[name] = column.to_arrow() if column.dtype != pl.Null else column.cast(pl.String).to_arrow()
    content = io.BytesIO()
    if columns:
        pyarrow.csv.write_csv(pa.table(columns), content)
    return content.getvalue()


def parquet(table: pa.Table) -> bytes:
    """A Parquet file."""
    content = io.BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata(None), content)
    return content.getvalue()
