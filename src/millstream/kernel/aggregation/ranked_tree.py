"""A ranked n-ary tree over matches in the order of time: aggregates over any window, without reading it (PSoup).

    f(i .. j) = f( leaves left of whole nodes, whole nodes level by level, leaves right of them )

The leaves are rows with the instants of their elements, by group and within a group by the oldest, so that a window is
a range of leaves in each group, found by binary search. Level by level, a node stands for FAN neighbours of the level
below and has their totals (exact, see exact_sum) and extremes. A range takes at most 2 * FAN nodes of each level:
O(log n). Rows of several elements are in the window from their youngest element on: of a tree of which some are younger
than the window, the leaves in the range are looked at one by one. When the answer now is asked for, that is none.

A tree is one immutable segment: what an epoch brings is a tree of its own, appended at the right, and neighbours are
merged as all results are, so that there are O(log n) of them. At the left whole trees go when they are too old, and
others are cut when they are merged. Windows and functions share a tree: queries differ in what they ask of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation import accumulators, exact_sum
from millstream.kernel.aggregation.accumulators import COPIES, Accumulator, Totals, accumulators_of
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.extremes import Order, gathered, order_of
from millstream.kernel.aggregation.group_table import one_zero
from millstream.kernel.aggregation.ordinals import heads, ordinals
from millstream.kernel.aggregation.sorted_runs import bisect_within, expand
from millstream.kernel.batch import END, START, WEIGHT, Batch, empty_batch, value_column, value_columns
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.matches import OLDEST, instant_column, oldest_of, with_oldest
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.segments import gather, only
from millstream.types import Field, Schema

Int64s = NDArray[np.int64]
FAN = 16
FUNCTIONS = ("count", "sum", "avg", "min", "max")
_FIRSTS = "_firsts"  # where each group begins


@dataclass(frozen=True)
class TreeShape:
    """What a tree is over: value columns, the first `keys` of which are those of groups, and the calls it answers."""

    schema: Schema
    keys: int
    calls: tuple[AggregateCall, ...]
    instants: int = 1  # elements of a row

    @property
    def columns(self) -> list[str]:
        """Of the leaves: values, and the instants of their elements."""
        return [*value_columns(len(self.schema)), *map(instant_column, range(self.instants))]

    @cached_property
    def totals(self) -> tuple[Accumulator, ...]:
        linear = (call for call in self.calls if not _is_extreme(call))
        wanted = dict.fromkeys(each for call in linear for each in accumulators_of(call, self.schema))
        return tuple({COPIES: None, **wanted})

    @cached_property
    def orders(self) -> dict[str, Order]:
        """The extremes that are kept, by name."""
        found = (call for call in self.calls if _is_extreme(call))
        return {_extreme(call): order_of(call, arrival=False) for call in found}

    @property
    def result(self) -> Schema:
        names = tuple(field.name for field in self.schema)
        shown = (Field(call.show(names), call.type) for call in self.calls)
        return (*self.schema[: self.keys], *shown)


def _is_extreme(call: AggregateCall) -> bool:
    return call.name in ("min", "max")


def _extreme(call: AggregateCall) -> str:
    return f"{call.name}{call.argument}"


class RankedTree(Operator):
    """Makes a tree of what comes; instants are the last value columns of its input. Keeps nothing itself."""

    def __init__(self, shape: TreeShape, kept: int | None) -> None:
        self.schema = shape.schema
        self.shape = shape
        self.kept = kept

    @property
    def distribution(self) -> Distribution:
        return anywhere(())

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, width = inputs[0], len(self.schema)
        rows = batch.select(
            *(one_zero(name, batch.schema[name]) for name in value_columns(width)),
            *(pl.col(value_column(width + n)).alias(instant_column(n)) for n in range(self.shape.instants)),
        )
        return build(rows, self.shape), NO_STATE


def _ordering(segment: Segment) -> str:
    """The column of the oldest elements."""
    return OLDEST if OLDEST in segment.columns else instant_column(0)


def is_tree(segment: pl.DataFrame) -> bool:
    return _FIRSTS in segment.columns


def build(rows: pl.DataFrame, shape: TreeShape) -> Segment:
    """A tree over rows (value columns and instants), as one row of lists."""
    rows = with_oldest(rows.select(shape.columns), shape.instants)
    codes, _ = ordinals(rows, value_columns(shape.keys))
    order = np.lexsort((oldest_of(rows), codes))
    leaves = rows[pl.Series(order.astype(np.uint32))]
    columns = [*leaves.get_columns(), pl.Series(_FIRSTS, np.flatnonzero(heads(codes[order])))]
    for level, nodes in enumerate(_levels(leaves, shape), start=1):
        columns += (column.alias(_named(level, column.name)) for column in nodes.get_columns())
    packed = pl.DataFrame([column.implode() for column in columns])
    return packed if rows.height else packed.clear()


def _named(level: int, name: str) -> str:
    return f"_level{level} {name}"


def _levels(leaves: pl.DataFrame, shape: TreeShape) -> Iterator[pl.DataFrame]:
    totals, extremes = _of_leaves(leaves, shape)
    count = leaves.height
    while count > FAN:
        owner = np.arange(count) // FAN
        count = int(owner[-1]) + 1
        totals = {total: exact_sum.grouped(limbs, owner, count) for total, limbs in totals.items()}
        extremes = {name: _best(extremes[name], owner, count, order) for name, order in shape.orders.items()}
        yield pl.DataFrame([*accumulators.to_columns(totals), *(best.alias(name) for name, best in extremes.items())])


def _of_leaves(leaves: pl.DataFrame, shape: TreeShape) -> tuple[Totals, dict[str, pl.Series]]:
    weighted = leaves.with_columns(pl.Series(WEIGHT, np.ones(leaves.height, np.int64)))
    extremes = {name: leaves[order.value] for name, order in shape.orders.items()}
    return accumulators.contributions(weighted, shape.totals), extremes


def _best(values: pl.Series, owner: Int64s, size: int, order: Order) -> pl.Series:
    """The best value of each owner, NULL where it has none."""
    quality, _ = order.quality(pl.DataFrame([values.alias(order.value)]))
    ascending = np.lexsort((quality, owner))
    found = np.full(size, -1, np.int64)
    found[owner[ascending]] = ascending  # of several the last one stays
    return gathered(values, found)


_Piece = tuple[Totals, dict[str, pl.Series], Int64s]  # totals and extremes, and the range that each belongs to


class _Tree:
    """A segment, opened: its columns as arrays, which are views of it."""

    def __init__(self, segment: Segment, shape: TreeShape) -> None:
        columns = {name: segment.get_column(name)[0] for name in segment.columns}
        self.shape = shape
        self.times: Int64s = columns[_ordering(segment)].to_numpy()
        self.firsts: Int64s = columns[_FIRSTS].to_numpy()
        self.leaves = pl.DataFrame([columns[name].alias(name) for name in shape.columns])
        self.youngest = self.times
        for name in shape.columns[len(shape.schema) :] if shape.instants > 1 else ():
            self.youngest = np.maximum(self.youngest, columns[name].to_numpy())
        self.last = int(self.youngest.max())
        self.totals: list[Totals] = []
        self.extremes: list[dict[str, pl.Series]] = []
        level = 1
        while own := [name for name in segment.columns if name.startswith(_named(level, ""))]:
            nodes = pl.DataFrame([columns[name].alias(name.split(" ", 1)[1]) for name in own])
            self.totals.append(accumulators.from_columns(nodes, shape.totals))
            self.extremes.append({name: nodes.get_column(name) for name in shape.orders})
            level += 1

    def ranges(self, first: int, last: int) -> tuple[Int64s, Int64s, Int64s]:
        """The first leaf of each group that has elements between two instants, and its range of leaves then."""
        if not self.shape.keys:
            low, high = (np.searchsorted(self.times, first), np.searchsorted(self.times, last, side="right"))
            found = np.array([low]), np.array([high])
        else:
            stops = np.append(self.firsts[1:], self.times.size)
            begin = bisect_within(self.times, self.firsts, stops, first - 1)
            found = begin, bisect_within(self.times, self.firsts, stops, last)
        there = found[0] < found[1]
        return self.firsts[there], found[0][there], found[1][there]

    def covered(self, first: int, last: int) -> tuple[Int64s, list[_Piece]]:
        """The first leaf of each group that has rows in a window, and what makes these up."""
        firsts, low, high = self.ranges(first, last)
        if self.last <= last or self.shape.instants == 1:
            return firsts, list(self.pieces(low, high))
        places, owner = expand(low, high)
        there = self.youngest[places] <= last
        groups, owner = np.unique(owner[there], return_inverse=True)
        return firsts[groups], [(*self._taken(0, places[there]), owner)] if groups.size else []

    def pieces(self, low: Int64s, high: Int64s) -> Iterator[_Piece]:
        """What makes up ranges of leaves."""
        for level, first, stop in _cover(low, high, self.times.size):
            places, owner = expand(first, stop)
            if places.size:
                yield (*self._taken(level, places), owner)

    def _taken(self, level: int, places: Int64s) -> tuple[Totals, dict[str, pl.Series]]:
        chosen = pl.Series(places.astype(np.uint32))
        if level == 0:
            # Series by series: Polars takes longer to divide a small frame among its threads than to gather it.
            return _of_leaves(pl.DataFrame(gather(self.leaves, self.leaves.columns, places)), self.shape)
        totals = {total: limbs.take(places) for total, limbs in self.totals[level - 1].items()}
        return totals, {name: values[chosen] for name, values in self.extremes[level - 1].items()}


_opened: dict[int, _Tree] = {}


def _open(segment: Segment, shape: TreeShape) -> _Tree:
    """Once for each segment, as long as it lasts."""
    known = _opened.get(id(segment))
    if known is None or known.shape != shape:
        if known is None:
            weakref.finalize(segment, _opened.pop, id(segment), None)
        known = _opened[id(segment)] = _Tree(segment, shape)
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


def aggregate(segments: Sequence[Segment], shape: TreeShape, first: int, last: int, at: int) -> Batch:
    """What the calls say of the elements between two instants, as rows that hold at the instant `at`."""
    keys = value_columns(shape.keys)
    found = [_open(segment, shape) for segment in segments]
    pieces: list[_Piece] = []
    groups: list[pl.DataFrame] = []
    size = 0
    for tree in found:
        firsts, own = tree.covered(first, last)
        if keys:
            groups.append(pl.DataFrame(gather(tree.leaves, keys, firsts)))
        pieces += ((totals, extremes, owner + size) for totals, extremes, owner in own)
        size += firsts.size
    if not shape.keys:
        values = _evaluated(pieces, np.zeros(size, np.int64), 1, shape)
        return _rows([], values, shape, at)
    if not size:
        return empty_batch(shape.result)
    together = pl.concat(groups)
    codes, _ = ordinals(together, keys)
    _, place, number = np.unique(codes, return_index=True, return_inverse=True)
    values = _evaluated(pieces, number, place.size, shape)
    chosen = pl.Series(place.astype(np.uint32))
    return _rows([together[key][chosen] for key in keys], values, shape, at)


def _evaluated(pieces: Sequence[_Piece], group: Int64s, count: int, shape: TreeShape) -> list[pl.Series]:
    """One column per call; `group` is that of each range."""
    none = empty_batch(shape.schema)
    pieces = pieces or [(*_of_leaves(none, shape), np.empty(0, np.int64))]
    owner = group[np.concatenate([each for _, _, each in pieces])]
    totals = accumulators.map_totals(
        accumulators.concatenated([each for each, _, _ in pieces]),
        lambda limbs: exact_sum.grouped(limbs, owner, count),
    )
    shown = [field.name for field in shape.result[shape.keys :]]
    values = []
    for call, name in zip(shape.calls, shown, strict=True):
        if _is_extreme(call):
            best = pl.concat([extremes[_extreme(call)] for _, extremes, _ in pieces])
            values.append(_best(best, owner, count, shape.orders[_extreme(call)]))
        else:
            values.append(accumulators.evaluate(call, totals, shape.schema, name))
    return values


def _rows(keys: Sequence[pl.Series], values: Sequence[pl.Series], shape: TreeShape, at: int) -> Batch:
    columns = [each.alias(value_column(index)) for index, each in enumerate([*keys, *values])]
    height = len(columns[0])
    times = {START: at, END: at + 1, WEIGHT: 1}
    rest = [pl.Series(name, np.full(height, value, np.int64)) for name, value in times.items()]
    return pl.DataFrame([*columns, *rest])


def leaves_of(segment: Segment, shape: TreeShape) -> pl.DataFrame:
    """The rows of a tree, in the form of matches; not in the order of time where there are groups."""
    return _open(segment, shape).leaves


def last_instant(segment: Segment) -> int:
    return int(segment[_ordering(segment)][0].to_numpy().max())


def size_of(segment: Segment) -> int:
    return int(segment[_ordering(segment)][0].len())


def merged(segments: Sequence[Segment], shape: TreeShape, first: int) -> Segment:
    """One tree of several, without what lies before `first`."""
    rows = with_oldest(pl.concat([leaves_of(segment, shape) for segment in segments], rechunk=True), shape.instants)
    return build(only(rows, oldest_of(rows) >= first), shape)
