"""How the past of a source is cut into slices: by time as far as it is final, and beyond by the order of arrival.

Rows that come later lie after what is final, so that all up to an instant is known. Of what lies beyond, earlier rows
may still come: there a slice is the elements of some arrival numbers, whatever their instants.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from millstream.kernel.batch import INF
from millstream.state.snapshot import HistoryFile


class FileLeft:
    """What a history file has after an instant, up to another. Rows are taken to be spread evenly over its time."""

    def __init__(self, file: HistoryFile, after: int, until: int = INF) -> None:
        self.first, self.last = max(file.first, after + 1), min(file.last, until)
        ticks = file.last - file.first + 1
        self.left = file.rows * max(0, self.last - self.first + 1) / ticks


class RowsByTime:
    """How many rows there are up to an instant, about."""

    def __init__(self, files: Iterable[FileLeft]) -> None:
        found = [file for file in files if file.left > 0]
        self._first = np.array([file.first for file in found], np.float64)
        self._ticks = np.array([file.last - file.first + 1 for file in found], np.float64)
        self._rows = np.array([file.left for file in found], np.float64)

    def until(self, instant: int) -> float:
        return float((self._rows * np.clip((instant + 1 - self._first) / self._ticks, 0, 1)).sum())

    def last_within(self, low: int, high: int, wanted: float) -> int:
        """The last instant of low .. high up to which there are not too many rows; low at least."""
        if self.until(high) <= wanted:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.until(middle) <= wanted else (low, middle - 1)
        return low


def arrivals(seen: int, arrived: int, rows: float, wanted: float) -> list[int]:
    """Up to which arrival numbers slices go that have about so many rows each, of all that came after `seen`."""
    count = max(1, min(int(np.ceil(rows / max(wanted, 1))), arrived - seen))
    return [seen + (arrived - seen) * number // count for number in range(1, count + 1)]
