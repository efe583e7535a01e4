"""What is sent unpacks to no more than it may, and is refused before it is unpacked."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from millstream.errors import InputError, TooLargeError
from millstream.ingest.typed_rows import typed_pieces
from millstream.types import BIGINT, INT, STRING, Field, array, decimal
from millstream.wire.arrow import NO_LIMITS, BodyLimits
from millstream.wire.bodies import check_document, pieces_of
from millstream.wire.media import RowFormat

COLUMNS = (Field("k", INT), Field("v", STRING), Field("ts", BIGINT))
LIMITS = BodyLimits(rows=100_000, bytes=4 << 20)
MANY = 50_000_000


def read(body: bytes, form: RowFormat, limits: BodyLimits = LIMITS, columns: Any = COLUMNS) -> pa.Table:
    pieces = pieces_of(body, form, columns, "s", limits)
    return typed_pieces(pieces, columns, "stream s", check=limits.check)


def arrow(table: pa.Table, file: bool = False, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if file else pa.ipc.new_stream
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def table(rows: int, v: Any) -> pa.Table:
    one = pa.scalar(1, pa.int32()), pa.scalar(5, pa.int64())
    return pa.table({"k": pa.repeat(one[0], rows), "v": v, "ts": pa.repeat(one[1], rows)})


def words(rows: int, text: str) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), rows), pa.array([text]))


@pytest.mark.parametrize("file", [False, True], ids=["stream", "file"])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_is_read(file: bool, compression: str | None) -> None:
    for values in (pa.array(["x", None, "y" * 100]), words(3, "abc"), pa.array(["x"] * 3, pa.string_view())):
        given = table(3, values)
        found = read(arrow(given, file, compression=compression), RowFormat.ARROW)
        assert found.to_pylist() == given.to_pylist()


@pytest.mark.parametrize("file", [False, True], ids=["stream", "file"])
@pytest.mark.parametrize(
    ("name", "values", "options"),
    [
        ("zeros", lambda: table(90_000, pa.repeat(pa.scalar("x" * 100), 90_000)), {"compression": "zstd"}),
        ("lz4", lambda: table(90_000, pa.repeat(pa.scalar("x" * 100), 90_000)), {"compression": "lz4"}),
        ("words", lambda: table(90_000, words(90_000, "y" * 10_000)), {}),
        ("views", lambda: table(9_000, pa.array(["z" * 1000] * 9_000, pa.string_view())), {"compression": "zstd"}),
        ("large dictionary", lambda: table(9, words(9, "y" * 5_000_000)), {"compression": "zstd"}),
        ("nulls", lambda: pa.table({name: pa.nulls(MANY) for name in ("k", "v", "ts")}), {}),
        ("runs", lambda: pa.table({"k": pa.RunEndEncodedArray.from_arrays([9], [1])}), {}),
        ("objects", lambda: pa.table({"k": pa.array([{"a": 1}])}), {}),
        ("lists", lambda: table(9, pa.array([["z" * 1000] * 1000] * 9)), {"compression": "zstd"}),
    ],
)
def test_arrow_that_becomes_large(name: str, values: Any, options: dict[str, Any], file: bool) -> None:
    body = arrow(values(), file, **options)
    before = pa.total_allocated_bytes()
    with pytest.raises((TooLargeError, InputError)):
        read(body, RowFormat.ARROW)
    assert pa.total_allocated_bytes() - before < 64 << 20


def test_arrow_that_lies_about_itself() -> None:
    body = bytearray(arrow(table(1000, pa.repeat(pa.scalar("x" * 100), 1000)), compression="zstd"))
    for place in range(0, len(body), 3):
        broken = bytes([*body[:place], *(0xFF for _ in range(8)), *body[place + 8 :]])
        try:
            read(broken, RowFormat.ARROW)
        except (TooLargeError, InputError):
            continue


ROW = {"k": 1, "v": 'a,]}"\\ü', "ts": 5}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps([ROW] * 60_000),
        json.dumps({"rows": [ROW] * 60_000}),
        json.dumps({"columns": [{"name": "k", "type": "INT"}], "rows": [ROW] * 60_000}),
        json.dumps({"rows": [ROW] * 60_000, "more": [{"k": 1}]}),
        json.dumps([[*ROW.values()]] * 60_000, indent=1),
    ],
    ids=["objects", "document", "with columns", "with more", "lists"],
)
def test_long_json_is_read_row_by_row(body: str) -> None:
    assert len(body) > 1 << 20
    found = read(body.encode(), RowFormat.JSON)
    assert found.num_rows == 60_000
    assert found.slice(59_999).to_pylist() == [ROW]


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * 400_000 + b"{}]",
        b"[" + b"[]," * 400_000 + b"[]]",
        b'[{"k": [' + b"[]," * 400_000 + b"[]]}]",
        b"[[" + b"1," * 400_000 + b"1]]",
        b'[{"k": 1, "v": ' + b'"",' * 400_000 + b'"x"}]',
        b"[" + b"1," * 400_000 + b"1]",
        b'["' + b"a" * 2_000_000,
        b"[" * 2_000_000,
        b'[{"k": 1}' * 200_000,
        b'[{"k": 1, "v": "x", "ts": 1} {"k": 1}]' + b" " * (1 << 20),
        b'{"rows": 1}' + b" " * (1 << 20),
    ],
)
@pytest.mark.parametrize("form", [RowFormat.JSON, RowFormat.NDJSON])
def test_json_that_becomes_large(body: bytes, form: RowFormat) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((TooLargeError, InputError)):
            read(body, form)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_rows_of_lines_are_counted() -> None:
    line = json.dumps(ROW).encode() + b"\n"
    assert read(line * 50_001, RowFormat.NDJSON, BodyLimits(60_000)).num_rows == 50_001
    with pytest.raises(TooLargeError, match="40,000 rows"):
        read(line * 50_001, RowFormat.NDJSON, BodyLimits(40_000))
    with pytest.raises(TooLargeError, match="1,000,000 bytes"):
        read(line * 50_001, RowFormat.NDJSON, BodyLimits(0, 1_000_000))


def test_the_row_that_is_wrong_is_named_by_its_place_in_all() -> None:
    line = json.dumps(ROW).encode() + b"\n"
    with pytest.raises(InputError, match="row 50001, column"):
        read(line * 50_000 + b'{"k": "no", "v": "x", "ts": 1}\n', RowFormat.NDJSON)
    with pytest.raises(InputError, match="row 50001 has 1 value, not 3"):
        read(line * 50_000 + b"[1]\n", RowFormat.NDJSON)


def test_csv_in_blocks() -> None:
    body = b"k,v,ts\n" + b"1,x,5\n" * 1_000_000
    assert read(body, RowFormat.CSV, NO_LIMITS).num_rows == 1_000_000
    with pytest.raises(TooLargeError, match="rows"):
        read(body, RowFormat.CSV)
    quoted = b"k,v,ts\n" + b'1,"x\n""y""",5\n' * 400_000
    found = read(quoted, RowFormat.CSV, NO_LIMITS)
    assert (found.num_rows, found["v"][399_999].as_py()) == (400_000, 'x\n"y"')
    long = b"k,v,ts\n1," + b"x" * 9_000_000 + b",5\n" + b"1,y,5\n" * 10
    assert read(long, RowFormat.CSV, NO_LIMITS).num_rows == 11


def test_exact_numbers_in_long_bodies() -> None:
    columns = (Field("d", decimal(38, 20)),)
    rows = b'[{"d": 0.12345678901234567890}' + b', {"d": 1.5}' * 100_000 + b"]"
    found = read(rows, RowFormat.JSON, NO_LIMITS, columns)
    assert str(found["d"][0].as_py()) == "0.12345678901234567890"


def test_lists() -> None:
    columns = (Field("a", array(INT)),)
    rows: list[dict[str, Any]] = [{"a": [1, None, 3]}, {"a": []}, {"a": None}] * 40_000
    expected = [row["a"] for row in rows[:3]]
    for body, form in (
        (json.dumps(rows).encode(), RowFormat.JSON),
        (b"\n".join(json.dumps(row).encode() for row in rows), RowFormat.NDJSON),
        (arrow(pa.table({"a": pa.array([row["a"] for row in rows], pa.list_(pa.int32()))})), RowFormat.ARROW),
    ):
        found = read(body, form, NO_LIMITS, columns)
        assert (found.num_rows, found["a"].slice(0, 3).to_pylist()) == (120_000, expected)


def test_documents_that_become_large() -> None:
    check_document(b'{"rows": [[1], [2]]}', BodyLimits(0, 10_000))
    with pytest.raises(TooLargeError):
        check_document(b"[" + b"[]," * 1000 + b"[]]", BodyLimits(0, 10_000))
