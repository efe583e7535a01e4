"""To whom the leaves of the trees of many queries belong: to cells of queries that want the same rows, or to queries.

    leaves(q)  =  the union over the cells c with q in c of  leaves(c),    where there are few cells
    leaves(q)  =  its own,                                                 where rows are hardly ever wanted by the same

A row is in one cell (of a block of queries), however many queries want it: so it costs one leaf to take in, and a query
is answered from the cells that it is in. Where there are nearly as many cells as rows, cells would save nothing, and a
query would have to look at all its rows; there it has leaves of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millstream.kernel.sharing.lineage import (
    BLOCK_SIZE,
    WORD_BITS,
    WORDS,
    Bitmaps,
    any_bit,
    bit_of,
    distinct,
    expand,
    word_of,
)

Int64s = NDArray[np.int64]
FEW_CELLS = 1024  # whose rows are looked at without a node in no time
ROWS_OF_A_CELL = 16  # on average, as many as a node has: from here on cells have nodes of their own


@dataclass(frozen=True)
class Cells:
    """Sets of queries, each of one block."""

    blocks: Int64s
    words: Bitmaps

    def __len__(self) -> int:
        return self.blocks.size

    def of(self, queries: Int64s) -> tuple[Int64s, Int64s]:
        """(cell, place of the query) of each cell that one of some queries is in, which are in order."""
        if queries.size == 1:
            found = self._of_one(int(queries[0]))
            return found, np.zeros(found.size, np.int64)
        cells, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for block in np.unique(queries // BLOCK_SIZE).tolist():
            first, past = np.searchsorted(queries, [block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE])
            mask, own = np.zeros(WORDS, np.uint64), queries[first:past]
            np.bitwise_or.at(mask, word_of(own), bit_of(own))
            here = np.flatnonzero(self.blocks == block)
            cell, bit = expand(self.words[here] & mask[: self.words.shape[1]])
            cells.append(here[cell])
            places.append(np.searchsorted(queries, block * BLOCK_SIZE + bit))
        return np.concatenate(cells), np.concatenate(places)

    def _of_one(self, query: int) -> Int64s:
        word, bit = query % BLOCK_SIZE // WORD_BITS, np.uint64(query % WORD_BITS)
        if word >= self.words.shape[1]:
            return np.empty(0, np.int64)
        wanting = (self.words[:, word] >> bit).astype(np.uint8) & 1
        return np.flatnonzero(wanting.view(np.bool_) & (self.blocks == query // BLOCK_SIZE))

    def queries(self, cells: Int64s) -> tuple[Int64s, Int64s]:
        """(place, query) of each query in some cells, by place."""
        place, bit = expand(self.words[cells])
        return place, self.blocks[cells[place]] * BLOCK_SIZE + bit

    def chosen(self, cells: Int64s) -> Cells:
        return Cells(self.blocks[cells], self.words[cells])


@dataclass(frozen=True)
class Owned:
    """Which rows belong to whom, each pair once: to cells, where there are such, or to queries."""

    rows: Int64s
    owners: Int64s
    cells: Cells | None = None

    def by_query(self) -> Owned:
        if self.cells is None:
            return self
        place, query = self.cells.queries(self.owners)
        return Owned(self.rows[place], query)


def owned_by_lineage(rows: Int64s, blocks: Int64s, words: Bitmaps) -> Owned:
    """Given which queries of a block want a row."""
    return _in_cells(rows, np.arange(rows.size), Cells(blocks, words))


def together(found: Sequence[Owned]) -> Owned:
    """One of several, whose rows are numbered in one way."""
    if not all(each.cells is not None for each in found):
        found = [each.by_query() for each in found]
    rows, owners = (np.concatenate([getattr(each, name) for each in found]) for name in ("rows", "owners"))
    cells = [each.cells for each in found if each.cells is not None]
    if not cells:
        return Owned(rows, owners)
    begins = np.cumsum([0, *map(len, cells[:-1])])
    owners += np.repeat(begins, [each.owners.size for each in found])
    used, owners = np.unique(owners, return_inverse=True)  # some rows may be gone
    width = max(each.words.shape[1] for each in cells)
    words = np.concatenate([np.pad(each.words, ((0, 0), (0, width - each.words.shape[1]))) for each in cells])
    blocks = np.concatenate([each.blocks for each in cells])
    return _in_cells(rows, owners, Cells(blocks, words).chosen(used))


def _in_cells(rows: Int64s, owners: Int64s, cells: Cells) -> Owned:
    """Given cells of which some may be the same; by query where there are too many of them."""
    wanted = any_bit(cells.words)
    firsts, number = distinct(np.column_stack([cells.blocks.astype(np.uint64), cells.words]))
    if firsts.size <= max(FEW_CELLS, rows.size // ROWS_OF_A_CELL) and wanted.all():
        return Owned(rows, number[owners], cells.chosen(firsts))
    return Owned(rows, owners, cells).by_query()
