"""Totals of a part of a group as values of a row, from which those of the whole group can be made.

A partial sum is exact, as totals are, and holds whatever the parts come to: it never fails where the whole does not.
Counts are BIGINTs. Sums of whole numbers are decimals of 38 digits, which the sum of 2**63 numbers of 63 bits has not.
All others are the limbs of the total, one after the other: bytes that mean something here only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
import pyarrow as pa

from millstream.kernel.aggregation import exact_sum
from millstream.kernel.aggregation.exact_sum import Limbs
from millstream.types import BIGINT, BINARY, MAX_DECIMAL_PRECISION, DataType, decimal

# What gives a total of an argument as it is, by the kind of the accumulator.
PARTIAL_SUMS: Mapping[str, str] = {
    f"partial_{kind}": kind for kind in ("count", "true", "sum", "square", "nan", "plus_infinity", "minus_infinity")
}
_ZERO = bytes(16)  # as one limb
_DIGITS = 19  # of decimals that can be summed up as decimals, however many there are


def type_of(kind: str, argument: DataType) -> DataType:
    """The type of a partial sum of some kind."""
    if kind not in ("sum", "square"):
        return BIGINT
    if kind == "sum" and (argument.is_integer or (argument.is_decimal and argument.precision <= _DIGITS)):
        return decimal(MAX_DECIMAL_PRECISION, argument.scale if argument.is_decimal else 0)
    return BINARY


def encoded(total: Limbs, kind: DataType) -> pl.Series:
    """Totals as a column of such a type."""
    if kind == BIGINT:
        values, wrong = exact_sum.to_integers(total)
        assert not wrong.any(), "more copies than can be counted"
        return pl.Series(values)
    if kind.is_decimal:
        numbers, wrong = exact_sum.to_decimals(total, kind.precision, kind.scale)
        assert not wrong.any(), "more copies than can be counted"
        return numbers
    kept = exact_sum.trimmed(total)
    words = np.stack([np.full(len(kept), kept.low, np.int64), *kept.parts], axis=1).astype("<i8", copy=False)
    offsets = np.arange(len(kept) + 1, dtype=np.int64) * (8 * words.shape[1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(words))]
    return pl.Series(pa.Array.from_buffers(pa.large_binary(), len(kept), buffers))


def decoded(column: pl.Series) -> Limbs:
    """Totals from the bytes of their limbs, 0 for NULL; parts that were made at different times have different ones."""
    if column.null_count():
        column = column.fill_null(_ZERO)
    array = column.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    if not len(array):
        return exact_sum.zeros(0)
    _, offsets, content = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1] // 8
    words, counts = np.frombuffer(content, "<i8").astype(np.int64, copy=False), np.diff(bounds) - 1
    lows = words[bounds[:-1]]
    low, high = int(lows.min()), int((lows + counts).max())
    parts = np.zeros((high - low, len(array)), np.int64)
    for count in np.unique(counts).tolist():
        rows = np.flatnonzero(counts == count)
        for place in range(count):
            parts[lows[rows] + place - low, rows] = words[bounds[rows] + 1 + place]
    return Limbs(low, tuple(parts))
