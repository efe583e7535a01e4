"""Parquet files by their footers: what the driver must know of them, without reading a row.

The tasks of an epoch read such files themselves, with none of their rows going through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.bounds import MAX_TICK
from millstream.ingest.landed import Landed
from millstream.plan.definitions import StreamDefinition
from millstream.spark.shapes import UNREADABLE, BadFile, explained
from millstream.types import arrow_schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def footer_of(name: str) -> pq.FileMetaData:
    """What a file says of itself; one that cannot say it is bad."""
    try:
        return pq.read_metadata(name)
    except UNREADABLE as error:
        raise BadFile(name, explained(error)) from None


def landed_file(name: str, footer: pq.FileMetaData, stream: StreamDefinition) -> Landed | None:
    """The file as it lies there. None if it must be read to know what it holds: its timestamps have no statistics or
    may be NULL or negative, as may columns that are NOT NULL, or its columns need more than widening."""
    schema = footer.schema.to_arrow_schema()
    found = {column.lower(): position for position, column in enumerate(schema.names)}
    for column in arrow_schema(stream.input_columns):
        position = found.get(column.name.lower())
        if position is None or not _fits(schema.field(position).type, column.type):
            return None
        if stream.rules.is_required(column.name) and not _is_filled(footer, schema.names[position]):
            return None
    if stream.heartbeat.kind == "CLOCK" or not footer.num_rows:
        return Landed("parquet", name, footer.num_rows)
    greatest = _greatest(footer, schema.names[found[stream.timestamp.name.lower()]], stream)
    return None if greatest is None else Landed("parquet", name, footer.num_rows, greatest)


def _is_filled(footer: pq.FileMetaData, column: str) -> bool:
    """Whether the footer says that a column has no NULL."""
    chunks = (chunk.statistics for chunk in _chunks(footer, column))
    return all(found is not None and found.has_null_count and not found.null_count for found in chunks)


def _chunks(footer: pq.FileMetaData, column: str) -> Iterator[pq.ColumnChunkMetaData]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        chunks = (group.column(index) for index in range(group.num_columns))
        yield next(chunk for chunk in chunks if chunk.path_in_schema == column)


def _greatest(footer: pq.FileMetaData, column: str, stream: StreamDefinition) -> int | None:
    """The greatest tick; None where the footer does not say that all are there and none is negative."""
    greatest = -1
    for chunk in _chunks(footer, column):
        bounds = chunk.statistics
        if bounds is None or not bounds.has_min_max or not bounds.has_null_count or bounds.null_count:
            return None
        try:
            least, most = _tick(bounds.min, stream), _tick(bounds.max, stream)
        except (OverflowError, ValueError):  # a year that Python does not know
            return None
        if least < 0 or most > MAX_TICK:
            return None
        greatest = max(greatest, most)
    return greatest


def _tick(value: int | datetime, stream: StreamDefinition) -> int:
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MICROSECOND // (stream.domain.tick or 1)
    return value


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's cast keeps every value as Spark would read it."""
    if found == wanted:
        return True
    if pa.types.is_signed_integer(found) and pa.types.is_signed_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return found.unit in ("s", "ms", "us") and (found.tz is None) == (wanted.tz is None)
    texts = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(test(found) for test in texts) and pa.types.is_string(wanted)
