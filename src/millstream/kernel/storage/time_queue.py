"""What is still to come: rows sorted by the instant at which they fall due.

A step takes the rows with before < _time <= low and leaves the others alone: segments are sorted by time, so
that what is due is a slice found by binary search, and a segment of which less than half is due stays the very
same object. A segment is forgotten when its last row was due. New segments are merged with the latest ones
until sizes at least double from newer to older, except where full segments follow one another in time, which
need no merging.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from millstream.kernel.columns import ascending, stacked_diagonally, take
from millstream.kernel.operator import Segment
from millstream.kernel.storage.memory import can_merge

TIME = "_time"
# Segments of this size are left alone when the next begins where they end, as under windows of one length.
FULL = 1 << 16


def _times(segment: Segment) -> NDArray[np.int64]:
    return segment.get_column(TIME).to_numpy()


def _due(segment: Segment, instant: int) -> int:
    """How many rows of a segment are due at an instant."""
    return int(np.searchsorted(_times(segment), instant, side="right"))


def due(segments: Sequence[Segment], before: int, low: int) -> list[Segment]:
    """The rows that fall due after `before` and up to `low`."""
    slices = []
    for segment in segments:
        start, stop = _due(segment, before), _due(segment, low)
        if start < stop:
            slices.append(segment.slice(start, stop - start))
    return slices


def is_due(segments: Sequence[Segment], before: int, low: int) -> bool:
    """Whether any row falls due after `before` and up to `low`."""
    return any(_due(segment, before) < _due(segment, low) for segment in segments)


def advanced(segments: Sequence[Segment], low: int) -> tuple[Segment, ...]:
    """The segments without those of which everything was due, and without the past of those mostly due."""
    kept = []
    for segment in segments:
        past = _due(segment, low)
        if past == segment.height:
            continue
        if 2 * past > segment.height:
            # A copy: a slice would keep the memory of the whole segment.
            segment = take(segment, np.arange(past, segment.height))
        kept.append(segment)
    return tuple(kept)


def pushed(segments: Sequence[Segment], rows: Segment, low: int) -> tuple[Segment, ...]:
    """The segments with more rows, none of them due yet, in any order."""
    if not rows.height:
        return tuple(segments)
    times = _times(rows)
    if len(times) > 1 and bool(np.any(times[1:] < times[:-1])):
        rows = take(rows, ascending(times))
    result = list(segments)
    while result:
        last = result[-1]
        follows = bool(_times(last)[-1] <= _times(rows)[0])
        if last.height - _due(last, low) > rows.height or (follows and last.height >= FULL):
            break
        if not can_merge([last, rows]):
            break
        result.pop()
        ahead = last.slice(_due(last, low))
        rows = stacked_diagonally([ahead, rows])
        if not follows:
            rows = take(rows, ascending(_times(rows)))
    return (*result, rows.rechunk())
