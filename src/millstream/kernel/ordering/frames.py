"""Frames of OVER: which rows of a partition a row sees, by places (ROWS) or by the values of its key (RANGE)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal as OneOf

import numpy as np
import polars as pl

from millstream.kernel.columns import is_null
from millstream.kernel.keys import order_codes, physical
from millstream.kernel.ordering.row_lists import Int64s, RowLists
from millstream.kernel.ordering.sort_keys import SortKey

Unit = OneOf["rows", "range"]
FAR = 1 << 40  # places: farther than any partition reaches


@dataclass(frozen=True)
class Frame:
    """From `start` to `end`, both in it: offsets from the row, negative ones before it, None without a bound. Those of
    RANGE are differences of keys, as these are stored; 0 means all peers of the row."""

    unit: Unit = "range"
    start: int | float | None = None
    end: int | float | None = 0

    @property
    def is_from_the_first(self) -> bool:
        """Whether it has all rows from the first of the partition on, as far as it goes."""
        return self.start is None and not self.has_offsets

    @property
    def has_offsets(self) -> bool:
        """Whether it goes by differences of keys."""
        return self.unit == "range" and any(bound not in (None, 0) for bound in (self.start, self.end))


WHOLE_UP_TO_PEERS = Frame()  # what ORDER BY alone means


@dataclass(frozen=True)
class Reach:
    """How far a row looks back and ahead, in places, and whether to all peers of the last row there; and how far before
    and after a change rows see it."""

    back: int = 0
    ahead: int = 0
    peers: bool = False
    seen_before: int = 0
    seen_after: int = 0

    def __or__(self, other: Reach) -> Reach:
        return Reach(
            max(self.back, other.back),
            max(self.ahead, other.ahead),
            self.peers or other.peers,
            max(self.seen_before, other.seen_before),
            max(self.seen_after, other.seen_after),
        )


def reach_of(frame: Frame) -> Reach:
    if frame.has_offsets:
        return Reach(FAR, FAR, True, FAR, FAR)
    back = FAR if frame.start is None else max(-int(frame.start), 0)
    ahead = FAR if frame.end is None else max(int(frame.end), 0)
    return Reach(back, ahead, frame.unit == "range", ahead, back)


def reach_of_aggregate(frame: Frame) -> Reach:
    """Rows that stand before all others that count are not looked at one by one."""
    found = reach_of(frame)
    return replace(found, back=max(-int(frame.end or 0), 0)) if frame.is_from_the_first else found


def bounds(frame: Frame, lists: RowLists, key: tuple[SortKey, pl.Series] | None) -> tuple[Int64s, Int64s]:
    """Of each row of the lists the first and the last row of its frame, which is empty where the last is before the
    first. `key` is that of RANGE with offsets, and its values."""
    first, last = lists.begin, lists.past - 1
    if frame.unit == "rows":
        places = np.arange(lists.size)
        if frame.start is not None:
            first = np.clip(places + int(frame.start), lists.begin, lists.past)
        if frame.end is not None:
            last = np.clip(places + int(frame.end), lists.begin - 1, lists.past - 1)
        return first, last
    if frame.start is not None:
        first = lists.first_peer if frame.start == 0 else _searched(frame.start, lists, key, "left")
    if frame.end is not None:
        last = lists.last_peer if frame.end == 0 else _searched(frame.end, lists, key, "right") - 1
    return first, last


def _searched(
    offset: int | float, lists: RowLists, key: tuple[SortKey, pl.Series] | None, side: OneOf["left", "right"]
) -> Int64s:
    """Where, in the list of each row, its key and an offset would stand. A row without a key sees its peers."""
    assert key is not None, "RANGE with offsets has one key"
    order, values = key
    nulls = is_null(values)
    change = -offset if order.descending else offset
    if values.dtype.is_float():
        looked_for = order_codes(values.cast(pl.Float64) + float(change))
        own = order_codes(values.cast(pl.Float64))
    else:
        ticks, limits = physical(values), np.iinfo(np.int64)
        step = max(min(int(change), limits.max), limits.min)
        least, most = limits.min - min(step, 0), limits.max - max(step, 0)
        looked_for = order_codes(pl.Series(np.clip(ticks, least, most) + step))
        own = order_codes(pl.Series(ticks))
    if order.descending:
        own, looked_for = ~own, ~looked_for
    # Codes as small numbers, so that the number of the list fits in front of them.
    _, numbers = np.unique(np.concatenate((own, looked_for)), return_inverse=True)
    most_codes = numbers.size + 2
    own_number, found_number = numbers[: lists.size] + 1, numbers[lists.size :] + 1
    own_number = np.where(nulls, 0 if order.nulls_first else most_codes - 1, own_number)
    place = np.searchsorted(lists.number * most_codes + own_number, lists.number * most_codes + found_number, side)
    return np.where(nulls, lists.first_peer if side == "left" else lists.last_peer + 1, place)
