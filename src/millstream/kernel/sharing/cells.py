"""Cells: rows that the same queries want.

    C_Q(R) = { (span, lineage, f(r)) : r in R, lineage = the queries of the span that want r },  lineage not empty

A cell is a set of queries as a value of a row: by it rows can be grouped, so that what is summed for a cell is summed
for all its queries at once. What a query asks for is then found from the cells that it is in. Queries are numbered in
spans: query q is bit q % SPAN of span q // SPAN. Bits are in words of 64, of which those after the last bit are left
out. So a cell is the same whatever queries come later, and cells of different sets of queries are different.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from millstream.kernel.batch import END, INTERVAL_COLUMNS, START, Batch, concat, empty_batch, value_column
from millstream.kernel.columns import only, taken, with_columns
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.lineage import (
    BLOCK,
    BLOCK_SIZE,
    WORD_BITS,
    WORDS,
    Bitmaps,
    any_bit,
    bit_of,
    distinct,
    expand,
    lineage_of,
)
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.sharing.query_windows import SizedWindow
from millstream.kernel.sharing.selected import Room
from millstream.kernel.storage.memory import can_keep_index
from millstream.kernel.storage.segments import gather
from millstream.types import BIGINT, BINARY, Field, Schema

CELL: Schema = (Field("span", BIGINT), Field("lineage", BINARY))
SPAN_COLUMN, LINEAGE_COLUMN = value_column(0), value_column(1)
_BLOCKS = 16  # blocks of a span: a row stands once for each span in which some query wants it
SPAN = _BLOCKS * BLOCK_SIZE
_ROW = "_row"
_PIECE = 1 << 14  # rows whose bits are gathered together
_SAMPLE = 1_024  # rows that tell whether many cells are equal


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

    def __init__(self, selection: GroupedSelection, projection: Operator, window: SizedWindow | None = None) -> None:
        self.schema = (*CELL, *projection.schema)
        self.selection = selection
        self.projection = projection
        self.window = window  # of each query, where rows are elements

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
            pieces += self._cells(piece, found, state.get(QUERIES, ()), progress)
        return concat(pieces, empty_batch(self.schema)), {
            **learned,
            **self.selection.awaited(state, errors, progress),
        }

    def of_queries(self, state: State, queries: pl.Series) -> State:
        return self.selection.of_queries(state, queries)

    def _cells(self, batch: Batch, found: pl.DataFrame, table: Sequence[Segment], progress: Progress) -> list[Batch]:
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
            wide, chosen = wide[wanted], pl.DataFrame(gather(batch, batch.columns, wanted))
            if self.window is not None:
                chosen, wide = _in_windows(chosen, wide, span * SPAN, self.window, table)
            values, _ = self.projection.step([chosen], {}, progress)
            columns = [values[name].alias(value_column(index + len(CELL))) for index, name in enumerate(self._names)]
            spans = pl.Series(SPAN_COLUMN, np.full(len(wide), span, np.int64))
            intervals = [values[name] for name in INTERVAL_COLUMNS]
            made.append(pl.DataFrame([spans, _as_bytes(wide), *columns, *intervals]))
        return made

    @property
    def _names(self) -> list[str]:
        return [value_column(index) for index in range(len(self.projection.schema))]


def _in_windows(
    elements: Batch, bitmaps: Bitmaps, first: int, window: SizedWindow, table: Sequence[Segment]
) -> tuple[Batch, Bitmaps]:
    """Elements and the queries that want them, from a number on: once for each window that these have."""
    known = window.of_queries(table)
    rows, windows, bits = known.taken_apart(bitmaps, first)
    found = pl.DataFrame(gather(elements, elements.columns, rows))
    start, end = window.shown(found, known.sizes[windows])
    there = start < end
    return only(with_columns(found, pl.Series(START, start), pl.Series(END, end)), there), bits[there]


def _as_bytes(bitmaps: Bitmaps) -> pl.Series:
    """Bitmaps as texts of bytes, without the words after the last bit. Equal ones lie in memory once, unless the first
    of them say that hardly any are equal."""
    sample, _ = distinct(bitmaps[:_SAMPLE])
    if len(bitmaps) > _SAMPLE and 4 * len(sample) > 3 * _SAMPLE:
        return _bytes_of(bitmaps)
    firsts, place = distinct(bitmaps)
    return _bytes_of(bitmaps[firsts])[pl.Series(place.astype(np.uint32))]


def _bytes_of(bitmaps: Bitmaps) -> pl.Series:
    width = bitmaps.shape[1]
    lengths = width - np.argmax(bitmaps[:, ::-1] != 0, axis=1)
    content = bitmaps[np.arange(width) < lengths[:, None]]
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths * 8, out=offsets[1:])
    array = pa.Array.from_buffers(
        pa.large_binary(), lengths.size, [None, pa.py_buffer(offsets), pa.py_buffer(content.astype("<u8", copy=False))]
    )
    return pl.Series(LINEAGE_COLUMN, array)


# From cells to their queries


def cell_of(query: int) -> tuple[int, bytes]:
    """The span and lineage of the cell of one query alone."""
    bit = query % SPAN
    return query // SPAN, (1 << bit).to_bytes((bit // WORD_BITS + 1) * 8, "little")


def cells_of_queries(queries: npt.NDArray[np.int64]) -> list[pl.Series]:
    """The spans and lineages of the cells of single queries."""
    different, place = np.unique(queries, return_inverse=True)
    spans, lineages = zip(*map(cell_of, different.tolist()), strict=True) if len(different) else ((), ())
    return taken([pl.Series(spans, dtype=pl.Int64), pl.Series(lineages, dtype=pl.Binary)], place)


def by_span(cells: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Rows of cells, span by span."""
    spans = cells.get_column(SPAN_COLUMN).to_numpy()
    for span in np.unique(spans).tolist():
        yield span, only(cells, spans == span)


def members_of(cells: pl.DataFrame, span: int, queries: npt.NDArray[np.int64]) -> tuple[Positions, Positions]:
    """A row and a query for each row of cells of a span and query that is in its cell, of some queries, sorted."""
    first, past = np.searchsorted(queries, [span * SPAN, (span + 1) * SPAN])
    own = queries[first:past]
    bits = bitmaps_of(cells)
    mask = np.zeros(SPAN // WORD_BITS, np.uint64)
    np.bitwise_or.at(mask, own % SPAN // WORD_BITS, bit_of(own))
    bits &= mask[: bits.shape[1]]
    wanted = np.flatnonzero(any_bit(bits))
    row, bit = expand(bits[wanted])
    return wanted[row], span * SPAN + bit


def cells_of(rows: pl.DataFrame, query: int) -> Positions:
    """Which rows are of cells that the query is in."""
    byte, bit = query % SPAN // 8, query % 8
    planes = _planes_of(rows)
    if byte < len(planes):
        found = (planes[byte] & np.uint8(1 << bit)) != 0
        spans = rows[SPAN_COLUMN].to_numpy()
        if spans.size and (spans[0] != query // SPAN or spans[0] != spans[-1] or (spans != spans[0]).any()):
            found &= spans == query // SPAN
        return np.flatnonzero(found)
    return np.zeros(0, np.intp)


_Planes = npt.NDArray[np.uint8]  # a byte of the lineage of all rows after the other
_planes: dict[int, _Planes] = {}


def _planes_of(rows: pl.DataFrame) -> _Planes:
    """The lineage of a segment as one asks for it, a query after the other: made once where there is room for it."""
    known = _planes.get(id(rows))
    if known is None:
        known = np.ascontiguousarray(bitmaps_of(rows).view(np.uint8).T)
        if can_keep_index(rows, known.nbytes):
            _planes[id(rows)] = known
            weakref.finalize(rows, _planes.pop, id(rows), None)
    return known


def bitmaps_of(rows: pl.DataFrame) -> Bitmaps:
    """The queries of cells within their spans, as rows of words."""
    if not rows.height:
        return np.zeros((0, 1), np.uint64)
    array = rows[LINEAGE_COLUMN].rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, content = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1] // 8
    words, lengths = np.frombuffer(content, "<u8")[: bounds[-1]].astype(np.uint64, copy=False), np.diff(bounds)
    width = int(lengths.max())
    if (lengths == width).all():
        return words[bounds[0] :].reshape(-1, width).copy()
    found = np.zeros((rows.height, width), np.uint64)
    for first in range(0, rows.height, _PIECE):  # what is made on the way fits into the processor's cache
        piece, starts = lengths[first : first + _PIECE], bounds[first : first + _PIECE]
        for length in np.unique(piece).tolist():
            same = np.flatnonzero(piece == length)
            found[first + same, :length] = words[starts[same, None] + np.arange(length)]
    return found
