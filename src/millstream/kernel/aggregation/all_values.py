"""Aggregates that need all values of a group, in order: percentiles, MODE, LISTAGG, COLLECT_LIST.

    value(t) = f(the values v of the group, sorted, each as often as it has copies at t)

The values come from the kept bag. Within a step each is there, in so many copies, over an interval of instants. From
these intervals the function is computed for all groups and instants at once: the k-th value by going down the bits of
the values' ranks, on each level counting the copies below by one running sum over time; the most frequent one as the
last interval that covers an instant, the intervals in the order of their copies; lists by unfolding the intervals,
which is as much work as the lists are long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.extremes import cover, gathered
from millstream.kernel.aggregation.group_table import GROUP
from millstream.kernel.aggregation.instants import GroupInstants
from millstream.kernel.aggregation.ordered_bag import BagChanges, OrderedBag
from millstream.kernel.aggregation.ordinals import combined, ordinals
from millstream.kernel.aggregation.sorted_runs import SortedRuns, expand, find
from millstream.kernel.batch import WEIGHT, value_column
from millstream.kernel.columns import ascending, is_null, nulls, only, stacked, take
from millstream.kernel.scalar.value_size import list_sizes, value_limit
from millstream.kernel.step_limits import check_column, step_limits

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]

_UNFOLDED = 4_000_000  # values of lists that are in memory at a time


@dataclass(frozen=True, eq=False)
class Presence:
    """Values of groups, each with its copies from one instant of a step to before another."""

    items: pl.DataFrame
    start: Int64s
    stop: Int64s
    copies: Int64s
    owner: Int64s  # of each instant: the place of its group

    @property
    def size(self) -> int:
        """How many instants there are."""
        return len(self.owner)

    def totals(self) -> Int64s:
        """How many values there are at each instant."""
        steps = np.zeros(self.size + 1, np.int64)
        np.add.at(steps, self.start, self.copies)
        np.subtract.at(steps, self.stop, self.copies)
        return np.cumsum(steps)[:-1]


def presence(
    bag: OrderedBag, runs: SortedRuns, changes: BagChanges, instants: GroupInstants, *, distinct: bool
) -> Presence:
    """What the groups of a step hold at its instants; `runs` is the bag before it."""
    owner = instants.owners(changes.pairs.get_column(GROUP).to_numpy())
    before = bag.copies(runs, changes.pairs)
    until = changes.until(instants, owner)
    after = changes.after + before[changes.pair]
    there = np.flatnonzero(after > 0)
    first = np.flatnonzero(changes.is_first & (before[changes.pair] > 0))
    content = bag.content(runs, instants.group)
    pieces = [take(changes.pairs, changes.pair[there]), take(changes.pairs, changes.pair[first])]
    starts, stops = [changes.at[there], instants.first[owner[changes.pair[first]]]], [until[there], changes.at[first]]
    copies = [after[there], before[changes.pair[first]]]
    if content.height:
        kept = only(content, (find(changes.pairs, bag.key, content) < 0) & (content[WEIGHT].to_numpy() > 0))
        place = instants.owners(kept.get_column(GROUP).to_numpy())
        pieces.append(kept[bag.key])
        starts.append(instants.first[place])
        stops.append(instants.stop[place])
        copies.append(kept.get_column(WEIGHT).to_numpy())
    counted = np.concatenate(copies)
    counted = np.minimum(counted, 1) if distinct else counted
    return Presence(stacked(pieces), np.concatenate(starts), np.concatenate(stops), counted, instants.owner)


def columns_of(call: AggregateCall) -> tuple[str, ...]:
    """What a call's bag is kept by: what its rows are put into order by, and then the value."""
    assert call.argument is not None
    return tuple(dict.fromkeys(map(value_column, (*call.others, call.argument))))


def evaluate(call: AggregateCall, there: Presence, dtype: pl.DataType) -> tuple[pl.Series, Bools | None]:
    """The value at each instant, and where it is too large to be one."""
    value = columns_of(call)[-1] if not call.others else value_column(call.argument or 0)
    column = there.items.get_column(value)
    if call.name in ("listagg", "collect_list"):
        return _listed(call, there, value, dtype)
    if call.name == "mode":
        codes = ordinals(there.items, (value,))[0]
        order = np.lexsort((codes if call.options[0] else -codes, there.copies))
        best = cover(there.start[order], there.stop[order], there.size)
        return gathered(column, np.where(best >= 0, order[np.maximum(best, 0)] if len(order) else -1, -1)), None
    return _percentile(call, there, column, ordinals(there.items, (value,))[0]).cast(dtype), None


# Percentiles


def _percentile(call: AggregateCall, there: Presence, column: pl.Series, codes: Int64s) -> pl.Series:
    fraction, descending = float(call.options[0]), bool(call.options[1])
    count = there.totals()

    def values(*wanted: Int64s) -> list[pl.Series]:
        places = np.stack([count - 1 - place if descending else place for place in wanted])
        return [gathered(column, items) for items in _ranked(there, codes, places, count)]

    if call.name == "percentile_disc":
        return values(np.clip(np.ceil(count * fraction).astype(np.int64) - 1, 0, np.maximum(count - 1, 0)))[0]
    position = (count - 1) * fraction
    low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    lower, upper = values(low, high)
    missing = lower.null_count()
    one, other = (values.fill_null(0.0).to_numpy() for values in (lower, upper))
    with np.errstate(invalid="ignore"):  # of infinities
        between = (high - position) * one + (position - low) * other
    result = pl.Series(np.where((low == high) | (one == other), one, between))
    return result.set(lower.is_null(), None) if missing else result


def _ranked(there: Presence, codes: Int64s, wanted: Int64s, count: Int64s) -> Int64s:
    """At each instant, for each row of `wanted`, the item that has that place among all copies of its group in the
    order of the codes; -1 for none."""
    if not len(codes):
        return np.full(wanted.shape, -1, np.int64)
    group = there.owner[there.start]
    by_rank = np.lexsort((codes, group))
    first = np.searchsorted(group[by_rank], np.arange(there.owner[-1] + 1))
    bits = max(int(np.bincount(group).max()) - 1, 1).bit_length()
    # Ranks within a group, those of one group after those of another; a node is ranks that begin with the same bits.
    rank = np.empty(len(codes), np.int64)
    rank[by_rank] = np.arange(len(codes)) - first[group[by_rank]] + (group[by_rank] << bits)
    ranks, times = np.concatenate((rank, rank)), np.concatenate((there.start, there.stop))
    changes = np.concatenate((there.copies, -there.copies))
    at, width = np.arange(there.size), there.size + 1
    node, left_to_find = np.broadcast_to(there.owner, wanted.shape), wanted.copy()
    for bit in range(bits - 1, -1, -1):
        keys = (ranks >> bit) * width + times
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        running = np.append(0, np.cumsum(changes[order]))
        below = node * 2
        reached = np.searchsorted(keys, below * width + at, side="right")
        count_below = running[reached] - running[np.searchsorted(keys, below * width, side="left")]
        above = left_to_find >= count_below
        left_to_find -= np.where(above, count_below, 0)
        node = below + above
    place = first[there.owner] + (node - (there.owner << bits))
    return np.where(count > 0, by_rank[np.clip(place, 0, len(codes) - 1)], -1)


# Lists


def _listed(call: AggregateCall, there: Presence, value: str, dtype: pl.DataType) -> tuple[pl.Series, Bools | None]:
    """The values at each instant: as a list, or for LISTAGG as texts with the separator between."""
    separator = str(call.options[0])
    order = _order(call, there.items)
    values = take(there.items, order).get_column(value)
    between = len(separator.encode()) if call.name == "listagg" else 0
    sizes = _sizes(values) + (between or 8 * (call.name != "listagg"))
    sorted_there = Presence(there.items, there.start[order], there.stop[order], there.copies[order], there.owner)
    length = Presence(
        there.items, sorted_there.start, sorted_there.stop, sorted_there.copies * sizes, there.owner
    ).totals()
    too_large = length - between > value_limit()
    check_column(int(length[~too_large].sum()), step_limits())
    joined = pl.col("value").str.join(separator) if call.name == "listagg" else pl.col("value")
    pieces = [nulls("value", dtype, 0)]
    for first, last in _slices(np.where(too_large, 0, there.totals())):
        at, item = _unfolded(sorted_there, first, last, ~too_large)
        made = pl.DataFrame({"at": at, "value": values.gather(item)}).group_by("at", maintain_order=True).agg(joined)
        place = np.full(last - first, -1, np.int64)
        place[made.get_column("at").to_numpy() - first] = np.arange(made.height)
        pieces.append(gathered(made.get_column("value"), place))
    return pl.concat(pieces), too_large if too_large.any() else None


def _sizes(values: pl.Series) -> Int64s:
    """The bytes of each value of a text or binary, or of a list; 0 of others."""
    if isinstance(values.dtype, pl.List):
        return list_sizes(values)
    if values.dtype not in (pl.String, pl.Binary):
        return np.zeros(len(values), np.int64)
    return values.cast(pl.Binary).bin.size().fill_null(0).to_numpy().astype(np.int64)


def _order(call: AggregateCall, items: pl.DataFrame) -> Int64s:
    """The items as ORDER BY in the call says, and equal ones by their values. The options behind the first are, for
    each column, whether it descends and whether NULL comes first."""
    codes = np.zeros(items.height, np.int64), 1
    for place, other in enumerate(call.others):
        name = value_column(other)
        descending, nulls_first = call.options[1 + 2 * place : 3 + 2 * place]
        own, span = ordinals(items, (name,))
        own = span - own if descending else own + 1
        own = np.where(is_null(items.get_column(name)), 0 if nulls_first else span + 1, own)
        codes = combined(codes, (own, span + 2))
    return ascending(combined(codes, ordinals(items, (value_column(call.argument or 0),)))[0])


def _slices(counts: Int64s) -> Iterator[tuple[int, int]]:
    """Instants in parts that have no more values than there is room for, as far as single ones have not."""
    first, total = 0, np.cumsum(counts)
    while first < len(counts):
        before = int(total[first - 1]) if first else 0
        last = max(int(np.searchsorted(total, before + _UNFOLDED, side="right")), first + 1)
        yield first, last
        first = last


def _unfolded(there: Presence, first: int, last: int, wanted: Bools) -> tuple[Int64s, Int64s]:
    """The instants of a part, each as often as it has values, and the places of these, in their order."""
    at, item = expand(np.maximum(there.start, first), np.minimum(there.stop, last))
    kept = wanted[at] if len(at) else np.zeros(0, np.bool_)
    at, item = at[kept], item[kept]
    by_time = np.argsort(at, kind="stable")
    at, item = at[by_time], item[by_time]
    return np.repeat(at, there.copies[item]), np.repeat(item, there.copies[item])
