"""From lineage to rows of each query: where a query's own state begins, or at delivery.

    E(R) = { (q, r, s, e, sum of w) : (r, s, e, w, lineage) in R, q in lineage }

Rows that agree in everything but their weight are a cell, and are summed for each query before they are written out.
Rows of a cell that have the same weight are counted, query by query:

    a single row    each of its bits is a pair of a row and a query
    a few rows      binary counters of all queries side by side, a bit of each in a plane of words: adding a bitmap to
                    them is some XORs and ANDs, for many cells of as many rows at once
    many rows       the same counters for every row, added two and two until few are left; or the pairs sorted, where
                    bits are rare
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import ARRIVAL, INSTANT, WEIGHT, Batch, concat
from millstream.kernel.distribution import Distribution
from millstream.kernel.keys import Positions, key_codes, stable_order
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.sharing.keyed_selection import behind_query, expanded, with_query
from millstream.kernel.sharing.lineage import (
    BLOCK,
    BLOCK_SIZE,
    LINEAGE,
    WORD_BITS,
    Bitmaps,
    expand,
    lineage_of,
    popcounts,
)
from millstream.kernel.storage.segments import gather, numbers
from millstream.types import Schema

_FEW = 16  # rows from which a group is added up by itself
_GROUPS = 2048  # groups that are counted together, and rows whose bits become bytes together
_PAIRS = 1 << 20  # pairs that are written out together
_DENSE = 64  # bits of a row from which looking at all of them costs less than looking for them
_SAMPLE = 1_024  # rows of a large group whose bits tell how many there are
_TOGETHER = 1 << 14  # bitmaps that are added up together, and stay in the cache meanwhile
_LANES = 16  # counters of each bit that are read one by one
# Measured, in nanoseconds: to sort a pair; to add up the bits of a group, and of each of its rows.
_SORTED, _ADDED_GROUP, _ADDED_ROW = 150, 60_000, 100

Numbers = npt.NDArray[np.int64]
Sums = tuple[Positions, Numbers, Numbers]  # a row of the cell, a query, and the sum of the weights
Counts = tuple[Positions, Positions, Numbers]  # of a group, by its place, and a bit: how many rows have it


class Expand(Operator):
    """`schema` in is that of the rows with lineage; out, the query stands before it.

    >>> rows = batch((7, 0, 9, +1), (7, 0, 9, +1), (8, 2, 4, +1))
    >>> lineage = pl.Series(LINEAGE, [[0b110], [0b010], [0b100]], dtype=pl.Array(pl.UInt64, 1))
    >>> rows = rows.with_columns(pl.lit(0, pl.UInt32).alias(BLOCK), lineage)
    >>> show(rows)
    (7, [0, 9), +1, for 1 2)
    (7, [0, 9), +1, for 1)
    (8, [2, 4), +1, for 2)
    >>> Run(Expand(integers("v"))).step(rows, to=2)
    (1, 7, [0, 9), +2)
    (2, 7, [0, 9), +1)
    (2, 8, [2, 4), +1)
    """

    def __init__(self, schema: Schema, *, in_order: bool = False) -> None:
        self.schema = with_query(schema)
        self.in_order = in_order  # whether elements keep their arrival numbers, and so stay apart
        self._width = len(schema)

    @property
    def distribution(self) -> Distribution:
        return behind_query(self._width)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        dropped = (BLOCK, LINEAGE) if self.in_order else (BLOCK, LINEAGE, ARRIVAL, INSTANT)
        kept = [name for name in batch.columns if name not in dropped]
        empty = expanded(pl.Series([], dtype=pl.Int64), batch.clear().select(kept).get_columns())
        pieces = [_written(batch, kept, *sums) for sums in _sums(batch, kept)] if batch.height else []
        return concat(pieces, empty), NO_STATE


def _written(batch: Batch, columns: Sequence[str], row: Positions, query: Numbers, weight: Numbers) -> Batch:
    """Rows of the batch, each for a query and with a weight of its own."""
    if not weight.all():
        there = weight != 0
        row, query, weight = row[there], query[there], weight[there]
    taken = gather(batch, [name for name in columns if name != WEIGHT], row)
    found = {series.name: series for series in (*taken, pl.Series(WEIGHT, weight))}
    return expanded(pl.Series(query), [found[name] for name in columns])


@dataclass(frozen=True)
class _Groups:
    """Rows of a batch sorted by cell, then by weight: those of one weight are a group. Some cells have several."""

    rows: Positions
    starts: Positions
    lengths: Positions
    cells: Positions
    is_single: npt.NDArray[np.bool_]

    def first(self, groups: Positions) -> Positions:
        return self.rows[self.starts[groups]]

    def cell_of_row(self) -> Positions:
        cells = np.empty(self.rows.size, np.intp)
        cells[self.rows] = self.cells.repeat(self.lengths)
        return cells

    def rows_of(self, groups: Positions) -> tuple[Positions, Positions]:
        """The rows of some groups, and the group of each."""
        lengths = self.lengths[groups]
        place = np.arange(lengths.sum()) - (lengths.cumsum() - lengths).repeat(lengths)
        return self.rows[place + self.starts[groups].repeat(lengths)], groups.repeat(lengths)


def _sums(batch: Batch, columns: Sequence[str]) -> Iterator[Sums]:
    groups = _grouped(batch, [*(name for name in columns if name != WEIGHT), BLOCK])
    weights, lineage = numbers(batch, WEIGHT), lineage_of(batch)
    base = batch[BLOCK].to_numpy().astype(np.int64) * BLOCK_SIZE
    single: list[Sums] = []
    shared: list[Sums] = []  # of cells with several groups, which are to be added
    for group, bit, count in _counts(lineage, groups):
        row = groups.first(group)
        found = (row, bit + base[row], count * weights[row])
        for chosen, sums in ((groups.is_single[group], single), (~groups.is_single[group], shared)):
            if chosen.all():
                sums.append(found)
            elif chosen.any():
                sums.append((found[0][chosen], found[1][chosen], found[2][chosen]))
        if sum(row.size for row, _, _ in single) >= _PAIRS:
            yield _joined(single)
            single = []
    if single:
        yield _joined(single)
    if shared:
        yield _added(groups.cell_of_row(), _joined(shared))


def _joined(parts: Sequence[Sums]) -> Sums:
    rows, queries, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return rows, queries, weights


def _grouped(batch: Batch, columns: Sequence[str]) -> _Groups:
    if all(_is_constant(batch[name]) for name in (WEIGHT, *columns)):
        first = np.zeros(1, np.intp)
        return _Groups(np.arange(batch.height), first, first + batch.height, first, np.ones(1, np.bool_))
    # By their bits, 0.0 and -0.0 differ, and a row keeps the values it has.
    bits: dict[type[pl.DataType], type[pl.DataType]] = {pl.Float64: pl.Int64, pl.Float32: pl.Int32}
    plain = batch.select(
        pl.col(name).reinterpret(dtype=bits[type(dtype)]) if dtype.is_float() else name
        for name, dtype in batch.select(columns).schema.items()
    )
    codes, weights = key_codes(plain, columns), numbers(batch, WEIGHT)
    is_uniform = bool((weights == weights[0]).all())
    rows = stable_order(codes) if is_uniform else np.lexsort((weights, codes))
    same = codes[rows[1:]] == codes[rows[:-1]]
    # Rows of equal codes are hardly ever different, but then they must not be taken for one another.
    at = np.flatnonzero(same)
    for series in plain.get_columns():
        one, other = (series[pl.Series(rows[at + shift].astype(np.uint32))] for shift in (0, 1))
        same[at] &= one.eq_missing(other).to_numpy()
    together = same if is_uniform else same & (weights[rows[1:]] == weights[rows[:-1]])
    starts = np.flatnonzero(np.append(True, ~together))
    cells = np.append(True, ~same).cumsum()[starts] - 1
    sizes = np.bincount(cells)
    return _Groups(rows, starts, np.diff(starts, append=rows.size), cells, sizes[cells] == 1)


def _is_constant(series: pl.Series) -> bool:
    """Whether whole numbers, as instants and weights are, are all the same."""
    if not series.dtype.is_integer() or series.null_count():
        return False
    values = series.to_numpy()
    return bool(values[0] == values[-1] and (values == values[0]).all())


def _counts(lineage: Bitmaps, groups: _Groups) -> Iterator[Counts]:
    for length in np.unique(np.minimum(groups.lengths, _FEW)).tolist():
        if length == _FEW:
            yield from _counted_many(lineage, groups, np.flatnonzero(groups.lengths >= _FEW))
            continue
        chosen = np.flatnonzero(groups.lengths == length)
        for low in range(0, chosen.size, _GROUPS):
            part = chosen[low : low + _GROUPS]
            rows = groups.rows[groups.starts[part, None] + np.arange(length)]
            group, bit, count = _counted_in_planes(lineage, rows)
            yield part[group], bit, count


def _counted_in_planes(lineage: Bitmaps, rows: Positions) -> Counts:
    """Counts for groups of as many rows each; plane i holds bit i of every count."""
    planes = [lineage[rows[:, 0]]]
    for number in range(1, rows.shape[1]):
        carry = lineage[rows[:, number]]
        for place, plane in enumerate(planes):
            planes[place], carry = plane ^ carry, plane & carry
        if number + 1 == 1 << len(planes):
            planes.append(carry)
    some = np.bitwise_or.reduce(planes)
    if np.bitwise_count(some).sum(dtype=np.int64) > _DENSE * len(some):
        counts = np.asarray(sum(_as_bytes(plane) << place for place, plane in enumerate(planes)))
        group, bit = np.nonzero(counts)
        return group, bit, counts[group, bit].astype(np.int64)
    group, bit = expand(some)
    shift = (bit & 63).astype(np.uint64)
    bits = [(plane[group, bit >> 6] >> shift & np.uint64(1)).astype(np.int64) for plane in planes]
    return group, bit, np.asarray(sum(each << place for place, each in enumerate(bits)))


def _counted_many(lineage: Bitmaps, groups: _Groups, chosen: Positions) -> Iterator[Counts]:
    bits = _bits(lineage, groups, chosen)
    is_rare = bits * _SORTED < _ADDED_GROUP + groups.lengths[chosen] * _ADDED_ROW
    rare = chosen[is_rare]
    runs = bits[is_rare].cumsum() // _PAIRS
    for part in np.split(rare, np.flatnonzero(np.diff(runs)) + 1) if rare.size else ():
        rows, group = groups.rows_of(part)
        row, bit = expand(lineage[rows])
        pairs, counts = np.unique(group[row] * BLOCK_SIZE + bit, return_counts=True)
        yield pairs // BLOCK_SIZE, pairs % BLOCK_SIZE, counts
    for group in chosen[~is_rare].tolist():
        rows = groups.rows[groups.starts[group] : groups.starts[group] + groups.lengths[group]]
        total = _added_up(lineage if rows.size == len(lineage) else lineage[rows])
        bit = np.flatnonzero(total)
        yield np.full(bit.size, group), bit, total[bit]


class _Scratch(threading.local):
    """Memory that is written over and over: new one would cost more than what is done in it."""

    def __init__(self) -> None:
        self._words = np.empty(0, np.uint64)

    def room(self, width: int) -> Bitmaps:
        size = 5 * (_TOGETHER // 2) * width
        if self._words.size < size:
            self._words = np.empty(size, np.uint64)
        return self._words[:size].reshape(5, -1, width)


_scratch = _Scratch()


def _bits(lineage: Bitmaps, groups: _Groups, chosen: Positions) -> Positions:
    """About how many bits the rows of some groups have."""
    if chosen.size == 1:
        low, length = int(groups.starts[chosen[0]]), int(groups.lengths[chosen[0]])
        apart = max(1, length // _SAMPLE)
        return np.array([popcounts(lineage[groups.rows[low : low + length : apart]]).sum() * apart])
    return np.add.reduceat(popcounts(lineage)[groups.rows], groups.starts)[chosen]


def _added_up(bitmaps: Bitmaps) -> Numbers:
    """How many of the bitmaps have each bit."""
    room = _scratch.room(bitmaps.shape[1])
    total = np.zeros(bitmaps.shape[1] * WORD_BITS, np.int64)
    for low in range(0, len(bitmaps), _TOGETHER):
        total += _added_in_cache(bitmaps[low : low + _TOGETHER], room)
    return total


def _added_in_cache(bitmaps: Bitmaps, room: Bitmaps) -> Numbers:
    total = np.zeros(bitmaps.shape[1] * WORD_BITS, np.int64)
    planes = [bitmaps]  # plane i holds bit i of every counter
    sums, carries, more = room[0], room[1:3].reshape(-1, bitmaps.shape[1]), room[3:]
    while len(planes[0]) > _LANES:
        if len(planes[0]) % 2:
            total += _read([plane[-1:] for plane in planes])
        half = len(planes[0]) // 2
        ones, others = [plane[:half] for plane in planes], [plane[half : 2 * half] for plane in planes]
        # The sums take the place of the counters, but for the first ones, which are not ours; carries need more.
        carry = np.bitwise_and(ones[0], others[0], out=carries[:half])
        planes = [np.bitwise_xor(ones[0], others[0], out=sums[:half])]
        for one, other in zip(ones[1:], others[1:], strict=True):
            differ = np.bitwise_xor(one, other, out=more[0][:half])
            both = np.bitwise_and(one, other, out=more[1][:half])
            planes.append(np.bitwise_xor(differ, carry, out=one))
            carry &= differ
            carry |= both
        planes.append(carry)
        carries = carries[half:]
    return total + _read(planes)


def _read(planes: Sequence[Bitmaps]) -> Numbers:
    """The sum of all counters of each bit."""
    return np.asarray(sum(_as_bytes(plane).sum(axis=0, dtype=np.int64) << place for place, plane in enumerate(planes)))


def _as_bytes(bitmaps: Bitmaps) -> npt.NDArray[np.uint8]:
    return np.unpackbits(bitmaps.view(np.uint8), axis=1, bitorder="little")


def _added(cells: Positions, sums: Sums) -> Sums:
    """Sums over the groups of each cell, given the cells of all rows."""
    row, query, weight = sums
    cell = cells[row]
    order = np.lexsort((query, cell))
    cell, query = cell[order], query[order]
    starts = np.flatnonzero(np.append(True, (query[1:] != query[:-1]) | (cell[1:] != cell[:-1])))
    return row[order][starts], query[starts], np.add.reduceat(weight[order], starts)
