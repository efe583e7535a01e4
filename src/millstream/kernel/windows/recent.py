"""The last elements of a stream, or of each partition of it, in their order: what windows that count rows look back at.

Windows of different sizes over one stream keep the same segments, of as many elements as the largest of them needs
(`kernel.storage.shared_work`): how many a window has of its own follows from its size and from how many elements came.
So nothing but the elements themselves is kept. Segments are rewritten when a good part of them is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.columns import Bools, only, stacked, take
from millstream.kernel.keys import Positions, Ticks
from millstream.kernel.operator import Segment
from millstream.kernel.storage.memory import can_merge

_PARTS = 16  # of the elements in order: a part goes when its last element does
_SMALL = 1 << 10
_GONE = 8  # segments with more than one part in so many that is gone are rewritten


def appended(recent: Sequence[Segment], new: Segment, count: int) -> tuple[Segment, ...]:
    """The last `count` elements, with a part of those before them."""
    full = max(count // _PARTS, _SMALL)
    if new.height > full:
        first = max(new.height - count, 0)
        kept = [*recent, *(_rows(new, at, min(at + full, new.height)) for at in range(first, new.height, full))]
    else:
        kept = _pushed([*recent], new, full)
    gone = sum(segment.height for segment in kept) - count
    while kept[0].height <= gone:
        gone -= kept.pop(0).height
    if _GONE * gone > count:
        kept[0] = _rows(kept[0], gone, kept[0].height)
    return tuple(kept)


def _pushed(segments: list[Segment], new: Segment, full: int) -> list[Segment]:
    """Sizes at least double from newer to older, up to that of a full one."""
    while segments and segments[-1].height < min(full, 2 * new.height) and can_merge([segments[-1], new]):
        new = stacked([segments.pop()[new.columns], new])
    return [*segments, new]


def _rows(segment: Segment, start: int, stop: int) -> Segment:
    # A copy: a slice would keep the memory of all rows.
    return take(segment, np.arange(start, stop))


def take_from(segments: Sequence[Segment], places: Positions, columns: Sequence[str]) -> Segment:
    """The elements at places in ascending order, counted through all segments."""
    ends = np.cumsum([segment.height for segment in segments])
    bounds = np.searchsorted(places, [0, *ends])
    found = [
        take(segment[columns], places[start:stop] - (end - segment.height))
        for segment, end, start, stop in zip(segments, ends, bounds[:-1], bounds[1:], strict=True)
        if start < stop
    ]
    return stacked(found) if found else pl.DataFrame(schema=dict.fromkeys(columns, pl.Null))


def of_partitions(recent: Sequence[Segment], new: Segment, is_kept: Bools) -> tuple[Segment, ...]:
    """The elements that are kept of those that were and the new ones, with a part of the others."""
    together = [*recent, new]
    if len(together) > _PARTS or _GONE * np.count_nonzero(~is_kept) > is_kept.size:
        # Each has the columns of the new ones; those of an earlier version had more.
        return (only(stacked([segment[new.columns] for segment in together]), is_kept),)
    return tuple(together)


def ranks_from_the_last(partition: Positions) -> Ticks:
    """Of each element how many of its partition come after it."""
    order = np.argsort(partition, kind="stable")
    counts = np.bincount(partition)
    ends = np.cumsum(counts)
    ranks = np.empty(partition.size, np.int64)
    ranks[order] = ends[partition[order]] - 1 - np.arange(partition.size)
    return ranks


def has_all(there: Sequence[Segment], own: Segment) -> bool:
    """Whether a store has some elements, by the columns that tell one from another."""
    if not there or not own.height:
        return False  # nothing to be gained
    together = stacked([segment[own.columns] for segment in there])
    return own.join(together, on=own.columns, how="anti", nulls_equal=True).is_empty()
