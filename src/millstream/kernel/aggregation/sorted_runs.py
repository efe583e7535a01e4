"""Sorted runs: state that grows by small additions and is looked up without being read through.

A synopsis is a tuple of runs, oldest and largest first, each a frame sorted by its key. An addition becomes a
run of its own; when the newer runs together outgrow an older one they are merged with it, so that a row is
rewritten at most log2(rows) times in its life and a look-up searches at most log2(rows) runs. What merging
means (adding weights, letting the newest win, dropping what is dominated) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.columns import integers, is_small
from millstream.kernel.lists import ranks
from millstream.kernel.operator import Segment
from millstream.kernel.storage.memory import can_merge

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
SortedRuns = tuple[Segment, ...]
# Runs up to this size are rewritten with every addition: fewer runs are worth more than a few rows less written.
_SMALL = 2048
# Hashing a whole run costs less than bisecting it while it is not so many times larger than what is looked for:
# fewer times where keys are integers, which bisect well.
_HASH_INTEGERS, _HASH_OTHERS = 2, 16


def add_run(runs: SortedRuns, new: Segment, merge: Callable[[Sequence[Segment], bool], Segment]) -> SortedRuns:
    """The runs with one more; `merge(runs, oldest)` makes one of several, `oldest` telling that none lies below."""
    if not new.height:
        return runs
    kept, rows = len(runs), new.height
    while kept and runs[kept - 1].height <= max(rows, _SMALL):
        if not can_merge((*runs[kept - 1 :], new)):
            break
        kept -= 1
        rows += runs[kept].height
    if kept == len(runs):
        return (*runs, new)
    merged = merge((*runs[kept:], new), kept == 0)
    return (*runs[:kept], merged) if merged.height else runs[:kept]


def find(run: Segment, columns: Sequence[str], wanted: pl.DataFrame) -> Int64s:
    """Where each wanted key is in a run sorted by `columns` (NULL first) without repetitions; -1 where it is not."""
    if not run.height or not wanted.height:
        return np.full(wanted.height, -1, np.int64)
    sought = [_Sought.of(run.get_column(name), wanted.get_column(name)) for name in columns]
    factor = _HASH_INTEGERS if all(column.is_integer for column in sought) else _HASH_OTHERS
    if run.height <= factor * wanted.height and not is_small(run.height):
        places = _by_bits(run, columns).with_row_index("_place")
        joined = _by_bits(wanted, columns).join(
            places, on=list(columns), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined.get_column("_place").cast(pl.Int64).fill_null(-1).to_numpy()
    if len(sought) == 1 and sought[0].is_integer:
        return _found(np.asarray(sought[0].column), np.asarray(sought[0].sought))
    low = np.zeros(wanted.height, np.int64)
    high = np.full(wanted.height, run.height, np.int64)
    for _ in range(run.height.bit_length()):
        middle = (low + high) >> 1
        less, _ = _compare(sought, np.minimum(middle, run.height - 1))
        before = less & (low < high)
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    _, equal = _compare(sought, np.minimum(low, run.height - 1))
    return np.where(equal & (low < run.height), low, -1)


def _found(ascending: Int64s, wanted: Int64s) -> Int64s:
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[places] == wanted, places, -1)


def _by_bits(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The columns with the bits of floats in place of them: where both sides are known to be sorted, Polars joins by
    comparing, and NaN is not found."""
    series = (frame.get_column(name) for name in columns)
    return pl.DataFrame(
        [
            one.cast(pl.Float64).fill_nan(float("nan")).reinterpret(dtype=pl.Int64) if one.dtype.is_float() else one
            for one in series
        ]
    )


@dataclass(frozen=True, eq=False)
class _Sought:
    """A column of a run and the values sought in it, as integers where the type allows."""

    column: Int64s | pl.Series
    sought: Int64s | pl.Series

    @staticmethod
    def of(column: pl.Series, sought: pl.Series) -> _Sought:
        if column.null_count() or sought.null_count() or column.dtype == pl.Null:
            return _Sought(column, sought)
        if column.dtype.is_integer() or column.dtype.is_temporal() or column.dtype == pl.Boolean:
            return _Sought(integers(column), integers(sought))
        if column.dtype.is_float():
            return _Sought(_float_order(column), _float_order(sought))
        return _Sought(column, sought)

    @property
    def is_integer(self) -> bool:
        return not isinstance(self.column, pl.Series)

    def compare(self, places: Int64s) -> tuple[Bools, Bools]:
        """Is the value at each place less than the one sought there, and is it equal?"""
        if not isinstance(self.column, pl.Series):
            here = self.column[places]
            return here < self.sought, here == self.sought
        assert isinstance(self.sought, pl.Series)
        if self.column.dtype == pl.Null:
            return np.zeros(len(places), np.bool_), np.ones(len(places), np.bool_)
        values, sought = self.column.gather(places), self.sought
        if isinstance(values.dtype, pl.List):
            values, sought = ranks(values, sought)
        less = (values < sought).fill_null(False) | (values.is_null() & sought.is_not_null())
        return less.to_numpy(), values.eq_missing(sought).to_numpy()


def _float_order(values: pl.Series) -> Int64s:
    """Integers in the order of doubles: the bits, those of negative numbers turned round; NaN is the greatest."""
    doubles = values.cast(pl.Float64).to_numpy()
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return bits ^ ((bits >> 63) & 0x7FFF_FFFF_FFFF_FFFF)


def _compare(columns: Sequence[_Sought], places: Int64s) -> tuple[Bools, Bools]:
    """Is the key at each place of the run less than the key sought there, and is it equal?"""
    less, equal = columns[0].compare(places)
    for column in columns[1:]:
        smaller, same = column.compare(places)
        less |= equal & smaller
        equal &= same
    return less, equal


def bisect_within(values: Int64s, low: Int64s, high: Int64s, bound: int) -> Int64s:
    """For each range [low, high) of ascending values the first place whose value exceeds the bound, else high."""
    low, high = low.copy(), high.copy()
    longest = int((high - low).max()) if len(low) else 0
    for _ in range(longest.bit_length()):
        middle = (low + high) >> 1
        beyond = (low >= high) | (values[np.minimum(middle, len(values) - 1)] > bound)
        low, high = np.where(beyond, low, middle + 1), np.where(beyond, np.minimum(high, middle), high)
    return low


def expand(starts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
    """All places of the ranges [start, stop), and which range each belongs to."""
    lengths = np.maximum(stops - starts, 0)
    owner = np.repeat(np.arange(len(starts)), lengths)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return starts[owner] + offset, owner
