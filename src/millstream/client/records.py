"""Tuples and dicts of Python values as JSON that a service reads back as the same values."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from millstream.errors import InputError
from millstream.wire.values import json_value


def json_rows(owner: str, rows: Any) -> bytes:
    """The rows; what they mean is checked where the columns are known."""
    if isinstance(rows, Mapping | str | bytes) or not hasattr(rows, "__iter__"):
        raise InputError(
            f"{owner}: rows are given as a list of tuples or dicts, or as a pyarrow, polars or pandas table",
            detail=f"got {type(rows).__name__}",
            hint="one row is a list of one: [(1, 'a')] or [{'k': 1, 'v': 'a'}]",
        )
    return json.dumps([_record(row, number, owner) for number, row in enumerate(rows)]).encode()


def _record(row: Any, number: int, owner: str) -> Any:
    if isinstance(row, Mapping):
        return {str(name): _value(value, number, owner) for name, value in row.items()}
    if isinstance(row, str | bytes) or not isinstance(row, Sequence):
        said = f"{owner}: row {number + 1} is a {type(row).__name__}, not a tuple or dict"
        raise InputError(said, hint="one row is a list of one: [(1, 'a')] or [{'k': 1, 'v': 'a'}]")
    return [_value(value, number, owner) for value in row]


def _value(value: Any, number: int, owner: str) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        # One without a zone stays so: in UTC, or of a TIMESTAMP_NTZ.
        return json_value(value) if value.tzinfo is not None else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, list | tuple):
        return [_value(part, number, owner) for part in value]
    if callable(made := getattr(value, "tolist", None)) and getattr(value, "shape", ()) != ():  # a list of NumPy's
        return _value(made(), number, owner)
    item = getattr(value, "item", None)  # of NumPy
    if callable(item) and not isinstance(value, bool | int | float | str):
        value = item()
    if value is None or isinstance(value, bool | int | float | str):
        return json_value(value)
    raise InputError(f"{owner}: row {number + 1} has a {type(value).__name__}, which no column holds")
