"""Rows as they are compared: one NaN for all, timestamps in UTC without saying so."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from typing import Any


def plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return math.nan
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return tuple(value) if isinstance(value, list) else value


def plain_rows(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(plain(value) for value in row) for row in rows]


def sort_key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """How elements of a derived stream tie: by value, NULL first, NaN last."""
    return tuple(
        (0,)
        if value is None
        else (2,)
        if value != value
        else (1, sort_key(value) if isinstance(value, tuple) else value)
        for value in row
    )
