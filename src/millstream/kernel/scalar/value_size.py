"""How large one value may be: the setting `max_value_bytes`, where functions make texts longer than they were given.

What a function would make is measured before it is made, so that a row of a query cannot take all memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import polars as pl

from millstream.errors import Error
from millstream.types import DataType

MAX_VALUE_BYTES = 16 << 20
_limit: ContextVar[int] = ContextVar("max_value_bytes", default=MAX_VALUE_BYTES)
_Kind = TypeVar("_Kind", bound=Error)


def value_limit() -> int:
    """The bytes that one value may have in what this thread runs."""
    return _limit.get()


@contextmanager
def limited_values(most: int) -> Iterator[None]:
    """What this thread runs within the block makes no value of more than so many bytes."""
    before = _limit.set(most)
    try:
        yield
    finally:
        _limit.reset(before)


def largest_value(column: pl.Series) -> int:
    """The bytes of the largest text or binary of a column; 0 of other types."""
    if column.dtype not in (pl.String, pl.Binary):
        return 0
    return int(column.cast(pl.Binary).bin.size().max() or 0)  # type: ignore[arg-type]


def too_long(value: pl.Expr, kind: DataType) -> pl.Expr | None:
    """Of a declared VARCHAR(n): what is wrong with the texts of more than n characters; NULL for the others."""
    if kind.length is None:
        return None
    characters = value.str.len_chars()
    words = f"{{}} characters are more than the {kind.length:,} of VARCHAR({kind.length})"
    return pl.when(characters > kind.length).then(pl.format(words, characters))


def first_too_long(column: pl.Series, kind: DataType) -> tuple[int, str] | None:
    """The first text that is longer than its declared type allows: its row, and what is wrong."""
    reason = too_long(pl.col("value"), kind)
    if reason is None:
        return None
    found = column.alias("value").to_frame().with_row_index("row").select("row", reason.alias("reason")).drop_nulls()
    return found.row(0) if found.height else None


def too_large(what: str, most: int, kind: type[_Kind]) -> _Kind:
    return kind(f"{what} is more than the {most:,} that one may have", hint="SET max_value_bytes")
