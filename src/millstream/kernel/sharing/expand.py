"""From lineage to rows of each query: where a query's own state begins, or at delivery.

    E(R) = { (q, r, s, e, sum of w) : (r, s, e, w, lineage) in R, q in lineage }

Rows that agree in everything but their weight are a cell, and are summed for each query before they are written out.
Cells of few rows are expanded into pairs of a row and a query. In cells of many rows most pairs would only be added up
again: there the bits are counted, column by column of the bitmaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import ARRIVAL, WEIGHT, Batch, concat
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.keys import Positions, key_codes, stable_order
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.segments import gather, numbers
from millstream.kernel.sharing.keyed_selection import expanded, with_query
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, LINEAGE, Bitmaps, expand, lineage_of, popcounts
from millstream.types import Schema

_ROWS = 2048  # rows whose bitmaps are taken apart together
_PAIRS = 1 << 20  # pairs that are expanded together
# Measured: to count the bits of a row costs as much as to sort this many pairs, and a cell this many more.
_PAIRS_PER_COUNTED_ROW, _PAIRS_PER_COUNTED_CELL = 8, 300

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Sums:
    """Weights per query and cell; `row` is a row of the batch that has the cell's values."""

    row: Positions
    query: Numbers
    weight: Numbers


class Expand(Operator):
    """`schema` in is that of the rows with lineage; out, the query stands before it."""

    def __init__(self, schema: Schema) -> None:
        self.schema = with_query(schema)
        self._width = len(schema)

    @property
    def distribution(self) -> Distribution:
        return anywhere(tuple((index, index + 1) for index in range(self._width)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        kept = [name for name in batch.columns if name not in (BLOCK, LINEAGE, ARRIVAL)]
        empty = expanded(pl.Series([], dtype=pl.Int64), batch.clear().select(kept).get_columns())
        pieces = [_written(batch, kept, sums) for sums in _sums(batch, kept)] if batch.height else []
        return concat(pieces, empty), NO_STATE


def _written(batch: Batch, columns: Sequence[str], sums: _Sums) -> Batch:
    there = sums.weight != 0
    query, row = sums.query[there], sums.row[there]
    weight = pl.Series(WEIGHT, sums.weight[there])
    taken = gather(batch, [name for name in columns if name != WEIGHT], row)
    rows = {series.name: series for series in (*taken, weight)}
    return expanded(pl.Series(query), [rows[name] for name in columns])


def _sums(batch: Batch, columns: Sequence[str]) -> Iterator[_Sums]:
    cells = _cells(batch, [*(name for name in columns if name != WEIGHT), BLOCK])
    lineage, weights = lineage_of(batch), numbers(batch, WEIGHT)
    block = batch[BLOCK].to_numpy().astype(np.int64) * BLOCK_SIZE
    pairs = np.add.reduceat(popcounts(lineage)[cells.rows], cells.starts)
    counted = pairs > _PAIRS_PER_COUNTED_ROW * cells.lengths + _PAIRS_PER_COUNTED_CELL
    counted &= cells.lengths > 1
    for part in _bounded(np.flatnonzero(~counted), pairs, _PAIRS):
        rows, cell = cells.rows_of(part)
        at, bit = expand(lineage[rows])
        yield _added(cell[at], bit + block[rows[at]], weights[rows[at]], cells)
    for number in np.flatnonzero(counted):
        rows = cells.rows[cells.starts[number] : cells.starts[number] + cells.lengths[number]]
        sums = _counted(lineage, weights, rows)
        bits = np.flatnonzero(sums)
        yield _Sums(np.full(bits.size, rows[0]), bits + block[rows[0]], sums[bits])


@dataclass(frozen=True)
class _Cells:
    """The rows of a batch sorted by cell."""

    rows: Positions
    starts: Positions
    lengths: Positions

    def rows_of(self, cells: Positions) -> tuple[Positions, Positions]:
        """The rows of some cells, and the cell of each."""
        lengths = self.lengths[cells]
        first = np.arange(lengths.sum()) - (lengths.cumsum() - lengths).repeat(lengths)
        return self.rows[first + self.starts[cells].repeat(lengths)], cells.repeat(lengths)


def _cells(batch: Batch, columns: Sequence[str]) -> _Cells:
    # By their bits, 0.0 and -0.0 differ, and a row keeps the values it has.
    bits: dict[type[pl.DataType], type[pl.DataType]] = {pl.Float64: pl.Int64, pl.Float32: pl.Int32}
    plain = batch.select(
        pl.col(name).reinterpret(dtype=bits[type(dtype)]) if dtype.is_float() else name
        for name, dtype in batch.select(columns).schema.items()
    )
    codes = key_codes(plain, columns)
    rows = stable_order(codes)
    same = codes[rows[1:]] == codes[rows[:-1]]
    # Rows of equal codes are hardly ever different, but then they must not be taken for one another.
    at = np.flatnonzero(same)
    for series in plain.get_columns():
        one, other = (series[pl.Series(rows[at + shift].astype(np.uint32))] for shift in (0, 1))
        same[at] &= one.eq_missing(other).to_numpy()
    starts = np.flatnonzero(np.append(True, ~same))
    return _Cells(rows, starts, np.diff(starts, append=rows.size))


def _bounded(cells: Positions, pairs: Positions, most: int) -> Iterator[Positions]:
    """The cells in runs of about `most` pairs."""
    runs = pairs[cells].cumsum() // most
    yield from np.split(cells, np.flatnonzero(np.diff(runs)) + 1) if cells.size else ()


def _added(cell: Positions, query: Numbers, weight: Numbers, cells: _Cells) -> _Sums:
    """Sums per cell and query; most cells are a single row, where there is nothing to add."""
    alone = cells.lengths[cell] == 1
    first = cells.rows[cells.starts[cell]]
    if alone.all():
        return _Sums(first, query, weight)
    many = np.flatnonzero(~alone)
    order = many[np.lexsort((query[many], cell[many]))]
    new = np.append(True, (query[order][1:] != query[order][:-1]) | (cell[order][1:] != cell[order][:-1]))
    starts = np.flatnonzero(new)
    added = np.add.reduceat(weight[order], starts)
    kept = order[starts]
    return _Sums(
        np.concatenate([first[alone], first[kept]]),
        np.concatenate([query[alone], query[kept]]),
        np.concatenate([weight[alone], added]),
    )


def _counted(lineage: Bitmaps, weights: Numbers, rows: Positions) -> Numbers:
    """The sum of the weights for each bit."""
    total = np.zeros(BLOCK_SIZE, np.int64)
    for weight in np.unique(weights[rows]):
        chosen = rows[weights[rows] == weight]
        for low in range(0, chosen.size, _ROWS):
            bits = np.unpackbits(lineage[chosen[low : low + _ROWS]].view(np.uint8), axis=1, bitorder="little")
            total += weight * bits.sum(axis=0, dtype=np.uint16)
    return total
