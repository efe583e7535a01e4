"""Frames with less to write: whole numbers that follow from others are said once.

A column that is one number everywhere, or another column plus one number, is left out, and the schema says how to make
it again. So the elements of a stream, which end an instant after they start and count once, are kept as values and
starts, and not even as starts where a value mirrors the timestamp.
"""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa

_KEY = b"millstream.packed"
_LEAST = 1_024  # rows below which there is nothing to gain
_TRIED = 64  # rows that tell most columns apart


def packed(frame: pl.DataFrame) -> pa.Table:
    """The frame as a table that `unpacked` makes it from again."""
    if frame.height < _LEAST:
        return frame.to_arrow()
    kept: dict[str, np.ndarray] = {}
    rules: dict[str, tuple[str | None, int]] = {}
    for column in frame.get_columns():
        if column.dtype != pl.Int64 or column.null_count():
            continue
        numbers = column.to_numpy()
        rule = _rule(numbers, kept)
        if rule is None:
            kept[column.name] = numbers
        else:
            rules[column.name] = rule
    if not rules:
        return frame.to_arrow()
    table = frame.drop(rules).to_arrow() if len(rules) < frame.width else _height_only(frame.height)
    said = {"columns": frame.columns, "rules": rules}
    return table.replace_schema_metadata({_KEY: json.dumps(said).encode()})


def unpacked(table: pa.Table) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    said = (table.schema.metadata or {}).get(_KEY)
    if said is None:
        return frame
    content = json.loads(said)
    made = {}
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


def _same_everywhere(numbers: np.ndarray) -> bool:
    return bool((numbers[:_TRIED] == numbers[0]).all() and (numbers == numbers[0]).all())


def _height_only(height: int) -> pa.Table:
    """Where every column follows from nothing, how many rows there are must be kept all the same."""
    return pa.table({"": pa.nulls(height)})
