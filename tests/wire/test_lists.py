"""Lists over the wire: in JSON they are lists of such values, in CSV the text of them, in Arrow as they are."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from millstream.errors import InputError
from millstream.ingest.typed_rows import typed_pieces
from millstream.types import BIGINT, BINARY, DATE, DOUBLE, STRING, Field, Schema, array, arrow_schema, decimal
from millstream.wire.arrow import NO_LIMITS
from millstream.wire.bodies import pieces_of
from millstream.wire.media import RowFormat
from millstream.wire.rows import columns_of, encode
from millstream.wire.values import arrow_type

SCHEMA: Schema = (
    Field("n", array(BIGINT)),
    Field("x", array(DOUBLE)),
    Field("s", array(STRING)),
    Field("b", array(BINARY)),
    Field("d", array(DATE)),
    Field("m", array(decimal(5, 2))),
    Field("l", array(array(BIGINT))),
)
ROWS = [
    {
        "n": [1, None, 1 << 60],
        "x": [0.5, float("inf")],
        "s": ["a, 'b'", "", None],
        "b": [b"\x00"],
        "d": [dt.date(2024, 2, 29)],
        "m": [Decimal("1.50")],
        "l": [[1], [], None],
    },
    {name: [] for name in "nxsbdml"},
    dict.fromkeys("nxsbdml"),
]


@pytest.mark.parametrize("form", list(RowFormat))
@pytest.mark.parametrize("times", [1, 80])  # few rows are written one by one
def test_rows_come_back_as_they_were(form: RowFormat, times: int) -> None:
    table = pa.Table.from_pylist(ROWS * times, arrow_schema(SCHEMA))
    assert _read(encode(table, form), form, SCHEMA).to_pylist() == table.to_pylist()


def test_types_have_names() -> None:
    names = [column["type"] for column in columns_of(arrow_schema(SCHEMA))]
    assert names[0] == "ARRAY<BIGINT>"
    assert names[-1] == "ARRAY<ARRAY<BIGINT>>"
    assert [arrow_type(name) for name in names] == list(arrow_schema(SCHEMA).types)


def test_what_is_no_list_is_refused() -> None:
    for body in (b'[{"n": 1}]', b'[{"n": ["x"]}]', b'[{"n": [1.5]}]'):
        with pytest.raises(InputError, match='column "n"'):
            _read(body, RowFormat.JSON, SCHEMA[:1])
    with pytest.raises(InputError, match='column "n" does not fit'):
        _read(b'n\n"[1"\n', RowFormat.CSV, SCHEMA[:1])


def _read(body: bytes, form: RowFormat, columns: Schema) -> pa.Table:
    return typed_pieces(pieces_of(body, form, columns, "stream s", NO_LIMITS), columns, "stream s")
