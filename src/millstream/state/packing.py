"""Frames with less to write: whole numbers that follow from others are said once, others in as few bytes as they need.

A column that is one number everywhere, or another column plus one number, is left out, and the schema says how to make
it again. So the elements of a stream, which end an instant after they start and count once, are kept as values and
starts, and not even as starts where a value mirrors the timestamp. Of a column whose numbers lie close together only
the distances from the least of them are written: instants and arrival numbers of a window are.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

_KEY = b"millstream.packed"
_LEAST = 1_024  # rows below which there is nothing to gain
_TRIED = 64  # rows that tell most columns apart
_WIDE: dict[pl.DataType, type[np.signedinteger[Any]]] = {pl.Int64(): np.int64, pl.Int32(): np.int32}
_WIDE_BY_NAME = {str(dtype): dtype for dtype in _WIDE}
_NARROW = (np.uint8, np.uint16, np.uint32)


def packed(frame: pl.DataFrame) -> pa.Table:
    """The frame as a table that `unpacked` makes it from again."""
    if frame.height < _LEAST:
        return frame.to_arrow()
    kept: dict[str, np.ndarray] = {}
    rules: dict[str, tuple[str | None, int]] = {}
    narrow: dict[str, tuple[pl.Series, int, str]] = {}
    for column in frame.get_columns():
        if column.dtype not in _WIDE or column.null_count():
            continue
        numbers = column.to_numpy()
        rule = _rule(numbers, kept) if column.dtype == pl.Int64 else None
        if rule is not None:
            rules[column.name] = rule
            continue
        if column.dtype == pl.Int64:
            kept[column.name] = numbers
        least, distances = _distances(numbers)
        if distances is not None:
            narrow[column.name] = pl.Series(column.name, distances), least, str(column.dtype)
    if not rules and not narrow:
        return frame.to_arrow()
    said: dict[str, object] = {"columns": frame.columns, "rules": rules}
    if narrow:
        frame = pl.DataFrame([narrow[c.name][0] if c.name in narrow else c for c in frame.get_columns()])
        said["narrow"] = {name: rest for name, (_, *rest) in narrow.items()}
    kept_columns = [column for column in frame.get_columns() if column.name not in rules]
    table = pl.DataFrame(kept_columns).to_arrow() if kept_columns else _height_only(frame.height)
    return table.replace_schema_metadata({_KEY: json.dumps(said).encode()})


def unpacked(table: pa.Table) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    said = (table.schema.metadata or {}).get(_KEY)
    if said is None:
        return frame
    content = json.loads(said)
    made = {}
    for name, (least, kind) in content.get("narrow", {}).items():
        dtype = _WIDE_BY_NAME[kind]
        made[name] = pl.Series(name, frame[name].to_numpy().astype(_WIDE[dtype]) + _WIDE[dtype](least), dtype)
    frame = frame.with_columns(made.values())
    for name, (other, number) in content["rules"].items():
        numbers = np.full(frame.height, number) if other is None else frame[other].to_numpy() + number
        made[name] = pl.Series(name, numbers, pl.Int64)
    return pl.DataFrame([made[name] if name in made else frame[name] for name in content["columns"]])


def _rule(numbers: np.ndarray, others: dict[str, np.ndarray]) -> tuple[str | None, int] | None:
    """How numbers follow from nothing (the same everywhere), or from another column."""
    if _same_everywhere(numbers):
        return None, int(numbers[0])
    with np.errstate(over="ignore"):
        for name, other in others.items():
            if _same_everywhere(numbers[:_TRIED] - other[:_TRIED]) and _same_everywhere(numbers - other):
                return name, int(numbers[0] - other[0])
    return None


def _distances(numbers: np.ndarray) -> tuple[int, np.ndarray | None]:
    """The least number, and how far the others are from it, if that takes fewer bytes."""
    least, greatest = int(numbers.min()), int(numbers.max())
    for narrow in _NARROW:
        if greatest - least <= np.iinfo(narrow).max and np.dtype(narrow).itemsize < numbers.itemsize:
            return least, (numbers - numbers.dtype.type(least)).astype(narrow)
    return least, None


def _same_everywhere(numbers: np.ndarray) -> bool:
    return bool((numbers[:_TRIED] == numbers[0]).all() and (numbers == numbers[0]).all())


def _height_only(height: int) -> pa.Table:
    """Where every column follows from nothing, how many rows there are must be kept all the same."""
    return pa.table({"": pa.nulls(height)})
