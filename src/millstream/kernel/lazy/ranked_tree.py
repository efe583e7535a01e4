"""A ranked n-ary tree over matches in the order of time: aggregates over any window, without reading it (PSoup).

    f(i .. j) = f( leaves left of whole nodes, whole nodes level by level, leaves right of them )

The leaves are rows with the instants of their elements, by group and within a group by the oldest, so that a window is
a range of leaves in each group, found by binary search. Level by level, a node stands for FAN neighbours of the level
below and has their totals (exact, see exact_sum) and extremes. A range takes at most 2 * FAN nodes of each level:
O(log n). Rows of several elements are in the window from their youngest element on: of a tree of which some are younger
than the window, the leaves in the range are looked at one by one. When the answer now is asked for, that is none.

Where the windows of the elements differ in their lengths, leaves are ordered by when they leave: an element of a
shorter window counts as so much older (`shifts`), and one that never leaves does not count. Of a group of queries the
rows are kept once, and the leaves are places of rows, by query: a query has ranges of its own, and so nodes of its own.

A tree is one immutable segment: what an epoch brings is a tree of its own, appended at the right, and neighbours are
merged as all results are, so that there are O(log n) of them. At the left whole trees go when they are too old, and
others are cut when they are merged. Windows and functions share a tree: queries differ in what they ask of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation import accumulators, exact_sum
from millstream.kernel.aggregation.accumulators import COPIES, Accumulator, Totals, accumulators_of
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.extremes import Order, gathered, order_of
from millstream.kernel.aggregation.ordinals import heads, ordinals
from millstream.kernel.aggregation.sorted_runs import bisect_within, expand
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, empty_batch, value_column, value_columns
from millstream.kernel.columns import frame_of, one_zero, only
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.lazy.matches import OLDEST, instant_column, oldest_of, with_oldest
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.storage.segments import as_one_row, gather, numbers
from millstream.types import Field, Schema

Int64s = NDArray[np.int64]
FAN = 16
FUNCTIONS = ("count", "sum", "avg", "min", "max")
_FIRSTS = "_firsts"  # where each group begins
_PLACES, _QUERIES = "_places", "_queries"  # of many queries: the row of each leaf, and the query of each group


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
        linear = (call for call in self.calls if not _is_extreme(call))
        wanted = dict.fromkeys(each for call in linear for each in accumulators_of(call, self.schema))
        return tuple({COPIES: None, **wanted})

    @cached_property
    def orders(self) -> dict[str, Order]:
        """The extremes that are kept, by name."""
        found = (call for call in self.calls if _is_extreme(call))
        return {_extreme(call): order_of(call) for call in found}

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
    """Makes a tree of what comes; instants are the last value columns of its input. Keeps nothing itself.

    >>> total = AggregateCall("sum", 0, distinct=False, type=BIGINT)
    >>> run = Run(RankedTree(TreeShape(integers("v"), keys=0, calls=(total,)), kept=None))
    >>> _ = run.step(batch((7, 0, 0, 1, +1), (9, 3, 3, 4, +1), (5, 4, 4, 5, +1)), to=4)
    >>> show(aggregate([run.output], run.operator.shape, first=1, last=4, at=4))
    (14, [4, 5), +1)
    """

    def __init__(self, shape: TreeShape, kept: int | None) -> None:
        self.schema = shape.schema
        self.shape = shape
        self.kept = kept

    @property
    def distribution(self) -> Distribution:
        return anywhere(())

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return build(timed_rows(inputs[0], self.shape), self.shape), NO_STATE


def timed_rows(batch: Batch, shape: TreeShape) -> pl.DataFrame:
    """Rows whose last values are instants, with these in columns of their own."""
    width = len(shape.schema)
    values = (one_zero(batch.get_column(name)) for name in value_columns(width))
    instants = (batch.get_column(value_column(width + n)).alias(instant_column(n)) for n in range(shape.instants))
    return frame_of([*values, *instants])


def _with_order(rows: pl.DataFrame, shape: TreeShape) -> pl.DataFrame:
    """The rows with the column that says their order."""
    if not any(shift != 0 for shift in shape.shifts):
        return with_oldest(rows, shape.instants)
    shifted = [
        numbers(rows, instant_column(index)) + shift for index, shift in enumerate(shape.shifts) if shift is not None
    ]
    return rows.with_columns(pl.Series(OLDEST, reduce(np.minimum, shifted)))


def _ordering(segment: Segment) -> str:
    """The column of the oldest elements."""
    return OLDEST if OLDEST in segment.columns else instant_column(0)


def is_tree(segment: pl.DataFrame) -> bool:
    return _FIRSTS in segment.columns


def build(rows: pl.DataFrame, shape: TreeShape) -> Segment:
    """A tree over rows (value columns and instants), as one row of lists."""
    order, codes, rows = _in_order(rows, shape)
    leaves = rows[pl.Series(order.astype(np.uint32))]
    firsts = np.flatnonzero(heads(codes[order]))
    return _packed(leaves, {_FIRSTS: firsts}, _levels(*_of_leaves(leaves, shape), rows.height))


def build_for_many(rows: pl.DataFrame, shape: TreeShape, wanted: Callable[[Int64s], tuple[Int64s, Int64s]]) -> Segment:
    """A tree for each of many queries over rows that are kept once. `wanted` is given the order in which these are
    kept, and gives (place, query) of all that some query wants, by query and within a query by place."""
    order, codes, rows = _in_order(rows, shape)
    places, queries = wanted(order)
    chosen = np.zeros(order.size, np.bool_)
    chosen[places] = True
    leaves = rows[pl.Series(order[chosen].astype(np.uint32))]
    codes, places = codes[order[chosen]], (np.cumsum(chosen) - 1)[places]
    firsts = np.flatnonzero(heads(queries) | heads(codes[places]))
    totals, extremes = _of_leaves(leaves, shape)
    totals = accumulators.map_totals(totals, lambda limbs: limbs.take(places))
    extremes = {name: best.at(places) for name, best in extremes.items()}
    index: dict[str, NDArray[Any]] = {_FIRSTS: firsts, _PLACES: places.astype(np.uint32), _QUERIES: queries[firsts]}
    return _packed(leaves, index, _levels(totals, extremes, places.size))


def _in_order(rows: pl.DataFrame, shape: TreeShape) -> tuple[Int64s, Int64s, pl.DataFrame]:
    """By group and within a group by time: places, the groups' numbers, and the rows with the column that orders."""
    rows = _with_order(rows.select(shape.columns), shape)
    codes, _ = ordinals(rows, value_columns(shape.keys))
    return np.lexsort((oldest_of(rows), codes)), codes, rows


def _packed(leaves: pl.DataFrame, index: Mapping[str, NDArray[Any]], levels: Iterable[pl.DataFrame]) -> Segment:
    columns = [*leaves.get_columns(), *(pl.Series(name, values) for name, values in index.items())]
    for level, nodes in enumerate(levels, start=1):
        columns += (column.alias(_named(level, column.name)) for column in nodes.get_columns())
    packed = as_one_row(columns)
    return packed if leaves.height else packed.clear()


def _named(level: int, name: str) -> str:
    return f"_level{level} {name}"


@dataclass(frozen=True)
class _Extremes:
    """Of nodes of a level the best leaves: where each is, and how good."""

    values: pl.Series  # of the leaves
    places: Int64s
    quality: Int64s

    def at(self, places: Int64s) -> _Extremes:
        return _Extremes(self.values, self.places[places], self.quality[places])

    def of_parents(self) -> _Extremes:
        """Of each FAN neighbours the best; of several the last."""
        whole = self.quality.size // FAN * FAN
        best = np.arange(0, whole, FAN) + FAN - 1 - self.quality[:whole].reshape(-1, FAN)[:, ::-1].argmax(axis=1)
        if whole < self.quality.size:
            best = np.append(best, self.quality.size - 1 - self.quality[whole:][::-1].argmax())
        return self.at(best)

    def shown(self, name: str) -> pl.Series:
        return gathered(self.values, self.places).alias(name)


def _levels(totals: Totals, extremes: dict[str, _Extremes], count: int) -> Iterator[pl.DataFrame]:
    while count > FAN:
        owner = np.arange(count) // FAN
        count = int(owner[-1]) + 1
        totals = {total: exact_sum.grouped(limbs, owner, count) for total, limbs in totals.items()}
        extremes = {name: best.of_parents() for name, best in extremes.items()}
        yield pl.DataFrame([*accumulators.to_columns(totals), *(best.shown(name) for name, best in extremes.items())])


def _of_leaves(leaves: pl.DataFrame, shape: TreeShape) -> tuple[Totals, dict[str, _Extremes]]:
    every, orders = np.arange(leaves.height), shape.orders.items()
    extremes = {name: _Extremes(leaves[order.value], every, order.quality(leaves)[0]) for name, order in orders}
    return _totals_of(leaves, shape), extremes


def _extremes_of(leaves: pl.DataFrame, shape: TreeShape) -> dict[str, pl.Series]:
    return {name: leaves[order.value] for name, order in shape.orders.items()}


def _totals_of(leaves: pl.DataFrame, shape: TreeShape) -> Totals:
    weighted = leaves.with_columns(pl.Series(WEIGHT, np.ones(leaves.height, np.int64)))
    return accumulators.contributions(weighted, shape.totals)


def _best(values: pl.Series, owner: Int64s, size: int, order: Order) -> pl.Series:
    """The best value of each owner, NULL where it has none."""
    quality, _ = order.quality(pl.DataFrame([values.alias(order.value)]))
    ascending = np.lexsort((quality, owner))
    found = np.full(size, -1, np.int64)
    found[owner[ascending]] = ascending  # of several the last one stays
    return gathered(values, found)


_Piece = tuple[Totals, dict[str, pl.Series], Int64s]  # totals and extremes, and the range that each belongs to


@dataclass(frozen=True)
class _Through:
    """Values by the places of leaves."""

    values: Int64s
    places: NDArray[np.uint32]

    def __len__(self) -> int:
        return self.places.size

    def __getitem__(self, leaves: Int64s) -> Int64s:
        return self.values[self.places[leaves]]


class _Tree:
    """A segment, opened: its columns as arrays, which are views of it."""

    def __init__(self, segment: Segment, shape: TreeShape) -> None:
        columns = {name: segment.get_column(name)[0] for name in segment.columns}
        self.shape = shape
        self.rows = pl.DataFrame([columns[name].alias(name) for name in shape.columns])
        self.firsts: Int64s = columns[_FIRSTS].to_numpy()
        self.stops: Int64s = np.append(self.firsts[1:], len(columns.get(_PLACES, columns[_ordering(segment)])))
        self.places: NDArray[np.uint32] | None = columns[_PLACES].to_numpy() if _PLACES in columns else None
        self.queries: Int64s = columns[_QUERIES].to_numpy() if _QUERIES in columns else np.empty(0, np.int64)
        self.oldest: Int64s = columns[_ordering(segment)].to_numpy()
        self.times = self.oldest if self.places is None else _Through(self.oldest, self.places)
        self.youngest: Int64s = columns[shape.columns[len(shape.schema)]].to_numpy()
        for name in shape.columns[len(shape.schema) + 1 :]:
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

    def groups(self, queries: Int64s | None) -> tuple[Int64s, Int64s, Int64s]:
        """Where the groups begin and end; where the tree is of many queries, those of some of them, which are in order,
        and the place of the query of each."""
        if queries is None or self.places is None:
            return self.firsts, self.stops, np.zeros(self.firsts.size, np.int64)
        own = np.searchsorted(self.queries, queries), np.searchsorted(self.queries, queries, side="right")
        if queries.size == 1:
            range_ = slice(int(own[0][0]), int(own[1][0]))
            return self.firsts[range_], self.stops[range_], np.zeros(range_.stop - range_.start, np.int64)
        chosen, owner = expand(*own)
        return self.firsts[chosen], self.stops[chosen], owner

    def rows_at(self, leaves: Int64s) -> Int64s:
        """The places of leaves among the rows."""
        return leaves if self.places is None else self.places[leaves].astype(np.int64)

    def ranges(self, first: int, last: int, queries: Int64s | None) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """The first leaf of each group that has elements between two instants, its range of leaves then, and the place
        of its query."""
        if not self.shape.keys and self.places is None:
            low, high = (np.searchsorted(self.oldest, first), np.searchsorted(self.oldest, last, side="right"))
            firsts, owner, found = self.firsts, np.zeros(1, np.int64), (np.array([low]), np.array([high]))
        else:
            firsts, stops, owner = self.groups(queries)
            begin = bisect_within(self.times, firsts, stops, first - 1)  # type: ignore[arg-type]
            found = begin, bisect_within(self.times, firsts, stops, last)  # type: ignore[arg-type]
        there = found[0] < found[1]
        return firsts[there], found[0][there], found[1][there], owner[there]

    def covered(self, first: int, last: int, queries: Int64s | None) -> tuple[Int64s, Int64s, list[_Piece]]:
        """The first row of each group that has rows in a window, the place of its query, and what makes these up."""
        firsts, low, high, query = self.ranges(first, last, queries)
        if self.last <= last or self.shape.instants == 1:
            return self.rows_at(firsts), query, list(self.pieces(low, high))
        leaves, owner = expand(low, high)
        there = self.youngest[self.rows_at(leaves)] <= last
        groups, owner = np.unique(owner[there], return_inverse=True)
        pieces = [(*self._taken(0, leaves[there]), owner)] if groups.size else []
        return self.rows_at(firsts[groups]), query[groups], pieces

    def pieces(self, low: Int64s, high: Int64s) -> Iterator[_Piece]:
        """What makes up ranges of leaves."""
        for level, first, stop in _cover(low, high, len(self.times)):
            places, owner = expand(first, stop)
            if places.size:
                yield (*self._taken(level, places), owner)

    def _taken(self, level: int, places: Int64s) -> tuple[Totals, dict[str, pl.Series]]:
        if level == 0:
            # Series by series: Polars takes longer to divide a small frame among its threads than to gather it.
            leaves = pl.DataFrame(gather(self.rows, self.rows.columns, self.rows_at(places)))
            return _totals_of(leaves, self.shape), _extremes_of(leaves, self.shape)
        chosen = pl.Series(places.astype(np.uint32))
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


def aggregate(
    segments: Sequence[Segment], shape: TreeShape, first: int, last: int, at: int, query: int | None = None
) -> Batch:
    """What the calls say of the elements between two instants, as rows that hold at the instant `at`; for one of many
    queries, where the trees are of many."""
    _, columns = _aggregated(segments, shape, first, last, None if query is None else np.array([query]))
    return _rows(columns, at)


def aggregate_of_many(
    segments: Sequence[Segment], shape: TreeShape, first: int, last: int, at: int, queries: Int64s
) -> Batch:
    """The same for some of the many queries that trees are of, which are in order, behind the number of each."""
    owner, columns = _aggregated(segments, shape, first, last, queries)
    return _rows([pl.Series("query", queries[owner], pl.Int64), *columns], at)


def _aggregated(
    segments: Sequence[Segment], shape: TreeShape, first: int, last: int, queries: Int64s | None
) -> tuple[Int64s, list[pl.Series]]:
    """The places of queries, and the columns: keys, and what the calls say."""
    keys = value_columns(shape.keys)
    pieces: list[_Piece] = []
    groups: list[pl.DataFrame] = []
    owners, size = [np.empty(0, np.int64)], 0
    for tree in [_open(segment, shape) for segment in segments]:
        firsts, query, own = tree.covered(first, last, queries)
        if keys:
            groups.append(pl.DataFrame(gather(tree.rows, keys, firsts)))
        pieces += ((totals, extremes, owner + size) for totals, extremes, owner in own)
        owners.append(query)
        size += firsts.size
    owner = np.concatenate(owners)
    if not shape.keys:
        count = 1 if queries is None else queries.size
        return np.arange(count), _evaluated(pieces, owner, count, shape)
    if not size:
        return owner, empty_batch(shape.result)[value_columns(len(shape.result))].get_columns()
    together = pl.concat(groups)
    codes, _ = ordinals(together, keys)
    if queries is not None and queries.size > 1:
        codes = codes + owner * (int(codes.max()) + 1)
    _, place, number = np.unique(codes, return_index=True, return_inverse=True)
    values = _evaluated(pieces, number, place.size, shape)
    chosen = pl.Series(place.astype(np.uint32))
    return owner[place], [*(together[key][chosen] for key in keys), *values]


def _evaluated(pieces: Sequence[_Piece], group: Int64s, count: int, shape: TreeShape) -> list[pl.Series]:
    """One column per call; `group` is that of each range."""
    none = empty_batch(shape.schema)
    pieces = pieces or [(_totals_of(none, shape), _extremes_of(none, shape), np.empty(0, np.int64))]
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


def _rows(values: Sequence[pl.Series], at: int) -> Batch:
    columns = [each.alias(value_column(index)) for index, each in enumerate(values)]
    height = len(columns[0])
    times = {START: at, END: at + 1, WEIGHT: 1}
    rest = [pl.Series(name, np.full(height, value, np.int64)) for name, value in times.items()]
    return pl.DataFrame([*columns, *rest])


def leaves_of(segment: Segment, shape: TreeShape, query: int | None = None) -> pl.DataFrame:
    """The rows of a tree, or of one of many queries, in the form of matches; not in the order of time where there are
    groups."""
    tree = _open(segment, shape)
    if tree.places is None or query is None:
        return tree.rows
    firsts, stops, _ = tree.groups(np.array([query]))
    leaves, _ = expand(firsts, stops)
    return pl.DataFrame(gather(tree.rows, tree.rows.columns, tree.rows_at(leaves)))


def leaves_of_many(segment: Segment, shape: TreeShape, queries: Int64s) -> tuple[pl.DataFrame, Int64s]:
    """The rows of some of many queries, which are in order, and the places of these."""
    tree = _open(segment, shape)
    firsts, stops, owner = tree.groups(queries)
    leaves, group = expand(firsts, stops)
    return pl.DataFrame(gather(tree.rows, tree.rows.columns, tree.rows_at(leaves))), owner[group]


def last_instant(segment: Segment) -> int:
    return int(segment[_ordering(segment)][0].to_numpy().max())


def size_of(segment: Segment, query: int | None = None) -> int:
    """How many rows there are, or one of many queries has."""
    if query is None or _QUERIES not in segment.columns:
        return int(segment[_ordering(segment)][0].len())
    queries, counts = counts_of(segment)
    return int(counts[np.searchsorted(queries, query) : np.searchsorted(queries, query + 1)].sum())


def counts_of(segment: Segment) -> tuple[Int64s, Int64s]:
    """Of a tree of many queries: these, and how many rows each has."""
    queries, firsts = (segment[name][0].to_numpy() for name in (_QUERIES, _FIRSTS))
    lengths = np.diff(firsts, append=segment[_PLACES][0].len())
    begins = np.flatnonzero(heads(queries))
    return queries[begins], np.add.reduceat(lengths, begins)


def merged(segments: Sequence[Segment], shape: TreeShape, first: int) -> Segment:
    """One tree of several, without what lies before `first`."""
    found = [_open(segment, shape) for segment in segments]
    rows = _with_order(pl.concat([tree.rows for tree in found], rechunk=True), shape)
    kept = oldest_of(rows) >= (first if first > 0 else -INF)  # shifted ones may lie before all time
    if found[0].places is None:
        return build(only(rows, kept), shape)
    begins = np.cumsum([0, *(tree.rows.height for tree in found[:-1])])
    row = np.concatenate([tree.rows_at(np.arange(len(tree.times))) + b for tree, b in zip(found, begins, strict=True)])
    query = np.concatenate([np.repeat(tree.queries, tree.stops - tree.firsts) for tree in found])
    row, query = row[kept[row]], query[kept[row]]
    return build_for_many(rows, shape, lambda order: placed(row, query, order))


def placed(row: Int64s, query: Int64s, order: Int64s) -> tuple[Int64s, Int64s]:
    """(place, query) of pairs of a row and a query, in order, given the order of the rows."""
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    place, bits = place[row], max(order.size - 1, 0).bit_length()
    if int(query.max(initial=0)).bit_length() + bits > 62:
        by_query = np.lexsort((place, query))
        return place[by_query], query[by_query]
    # Numbers that say both are sorted by vector instructions, which takes a tenth of the time.
    both = query << bits | place
    both.sort()
    return both & ((1 << bits) - 1), both >> bits
