"""Sorted runs: state that grows by small additions and is looked up without being read through.

A synopsis is a tuple of runs, oldest and largest first, each a frame sorted by its key. An addition becomes a run of its
own; when the newer runs together outgrow an older one they are merged with it, so that a row is rewritten at most
log2(rows) times in its life and a look-up searches at most log2(rows) runs. What merging means (adding weights, letting
the newest win, dropping what is dominated) is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.operator import Segment

Int64s = NDArray[np.int64]
Runs = tuple[Segment, ...]
# Reading a whole run costs less than searching it while it is not much larger than what is looked for.
_SCAN_FACTOR = 16


def add_run(runs: Runs, new: Segment, merge: Callable[[Sequence[Segment], bool], Segment]) -> Runs:
    """The runs with one more; `merge(runs, oldest)` makes one of several, `oldest` telling that none lies below."""
    if not new.height:
        return runs
    kept, rows = len(runs), new.height
    while kept and runs[kept - 1].height <= rows:
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
    if run.height <= _SCAN_FACTOR * wanted.height:
        places = run.select(columns).with_row_index("_place")
        joined = wanted.select(columns).join(
            places, on=list(columns), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined.get_column("_place").cast(pl.Int64).fill_null(-1).to_numpy()
    pairs = [(run.get_column(name), wanted.get_column(name)) for name in columns]
    low = np.zeros(wanted.height, np.int64)
    high = np.full(wanted.height, run.height, np.int64)
    for _ in range(run.height.bit_length()):
        middle = (low + high) >> 1
        before = _less(pairs, np.minimum(middle, run.height - 1)) & (low < high)
        low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
    inside = np.minimum(low, run.height - 1)
    equal = low < run.height
    for column, sought in pairs:
        equal &= column.gather(inside).eq_missing(sought).to_numpy()
    return np.where(equal, low, -1)


def _less(pairs: Sequence[tuple[pl.Series, pl.Series]], places: Int64s) -> NDArray[np.bool_]:
    """Is the key at each place of the run less than the key sought there?"""
    less = np.zeros(len(places), np.bool_)
    equal = np.ones(len(places), np.bool_)
    for column, sought in pairs:
        if column.dtype == pl.Null:
            continue
        here = column.gather(places)
        smaller = (here < sought).fill_null(False) | (here.is_null() & sought.is_not_null())
        less |= equal & smaller.to_numpy()
        equal &= here.eq_missing(sought).to_numpy()
    return less


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
