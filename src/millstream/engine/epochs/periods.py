"""Periods: the spans of time by which history is laid out, merged and dropped.

A file belongs to the period in which its last instant lies, and only files of one period are merged. So a file is gone
at most one period after all its rows are older than RETAIN, whatever has been merged with what.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from millstream.state.snapshot import HistoryFile

SHARE = 8  # of RETAIN is a period: what is kept too long is little, and the files are few
ROWS = 1 << 23  # of a source that is kept for ever make a period, about
UNKNOWN = 1 << 62  # the period of a source of which nothing is known yet: all of time


def period_length(files: Sequence[HistoryFile], retain: int | None) -> int:
    """How many ticks a period has: a part of RETAIN, or where all is kept, so many as bring enough rows.

    The latter follows the rate of the stream, by powers of two, so that longer periods are made of whole shorter ones.
    """
    if retain is not None:
        return max(1, retain // SHARE)
    rows = sum(file.rows for file in files)
    if not rows:
        return UNKNOWN
    ticks = max(file.last for file in files) - min(file.first for file in files) + 1
    return min(1 << max(0, -(-ROWS * ticks // rows) - 1).bit_length(), UNKNOWN)


def period_of(instant: int, length: int) -> int:
    """The first instant of the period."""
    return instant // length * length


def by_period(files: Sequence[HistoryFile], length: int) -> list[list[HistoryFile]]:
    """Neighbours of one period together."""
    return [list(found) for _, found in groupby(files, key=lambda file: period_of(file.last, length))]
