"""Which of many queries want which rows of a segment, as the rows came: a word of bits for each row and 64 queries.

    bit q % 64 of plane(q)[row]  =  whether q wants the row,     a plane being the words of 64 queries, row by row

That is how rows are selected, so that it costs nothing to take them in, and putting segments together is copying. For
one query its plane is read, and of that the rows of its window. Bits are turned over, by query, only where many queries
are asked for at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.kernel.keys import Positions
from millstream.kernel.sharing.lineage import BLOCK_SIZE, WORD_BITS, Bitmaps

Queries = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Planes:
    """Of each of some blocks of queries, in order, planes of words."""

    blocks: Queries
    words: Bitmaps  # by block, plane and row

    @staticmethod
    def of_lineage(place: Positions, block: npt.NDArray[np.uint32], lineage: Bitmaps, height: int) -> Planes:
        """Given the lineage of rows, by their places, in each block that wants them."""
        blocks, width = np.unique(block), lineage.shape[1]
        if blocks.size == 1 and place.size == height and (place == np.arange(height)).all():
            return Planes(blocks.astype(np.int64), np.ascontiguousarray(lineage.T)[None])
        words = np.zeros((blocks.size, width, height), np.uint64)
        for number, each in enumerate(blocks):
            own = slice(None) if blocks.size == 1 else block == each
            words[number][:, place[own]] = lineage[own].T
        return Planes(blocks.astype(np.int64), words)

    @staticmethod
    def of_columns(blocks: Queries, words: Bitmaps, height: int) -> Planes:
        return Planes(blocks, words.reshape(blocks.size, -1, height))

    @property
    def size(self) -> int:
        """How many rows all queries have together."""
        return int(np.bitwise_count(self.words).sum(dtype=np.int64))

    def positions(self, query: int, begin: int, past: int) -> Positions:
        """Where the rows of a query are between two places, in order."""
        at, plane = int(np.searchsorted(self.blocks, query // BLOCK_SIZE)), query % BLOCK_SIZE // WORD_BITS
        if at == self.blocks.size or self.blocks[at] != query // BLOCK_SIZE or plane >= self.words.shape[1]:
            return np.empty(0, np.intp)
        wanted = (self.words[at, plane, begin:past] >> np.uint64(query % WORD_BITS)).astype(np.uint8) & 1
        return np.flatnonzero(wanted.view(np.bool_)) + begin

    def bitmaps(self, queries: Queries, begin: int = 0, past: int | None = None) -> tuple[Positions, Bits]:
        """Of some queries, which are in order: the places of those that planes have bits for, and a bitmap of each over
        the rows between two places."""
        size = len(range(*slice(begin, past).indices(self.words.shape[2])))
        places, found = [np.empty(0, np.intp)], [np.empty((0, (size + 7) // 8), np.uint8)]
        for first, plane in self._planes():
            low, high = np.searchsorted(queries, [first, first + WORD_BITS])
            if low < high:
                places.append(np.arange(low, high))
                found.append(turned(plane[begin:past, None])[queries[low:high] - first])
        return np.concatenate(places), np.concatenate(found)

    def by_query(self) -> Iterator[tuple[Queries, Bits]]:
        """Queries, and a bitmap for each, some of them at a time."""
        for first, plane in self._planes():
            yield np.arange(first, first + WORD_BITS), turned(plane[:, None])

    def _planes(self) -> Iterator[tuple[int, Bitmaps]]:
        """The first query of each plane, in order, and its words."""
        for block, planes in zip(self.blocks.tolist(), self.words, strict=True):
            yield from ((block * BLOCK_SIZE + number * WORD_BITS, plane) for number, plane in enumerate(planes))


def together(found: Sequence[Planes], order: Positions) -> Planes:
    """Of rows one behind the other, some of which are chosen in some order."""
    blocks, words = _behind_one_another(found)
    first = int(order[0]) if order.size else 0
    if (order == np.arange(first, first + order.size)).all():
        return Planes(blocks, words[:, :, first : first + order.size])
    return Planes(blocks, words[:, :, order])


def _behind_one_another(found: Sequence[Planes]) -> tuple[Queries, Bitmaps]:
    blocks, width = found[0].blocks, found[0].words.shape[1]
    if all(each.words.shape[1] == width and np.array_equal(each.blocks, blocks) for each in found):
        return blocks, np.concatenate([each.words for each in found], axis=2)
    blocks = np.unique(np.concatenate([each.blocks for each in found]))
    width, height = max(each.words.shape[1] for each in found), sum(each.words.shape[2] for each in found)
    words, begin = np.zeros((blocks.size, width, height), np.uint64), 0
    for each in found:
        _, own, rows = each.words.shape
        words[np.searchsorted(blocks, each.blocks), :own, begin : begin + rows] = each.words
        begin += rows
    return blocks, words


def turned(lineage: Bitmaps) -> Bits:
    """Bits by row turned into bits by query: a bitmap over the rows for each query that the words have bits for.

    Squares of eight rows and eight queries are words, in which bits change places by halves.
    """
    height, width = lineage.shape
    eights = (height + 7) // 8
    rows = np.zeros((eights * 8, width * WORD_BITS // 8), np.uint8)
    rows[:height] = np.ascontiguousarray(lineage).view(np.uint8).reshape(height, width * WORD_BITS // 8)
    words = np.ascontiguousarray(rows.reshape(eights, 8, rows.shape[1]).transpose(0, 2, 1)).view(np.uint64)[..., 0]
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        swapped = (words ^ (words >> np.uint64(shift))) & np.uint64(mask)
        words ^= swapped ^ (swapped << np.uint64(shift))
    return np.ascontiguousarray(words.view(np.uint8).reshape(eights, width * WORD_BITS).T)
