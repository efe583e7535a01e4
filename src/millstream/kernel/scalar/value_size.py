"""How large one value may be: the setting `max_value_bytes`, and VARCHAR(n)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import polars as pl

from millstream.errors import Error
from millstream.kernel import lists
from millstream.kernel.step_limits import StepLimits, step_limits
from millstream.types import DataType

MAX_VALUE_BYTES = StepLimits.value_bytes
_Kind = TypeVar("_Kind", bound=Error)


def value_limit() -> int:
    """The bytes that one value may have in what this thread runs."""
    return step_limits().value_bytes


def largest_value(column: pl.Series) -> int:
    """The bytes of the largest text, binary or list of a column; 0 of other types."""
    if isinstance(column.dtype, pl.List):
        return int(list_sizes(column).max(initial=0))
    if column.dtype not in (pl.String, pl.Binary):
        return 0
    return int(column.cast(pl.Binary).bin.size().max() or 0)  # type: ignore[arg-type]


def list_sizes(column: pl.Series) -> lists.Lengths:
    """The bytes that each list of a column holds, eight at least for an element."""
    values = lists.elements(column)
    if isinstance(values.dtype, pl.List):
        own = list_sizes(values)
    elif values.dtype in (pl.String, pl.Binary):
        own = values.cast(pl.Binary).bin.size().fill_null(0).to_numpy().astype(np.int64)
    else:
        own = np.zeros(len(values), np.int64)
    ends = np.cumsum(sizes := lists.lengths(column))
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(own + 8)))
    found: lists.Lengths = running[ends] - running[ends - sizes]
    return found


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
