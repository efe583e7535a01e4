"""Windows of many queries on one stream, each of a size of its own.

    W(R) = { (q, r, w_q.start(t), w_q.end(t)) : (q, r, t) in R },   w_q = the window of q by the query table

What queries select of a stream does not depend on how long it stays. So elements are selected once for all of them, and
get their intervals afterwards: each row of a query its own, and a row that many queries want one for each distinct
window among these, with the queries that have it. Keeps nothing; the query table is the engine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, INSTANT, START, Batch, value_column
from millstream.kernel.columns import only, with_columns
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.keys import Positions, Ticks
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.sharing.identity import Recent, serial_of
from millstream.kernel.sharing.lineage import (
    BLOCK,
    BLOCK_SIZE,
    LINEAGE,
    WORD_BITS,
    Bitmaps,
    any_bit,
    expand,
    lineage_of,
    lineage_series,
    popcounts,
)
from millstream.kernel.sharing.parameters import QUERIES, QUERY
from millstream.kernel.storage.segments import gather, numbers
from millstream.kernel.windows.time import hop_intervals, range_intervals, tumble_intervals
from millstream.types import Schema

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SizedWindow:
    """A window whose sizes are parameters, by their places: RANGE or HOP and SLIDE, or TUMBLE; or ROWS, which says
    itself when elements leave (`kernel.sharing.rows_of_queries`). Of joined elements it is several windows, RANGE each:
    rows have the instants of their elements in further columns."""

    kind: OneOf["range", "tumble", "hop", "rows", "joined"]
    half_open: bool
    sizes: tuple[int, ...]
    instants: tuple[int, ...] = field(default=(), metadata={"fingerprint": "where given"})

    def shown(self, rows: Batch, sizes: Numbers, first: int = 0) -> tuple[Ticks, Ticks]:
        """When rows, whose columns begin at the first of those that are there, are in windows of the sizes of each."""
        start = numbers(rows, START)
        if not self.instants:
            return self.intervals(start, sizes)
        end = numbers(rows, END)
        for place, column in enumerate(self.instants):
            leaves = numbers(rows, value_column(first + column)) + sizes[:, place]
            end = np.minimum(end, leaves if self.half_open else leaves + 1)
        return start, end

    def intervals(self, t: Ticks, sizes: Numbers) -> tuple[Ticks, Ticks]:
        """Of elements of instants t, each in a window of the sizes in its row."""
        if self.kind == "tumble":
            return tumble_intervals(t, sizes[:, 0])
        if self.kind == "hop":
            return hop_intervals(t, sizes[:, 0], sizes[:, 1])
        return range_intervals(t, sizes[:, 0], sizes[:, 1], half_open=self.half_open)

    def of_queries(self, table: Sequence[Segment]) -> WindowsOfQueries:
        return _tables.get((*self.sizes, -1, *map(serial_of, table)), lambda: self._made(table))

    def _made(self, table: Sequence[Segment]) -> WindowsOfQueries:
        names = [value_column(place) for place in self.sizes]
        empty = pl.DataFrame(schema={name: pl.Int64() for name in (QUERY, *names)})
        rows = pl.concat([empty, *(segment.select(QUERY, *names) for segment in table)]).sort(QUERY)
        distinct, of_query = np.unique(rows.select(names).to_numpy(), axis=0, return_inverse=True)
        return WindowsOfQueries(rows[QUERY].to_numpy(), of_query.reshape(-1).astype(np.intp), distinct)


@dataclass(frozen=True)
class WindowsOfQueries:
    """Of each query, the number of its window, and the sizes of windows by their numbers."""

    queries: Numbers  # sorted
    windows: Positions
    sizes: Numbers
    _of_bits: dict[tuple[int, int], Positions] = field(default_factory=dict, compare=False)

    def of(self, queries: Numbers) -> Positions:
        """The windows of queries; -1 of those that are gone."""
        if not self.queries.size:
            return np.full(queries.size, -1)
        at = np.minimum(np.searchsorted(self.queries, queries), self.queries.size - 1)
        return np.where(self.queries[at] == queries, self.windows[at], -1)

    def of_bits(self, first: int, count: int) -> Positions:
        """The windows of so many queries from a number on."""
        if (first, count) not in self._of_bits:
            self._of_bits[first, count] = self.of(np.arange(first, first + count))
        return self._of_bits[first, count]

    def taken_apart(self, bitmaps: Bitmaps, first: int) -> tuple[Positions, Positions, Bitmaps]:
        """Bitmaps of queries from a number on by window: a row, a window that some of its queries have, and the bitmap
        of these."""
        windows = self.of_bits(first, bitmaps.shape[1] * WORD_BITS)
        there = np.unique(windows[windows >= 0])
        if popcounts(bitmaps).sum() <= len(bitmaps) * there.size:
            return self._by_pairs(bitmaps, windows)
        found = []
        for window in there.tolist():
            bits = bitmaps & _mask(windows == window)
            rows = np.flatnonzero(any_bit(bits))
            found.append((rows, np.full(rows.size, window), bits[rows]))
        rows, of_row, bits = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return rows, of_row, bits

    def _by_pairs(self, bitmaps: Bitmaps, windows: Positions) -> tuple[Positions, Positions, Bitmaps]:
        """Where bits are rare, by looking at each of them."""
        rows, bits = expand(bitmaps)
        there = windows[bits] >= 0
        rows, bits = rows[there], bits[there]
        codes = rows * len(self.sizes) + windows[bits]
        apart, place = np.unique(codes, return_inverse=True)
        found = np.zeros((apart.size, bitmaps.shape[1]), np.uint64)
        np.bitwise_or.at(found, (place, bits // WORD_BITS), np.uint64(1) << (bits % WORD_BITS).astype(np.uint64))
        return apart // max(len(self.sizes), 1), apart % max(len(self.sizes), 1), found


_tables: Recent[WindowsOfQueries] = Recent(1 << 26, lambda made: 64 + 16 * made.queries.size)


def _mask(flags: npt.NDArray[np.bool_]) -> Bitmaps:
    return np.packbits(flags, bitorder="little").view(np.uint64)


class QueryWindows(Operator):
    """Rows with their query in front, or with lineage where they are not `expanded`. Here a query's only constant is
    the size of its window:

    >>> by_size = SizedWindow("range", False, (0, 1))
    >>> run = Run(QueryWindows(integers("query", "v"), by_size, expanded=True), queries(of={1: [5, 1], 2: [8, 1]}))
    >>> run.step(batch((1, 7, 3, 4, +1), (2, 7, 3, 4, +1), (3, 7, 3, 4, +1)), to=3)
    (1, 7, [3, 9), +1)
    (2, 7, [3, 12), +1)
    """

    def __init__(self, schema: Schema, window: SizedWindow, *, expanded: bool, timed: bool = False) -> None:
        self.schema = schema
        self.window = window
        self.expanded, self.timed = expanded, timed  # with the instants of elements, for FIRST and LAST

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def is_idle(self, state: State, progress: Progress) -> bool:
        return True

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, known = inputs[0], self.window.of_queries(state.get(QUERIES, ()))
        if self.timed:
            batch = with_columns(batch, batch.get_column(START).alias(INSTANT))
        if not batch.height:
            return batch, NO_STATE
        if self.expanded:
            windows = known.of(numbers(batch, value_column(0)))
            if windows.min() < 0:
                batch, windows = only(batch, windows >= 0), windows[windows >= 0]
        else:
            batch, windows = _by_window(batch, known)
        start, end = self.window.shown(batch, known.sizes[windows], first=int(self.expanded))
        return only(with_columns(batch, pl.Series(START, start), pl.Series(END, end)), start < end), NO_STATE


def _by_window(batch: Batch, known: WindowsOfQueries) -> tuple[Batch, Positions]:
    """Rows with lineage, each once for every window that its queries have."""
    blocks, lineage = batch[BLOCK].to_numpy(), lineage_of(batch)
    rows: list[Positions] = []
    windows: list[Positions] = []
    bits: list[Bitmaps] = []
    for block in np.unique(blocks).tolist():
        own = np.flatnonzero(blocks == block)
        row, window, bitmaps = known.taken_apart(lineage[own], block * BLOCK_SIZE)
        rows.append(own[row])
        windows.append(window)
        bits.append(bitmaps)
    taken = pl.DataFrame(gather(batch, batch.columns, np.concatenate(rows)))
    return with_columns(taken, lineage_series(np.concatenate(bits)).alias(LINEAGE)), np.concatenate(windows)
