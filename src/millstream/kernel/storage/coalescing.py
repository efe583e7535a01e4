"""The same relation in fewer rows: what was taken back has its end, what cancels is gone, what is over is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import END, INF, INTERVAL_COLUMNS, START, WEIGHT
from millstream.kernel.columns import bits, frame_of, only, stacked, with_columns
from millstream.kernel.keys import Positions, first_of_equal
from millstream.kernel.storage.segments import gather, numbers


def current(rows: pl.DataFrame, first: int) -> pl.DataFrame:
    """The same relation from the instant `first` on, in fewer rows."""
    if first > 0:
        rows = only(rows, numbers(rows, END) > first)
        rows = with_columns(rows, pl.Series(START, np.maximum(numbers(rows, START), first)))
    return coalesced(rows) if (numbers(rows, WEIGHT) < 0).any() else rows


def coalesced(rows: pl.DataFrame) -> pl.DataFrame:
    """The same relation, of the values that were taken back with one row for each span over which their copies stay the
    same: a row that was taken back has its end, and what cancels is gone."""
    values = [name for name in rows.columns if name not in INTERVAL_COLUMNS]
    # 0.0 and -0.0 count as equal; bits differ.
    plain = frame_of([part for name in values for part in _bits(rows.get_column(name))])
    value = first_of_equal(plain, plain.columns) if values else np.zeros(rows.height, np.intp)
    changed = np.isin(value, value[numbers(rows, WEIGHT) < 0])
    return stacked([only(rows, ~changed), _spans(rows, values, value, np.flatnonzero(changed))])


def _bits(column: pl.Series) -> list[pl.Series]:
    """The column by its bits where these count: those of a lineage word by word."""
    if isinstance(column.dtype, pl.Array):
        words = column.to_numpy().reshape(len(column), -1).view(np.int64)
        return [pl.Series(f"{column.name} {place}", np.ascontiguousarray(word)) for place, word in enumerate(words.T)]
    return [bits(column)]


def _spans(rows: pl.DataFrame, values: Sequence[str], value: Positions, chosen: Positions) -> pl.DataFrame:
    """Of the chosen rows; of all rows `value` says which of them has the same values first."""
    start, end, weight = (numbers(rows, name)[chosen] for name in INTERVAL_COLUMNS)
    leaves = np.flatnonzero(end < INF)
    instant = np.concatenate((start, end[leaves]))
    of = np.concatenate((value[chosen], value[chosen][leaves]))
    change = np.concatenate((weight, -weight[leaves]))
    order = np.lexsort((instant, of))
    instant, of, total = instant[order], of[order], np.cumsum(change[order])
    last = np.flatnonzero(np.append((instant[1:] != instant[:-1]) | (of[1:] != of[:-1]), True))
    instant, of, total = instant[last], of[last], total[last]
    begins = np.append(True, of[1:] != of[:-1])
    # One running sum goes through all values: where it stood when a value began is taken off again.
    before = np.append(0, total[:-1])
    copies = total - before[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    moved = np.flatnonzero(copies != np.where(begins, 0, np.append(0, copies[:-1])))
    instant, of, copies = instant[moved], of[moved], copies[moved]
    until = np.append(np.where(of[1:] == of[:-1], instant[1:], INF), INF)[: of.size]
    kept = np.flatnonzero(copies)
    made = dict(zip(values, gather(rows, values, of[kept]), strict=True))
    intervals = {START: instant[kept], END: until[kept], WEIGHT: copies[kept]}
    made |= {name: pl.Series(name, column) for name, column in intervals.items()}
    return frame_of([made[name] for name in rows.columns])
