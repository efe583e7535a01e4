"""A batch: a bag of weighted intervals.

    (values, start, end, weight)  stands for `weight` copies of `values` at every instant t with start <= t < end,
    R(t) = the sum over all rows.

Relations and streams share this form: a stream is kept as the relation `S [NOW]`, an element (r, t) being
(r, t, t+1, +1), so that `[NOW]` and RSTREAM are the identity. A batch is a Polars frame; value columns are named by
position (`c0`, `c1`, ...), which makes equal plans equal whatever their aliases. Batches are never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce

import numpy as np
import polars as pl

from millstream.kernel.columns import frame_of, is_small, joined, numbered, only, taken
from millstream.kernel.keys import Ticks, first_of_equal
from millstream.types import Schema, to_polars

Batch = pl.DataFrame

START, END, WEIGHT = "_start", "_end", "_weight"
# Elements of base streams carry their arrival number: it orders ties, and seeds SAMPLE's coin toss.
ARRIVAL = "_arrival"
# Where a NON RETROACTIVE table is joined further up, rows carry the instant at which they were generated: the latest
# start of their stream components. A retraction carries that of the row it retracts.
BORN = "_born"
# Where FIRST or LAST further up go by when elements came, those of windows that slide carry their own instants: several
# of them enter such a window at the same one.
INSTANT = "_instant"
INTERVAL_COLUMNS = (START, END, WEIGHT)

INF = 2**63 - 1
_FEW = 16  # batches
BEFORE_TIME = -1  # the frontier of an input of which nothing is final yet


def value_column(index: int) -> str:
    return f"c{index}"


def value_columns(width: int) -> list[str]:
    return [value_column(index) for index in range(width)]


def batch_schema(schema: Schema, *, arrival: bool = False) -> dict[str, pl.DataType]:
    columns: dict[str, pl.DataType] = {value_column(i): to_polars(f.type) for i, f in enumerate(schema)}
    columns |= {name: pl.Int64() for name in INTERVAL_COLUMNS}
    if arrival:
        columns[ARRIVAL] = pl.Int64()
    return columns


@lru_cache(maxsize=1024)
def empty_batch(schema: Schema, *, arrival: bool = False) -> Batch:
    return pl.DataFrame(schema=batch_schema(schema, arrival=arrival))


def concat(batches: Iterable[Batch], like: Batch) -> Batch:
    """All rows of the batches; `like` gives the columns when there are none."""
    filled = [batch for batch in batches if batch.height]
    if not filled:
        return like.clear()
    if len(filled) <= _FEW:
        return reduce(pl.DataFrame.vstack, filled)  # which costs a small batch a fraction
    return pl.concat(filled)


def saturating_add(instants: Ticks, ticks: int | Ticks) -> Ticks:
    """instants + ticks, where what would pass INF is INF."""
    return np.where(instants > INF - ticks, INF, instants + ticks)


def changes(batch: Batch, columns: Sequence[str]) -> Batch:
    """The batch as change points (values, _start = instant, _weight = change), not yet summed."""
    values = [batch.get_column(name) for name in columns]
    ends, weights = batch.get_column(END).to_numpy(), batch.get_column(WEIGHT).to_numpy()
    if is_small(batch.height) and (ends < INF).all():
        instants = np.concatenate((batch.get_column(START).to_numpy(), ends))
        change = np.concatenate((weights, -weights))
        return frame_of([*(joined([value, value]) for value in values), *numbered({START: instants, WEIGHT: change})])
    starts = frame_of([*values, batch.get_column(START), batch.get_column(WEIGHT)])
    leaving = frame_of([*values, pl.Series(START, ends), pl.Series(WEIGHT, -weights)])
    return starts.vstack(only(leaving, ends < INF))


def net_changes(points: Batch, columns: Sequence[str]) -> Batch:
    """Change points summed per (values, instant), those that cancel left out."""
    if is_small(points.height):
        firsts = first_of_equal(points, [*columns, START])
        sums = np.zeros(points.height, np.int64)
        np.add.at(sums, firsts, points.get_column(WEIGHT).to_numpy())
        kept = np.flatnonzero(sums)
        values = taken([points.get_column(name) for name in (*columns, START)], kept)
        return frame_of([*values, pl.Series(WEIGHT, sums[kept])])
    return points.group_by(*columns, START).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0)
