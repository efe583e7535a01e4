"""Rows that are sent: read in pieces, so that a request takes memory for what it unpacks to, and no more.

A piece of JSON or CSV becomes values of Python or texts, which take many times their bytes, and these become columns
before the next piece is read.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv

from millstream.errors import InputError, TooLargeError
from millstream.types import DataType, Schema
from millstream.wire.arrow import BodyLimits, arrow_batches
from millstream.wire.media import RowFormat
from millstream.wire.values import from_json, from_text

_PIECE = 20_000  # rows
_SMALL = 1 << 20  # bytes of JSON that are parsed as they are, whatever is in them
_LISTED = 1_000_000  # values of a long row that has lists
_BLOCK = 4 << 20  # bytes of CSV
# A row: an object or a list of values, among which are lists to some depth, but no objects.
_STRING = rb'"(?:[^"\\]|\\.)*+"'
_VALUES = rb"(?:[^][{}\"]|" + _STRING + rb")*+"
for _ in range(4):
    _VALUES = rb"(?:[^][{}\"]|" + _STRING + rb"|\[" + _VALUES + rb"\])*+"
_ROW = re.compile(rb"\s*+(\{" + _VALUES + rb"\}|\[" + _VALUES + rb"\])\s*+", re.DOTALL)
_STRING_OR_COMMA = re.compile(_STRING + rb"|,", re.DOTALL)
# A list of rows, or a document that has one as its `rows`: where they begin, and how they end.
_BEGIN = re.compile(rb'\s*+(\{.{0,65536}?"rows"\s*+:\s*+)?\[', re.DOTALL)
_END = re.compile(rb"\s*+\]\s*+\Z"), re.compile(rb"\s*+\]\s*+(?:,.{0,65536})?\}\s*+\Z", re.DOTALL)


def pieces_of(body: bytes, form: RowFormat, columns: Schema, owner: str, limits: BodyLimits) -> Iterator[Any]:
    """Rows for `insert`, whose columns are known, piece by piece; it checks them."""
    match form:
        case RowFormat.ARROW:
            schema, batches = arrow_batches(body, limits)
            empty = pa.Table.from_batches([], schema.remove_metadata())
            return itertools.chain([empty], (pa.Table.from_batches([batch]) for batch in batches))
        case RowFormat.CSV:
            return _from_csv(body, columns, owner, limits)
        case RowFormat.JSON:
            rows = _rows_of_json(body, columns, owner)
        case RowFormat.NDJSON:
            rows = _rows_of_lines(body, columns)
    return _in_pieces(_records(rows, columns, owner), limits)


def _in_pieces(rows: Iterator[Any], limits: BodyLimits) -> Iterator[list[Any]]:
    count, piece = 0, [*itertools.islice(rows, _PIECE)]
    yield piece
    while piece:
        count += len(piece)
        limits.check(count, 0)
        if piece := [*itertools.islice(rows, _PIECE)]:
            yield piece


def parsed(body: bytes, *, exact: bool = False) -> Any:
    """A JSON document; fractions as decimals where they are wanted exactly."""
    try:
        return json.loads(body, parse_float=Decimal if exact else None)
    except RecursionError:
        raise InputError("the body is nested too deeply") from None
    except ValueError as error:
        raise InputError("the body is not JSON", detail=str(error)) from None


def check_document(body: bytes, limits: BodyLimits) -> None:
    """Refuse a JSON document whose values would take too much memory; an upper bound of theirs is easily had."""
    size = len(body) + 72 * (body.count(b"[") + body.count(b"{")) + 64 * body.count(b",")
    limits.check(0, size)


def _no_list(owner: str) -> InputError:
    hint = 'one row is a list of one: [[1, "a"]] or [{"k": 1, "v": "a"}]'
    return InputError(f"{owner}: the body is a list of rows, each a list or an object", hint=hint)


def _rows_of_json(body: bytes, columns: Schema, owner: str) -> Iterable[Any]:
    exact = any(field.type.is_decimal for field in columns)
    if len(body) > _SMALL:
        return _rows_one_by_one(body, _most_values(columns), exact, owner)
    document = parsed(body, exact=exact)
    rows = document.get("rows") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise _no_list(owner)
    return rows


def _rows_one_by_one(body: bytes, most: int, exact: bool, owner: str) -> Iterator[Any]:
    """The rows of a long list, without those behind them."""
    start = _BEGIN.match(body)
    if start is None:
        raise _no_list(owner)
    place, number, end = start.end(), 0, _END[start[1] is not None]
    while end.match(body, place) is None:
        if number:
            if body[place : place + 1] != b",":
                raise InputError("the body is not JSON", detail=f"behind row {number}, at byte {place}")
            place += 1
        number += 1
        found = _ROW.match(body, place)
        if found is None:
            raise InputError(
                f"{owner}: row {number} is not a list or an object of values", detail=f"at byte {place} of the body"
            )
        yield _row(found[1], most, exact)
        place = found.end()


def _rows_of_lines(body: bytes, columns: Schema) -> Iterator[Any]:
    exact = any(field.type.is_decimal for field in columns)
    most = _most_values(columns)
    return (_row(line, most, exact) for line in io.BytesIO(body) if line.strip())


def _most_values(columns: Schema) -> int:
    """How many values a long row may have, with those of its lists."""
    return _LISTED if any(field.type.is_list for field in columns) else 4 * len(columns) + 16


def _row(text: bytes, most: int, exact: bool) -> Any:
    """One row. A long one is long for its texts and lists, and not for having more values than a row has."""
    if len(text) > _SMALL and _has_commas(text, most):
        raise TooLargeError(f"a row of more than {most:,} values", detail=f"it has {len(text):,} bytes")
    return parsed(text, exact=exact)


def _has_commas(text: bytes, most: int) -> bool:
    """Whether a text has more than so many commas outside of its strings."""
    commas = (found for found in _STRING_OR_COMMA.finditer(text) if found[0] == b",")
    return next(itertools.islice(commas, most, None), None) is not None


def _records(rows: Iterable[Any], columns: Schema, owner: str) -> Iterator[Any]:
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


def _from_csv(body: bytes, columns: Schema, owner: str, limits: BodyLimits) -> Iterator[pa.Table]:
    """CSV with a header; a column is found by its name."""
    try:
        header = next(csv.reader(io.TextIOWrapper(io.BytesIO(body), "utf-8-sig", newline="")), [])
        if len({name.lower() for name in header}) != len(header):
            raise InputError(f"{owner}: a column comes twice", detail=f"the header is {', '.join(header)}")
        reader = _csv_reader(body, header)
        rows = 0
        yield _typed(reader.schema.empty_table(), columns, owner)
        for batch in reader:
            rows += batch.num_rows
            limits.check(rows, 0)
            yield _typed(pa.Table.from_batches([batch]), columns, owner)
    except (pa.ArrowInvalid, csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{owner}: the body is not CSV with a header", detail=str(error).split("\n")[0]) from None


def _csv_reader(body: bytes, header: Sequence[str]) -> Any:
    # A row must lie in one block, and its end in the next one: the longest line says how much that is.
    longest = _BLOCK if len(body) > _BLOCK else len(body)
    if len(body) > _BLOCK and b'"' in body:
        longest = len(body)  # texts in quotes may have any number of lines
    elif len(body) > _BLOCK:
        longest = max(_BLOCK, max(map(len, io.BytesIO(body)), default=0))
    return pyarrow.csv.open_csv(
        io.BytesIO(body),
        read_options=pyarrow.csv.ReadOptions(block_size=max(longest, 1) + 1),
        # In a file of one column, a line with nothing in it is a NULL.
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(header) != 1),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _typed(texts: pa.Table, columns: Schema, owner: str) -> pa.Table:
    kinds = {field.name.lower(): field.type for field in columns}
    return pa.table(
        {
            # One that is not there is left for those who check rows.
            name: from_text(texts.column(name), kinds[name.lower()], name, owner)
            if name.lower() in kinds
            else texts[name]
            for name in texts.column_names
        }
    )
