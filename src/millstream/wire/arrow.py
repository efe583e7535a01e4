"""Arrow IPC: streams and files of rows, of which it is known what they unpack to before they are unpacked.

A few bytes may stand for any number: a column of NULLs has none, a dictionary's value is there once for all rows, and a
compressed buffer says itself how long it becomes. So the messages are looked at first: how many rows they have, and how
long their buffers become. What lies in dictionaries and views is counted batch by batch, before it is written out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from millstream.errors import InputError, TooLargeError

NOTE = b"millstream"  # what is said beside the rows, in the metadata of an Arrow schema
_FILE, _FILE_START = b"ARROW1", 8  # a file is a stream between its magic and a footer
_VALUE = 8  # bytes of a NULL, once its column has a type
_HEADERS = {2: "dictionary batch", 3: "record batch"}


@dataclass(frozen=True)
class BodyLimits:
    """What the body of a request may unpack to; 0 stands for no limit."""

    rows: int = 0
    bytes: int = 0

    def within(self, rows: int, size: int) -> BodyLimits:
        """The smaller ones of these and others."""
        pairs = ((self.rows, rows), (self.bytes, size))
        return BodyLimits(*(min(filter(None, pair), default=0) for pair in pairs))

    def check(self, rows: int, size: int) -> None:
        if self.rows and rows > self.rows:
            raise TooLargeError(f"a request of more than {self.rows:,} rows", hint=_HINT)
        if self.bytes and size > self.bytes:
            raise TooLargeError(f"a request that unpacks to more than {self.bytes:,} bytes", hint=_HINT)


NO_LIMITS = BodyLimits()
_HINT = "send rows in parts, each an insert of its own, or start the service with other limits"


def to_arrow_stream(table: pa.Table, note: Mapping[str, Any] | None = None) -> bytes:
    schema = table.schema.with_metadata({NOTE: json.dumps(note)} if note else None)
    content = io.BytesIO()
    with pa.ipc.new_stream(content, schema) as writer:
        writer.write_table(table.cast(schema) if note else table.replace_schema_metadata(None))
    return content.getvalue()


def from_arrow_stream(body: bytes, limits: BodyLimits = NO_LIMITS) -> tuple[pa.Table, dict[str, Any]]:
    """The rows of an Arrow stream or file, and the note."""
    schema, batches = arrow_batches(body, limits)
    found = [*batches]
    try:
        table = pa.Table.from_batches(found, schema)
        note = (schema.metadata or {}).get(NOTE)
        return table.replace_schema_metadata(None), json.loads(note) if note else {}
    except (pa.ArrowException, ValueError) as error:
        raise _unreadable(error) from None


def arrow_batches(body: bytes, limits: BodyLimits) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of a stream or file, and its rows batch by batch."""
    content = pa.py_buffer(body)
    stream = content.slice(_FILE_START) if body[:6] == _FILE else content
    try:
        _check_messages(stream, limits)
        reader = pa.ipc.open_stream(stream)
        for column in reader.schema:  # whose names may be no texts
            _check_type(column.name, column.type)
        return reader.schema, _checked(reader, limits)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise _unreadable(error) from None


def _checked(reader: pa.RecordBatchReader, limits: BodyLimits) -> Iterator[pa.RecordBatch]:
    size = 0
    try:
        for batch in reader:
            batch.validate(full=True)
            size += sum(map(_written_out, batch.columns))
            limits.check(0, size)
            yield batch
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise _unreadable(error) from None


def _check_type(name: str, kind: pa.DataType) -> None:
    """Arrow casts decimals by a table of the powers of ten, and reads beyond it where it is told to."""
    if pa.types.is_decimal(kind) and not 0 <= kind.scale <= kind.precision:
        raise InputError(f'column "{name}" is {kind}, which no decimal is')
    if pa.types.is_dictionary(kind):
        _check_type(name, kind.value_type)
    for number in range(kind.num_fields):
        _check_type(name, kind.field(number).type)


def _unreadable(error: Exception) -> InputError:
    return InputError("the body is not an Arrow stream or file", detail=str(error).split("\n")[0])


def _written_out(column: pa.Array) -> int:
    """The bytes of a column whose values are all written out."""
    kind = column.type
    if pa.types.is_null(kind):
        return _VALUE * len(column)
    if pa.types.is_dictionary(kind):
        values = column.dictionary
        if not _has_lengths(values.type):
            return int(len(column) * max(values.nbytes / max(len(values), 1), _VALUE))
        lengths = pl.Series(values).cast(pl.Binary).bin.size().cast(pl.Int64)
        return _VALUE * len(column) + int(lengths.gather(pl.Series(column.indices)).sum())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _VALUE * len(column) + _written_out(column.flatten())
    if pa.types.is_run_end_encoded(kind) or pa.types.is_nested(kind):
        raise InputError(f"columns of {kind} cannot be read")
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _VALUE * len(column) + int(pl.Series(column).cast(pl.Binary).bin.size().cast(pl.Int64).sum())
    return int(column.nbytes)


def _has_lengths(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
            *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
        )
    )


# The messages: tables of Flatbuffers, of which a few fields are read (format/Message.fbs of Arrow)


def _check_messages(stream: pa.Buffer, limits: BodyLimits) -> None:
    """What all batches of a stream say that they unpack to."""
    reader = pa.ipc.MessageReader.open_stream(stream)
    rows = size = 0
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        counted, unpacked = _unpacked(message)
        rows, size = rows + counted, size + unpacked
        limits.check(rows, size)


def _unpacked(message: pa.Message) -> tuple[int, int]:
    """The rows of a batch, none of a dictionary's, and the bytes of its buffers once they are not compressed."""
    root = _Table.root(message.metadata)
    kind = _HEADERS.get(root.byte(1))
    header = root.table(2)
    if kind is None or header is None:
        return 0, 0
    batch = header.table(1) if kind == "dictionary batch" else header
    if batch is None:
        raise ValueError(f"a {kind} without rows")
    rows, body = batch.long(0), memoryview(message.body or b"")
    if rows < 0:
        raise ValueError(f"a {kind} of {rows} rows")
    compressed = batch.table(3) is not None
    size = 0
    for start, length in batch.pairs(2):
        if start < 0 or length < 0 or start + length > len(body):
            raise ValueError(f"a {kind} whose buffers are not all there")
        said = _long(body, start) if compressed and length >= 8 else -1
        size += said if said >= 0 else length
    return (0 if kind == "dictionary batch" else rows), size


class _Table:
    """A table of Flatbuffers: its fields by their numbers."""

    def __init__(self, content: memoryview, place: int) -> None:
        self._content, self._place = content, place
        self._fields = place - _int(content, place)  # where the places of fields lie

    @classmethod
    def root(cls, content: Any) -> _Table:
        view = memoryview(content)
        return cls(view, _unsigned(view, 0, 4))

    def _field(self, number: int) -> int | None:
        entry = 4 + 2 * number
        if entry >= _unsigned(self._content, self._fields, 2):
            return None
        offset = _unsigned(self._content, self._fields + entry, 2)
        return self._place + offset if offset else None

    def byte(self, number: int) -> int:
        place = self._field(number)
        return 0 if place is None else _unsigned(self._content, place, 1)

    def long(self, number: int) -> int:
        place = self._field(number)
        return 0 if place is None else _long(self._content, place)

    def table(self, number: int) -> _Table | None:
        place = self._field(number)
        return None if place is None else _Table(self._content, place + _unsigned(self._content, place, 4))

    def pairs(self, number: int) -> Iterator[tuple[int, int]]:
        """A vector of structs of two numbers."""
        place = self._field(number)
        if place is None:
            return
        start = place + _unsigned(self._content, place, 4)
        for nth in range(_unsigned(self._content, start, 4)):
            at = start + 4 + 16 * nth
            yield _long(self._content, at), _long(self._content, at + 8)


def _taken(content: memoryview, place: int, size: int) -> bytes:
    if place < 0 or place + size > len(content):
        raise ValueError("a message that is not all there")
    return bytes(content[place : place + size])


def _unsigned(content: memoryview, place: int, size: int) -> int:
    return int.from_bytes(_taken(content, place, size), "little")


def _int(content: memoryview, place: int) -> int:
    return int.from_bytes(_taken(content, place, 4), "little", signed=True)


def _long(content: memoryview, place: int) -> int:
    return int.from_bytes(_taken(content, place, 8), "little", signed=True)
