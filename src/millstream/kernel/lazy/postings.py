"""Matches of many queries over one FROM list: the rows once, and of each query where its rows are (PSoup's results
structure).

Where a row is wanted by many queries, bits stay as they come, by row (`planes`). Otherwise a query's rows are a bitmap
over the segment, or a list of positions, whichever is smaller: a list takes four bytes a row, a bitmap an eighth of a
byte for every row of the segment. The rows are in the order of their oldest element, and so are a query's positions
among them: a window is a range of either.

A segment is one row of lists, so that all of it is one piece of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.aggregation.sorted_runs import bisect_within
from millstream.kernel.aggregation.sorted_runs import expand as ranges
from millstream.kernel.keys import Positions
from millstream.kernel.lazy.matches import OLDEST, instant_column, is_time, oldest_of
from millstream.kernel.lazy.planes import Planes, together
from millstream.kernel.operator import Segment
from millstream.kernel.sharing.lineage import BLOCK_SIZE, Bitmaps, expand
from millstream.kernel.storage.segments import as_one_row, gather

Queries = npt.NDArray[np.int64]

LISTED, LIST_END, LIST = "_listed", "_list_end", "_list"  # queries with lists, where these end, the positions
DENSE, BITS = "_dense", "_bits"  # queries with bitmaps, and these, one behind the other
PLANE_BLOCKS, PLANES = "_plane_blocks", "_planes"  # blocks of queries with bits by row, and these
_OWN = {LISTED: pl.Int64, LIST_END: pl.Int64, LIST: pl.UInt32, DENSE: pl.Int64, BITS: pl.UInt8}
_BY_ROW = {PLANE_BLOCKS: pl.Int64, PLANES: pl.UInt64}
_POSITION_BYTES = 4
_SPARSE = 32  # so many rows for each that a query wants, and lists are merged by sorting
_AT_ONCE = 1 << 26  # rows times queries whose bitmaps are taken apart together
_Posted = dict[str, npt.NDArray[Any]]


def is_packed(segment: pl.DataFrame) -> bool:
    return DENSE in segment.columns or PLANES in segment.columns


def pack(rows: pl.DataFrame, row: Positions, query: Queries) -> Segment:
    """Matches, and which query wants which of them (each pair once); rows that nobody wants are left out."""
    order, place = _ordered(rows, row)
    return _segment(rows, order, _of_pairs(place[row], query, order.size))


def pack_lineage(rows: pl.DataFrame, row: Positions, block: npt.NDArray[np.uint32], lineage: Bitmaps) -> Segment:
    """The same from bits: of each block, the lineage of the rows that it wants. They are kept as they are, unless there
    are so few that the places of rows are less."""
    if _POSITION_BYTES * int(np.bitwise_count(lineage).sum(dtype=np.int64)) < lineage.nbytes:
        at, bit = expand(lineage)
        return pack(rows, row[at], block[at].astype(np.int64) * BLOCK_SIZE + bit)
    order, place = _ordered(rows, row)
    return _segment_of_planes(rows, order, Planes.of_lineage(place[row], block, lineage, order.size))


def _segment_of_planes(rows: pl.DataFrame, order: Positions, planes: Planes) -> Segment:
    return _segment(rows, order, {PLANE_BLOCKS: planes.blocks, PLANES: planes.words.reshape(-1)})


def _ordered(rows: pl.DataFrame, row: Positions) -> tuple[Positions, Queries]:
    """The rows that are wanted, by their oldest element, and the place of each in that order."""
    wanted = np.zeros(rows.height, np.bool_)
    wanted[row] = True
    kept = np.flatnonzero(wanted)
    order = kept[np.argsort(oldest_of(rows)[kept], kind="stable")]
    place = np.empty(rows.height, np.int64)
    place[order] = np.arange(order.size)
    return order, place


def _segment(rows: pl.DataFrame, order: Positions, posted: _Posted) -> Segment:
    is_all = order.size == rows.height and bool((order == np.arange(order.size)).all())
    ordered = rows.get_columns() if is_all else gather(rows, rows.columns, order)
    kinds = {**_OWN, **_BY_ROW}
    columns = [*ordered, *(pl.Series(name, values, kinds[name]) for name, values in posted.items())]
    packed = as_one_row(columns)
    return packed if order.size else packed.clear()


def _of_pairs(place: Queries, query: Queries, height: int) -> _Posted:
    if (place[1:] < place[:-1]).any():
        by_place = np.argsort(place, kind="stable")
        place, query = place[by_place], query[by_place]
    # Small numbers are sorted by counting.
    order = np.argsort(query.astype(np.uint16) if not query.size or query.max() < 1 << 16 else query, kind="stable")
    place, query = place[order], query[order]
    begins = np.flatnonzero(np.append(True, query[1:] != query[:-1])) if query.size else np.empty(0, np.int64)
    queries, counts = query[begins], np.diff(begins, append=query.size)
    width = _bitmap_bytes(height)
    dense = counts * _POSITION_BYTES > width
    in_bitmap = np.repeat(dense, counts)
    number = np.repeat(np.cumsum(dense) - 1, counts)[in_bitmap]
    byte = number * width + (place[in_bitmap] >> 3)
    # Every pair is there once, so that the bits of a byte add up to it.
    bit = (1 << (place[in_bitmap] & 7)).astype(np.float64)
    bits = np.bincount(byte, bit, int(dense.sum()) * width).astype(np.uint8)
    return {
        LISTED: queries[~dense],
        LIST_END: np.cumsum(counts[~dense]),
        LIST: place[~in_bitmap].astype(np.uint32),
        DENSE: queries[dense],
        BITS: bits,
    }


def _of_bitmaps(queries: Queries, bitmaps: npt.NDArray[np.uint8], height: int) -> _Posted:
    """Of bitmaps over all rows, one for each query; those that are small as lists become lists."""
    counts = np.bitwise_count(bitmaps).sum(axis=1, dtype=np.int64)
    dense = counts * _POSITION_BYTES > _bitmap_bytes(height)
    listed = np.flatnonzero(~dense & (counts > 0))
    positions = _bits_of(bitmaps[listed], height) - np.repeat(np.arange(listed.size) * height, counts[listed])
    return {
        LISTED: queries[listed],
        LIST_END: np.cumsum(counts[listed]),
        LIST: positions.astype(np.uint32),
        DENSE: queries[dense],
        BITS: bitmaps[dense].reshape(-1),
    }


def _together(found: Sequence[_Posted]) -> _Posted:
    """Of queries that come one behind the other."""
    if not found:
        return {name: np.empty(0, np.int64) for name in _OWN}
    lengths = np.cumsum([0, *(each[LIST].size for each in found[:-1])])
    ends = [each[LIST_END] + begin for each, begin in zip(found, lengths, strict=True)]
    joined = {name: np.concatenate([each[name] for each in found]) for name in _OWN}
    return {**joined, LIST_END: np.concatenate(ends)}


def _bits_of(bitmaps: npt.NDArray[np.uint8], height: int) -> Positions:
    """The places of the bits of bitmaps of so many bits each, these one behind the other."""
    return np.flatnonzero(np.unpackbits(bitmaps, axis=1, count=height, bitorder="little").view(np.bool_))


def _bitmap_bytes(height: int) -> int:
    return (height + 7) // 8


@dataclass(frozen=True)
class Postings:
    """A packed segment."""

    segment: Segment

    def column(self, name: str) -> pl.Series:
        if name in _OWN and name not in self.segment.columns:  # bits are kept by row
            return pl.Series(name, [], _OWN[name])
        found: pl.Series = self.segment.get_column(name)[0]
        return found.alias(name)

    @property
    def row_columns(self) -> list[str]:
        return [name for name in self.segment.columns if name not in _OWN and name not in _BY_ROW]

    @property
    def oldest(self) -> npt.NDArray[np.int64]:
        name = OLDEST if OLDEST in self.segment.columns else instant_column(0)
        return self.column(name).to_numpy()

    @property
    def planes(self) -> Planes | None:
        if PLANES not in self.segment.columns:
            return None
        blocks, words = (self.column(name).to_numpy() for name in _BY_ROW)
        return Planes.of_columns(blocks, words, self.oldest.size)

    def positions(self, query: int, begin: int = 0, past: int | None = None) -> Positions:
        """Where the rows of a query are, in order; of a range of them."""
        past = self.oldest.size if past is None else past
        if (planes := self.planes) is not None:
            return planes.positions(query, begin, past)
        listed = self.column(LISTED).to_numpy()
        at = int(np.searchsorted(listed, query))
        if at < listed.size and listed[at] == query:
            ends = self.column(LIST_END)
            found = self.column(LIST)[ends[at - 1] if at else 0 : ends[at]].to_numpy()
            return found[slice(*np.searchsorted(found, [begin, past]))].astype(np.intp)
        dense = self.column(DENSE).to_numpy()
        at = int(np.searchsorted(dense, query))
        if at == dense.size or dense[at] != query:
            return np.empty(0, np.intp)
        # Only the bytes of the range are taken apart.
        first, behind = at * _bitmap_bytes(self.oldest.size) + begin // 8, (past + 7) // 8 - begin // 8
        bits = self.column(BITS)[first : first + max(behind, 0)].to_numpy()
        found = np.flatnonzero(np.unpackbits(bits, bitorder="little").view(np.bool_)) + begin // 8 * 8
        return found[slice(*np.searchsorted(found, [begin, past]))]

    def rows_of(self, query: int, first: int, last: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """The query's matches whose oldest element lies between two instants; with some value columns, or all."""
        oldest = self.oldest
        begin, past = int(np.searchsorted(oldest, first)), int(np.searchsorted(oldest, last, side="right"))
        chosen = pl.Series(self.positions(query, begin, past).astype(np.uint32))
        names = [name for name in self.row_columns if columns is None or name in columns or is_time(name)]
        return pl.DataFrame([self.column(name)[chosen] for name in names])

    def of_many(self, queries: Queries, first: int, last: int) -> PostedRanges:
        """Where the matches of some queries are, which are in order, whose oldest element lies between two instants."""
        begin, past = np.searchsorted(self.oldest, first), np.searchsorted(self.oldest, last, side="right")
        return PostedRanges(self, queries, int(begin), max(int(begin), int(past)))

    def pairs(self) -> tuple[Positions, Queries]:
        """(row, query) of all matches."""
        if (planes := self.planes) is not None:
            taken = [
                (number, *np.divmod(_bits_of(bits, self.oldest.size), self.oldest.size))
                for number, bits in planes.by_query()
            ]
            return np.concatenate([row for _, _, row in taken]), np.concatenate([number[at] for number, at, _ in taken])
        ends = self.column(LIST_END).to_numpy()
        listed = np.repeat(self.column(LISTED).to_numpy(), np.diff(ends, prepend=0))
        dense, height = self.column(DENSE).to_numpy(), self.oldest.size
        bits = self.column(BITS).to_numpy().reshape(dense.size, _bitmap_bytes(height))
        number, position = np.divmod(_bits_of(bits, height), max(height, 1))
        rows = np.concatenate([self.column(LIST).to_numpy().astype(np.intp), position])
        return rows, np.concatenate([listed, dense[number]])

    @property
    def queries(self) -> Queries:
        if (planes := self.planes) is not None:
            return np.concatenate([number[bits.any(axis=1)] for number, bits in planes.by_query()])
        return np.concatenate([self.column(name).to_numpy() for name in (LISTED, DENSE)])

    @property
    def size(self) -> int:
        """How many matches all queries have together."""
        if (planes := self.planes) is not None:
            return planes.size
        bits = np.bitwise_count(self.column(BITS).to_numpy())
        return self.column(LIST).len() + int(bits.sum(dtype=np.int64))

    def bitmaps(self, queries: Queries) -> npt.NDArray[np.uint8]:
        """A byte for each row, 1 where it is wanted, of each of some queries, which are in order."""
        return np.unpackbits(self.bits_of(queries), axis=1, count=self.oldest.size, bitorder="little")

    def bits_of(self, queries: Queries) -> npt.NDArray[np.uint8]:
        """A bitmap over the rows for each of some queries, which are in order."""
        width = _bitmap_bytes(self.oldest.size)
        found = np.zeros((queries.size, width), np.uint8)
        if (planes := self.planes) is not None:
            places, bits = planes.bitmaps(queries)
            found[places] = bits
            return found
        dense, listed, ends = (self.column(name).to_numpy() for name in (DENSE, LISTED, LIST_END))
        there = np.flatnonzero(np.isin(dense, queries))
        found[np.searchsorted(queries, dense[there])] = self.column(BITS).to_numpy().reshape(dense.size, width)[there]
        counts, wanted = np.diff(ends, prepend=0), np.isin(listed, queries)
        position = self.column(LIST).to_numpy()[np.repeat(wanted, counts)].astype(np.int64)
        if position.size:
            byte = np.repeat(np.searchsorted(queries, listed[wanted]), counts[wanted]) * width + (position >> 3)
            begins = np.flatnonzero(np.append(True, byte[1:] != byte[:-1]))  # positions of a query are in order
            bits = (1 << (position & 7)).astype(np.uint8)
            found.reshape(-1)[byte[begins]] = np.bitwise_or.reduceat(bits, begins)
        return found

    def bits_between(self, queries: Queries, first: int, past: int) -> tuple[Positions, npt.NDArray[np.uint8]]:
        """Of some queries, which are in order: the places of those with bits, and these from a byte up to another."""
        if (planes := self.planes) is not None:
            return planes.bitmaps(queries, first * 8, past * 8)
        dense, width = self.column(DENSE).to_numpy(), _bitmap_bytes(self.oldest.size)
        places, owner = _among(queries, dense)
        return places, self.column(BITS).to_numpy().reshape(dense.size, width)[owner, first:past]

    def counts(self) -> tuple[Queries, Queries]:
        """Queries, and how many matches each has."""
        if (planes := self.planes) is not None:
            found = [(number, np.bitwise_count(bits).sum(axis=1, dtype=np.int64)) for number, bits in planes.by_query()]
            queries, counts = (np.concatenate([each[n] for each in found]) for n in (0, 1))
            return queries[counts > 0], counts[counts > 0]
        queries, counts = np.unique(self.pairs()[1], return_counts=True)
        return queries, counts

    @property
    def rows(self) -> pl.DataFrame:
        return pl.DataFrame([self.column(name) for name in self.row_columns])


class PostedRanges:
    """The matches of many queries in a range of the rows of a segment."""

    def __init__(self, postings: Postings, queries: Queries, begin: int, past: int) -> None:
        self._postings, self._begin, self._past = postings, begin, past
        listed, ends = (postings.column(name).to_numpy() for name in (LISTED, LIST_END))
        self._list = postings.column(LIST).to_numpy()
        self._listed, owner = _among(queries, listed)
        starts = np.append(0, ends)[owner]
        self._low = bisect_within(self._list, starts, ends[owner], begin - 1)
        self._high = bisect_within(self._list, self._low, ends[owner], past - 1)
        # Only the bytes of the range are taken apart, and of these the bits at the ends do not count.
        self._first = begin // 8
        self._dense, self._bits = postings.bits_between(queries, self._first, (past + 7) // 8)
        if self._bits.shape[1]:
            self._bits[:, 0] &= np.uint8(0xFF << begin % 8 & 0xFF)
            self._bits[:, -1] &= np.uint8(0xFF >> -past % 8)
        self.counts = np.zeros(queries.size, np.int64)  # of each query
        self.counts[self._listed] = self._high - self._low
        self.counts[self._dense] = np.bitwise_count(self._bits).sum(axis=1, dtype=np.int64)

    def rows(self, low: int, high: int, columns: Sequence[str]) -> tuple[pl.DataFrame, Positions]:
        """Those of the queries from a place up to another: the rows, with some value columns, and the places of their
        queries."""
        one, two = (slice(*np.searchsorted(places, [low, high])) for places in (self._listed, self._dense))
        at, owner = ranges(self._low[one], self._high[one])
        bits = self._bits[two]
        number, place = np.divmod(_bits_of(bits, bits.shape[1] * 8), max(bits.shape[1] * 8, 1))
        positions = np.concatenate([self._list[at].astype(np.uint32), (place + self._first * 8).astype(np.uint32)])
        queries = np.concatenate([self._listed[one][owner], self._dense[two][number]])
        postings, chosen = self._postings, pl.Series(positions)
        names = [name for name in postings.row_columns if name in columns or is_time(name)]
        return pl.DataFrame([postings.column(name)[chosen] for name in names]), queries


def _among(queries: Queries, posted: Queries) -> tuple[Positions, Positions]:
    """Of queries in order, the places of those that are among others in order, and their places there."""
    at = np.searchsorted(posted, queries)
    places = np.flatnonzero(np.append(posted, -1)[at] == queries)
    return places, at[places]


def _appended(found: Sequence[Postings], queries: Queries) -> npt.NDArray[np.uint8]:
    """Bitmaps of some queries over the rows of all segments, one behind the other."""
    made = np.zeros((queries.size, _bitmap_bytes(sum(each.oldest.size for each in found))), np.uint8)
    begin = 0
    for each in found:
        bits, (byte, shift) = each.bits_of(queries), divmod(begin, 8)
        made[:, byte : byte + bits.shape[1]] |= bits << np.uint8(shift)
        if shift:
            after = made[:, byte + 1 : byte + 1 + bits.shape[1]]
            after |= (bits >> np.uint8(8 - shift))[:, : after.shape[1]]
        begin += each.oldest.size
    return made


def _merged_bitmaps(found: Sequence[Postings], rows: pl.DataFrame, queries: Queries, first: int) -> Segment:
    """Where many queries want many rows: some of them at a time; a byte for each row and query, where segments overlap
    in time."""
    oldest = oldest_of(rows)
    order = np.argsort(oldest, kind="stable")
    order = order[np.searchsorted(oldest[order], first) :]
    in_order = bool((order == np.arange(rows.height)).all()) if order.size == rows.height else False
    at_once = max(1, _AT_ONCE // max(rows.height, 1))
    posted = []
    for low in range(0, queries.size, at_once):
        some = queries[low : low + at_once]
        if in_order:
            posted.append(_of_bitmaps(some, _appended(found, some), order.size))
            continue
        flags = np.concatenate([each.bitmaps(some) for each in found], axis=1)[:, order]
        posted.append(_of_bitmaps(some, np.packbits(flags, axis=1, bitorder="little"), order.size))
    # Lists and bitmaps are each in the order of the queries, since their parts were.
    return _segment(rows, order, _together(posted))


def _merged_planes(found: Sequence[Planes], rows: pl.DataFrame, first: int) -> Segment:
    oldest = oldest_of(rows)
    order = np.argsort(oldest, kind="stable")
    order = order[np.searchsorted(oldest[order], first) :]
    return _segment_of_planes(rows, order, together(found, order))


def merged(segments: Sequence[Segment], first: int) -> Segment:
    """One segment of several, without matches whose oldest element lies before `first`."""
    found = [Postings(segment) for segment in segments]
    rows = pl.concat([each.rows for each in found], rechunk=True)
    planes = [own for each in found if (own := each.planes) is not None]
    if len(planes) == len(found):
        return _merged_planes(planes, rows, first)
    queries = np.unique(np.concatenate([each.queries for each in found]))
    if sum(each.size for each in found) * _SPARSE > queries.size * rows.height:
        return _merged_bitmaps(found, rows, queries, first)
    pairs = [each.pairs() for each in found]
    begins = np.cumsum([0, *(each.oldest.size for each in found[:-1])])
    row = np.concatenate([own + begin for (own, _), begin in zip(pairs, begins, strict=True)])
    query = np.concatenate([own for _, own in pairs])
    kept = oldest_of(rows)[row] >= first
    return pack(rows, row[kept], query[kept])
