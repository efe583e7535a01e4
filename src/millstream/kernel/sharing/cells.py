"""Cells: rows that the same queries want.

    C_Q(R) = { (span, lineage, f(r)) : r in R, lineage = the queries of the span that want r },  lineage not empty

A cell is a set of queries as a value of a row: by it rows can be grouped, so that what is summed for a cell is summed
for all its queries at once. What a query asks for is then found from the cells that it is in. Queries are numbered in
spans: query q is bit q % SPAN of span q // SPAN. Bits are in words of 64, of which those after the last bit are left
out. So a cell is the same whatever queries come later, and cells of different sets of queries are different.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from millstream.kernel.batch import INTERVAL_COLUMNS, Batch, concat, empty_batch, value_column
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.hashing import mix_bits
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, WORDS, Bitmaps, any_bit, lineage_of
from millstream.kernel.sharing.selected import Room
from millstream.kernel.storage.segments import gather
from millstream.types import BIGINT, BINARY, Field, Schema

CELL: Schema = (Field("span", BIGINT), Field("lineage", BINARY))
SPAN_COLUMN, LINEAGE_COLUMN = value_column(0), value_column(1)
_BLOCKS = 16  # blocks of a span: a row stands once for each span in which some query wants it
SPAN = _BLOCKS * BLOCK_SIZE
_ROW = "_row"
_PIECE = 1 << 14  # rows whose bits are gathered together
_INLINE = 12  # bytes up to which Arrow keeps a text in its view


class CellSelection(Operator):
    r"""The cell of each row that some query wants, then what the projection makes of it. Here it makes what is there.

    >>> above = GroupedSelection(integers("v"), {"above": call(">", [column(0), parameter(0)])})
    >>> from millstream.kernel.relational.linear import Project
    >>> same = Project(integers("v"), [column(0)])
    >>> run = Run(CellSelection(above, same), queries(above={1: [5], 2: [8]}))
    >>> run.step(batch((4, 0, 9, +1), (7, 0, 9, +1), (9, 2, 4, +1)), to=2)
    (0, b'\x02\x00\x00\x00\x00\x00\x00\x00', 7, [0, 9), +1)
    (0, b'\x06\x00\x00\x00\x00\x00\x00\x00', 9, [2, 4), +1)
    """

    def __init__(self, selection: GroupedSelection, projection: Operator) -> None:
        self.schema = (*CELL, *projection.schema)
        self.selection = selection
        self.projection = projection

    @property
    def distribution(self) -> Distribution:
        copies = self.projection.distribution.copies_of(0)
        return anywhere(tuple((column, place + len(CELL)) for column, place in copies))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        learned: State = {}
        pieces: list[Batch] = []
        room, errors = Room(), list[Batch]()
        for first in range(0, max(batch.height, 1), _PIECE):
            piece = batch[first : first + _PIECE]
            numbered = pl.DataFrame(pl.Series(_ROW, np.arange(piece.height, dtype=np.uint32)))
            found, own = self.selection.select(piece, {**state, **learned}, errors, room, carried=numbered)
            learned = {**learned, **own}
            pieces += self._cells(piece, found, progress)
        return concat(pieces, empty_batch(self.schema)), {
            **learned,
            **self.selection.awaited(state, errors, progress),
        }

    def of_queries(self, state: State, queries: pl.Series) -> State:
        return self.selection.of_queries(state, queries)

    def _cells(self, batch: Batch, found: pl.DataFrame, progress: Progress) -> list[Batch]:
        """The rows of a batch by span, given which of them are wanted in which blocks."""
        made: list[Batch] = []
        rows, blocks, bits = found[_ROW].to_numpy(), found[BLOCK].to_numpy(), lineage_of(found)
        for span in np.unique(blocks // _BLOCKS).tolist():
            within = np.unique(blocks[blocks // _BLOCKS == span])
            wide = np.zeros((batch.height, (int(within[-1]) % _BLOCKS) * WORDS + bits.shape[1]), np.uint64)
            for block in within:
                of_block = blocks == block
                first = int(block) % _BLOCKS * WORDS
                wide[rows[of_block], first : first + bits.shape[1]] = bits[of_block]
            wanted = np.flatnonzero(any_bit(wide))
            chosen = pl.DataFrame(gather(batch, batch.columns, wanted))
            values, _ = self.projection.step([chosen], {}, progress)
            columns = [values[name].alias(value_column(index + len(CELL))) for index, name in enumerate(self._names)]
            spans = pl.Series(SPAN_COLUMN, np.full(wanted.size, span, np.int64))
            intervals = [values[name] for name in INTERVAL_COLUMNS]
            made.append(pl.DataFrame([spans, _as_bytes(wide[wanted]), *columns, *intervals]))
        return made

    @property
    def _names(self) -> list[str]:
        return [value_column(index) for index in range(len(self.projection.schema))]


def _as_bytes(bitmaps: Bitmaps) -> pl.Series:
    """Bitmaps as texts of bytes, without the words after the last bit; equal ones lie in memory once."""
    firsts, place = _distinct(bitmaps)
    distinct = bitmaps[firsts]
    width = distinct.shape[1]
    lengths = width - np.argmax(distinct[:, ::-1] != 0, axis=1)
    content = distinct[np.arange(width) < lengths[:, None]]
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths * 8, out=offsets[1:])
    array = pa.Array.from_buffers(
        pa.large_binary(), lengths.size, [None, pa.py_buffer(offsets), pa.py_buffer(content.astype("<u8", copy=False))]
    )
    return pl.Series(LINEAGE_COLUMN, array)[pl.Series(place.astype(np.uint32))]


def _distinct(bitmaps: Bitmaps) -> tuple[Positions, Positions]:
    """The first row of each different bitmap, and of each row the place of its own among these."""
    codes = np.zeros(len(bitmaps), np.uint64)
    for word in bitmaps.T:
        codes = mix_bits(codes ^ word)
    _, firsts, place = np.unique(codes, return_index=True, return_inverse=True)
    if not np.array_equal(bitmaps[firsts[place]], bitmaps):  # different ones of one code, which hardly ever is
        whole = np.ascontiguousarray(bitmaps).view(f"V{8 * bitmaps.shape[1]}").ravel()
        _, firsts, place = np.unique(whole, return_index=True, return_inverse=True)
    return firsts, place


# From cells to their queries


def cells_of(rows: pl.DataFrame, query: int) -> Positions:
    """Which rows are of cells that the query is in."""
    byte, bit = query % SPAN // 8, query % 8
    near = np.flatnonzero(rows[SPAN_COLUMN].to_numpy() == query // SPAN)
    found = np.zeros(rows.height, np.uint8)
    for texts in _texts_of(rows[LINEAGE_COLUMN]):
        long = texts.rows[texts.lengths > byte]
        found[long] = texts.content[texts.starts[texts.lengths > byte] + byte]
    of_span = found[near]
    return near[np.flatnonzero(of_span >> bit & 1)]


def bitmaps_of(rows: pl.DataFrame) -> Bitmaps:
    """The queries of cells that are all of one span, as rows of words."""
    parts = [*_texts_of(rows[LINEAGE_COLUMN])]
    found = np.zeros((rows.height, max((int(texts.lengths.max()) for texts in parts), default=8)), np.uint8)
    for texts in parts:
        for length in np.unique(texts.lengths).tolist():
            same = texts.lengths == length
            found[texts.rows[same], :length] = texts.content[texts.starts[same, None] + np.arange(length)]
    return found.view(np.uint64)


@dataclass(frozen=True, eq=False)
class _Texts:
    """Bytes that lie in one piece of memory: those of some rows, where they begin, and how many they are."""

    rows: Positions
    content: npt.NDArray[np.uint8]
    starts: Positions
    lengths: Positions


def _texts_of(column: pl.Series) -> Iterator[_Texts]:
    """The bytes of a column without NULLs as they lie in memory, by Arrow's views: to copy them costs more than to look
    at one bit of each."""
    first = 0
    for chunk in column.get_chunks():
        array = chunk.to_arrow(compat_level=pl.CompatLevel.newest())
        _, views, *contents = array.buffers()
        held = np.frombuffer(views, np.int32).reshape(-1, 4)[array.offset : array.offset + len(array)]
        lengths, buffers = held[:, 0].astype(np.intp), held[:, 2]
        short = np.flatnonzero(lengths <= _INLINE)
        if short.size:
            inline = np.frombuffer(views, np.uint8)
            yield _Texts(first + short, inline, (short + array.offset) * 16 + 4, lengths[short])
        for place, content in enumerate(contents):
            own = np.flatnonzero((lengths > _INLINE) & (buffers == place))
            if own.size:
                starts = held[own, 3].astype(np.intp)
                yield _Texts(first + own, np.frombuffer(content, np.uint8), starts, lengths[own])
        first += len(array)
