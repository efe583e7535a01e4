"""Segments that are ranked trees: what a tree is over, and a segment opened for those who ask.

    f(i .. j) = f( leaves left of whole nodes, whole nodes level by level, leaves right of them )

A range of leaves takes at most 2 * FAN nodes of each level. Of a tree of many queries the rows are kept once: leaves
are places of rows, by owner (`owners`), group and time. Each of them has ranges of its own, and so nodes of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation import accumulators, exact_sum
from millstream.kernel.aggregation.accumulators import COPIES, Accumulator, Totals, accumulators_of
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.extremes import Order, gathered, order_of
from millstream.kernel.aggregation.ordinals import heads
from millstream.kernel.aggregation.sorted_runs import bisect_within, expand
from millstream.kernel.batch import WEIGHT, value_columns
from millstream.kernel.lazy.matches import OLDEST, instant_column
from millstream.kernel.lazy.owners import Cells, Owned
from millstream.kernel.operator import Segment
from millstream.kernel.storage.segments import gather
from millstream.types import Field, Schema

Int64s = NDArray[np.int64]
FAN = 16
FIRSTS = "_firsts"  # where each group begins
PLACES = "_places"  # of many queries: the row of each leaf
QUERIES, CELL = "_queries", "_cell"  # of each group: the query, or the cell of queries
BLOCKS, BITS = "_cell_blocks", "_cell_bits"  # of cells: the block, and words of bits one behind the other


@dataclass(frozen=True)
class TreeShape:
    """What a tree is over: value columns, the first `keys` of which are those of groups, and the calls it answers."""

    schema: Schema
    keys: int
    calls: tuple[AggregateCall, ...]
    instants: int = 1  # elements of a row
    shifts: tuple[
        int | None, ...
    ] = ()  # of each element: what is added to its instant in the order; None: it is not in

    @property
    def columns(self) -> list[str]:
        """Of the leaves: values, and the instants of their elements."""
        return [*value_columns(len(self.schema)), *map(instant_column, range(self.instants))]

    @cached_property
    def totals(self) -> tuple[Accumulator, ...]:
        linear = (call for call in self.calls if not is_extreme(call))
        wanted = dict.fromkeys(each for call in linear for each in accumulators_of(call, self.schema))
        return tuple({COPIES: None, **wanted})

    @cached_property
    def orders(self) -> dict[str, Order]:
        """The extremes that are kept, by name."""
        found = (call for call in self.calls if is_extreme(call))
        return {extreme_name(call): order_of(call) for call in found}

    @property
    def result(self) -> Schema:
        names = tuple(field.name for field in self.schema)
        shown = (Field(call.show(names), call.type) for call in self.calls)
        return (*self.schema[: self.keys], *shown)


def is_extreme(call: AggregateCall) -> bool:
    return call.name in ("min", "max")


def extreme_name(call: AggregateCall) -> str:
    return f"{call.name}{call.argument}"


def level_name(level: int, name: str) -> str:
    return f"_level{level} {name}"


def ordering(segment: Segment) -> str:
    """The column of the oldest elements."""
    return OLDEST if OLDEST in segment.columns else instant_column(0)


def is_tree(segment: pl.DataFrame) -> bool:
    return FIRSTS in segment.columns


def extremes_of(leaves: pl.DataFrame, shape: TreeShape) -> dict[str, pl.Series]:
    return {name: leaves[order.value] for name, order in shape.orders.items()}


def totals_of(leaves: pl.DataFrame, shape: TreeShape) -> Totals:
    weighted = leaves.with_columns(pl.Series(WEIGHT, np.ones(leaves.height, np.int64)))
    return accumulators.contributions(weighted, shape.totals)


def _best(values: pl.Series, owner: Int64s, size: int, order: Order) -> pl.Series:
    """The best value of each owner, NULL where it has none."""
    quality, _ = order.quality(pl.DataFrame([values.alias(order.value)]))
    ascending = np.lexsort((quality, owner))
    found = np.full(size, -1, np.int64)
    found[owner[ascending]] = ascending  # of several the last one stays
    return gathered(values, found)


Piece = tuple[Totals, dict[str, pl.Series], Int64s]  # totals and extremes, and the range that each belongs to


def added(pieces: Sequence[Piece], owner: Int64s, size: int, shape: TreeShape) -> tuple[Totals, dict[str, pl.Series]]:
    """What pieces come to, for each of their owners."""
    totals = accumulators.map_totals(
        accumulators.concatenated([each for each, _, _ in pieces]),
        lambda limbs: exact_sum.grouped(limbs, owner, size),
    )
    found = {name: pl.concat([extremes[name] for _, extremes, _ in pieces]) for name in shape.orders}
    return totals, {name: _best(values, owner, size, shape.orders[name]) for name, values in found.items()}


@dataclass(frozen=True)
class _Through:
    """Values by the places of leaves."""

    values: Int64s
    places: NDArray[np.uint32]

    def __len__(self) -> int:
        return self.places.size

    def __getitem__(self, leaves: Int64s) -> Int64s:
        return self.values[self.places[leaves]]


class Tree:
    """A segment, opened: its columns as arrays, which are views of it."""

    def __init__(self, segment: Segment, shape: TreeShape) -> None:
        columns = {name: segment.get_column(name)[0] for name in segment.columns}
        self.shape = shape
        self.rows = pl.DataFrame([columns[name].alias(name) for name in shape.columns])
        self.firsts: Int64s = columns[FIRSTS].to_numpy()
        self.stops: Int64s = np.append(self.firsts[1:], len(columns.get(PLACES, columns[ordering(segment)])))
        self.places: NDArray[np.uint32] | None = columns[PLACES].to_numpy() if PLACES in columns else None
        self.owners, self.cells = owners_of(segment)
        self.oldest: Int64s = columns[ordering(segment)].to_numpy()
        self.times = self.oldest if self.places is None else _Through(self.oldest, self.places)
        self.youngest: Int64s = columns[shape.columns[len(shape.schema)]].to_numpy()
        for name in shape.columns[len(shape.schema) + 1 :]:
            self.youngest = np.maximum(self.youngest, columns[name].to_numpy())
        self.last = int(self.youngest.max())
        self.totals: list[Totals] = []
        self.extremes: list[dict[str, pl.Series]] = []
        level = 1
        while own := [name for name in segment.columns if name.startswith(level_name(level, ""))]:
            nodes = pl.DataFrame([columns[name].alias(name.split(" ", 1)[1]) for name in own])
            self.totals.append(accumulators.from_columns(nodes, shape.totals))
            self.extremes.append({name: nodes.get_column(name) for name in shape.orders})
            level += 1

    def owned(self) -> Owned:
        """Of many queries: which rows are whose."""
        leaves = np.arange(len(self.times))
        return Owned(self.rows_at(leaves), np.repeat(self.owners, self.stops - self.firsts), self.cells)

    def owners_for(self, queries: Int64s) -> tuple[Int64s, Int64s]:
        """The owners whose leaves are those of some of many queries, which are in order, and the place of the query of
        each."""
        return (queries, np.arange(queries.size)) if self.cells is None else self.cells.of(queries)

    def groups(self, owners: Int64s) -> tuple[Int64s, Int64s]:
        """The groups of some owners, and the place of the owner of each."""
        return expand(np.searchsorted(self.owners, owners), np.searchsorted(self.owners, owners, side="right"))

    def rows_at(self, leaves: Int64s) -> Int64s:
        """The places of leaves among the rows."""
        return leaves if self.places is None else self.places[leaves].astype(np.int64)

    def covered(self, first: int, last: int, queries: Int64s | None) -> tuple[Int64s, Int64s, list[Piece]]:
        """The first row of each group that has rows between two instants, the place of the query that it is for, and
        what makes these up."""
        if queries is None or self.places is None:
            rows, _, pieces = self._covered(first, last, np.arange(self.firsts.size))
            return rows, np.zeros(rows.size, np.int64), pieces
        owners, query = self.owners_for(queries)
        if self.cells is None or queries.size == 1:
            chosen, owner = self.groups(owners)
            rows, places, pieces = self._covered(first, last, chosen)
            return rows, query[owner[places]], pieces
        # A cell is looked at once, whatever number of queries is in it.
        distinct, number = np.unique(owners, return_inverse=True)
        chosen, owner = self.groups(distinct)
        rows, places, pieces = self._covered(first, last, chosen)
        if not rows.size:
            return rows, places, []
        totals, extremes = added(pieces, np.concatenate([each for _, _, each in pieces]), rows.size, self.shape)
        by_owner = np.argsort(number, kind="stable")  # those who ask, by what they ask for
        begins = np.searchsorted(number[by_owner], np.arange(distinct.size + 1))
        whose, place = expand(begins[owner[places]], begins[owner[places] + 1])
        taken = pl.Series(place.astype(np.uint32))
        whole = {total: limbs.take(place) for total, limbs in totals.items()}
        best = {name: values[taken] for name, values in extremes.items()}
        return rows[place], query[by_owner[whose]], [(whole, best, np.arange(place.size))]

    def _covered(self, first: int, last: int, groups: Int64s) -> tuple[Int64s, Int64s, list[Piece]]:
        """Of some groups: the first row of each that has rows between two instants, its place among them, and what
        makes these up."""
        places, low, high = self._ranges(first, last, groups)
        firsts = self.firsts[groups[places]]
        if self.last <= last or self.shape.instants == 1:
            return self.rows_at(firsts), places, list(self._pieces(low, high))
        leaves, owner = expand(low, high)
        there = self.youngest[self.rows_at(leaves)] <= last
        found, owner = np.unique(owner[there], return_inverse=True)
        pieces = [(*self._taken(0, leaves[there]), owner)] if found.size else []
        return self.rows_at(firsts[found]), places[found], pieces

    def _ranges(self, first: int, last: int, groups: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Of some groups, the places of those that have elements between two instants, and their ranges of leaves."""
        if self.places is None and self.firsts.size == 1:
            low, high = np.searchsorted(self.oldest, [first, last + 1])
            found = np.array([low]), np.array([high])
        else:
            firsts, stops = self.firsts[groups], self.stops[groups]
            begin = bisect_within(self.times, firsts, stops, first - 1)  # type: ignore[arg-type]
            found = begin, bisect_within(self.times, begin, stops, last)  # type: ignore[arg-type]
        there = np.flatnonzero(found[0] < found[1])
        return there, found[0][there], found[1][there]

    def _pieces(self, low: Int64s, high: Int64s) -> Iterator[Piece]:
        """What makes up ranges of leaves."""
        for level, first, stop in _cover(low, high, len(self.times)):
            places, owner = expand(first, stop)
            if places.size:
                yield (*self._taken(level, places), owner)

    def _taken(self, level: int, places: Int64s) -> tuple[Totals, dict[str, pl.Series]]:
        if level == 0:
            # Series by series: Polars takes longer to divide a small frame among its threads than to gather it.
            leaves = pl.DataFrame(gather(self.rows, self.rows.columns, self.rows_at(places)))
            return totals_of(leaves, self.shape), extremes_of(leaves, self.shape)
        chosen = pl.Series(places.astype(np.uint32))
        totals = {total: limbs.take(places) for total, limbs in self.totals[level - 1].items()}
        return totals, {name: values[chosen] for name, values in self.extremes[level - 1].items()}


_opened: dict[int, Tree] = {}


def opened(segment: Segment, shape: TreeShape) -> Tree:
    """Once for each segment, as long as it lasts."""
    known = _opened.get(id(segment))
    if known is None or known.shape != shape:
        if known is None:
            weakref.finalize(segment, _opened.pop, id(segment), None)
        known = _opened[id(segment)] = Tree(segment, shape)
    return known


def _cover(low: Int64s, high: Int64s, height: int) -> Iterator[tuple[int, Int64s, Int64s]]:
    """Whole nodes that make up ranges of leaves: on each level what lies left and right of those of the next one."""
    level = 0
    while height > FAN:
        inner, outer = -(-low // FAN), high // FAN
        spans = inner < outer
        yield level, low, np.where(spans, inner * FAN, high)
        yield level, np.where(spans, outer * FAN, high), high
        low, high = np.where(spans, inner, 0), np.where(spans, outer, 0)
        height = -(-height // FAN)
        level += 1
    yield level, low, high


def leaves_of(segment: Segment, shape: TreeShape, query: int | None = None) -> pl.DataFrame:
    """The rows of a tree, or of one of many queries, in the form of matches; not in the order of time where there are
    groups."""
    tree = opened(segment, shape)
    return tree.rows if tree.places is None or query is None else leaves_of_many(segment, shape, np.array([query]))[0]


def leaves_of_many(segment: Segment, shape: TreeShape, queries: Int64s) -> tuple[pl.DataFrame, Int64s]:
    """The rows of some of many queries, which are in order, and the places of these."""
    tree = opened(segment, shape)
    owners, query = tree.owners_for(queries)
    groups, owner = tree.groups(owners)
    leaves, group = expand(tree.firsts[groups], tree.stops[groups])
    return pl.DataFrame(gather(tree.rows, tree.rows.columns, tree.rows_at(leaves))), query[owner[group]]


def ranges_of_many(segments: Sequence[Segment], shape: TreeShape, queries: Int64s) -> Int64s:
    """How many ranges of leaves are looked at for each of some of many queries, which are in order."""
    counts = np.zeros(queries.size, np.int64)
    for tree in [opened(segment, shape) for segment in segments]:
        owners, query = tree.owners_for(queries)
        _, owner = tree.groups(owners)
        counts += np.bincount(query[owner], minlength=queries.size)
    return counts


def last_instant(segment: Segment) -> int:
    return int(segment[ordering(segment)][0].to_numpy().max())


def size_of(segment: Segment, query: int | None = None) -> int:
    """How many rows there are, or one of many queries has."""
    if query is None or PLACES not in segment.columns:
        return int(segment[ordering(segment)][0].len())
    queries, counts = counts_of(segment)
    return int(counts[np.searchsorted(queries, query) : np.searchsorted(queries, query + 1)].sum())


def counts_of(segment: Segment) -> tuple[Int64s, Int64s]:
    """Of a tree of many queries: these, and how many rows each has."""
    owners, cells = owners_of(segment)
    lengths = np.diff(segment[FIRSTS][0].to_numpy(), append=segment[PLACES][0].len())
    begins = np.flatnonzero(heads(owners))
    owners, counts = owners[begins], np.add.reduceat(lengths, begins)
    if cells is None:
        return owners, counts
    place, query = cells.queries(owners)
    queries, number = np.unique(query, return_inverse=True)
    return queries, np.bincount(number, counts[place]).astype(np.int64)


def owners_of(segment: Segment) -> tuple[Int64s, Cells | None]:
    """The owner of each group: a query, or one of the cells."""
    if CELL not in segment.columns:
        return (segment[QUERIES][0].to_numpy() if QUERIES in segment.columns else np.empty(0, np.int64)), None
    owners, blocks, words = (segment[name][0].to_numpy() for name in (CELL, BLOCKS, BITS))
    return owners, Cells(blocks, words.reshape(blocks.size, -1))


def owner_columns(owners: Int64s, cells: Cells | None) -> dict[str, NDArray[Any]]:
    """The columns that say the same."""
    if cells is None:
        return {QUERIES: owners}
    return {CELL: owners, BLOCKS: cells.blocks, BITS: cells.words.reshape(-1)}
