"""Numbers that sort as rows do, so that rows of any types are sorted and compared as integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.columns import integers, is_small
from millstream.kernel.keys import order_codes

Int64s = NDArray[np.int64]
LIMIT = 1 << 62
_SIGN = np.int64(-(1 << 63))


def ordinals(rows: pl.DataFrame, columns: Sequence[str]) -> tuple[Int64s, int]:
    """For each row a number below the second result; greater for rows greater in `columns`, NULL being the least."""
    codes, span = np.zeros(rows.height, np.int64), 1
    for name in columns:
        codes, span = combined((codes, span), _ordinal(rows.get_column(name)))
    return codes, span


def combined(major: tuple[Int64s, int], minor: tuple[Int64s, int]) -> tuple[Int64s, int]:
    """Numbers that sort by the first numbers, then by the second."""
    # Numbers far apart are replaced by ranks, which are as small as can be.
    if major[1] * minor[1] >= LIMIT:
        minor = ranked(minor[0])
    if major[1] * minor[1] >= LIMIT:
        major = ranked(major[0])
    assert major[1] * minor[1] < LIMIT, "ranks of rows in memory always fit"
    return major[0] * minor[1] + minor[0], major[1] * minor[1]


def _ordinal(column: pl.Series) -> tuple[Int64s, int]:
    if column.dtype == pl.Null or not len(column):
        return np.zeros(len(column), np.int64), 1
    if (column.dtype.is_integer() or column.dtype.is_temporal()) and not column.null_count():
        values = integers(column)
        least, greatest = int(values.min()), int(values.max())
        if greatest - least < LIMIT:
            return values - least, greatest - least + 1
    if column.dtype.is_float() and not column.null_count() and is_small(len(column)):
        return ranked(order_codes(column).view(np.int64) ^ _SIGN)
    ranks = column.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
    return ranks, int(ranks.max()) + 1


def ranked(codes: Int64s) -> tuple[Int64s, int]:
    if is_small(len(codes)):
        distinct, ranks = np.unique(codes, return_inverse=True)
        return ranks, max(len(distinct), 1)
    ranks = pl.Series(codes).rank("dense").cast(pl.Int64).to_numpy() - 1
    return ranks, int(ranks.max()) + 1


def heads(sorted_codes: Int64s) -> NDArray[np.bool_]:
    """Where a number differs from the one before it."""
    result = np.ones(len(sorted_codes), np.bool_)
    np.not_equal(sorted_codes[1:], sorted_codes[:-1], out=result[1:])
    return result
