"""Frames, a column at a time.

A query of Polars (`select`, `filter`, `sort`, `join`, `group_by`, and most methods of a series) costs 50 to 300
microseconds, whatever its rows: a hundred times the work in a small batch. Epochs are small where many queries
stand, so operators take frames apart into series and arrays, which costs large batches no more. Where a query is the
faster way for many rows only, the rows decide (`is_small`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

Bools = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.integer]

Number = TypeVar("Number", bound=np.generic)

_SMALL = 1_000
_INTEGERS = frozenset((pl.Int8, pl.Int16, pl.Int32, pl.Int64))


def is_small(*rows: int) -> bool:
    """Whether so many rows are worked through before a query of Polars has begun."""
    return sum(rows) <= _SMALL


def frame_of(columns: Sequence[pl.Series]) -> pl.DataFrame:
    """A frame of columns of one length: what `pl.DataFrame` does, in a fraction of the time."""
    return columns[0].to_frame().hstack(list(columns[1:])) if columns else pl.DataFrame()


def chosen(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The columns of these names: what `frame[names]` does, in half the time."""
    return frame_of([frame.get_column(name) for name in names])


def with_columns(frame: pl.DataFrame, *columns: pl.Series) -> pl.DataFrame:
    """The frame with further columns, or others in place of those of the same names."""
    given = {column.name: column for column in columns}
    kept = [given.pop(column.name, column) for column in frame.get_columns()]
    return frame_of([*kept, *given.values()])


def renamed(frame: pl.DataFrame, names: Mapping[str, str]) -> pl.DataFrame:
    columns = frame.get_columns()
    return frame_of([column.alias(names[column.name]) if column.name in names else column for column in columns])


def taken(columns: Sequence[pl.Series], places: Positions | pl.Series) -> list[pl.Series]:
    """The columns at places, in their order."""
    if not columns:
        return []
    chosen = places if isinstance(places, pl.Series) else pl.Series(places.astype(np.uint32))
    return [column[chosen] for column in columns]


def positions(*places: Positions) -> list[pl.Series]:
    """Places as `taken` has them: few of several frames are one series, of which each has a slice."""
    if not is_small(*map(len, places)):
        return [pl.Series(each.astype(np.uint32)) for each in places]
    bounds = [0, *accumulate(map(len, places))]
    together = pl.Series(np.concatenate(places).astype(np.uint32))
    return [together.slice(first, past - first) for first, past in pairwise(bounds)]


def numbered(columns: Mapping[str, npt.NDArray[Number]]) -> list[pl.Series]:
    """Columns of one type by their names, all of one length. A series of an array costs as much as ten slices of one,
    so that a few rows are slices of what they have in common."""
    rows = len(next(iter(columns.values()))) if columns else 0
    if not is_small(rows):
        return [pl.Series(name, column) for name, column in columns.items()]
    together = pl.Series(np.concatenate(list(columns.values())))
    return [together.slice(place * rows, rows).alias(name) for place, name in enumerate(columns)]


def take(frame: pl.DataFrame, places: Positions) -> pl.DataFrame:
    return frame_of(taken(frame.get_columns(), places))


def only(frame: pl.DataFrame, kept: Bools) -> pl.DataFrame:
    """The rows for which `kept` is true; the frame itself where it is so for all."""
    if kept.all():
        return frame
    chosen = pl.Series(kept)
    return frame_of([column.filter(chosen) for column in frame.get_columns()])


def parted(frame: pl.DataFrame, kept: Bools) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows for which `kept` is true, and the others."""
    if not is_small(frame.height) or kept.all() or not kept.any():
        return only(frame, kept), only(frame, ~kept)
    columns = frame.get_columns()
    those, others = positions(kept.nonzero()[0], (~kept).nonzero()[0])
    return frame_of(taken(columns, those)), frame_of(taken(columns, others))


def in_one_piece(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with one chunk of memory for each column."""
    columns = frame.get_columns()
    if all(column.n_chunks() <= 1 for column in columns):
        return frame
    return frame_of([column.rechunk() for column in columns])


def stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All rows, in one piece. All frames have the columns of the first."""
    columns = frames[0].columns
    filled = [frame for frame in frames if frame.height] or [frames[0]]
    if len(filled) > 1 and is_small(*(frame.height for frame in filled)):
        return frame_of([joined([frame.get_column(name) for frame in filled]) for name in columns])
    ordered = [frame if frame.columns == columns else frame[columns] for frame in filled]
    return pl.concat(ordered, rechunk=True) if len(ordered) > 1 else ordered[0].rechunk()


def stacked_diagonally(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All rows, in one piece, with all columns; NULL where a frame has not got one."""
    if all(frame.columns == frames[0].columns for frame in frames[1:]):
        return stacked(frames)
    dtypes = {column.name: column.dtype for frame in frames for column in frame.get_columns()}
    return stacked([_completed(frame, dtypes) for frame in frames])


def _completed(frame: pl.DataFrame, dtypes: Mapping[str, pl.DataType]) -> pl.DataFrame:
    if frame.width == len(dtypes):
        return frame
    known = {column.name: column for column in frame.get_columns()}
    missing = (name for name in dtypes if name not in known)
    known |= {name: nulls(name, dtypes[name], frame.height) for name in missing}
    return frame_of([known[name] for name in dtypes])


def joined(columns: Sequence[pl.Series]) -> pl.Series:
    """The columns one after the other."""
    together = columns[0].clone()
    for column in columns[1:]:
        together.append(column)
    return together.rechunk()


def nulls(name: str, dtype: pl.DataType, count: int) -> pl.Series:
    return _null(name, dtype).new_from_index(0, count)


@lru_cache(maxsize=1024)
def _null(name: str, dtype: pl.DataType) -> pl.Series:
    return pl.Series(name, [None], dtype=dtype)


def constant(name: str, value: int, count: int) -> pl.Series:
    """A BIGINT, so many times."""
    return pl.Series(name, np.full(count, value, np.int64))


def ascending(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The places of the numbers in ascending order; fast where stretches of them are sorted already."""
    if is_small(len(numbers)):
        return np.argsort(numbers, kind="stable")
    return pl.Series(numbers).arg_sort().to_numpy().astype(np.int64)


def is_null(column: pl.Series) -> Bools:
    if not column.null_count():
        return np.zeros(len(column), np.bool_)
    return column.is_null().to_numpy()


def is_plain(column: pl.Series) -> bool:
    """Whether all values are integers of an array, with which to compute takes no query of Polars."""
    return column.dtype in _INTEGERS and not column.null_count()


def are_equal(left: pl.Series, right: pl.Series) -> Bools:
    """Where values agree, NULL as NULL, NaN as NaN and 0.0 as -0.0."""
    if is_plain(left) and is_plain(right):
        equal: Bools = left.to_numpy() == right.to_numpy()
        return equal
    nulls = left.null_count(), right.null_count()
    if nulls == (len(left), len(right)):
        return np.ones(len(left), np.bool_)
    if any(nulls):
        return left.eq_missing(right).to_numpy()
    return (left == right).to_numpy()


def integers(column: pl.Series) -> npt.NDArray[np.int64]:
    """Of a column of integers, or of what is kept as integers, without NULL."""
    if column.dtype != pl.Int64:
        # `to_physical` is a query of Polars; casting these is not, and gives the same.
        is_known = column.dtype.is_integer() or column.dtype.is_temporal()
        column = (column if is_known else column.to_physical()).cast(pl.Int64)
    return column.to_numpy()


def bits(column: pl.Series) -> pl.Series:
    """The column, floats as integers of the same bits: 0.0 and -0.0 differ."""
    if not column.dtype.is_float():
        return column
    return column.reinterpret(dtype=pl.Int64 if column.dtype == pl.Float64 else pl.Int32)


def one_zero(column: pl.Series) -> pl.Series:
    """The column with 0.0 for -0.0, so that values that are equal have the same bits."""
    if not column.dtype.is_float():
        return column
    if not column.null_count():
        return pl.Series(column.name, column.to_numpy() + 0.0)
    # Not `column + 0.0`: Polars takes that for the column itself.
    return column.set(column == 0, 0.0)
