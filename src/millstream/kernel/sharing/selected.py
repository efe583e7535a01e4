"""Rows with lineage, gathered block by block.

Blocks that want every row need no copy of anything: the columns are the input's, block after block, and the bitmaps
stay where they were made, one block's behind the other's. Room for these is asked for in large pieces, whose pages the
system gives much cheaper than those of many small arrays. Of other blocks the rows that are wanted are picked out, of
all of them together.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, concat
from millstream.kernel.columns import frame_of
from millstream.kernel.keys import Positions
from millstream.kernel.sharing.lineage import BLOCK, LINEAGE, Bitmaps, Flags, lineage_series, lineage_type
from millstream.kernel.storage.segments import gather

_PIECE = 1 << 25  # bytes of room at a time


class Room:
    """Memory for the bitmaps of one batch after the other, whose lineage must be done with when the next one comes."""

    def __init__(self) -> None:
        self._words = np.empty(0, np.uint64)

    def words(self, count: int) -> Bitmaps:
        if self._words.size < count:
            self._words = np.empty(count, np.uint64)
        return self._words


class Selected:
    """The rows of a batch that some blocks want, with bitmaps of so many words, for so many blocks."""

    def __init__(self, batch: Batch, width: int, blocks: int, room: Room | None = None) -> None:
        self._batch = batch
        self._width = width
        self._most = batch.height * width * blocks
        self._given = room
        self._room = np.empty(0, np.uint64)
        self._blocks: list[int] = []  # whose bitmaps stand in the room, before what is free
        self._whole: list[Batch] = []
        self._rows: list[Positions] = []
        self._bits: list[Bitmaps] = []
        self._numbers: list[int] = []

    def room(self, width: int) -> Bitmaps:
        """Where the bitmaps of the next block can be made, of so many words."""
        return self._free() if width == self._width else np.empty((self._batch.height, width), np.uint64)

    def _free(self) -> Bitmaps:
        """Room behind the blocks that stand there already."""
        size = self._batch.height * self._width
        used = len(self._blocks) * size
        if self._room.size < used + size:
            self._close()
            self._room, used = self._words(max(size, min(_PIECE // 8, self._most))), 0
        return self._room[used : used + size].reshape(-1, self._width)

    def _words(self, count: int) -> Bitmaps:
        given, self._given = self._given, None
        return np.empty(count, np.uint64) if given is None else given.words(count)

    def add(self, block: int, bits: Bitmaps, wanted: Flags) -> None:
        """The rows that a block wants; `bits` is the room last given."""
        if wanted.all():
            if bits.shape[1] < self._width:
                _fill(self._free(), bits)
            self._blocks.append(block)
        else:
            rows = np.flatnonzero(wanted)
            self._rows.append(rows)
            self._bits.append(_fill(np.empty((rows.size, self._width), np.uint64), bits[rows]))
            self._numbers.append(block)

    def frame(self) -> Batch:
        """All of it: the columns of the batch, `_block` and `_lineage`."""
        self._close()
        found = [part for part in (*self._whole, *self._picked()) if part.height]
        if len(found) == 1:
            return found[0]
        return concat(found, _nothing(tuple(self._batch.columns), tuple(self._batch.dtypes), self._width))

    def _picked(self) -> list[Batch]:
        if not self._rows:
            return []
        columns = gather(self._batch, self._batch.columns, np.concatenate(self._rows))
        numbers = np.array(self._numbers, np.uint32).repeat([rows.size for rows in self._rows])
        return [frame_of([*columns, pl.Series(BLOCK, numbers), lineage_series(np.concatenate(self._bits))])]

    def _close(self) -> None:
        if self._blocks:
            height, count = self._batch.height, len(self._blocks)
            bits = self._room[: height * self._width * count].reshape(-1, self._width)
            numbers = pl.Series(BLOCK, np.array(self._blocks, np.uint32).repeat(height))
            rows = self._batch if count == 1 else pl.concat([self._batch] * count, rechunk=False)
            self._whole.append(frame_of([*rows.get_columns(), numbers, lineage_series(bits)]))
            self._blocks = []


@lru_cache(maxsize=1024)
def _nothing(columns: tuple[str, ...], dtypes: tuple[pl.DataType, ...], width: int) -> Batch:
    """No rows; as it is in most steps of most selections."""
    given = dict(zip(columns, dtypes, strict=True))
    return pl.DataFrame(schema={**given, BLOCK: pl.UInt32(), LINEAGE: lineage_type(width)})


def _fill(full: Bitmaps, bits: Bitmaps) -> Bitmaps:
    """The same bitmaps with words of 0 after those there are."""
    width = bits.shape[1]
    full[:, :width] = bits
    full[:, width:] = 0
    return full
