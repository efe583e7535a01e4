"""Rows in and out: every value comes back as it was, in every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import millstream as ms
from millstream import types
from millstream.ingest.typed_rows import typed_pieces
from millstream.types import Field, Schema, arrow_schema, decimal
from millstream.wire.arrow import NO_LIMITS
from millstream.wire.bodies import pieces_of
from millstream.wire.media import RowFormat, accepted, sent
from millstream.wire.rows import columns_of, encode
from millstream.wire.values import arrow_type, type_name

COLUMNS: Schema = (
    Field("a", types.BOOLEAN),
    Field("b", types.TINYINT),
    Field("c", types.INT),
    Field("d", types.BIGINT),
    Field("e", types.FLOAT),
    Field("f", types.DOUBLE),
    Field("g", decimal(38, 18)),
    Field("h", types.STRING),
    Field("i", types.BINARY),
    Field("j", types.DATE),
    Field("k", types.TIMESTAMP),
    Field("l", types.TIMESTAMP_NTZ),
    Field("M N", types.INTERVAL),
)
MOMENTS = some.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
VALUES: list[some.SearchStrategy[Any]] = [
    some.booleans(),
    some.integers(-128, 127),
    some.integers(-(2**31), 2**31 - 1),
    some.integers(-(2**63), 2**63 - 1) | some.sampled_from([2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1]),
    some.floats(width=32),
    some.floats(),
    some.decimals(Decimal(-(10**20)) + 1, Decimal(10**20) - 1, places=18),
    some.text(some.characters(exclude_categories=["Cs"])),
    some.binary(max_size=9),
    some.dates(date(1, 1, 1), date(9999, 12, 31)),
    MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    MOMENTS,
    some.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
]
ROWS = some.lists(some.tuples(*(some.none() | value for value in VALUES)), max_size=6)


def table_of(rows: list[tuple[Any, ...]], columns: Schema = COLUMNS) -> pa.Table:
    return pa.table(
        [pa.array([row[place] for row in rows], arrow_schema(columns).types[place]) for place in range(len(columns))],
        schema=arrow_schema(columns),
    )


def read_back(table: pa.Table, form: RowFormat, columns: Schema) -> pa.Table:
    return typed_pieces(pieces_of(encode(table, form), form, columns, "s", NO_LIMITS), columns, "s")


def same(one: pa.Table, other: pa.Table) -> bool:
    """Also where they are NaN, and by the sign of zero."""
    return one.schema == other.schema and list(map(repr, one.to_pylist())) == list(map(repr, other.to_pylist()))


@pytest.mark.parametrize("form", list(RowFormat))
@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_there_and_back(form: RowFormat, rows: list[tuple[Any, ...]]) -> None:
    table = table_of(rows)
    assert same(read_back(table, form, COLUMNS), table)


@pytest.mark.parametrize("form", list(RowFormat))
@given(values=some.lists(some.none() | some.text("a\n\r\"', \\;é\x00", max_size=3), max_size=5))
@settings(max_examples=60, deadline=None)
def test_texts_alone(form: RowFormat, values: list[str | None]) -> None:
    columns = (Field("only", types.STRING),)
    table = table_of([(value,) for value in values], columns)
    assert same(read_back(table, form, columns), table)


def test_json_as_people_read_it() -> None:
    moment = datetime(2026, 1, 31, 10, tzinfo=UTC)
    table = table_of([(True, 1, 2, 2**53, 0.1, float("inf"), Decimal("1.5"), "x", b"\xff", date(2026, 1, 31), moment,
                       datetime(2026, 1, 31), timedelta(seconds=1))])  # fmt: skip
    document = json.loads(encode(table, RowFormat.JSON, {"message": "hello"}))
    assert document["message"] == "hello"
    assert document["columns"][3:5] == [{"name": "d", "type": "BIGINT"}, {"name": "e", "type": "FLOAT"}]
    assert document["rows"] == [
        {
            "a": True,
            "b": 1,
            "c": 2,
            "d": "9007199254740992",
            "e": 0.10000000149011612,
            "f": "Infinity",
            "g": "1.500000000000000000",
            "h": "x",
            "i": "/w==",
            "j": "2026-01-31",
            "k": "2026-01-31T10:00:00.000000Z",
            "l": "2026-01-31T00:00:00.000000",
            "M N": 1000000,
        }
    ]
    assert json.loads(encode(table.slice(0, 0), RowFormat.JSON))["rows"] == []


def test_columns_are_named_by_their_types() -> None:
    schema = arrow_schema(COLUMNS)
    assert [column["type"] for column in columns_of(schema)] == [str(field.type) for field in COLUMNS]
    assert [arrow_type(type_name(field.type)) for field in schema] == schema.types


def test_what_may_be_sent_beside() -> None:
    columns = (Field("n", types.INT), Field("t", types.TIMESTAMP), Field("m", decimal(10, 2)), Field("x", types.DOUBLE))
    moment = datetime(2026, 1, 31, 8, tzinfo=UTC)
    sent_so = [
        (b'[["1", "2026-01-31 08:00:00", 1.10, "1e3"]]', RowFormat.JSON),
        (b'{"rows": [{"N": 1, "T": "2026-01-31T10:00+02:00", "M": "1.1", "X": 1000}]}', RowFormat.JSON),
        (b'{"n": 1, "t": "2026-01-31T08:00:00Z", "m": 1.1, "x": 1e3}\r\n\r\n', RowFormat.NDJSON),
        (b"x,M,t,n\r\n1000,1.10,2026-01-31T08:00:00,1\r\n", RowFormat.CSV),
        (b"\xef\xbb\xbfn,t,m,x\n1,2026-01-31T10:00:00+02:00,1.1,1e3", RowFormat.CSV),
    ]
    for body, form in sent_so:
        found = typed_pieces(pieces_of(body, form, columns, "s", NO_LIMITS), columns, "s").to_pylist()
        assert found == [{"n": 1, "t": moment, "m": Decimal("1.10"), "x": 1000.0}], body


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (b"", RowFormat.JSON),
        (b"{", RowFormat.JSON),
        (b'{"a": 1}', RowFormat.JSON),
        (b"7", RowFormat.JSON),
        (b"[[1, 2, 3]]", RowFormat.JSON),
        (b'[{"k": "one", "v": "x"}]', RowFormat.JSON),
        (b'[{"k": 1.5, "v": "x"}]', RowFormat.JSON),
        (b'[{"k": 1, "v": "yesterday"}]', RowFormat.JSON),
        (b'[{"k": 1, "v": 5, "w": 1}]', RowFormat.JSON),
        (b'[{"k": 99999999999, "v": "2026-01-31"}]', RowFormat.JSON),
        (b"[" * 100_000, RowFormat.JSON),
        (b'["\\ud800"]', RowFormat.JSON),
        (b"\xff\xfe", RowFormat.JSON),
        (b"1\n2", RowFormat.NDJSON),
        (b"", RowFormat.CSV),
        (b"k,v\n1", RowFormat.CSV),
        (b"k,v\nx,2026-01-31", RowFormat.CSV),
        (b"k,v,v\n1,2026-01-31,2026-01-31", RowFormat.CSV),
        (b"k\n1", RowFormat.CSV),
        (b"\xff\xfe\x00", RowFormat.CSV),
        (b"", RowFormat.ARROW),
        (b"ARROW1 nonsense", RowFormat.ARROW),
        (b"\xff\xff\xff\xff\x10\x00\x00\x00nonsense", RowFormat.ARROW),
    ],
)
def test_what_cannot_be_read_is_an_input_error(body: bytes, form: RowFormat) -> None:
    columns = (Field("k", types.INT), Field("v", types.DATE))
    with pytest.raises(ms.InputError):
        typed_pieces(pieces_of(body, form, columns, "s", NO_LIMITS), columns, "s")


@pytest.mark.parametrize(
    ("read", "header", "expected"),
    [
        (accepted, None, RowFormat.JSON),
        (accepted, "*/*", RowFormat.JSON),
        (accepted, "text/html, text/csv;q=0.5, application/json;q=0.4", RowFormat.CSV),
        (accepted, "application/vnd.apache.arrow.stream", RowFormat.ARROW),
        (accepted, "text/csv;q=0, application/x-ndjson", RowFormat.NDJSON),
        (sent, None, RowFormat.JSON),
        (sent, "Text/CSV; charset=utf-8", RowFormat.CSV),
    ],
)
def test_formats_by_headers(read: Callable[[str | None], RowFormat], header: str | None, expected: RowFormat) -> None:
    assert read(header) == expected


@pytest.mark.parametrize(("read", "header"), [(accepted, "image/png"), (sent, "text/plain"), (sent, "*/*")])
def test_other_formats_are_refused(read: Callable[[str | None], RowFormat], header: str) -> None:
    with pytest.raises(ms.InputError, match=r"format|read"):
        read(header)


def test_what_curl_says_by_itself_is_no_format_of_rows() -> None:
    with pytest.raises(ms.InputError) as refused:
        sent("application/x-www-form-urlencoded")
    assert "curl -H 'Content-Type: application/json'" in (refused.value.hint or "")
    with pytest.raises(ms.InputError, match="rows cannot be read from text/html"):
        sent("text/html")
