"""Columns of lists, taken apart into the column of all their elements and put together again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Lengths = npt.NDArray[np.int64]


def lengths(column: pl.Series) -> Lengths:
    """How many elements each list has; NULL has none."""
    return column.list.len().fill_null(0).to_numpy().astype(np.int64)


def elements(column: pl.Series) -> pl.Series:
    """All elements of all lists, in order."""
    return column.filter(column.list.len() > 0).explode()


def listed(values: pl.Series, sizes: Lengths, missing: pl.Series | None = None) -> pl.Series:
    """Lists of so many of the values each, one after the other; NULL where `missing` says so."""
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    mask = None if missing is None or not missing.any() else pa.array(missing.to_numpy())
    array = pa.LargeListArray.from_arrays(pa.array(offsets), values.rechunk().to_arrow(), mask=mask)
    return pl.Series(values.name, array, dtype=pl.List(values.dtype))


def each(column: pl.Series, change: Callable[[pl.Expr], pl.Expr], dtype: pl.DataType) -> pl.Series:
    """The lists with every element changed."""
    values = elements(column).alias("element").to_frame().select(change(pl.col("element")).cast(dtype)).to_series()
    return listed(values.alias(column.name), lengths(column), column.is_null())


def ranks(*columns: pl.Series) -> list[pl.Series]:
    """Numbers that compare as the lists of all columns together do: element by element, NULL first, a shorter one
    before those that it begins; NULL for NULL."""
    together = pl.concat([column.alias("list") for column in columns]).rank("dense")
    places = np.cumsum([0, *map(len, columns)])
    return [together.slice(int(first), len(column)) for first, column in zip(places, columns, strict=False)]
