"""Rows of many cells as totals of the queries that want them.

    P(X_q)  =  the sum of what the rows of X that q wants contribute,  for each query, group, and time from start to end

Cells pay as long as they are few. With conditions on several attributes nearly every row is wanted by other queries
than the row before: then there are as many cells as rows, and each would be kept, and read by whoever asks. So rows
that start and end together become one row for each query, in the cell of this query alone. That does not take as long
as looking at each query of each row: rows are summed by the values of some bits of their lineage at a time, and these
by the bits of each value.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.aggregation import accumulators, change_points, partial_sums
from millstream.kernel.aggregation.accumulators import COPIES, Totals
from millstream.kernel.aggregation.combining import AggregateCombiner
from millstream.kernel.aggregation.exact_sum import Limbs, grouped
from millstream.kernel.batch import END, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import constant, frame_of, taken
from millstream.kernel.keys import first_of_equal
from millstream.kernel.sharing.cells import CELL, LINEAGE_COLUMN, SPAN, bitmaps_of, by_span, cells_of_queries
from millstream.kernel.sharing.lineage import Bitmaps

LEAST = 4_096  # rows that are worth it
FAR_MORE = 2  # times as many rows as there would be totals
_LOOKED_AT = 2_000  # rows that tell whether there are many cells
_GROUP = "_group"
_TOGETHER = 1 << 18  # rows whose bits are in memory at a time
_PIECE = 1_024  # rows that are turned at a time

Int64s = npt.NDArray[np.int64]
_Unit = np.uint16 | np.uint8


class TotalsOfQueries(AggregateCombiner):
    """Puts together the rows of one task, of which the first two columns have the cell, where cells are many."""

    def sums(self, batch: Batch) -> Batch | None:
        """Rows of totals in the place of rows; None where the rows have few cells, or totals would not be fewer."""
        if self.layout is None or batch.height < LEAST or _are_few(batch):
            return None
        spans = change_points.rows_together(batch)
        if spans is None:
            return None
        names = [value_column(key) for key in self._keys[len(CELL) :]]
        place, heads = _places(batch, names)
        groups = len(spans) * len(heads)
        if batch.height <= FAR_MORE * groups:
            return None
        group = spans.of * len(heads) + place
        pieces = []
        for span, whole in by_span(batch.with_columns(pl.Series(_GROUP, group))):
            for first in range(0, whole.height, _TOGETHER):
                rows = whole[first : first + _TOGETHER]
                bits, own = bitmaps_of(rows), rows.get_column(_GROUP).to_numpy()
                if not first and whole.height <= FAR_MORE * groups * _count_of_queries(bits):
                    return None
                contributions = accumulators.contributions(rows, self._plan.summed)
                pieces.append(_by_query(bits, own, groups, contributions, span * SPAN))
        query, owner = (np.concatenate(parts) for parts in ([p[0] for p in pieces], [p[1] for p in pieces]))
        totals = accumulators.concatenated([piece[2] for piece in pieces])
        keys = taken([batch.get_column(name) for name in names], heads[owner % len(heads)])
        named = dict(zip(map(value_column, self._keys), [*cells_of_queries(query), *keys], strict=True))
        sums = [
            partial_sums.encoded(totals[total], kind).alias(name)
            for total, kind, name in zip(self._plan.summed, self._types, self._names, strict=True)
        ]
        begin = spans.heads[owner // len(heads)]
        times = [pl.Series(name, batch.get_column(name).to_numpy()[begin]) for name in (START, END)]
        weight = constant(WEIGHT, 1, len(begin))
        return frame_of([*(column.alias(name) for name, column in named.items()), *sums, *times, weight])

    def consolidated(self, batch: Batch) -> Batch:
        return batch


def _are_few(batch: Batch) -> bool:
    """Whether many rows are of the same cell, as far as the first of them tell."""
    sample = batch.get_column(LINEAGE_COLUMN)[:_LOOKED_AT]
    return sample.n_unique() * FAR_MORE < len(sample)


def _places(batch: Batch, names: list[str]) -> tuple[Int64s, Int64s]:
    """Of each row the place of its key, and a row of each key."""
    if not names:
        return np.zeros(batch.height, np.int64), np.zeros(1, np.int64)
    heads, place = np.unique(first_of_equal(batch, names), return_inverse=True)
    return place, heads


_ROWS = accumulators.Accumulator("rows")


def _count_of_queries(bits: Bitmaps) -> int:
    """How many want some row."""
    return int(np.bitwise_count(np.bitwise_or.reduce(bits)).sum())


def _by_query(bits: Bitmaps, owner: Int64s, owners: int, totals: Totals, first: int) -> tuple[Int64s, Int64s, Totals]:
    """The totals of each query, numbered from `first` on, and owner that have a row at all; `owner` is of each row."""
    counts, counted = COPIES, totals
    if COPIES not in totals or not totals[COPIES].are_ones():
        counts, counted = _ROWS, {**totals, _ROWS: Limbs(0, (np.ones(len(owner), np.int64),))}
    queries, groups, found = list[Int64s](), list[Int64s](), list[Totals]()
    for bit, sums in _sums_of_bits(bits, owner, owners, counted):
        there = np.flatnonzero(sums[counts].parts[0])
        queries.append(np.full(there.size, first + bit))
        groups.append(there)
        found.append({total: sums[total].take(there) for total in totals})
    return np.concatenate(queries), np.concatenate(groups), accumulators.concatenated(found)


def _sums_of_bits(bits: Bitmaps, owner: Int64s, owners: int, totals: Totals) -> Iterator[tuple[int, Totals]]:
    """Of each bit the totals of its rows for each owner.

    Of 16 bits there are 2**16 values for each owner, if that is fewer than there are rows; else of 8 bits."""
    unit: type[_Unit] = np.uint16 if owners << 16 <= len(owner) else np.uint8
    width = 8 * np.dtype(unit).itemsize
    for place, column in enumerate(_turned(bits.astype("<u8", copy=False).view(unit))):
        code = column.astype(np.int64)
        if owners > 1:
            code += owner << width
        sums = {total: grouped(limbs, code, owners << width) for total, limbs in totals.items()}
        for bit in range(width):
            yield place * width + bit, {total: _with_bit(limbs, owners, bit) for total, limbs in sums.items()}


def _turned(values: npt.NDArray[_Unit]) -> npt.NDArray[_Unit]:
    """Columns as rows: in pieces that fit into the processor's cache, which is several times as fast."""
    turned = np.empty(values.shape[::-1], values.dtype)
    for first in range(0, len(values), _PIECE):
        turned[:, first : first + _PIECE] = values[first : first + _PIECE].T
    return turned


def _with_bit(limbs: Limbs, owners: int, bit: int) -> Limbs:
    """For each owner the sum of what the values have that have a bit."""
    return Limbs(
        limbs.low, tuple(part.reshape(owners, -1, 2, 1 << bit)[:, :, 1].sum(axis=(1, 2)) for part in limbs.parts)
    )
