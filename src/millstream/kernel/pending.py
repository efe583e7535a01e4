"""Change points that lie beyond the frontier, kept until time reaches them.

Kept as segments sorted by instant, the larger ones older, so that what falls due is cut off the front of each segment
and a step's cost follows what is due, not what is kept.
"""

from __future__ import annotations

import polars as pl

from millstream.kernel.batch import START, Batch
from millstream.kernel.operator import Segment, State

# Two neighbouring segments are merged once the younger is at least this part of the older: every row is then
# rewritten a number of times that is logarithmic in what is kept.
MERGE_RATIO = 0.5


def split_due(kept: tuple[Segment, ...], arrived: Batch, low: int) -> tuple[Batch, tuple[Segment, ...]]:
    """The rows with `_start` <= low, and the segments that remain, the new rows among them."""
    due = [arrived.filter(pl.col(START) <= low)]
    remaining: list[Segment] = []
    for segment in kept:
        cut = segment[START].search_sorted(low, side="right")
        if cut:
            due.append(segment.head(cut))
        if cut < segment.height:
            remaining.append(segment.slice(cut) if cut else segment)
    later = arrived.filter(pl.col(START) > low)
    if later.height:
        remaining.append(later.sort(START))
        while len(remaining) > 1 and remaining[-1].height >= MERGE_RATIO * remaining[-2].height:
            younger, older = remaining.pop(), remaining.pop()
            remaining.append(pl.concat([older, younger]).sort(START))
    return pl.concat(due), tuple(remaining)


def pending_after(segments: tuple[Segment, ...]) -> State:
    return {"pending": segments} if segments else {}
