"""A ranked n-ary tree over matches in the order of time: aggregates over any window, without reading it (PSoup).

    f(i .. j) = f( leaves left of whole nodes, whole nodes level by level, leaves right of them )

The leaves are rows with the instants of their elements, by group and within a group by the oldest, so that a window is
a range of leaves in each group, found by binary search. Level by level, a node stands for FAN neighbours of the level
below and has their totals (exact, see exact_sum) and extremes. A range takes at most 2 * FAN nodes of each level:
O(log n). Rows of several elements are in the window from their youngest element on: of a tree of which some are younger
than the window, the leaves in the range are looked at one by one. When the answer now is asked for, that is none.

Where the windows of the elements differ in their lengths, leaves are ordered by when they leave: an element of a
shorter window counts as so much older (`shifts`), and one that never leaves does not count. Of a group of queries the
rows are kept once, and the leaves are places of rows, by cell of queries, or by query (`owners`).

A tree is one immutable segment: what an epoch brings is a tree of its own, appended at the right, and neighbours are
merged as all results are, so that there are O(log n) of them. At the left whole trees go when they are too old, and
others are cut when they are merged. Windows and functions share a tree: queries differ in what they ask of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation import accumulators, exact_sum
from millstream.kernel.aggregation.accumulators import Totals
from millstream.kernel.aggregation.extremes import gathered
from millstream.kernel.aggregation.ordinals import heads, ordinals
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, empty_batch, value_column, value_columns
from millstream.kernel.columns import frame_of, one_zero, only
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.lazy.matches import OLDEST, instant_column, oldest_of, with_oldest
from millstream.kernel.lazy.owners import Owned, together
from millstream.kernel.lazy.tree_segments import (
    FAN,
    FIRSTS,
    PLACES,
    Piece,
    TreeShape,
    added,
    extreme_name,
    extremes_of,
    is_extreme,
    level_name,
    opened,
    owner_columns,
    totals_of,
)
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.storage.segments import as_one_row, gather, numbers

Int64s = NDArray[np.int64]
FUNCTIONS = ("count", "sum", "avg", "min", "max")


class RankedTree(Operator):
    """Makes a tree of what comes; instants are the last value columns of its input. Keeps nothing itself.

    >>> from millstream.kernel.aggregation.aggregate_calls import AggregateCall
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


def build(rows: pl.DataFrame, shape: TreeShape) -> Segment:
    """A tree over rows (value columns and instants), as one row of lists."""
    order, codes, rows = _in_order(rows, shape)
    leaves = rows[pl.Series(order.astype(np.uint32))]
    firsts = np.flatnonzero(heads(codes[order]))
    return _packed(leaves, {FIRSTS: firsts}, _levels(*_of_leaves(leaves, shape), rows.height))


def build_for_many(rows: pl.DataFrame, shape: TreeShape, owned: Owned) -> Segment:
    """A tree for each of the owners of rows that are kept once."""
    order, codes, rows = _in_order(rows, shape)
    places, owners = _placed(owned, order)
    chosen = np.zeros(order.size, np.bool_)
    chosen[places] = True
    leaves = rows[pl.Series(order[chosen].astype(np.uint32))]
    codes, places = codes[order[chosen]], (np.cumsum(chosen) - 1)[places]
    firsts = np.flatnonzero(heads(owners) | heads(codes[places]))
    totals, extremes = _of_leaves(leaves, shape)
    totals = accumulators.map_totals(totals, lambda limbs: limbs.take(places))
    extremes = {name: best.at(places) for name, best in extremes.items()}
    index: dict[str, NDArray[Any]]
    index = {FIRSTS: firsts, PLACES: places.astype(np.uint32), **owner_columns(owners[firsts], owned.cells)}
    return _packed(leaves, index, _levels(totals, extremes, places.size))


def _in_order(rows: pl.DataFrame, shape: TreeShape) -> tuple[Int64s, Int64s, pl.DataFrame]:
    """By group and within a group by time: places, the groups' numbers, and the rows with the column that orders."""
    rows = _with_order(rows.select(shape.columns), shape)
    codes, _ = ordinals(rows, value_columns(shape.keys))
    return np.lexsort((oldest_of(rows), codes)), codes, rows


def _packed(leaves: pl.DataFrame, index: Mapping[str, NDArray[Any]], levels: Iterable[pl.DataFrame]) -> Segment:
    columns = [*leaves.get_columns(), *(pl.Series(name, values) for name, values in index.items())]
    for level, nodes in enumerate(levels, start=1):
        columns += (column.alias(level_name(level, column.name)) for column in nodes.get_columns())
    packed = as_one_row(columns)
    return packed if leaves.height else packed.clear()


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
    return totals_of(leaves, shape), extremes


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
    pieces: list[Piece] = []
    groups: list[pl.DataFrame] = []
    owners, size = [np.empty(0, np.int64)], 0
    for tree in [opened(segment, shape) for segment in segments]:
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


def _evaluated(pieces: Sequence[Piece], group: Int64s, count: int, shape: TreeShape) -> list[pl.Series]:
    """One column per call; `group` is that of each range."""
    none = empty_batch(shape.schema)
    pieces = pieces or [(totals_of(none, shape), extremes_of(none, shape), np.empty(0, np.int64))]
    totals, extremes = added(pieces, group[np.concatenate([each for _, _, each in pieces])], count, shape)
    shown = [field.name for field in shape.result[shape.keys :]]
    return [
        extremes[extreme_name(call)] if is_extreme(call) else accumulators.evaluate(call, totals, shape.schema, name)
        for call, name in zip(shape.calls, shown, strict=True)
    ]


def _rows(values: Sequence[pl.Series], at: int) -> Batch:
    columns = [each.alias(value_column(index)) for index, each in enumerate(values)]
    height = len(columns[0])
    times = {START: at, END: at + 1, WEIGHT: 1}
    rest = [pl.Series(name, np.full(height, value, np.int64)) for name, value in times.items()]
    return pl.DataFrame([*columns, *rest])


def merged(segments: Sequence[Segment], shape: TreeShape, first: int) -> Segment:
    """One tree of several, without what lies before `first`."""
    found = [opened(segment, shape) for segment in segments]
    rows = _with_order(pl.concat([tree.rows for tree in found], rechunk=True), shape)
    kept = oldest_of(rows) >= (first if first > 0 else -INF)  # shifted ones may lie before all time
    if found[0].places is None:
        return build(only(rows, kept), shape)
    begins = np.cumsum([0, *(tree.rows.height for tree in found[:-1])])
    return build_for_many(
        rows, shape, together([_of_kept(tree.owned(), begin, kept) for tree, begin in zip(found, begins, strict=True)])
    )


def _of_kept(owned: Owned, begin: int, kept: NDArray[np.bool_]) -> Owned:
    """Rows that are kept, numbered from a number on."""
    rows = owned.rows + begin
    there = kept[rows]
    return replace(owned, rows=rows[there], owners=owned.owners[there])


def _placed(owned: Owned, order: Int64s) -> tuple[Int64s, Int64s]:
    """(place, owner) of pairs of a row and an owner, by owner and place, given the order of the rows."""
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    place, owner, bits = place[owned.rows], owned.owners, max(order.size - 1, 0).bit_length()
    if int(owner.max(initial=0)).bit_length() + bits > 62:
        by_owner = np.lexsort((place, owner))
        return place[by_owner], owner[by_owner]
    # Numbers that say both are sorted by vector instructions, which takes a tenth of the time.
    both = owner << bits | place
    both.sort()
    return both & ((1 << bits) - 1), both >> bits
