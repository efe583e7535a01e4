"""How the past of a source is cut into slices: by time as far as it is final, and beyond by the order of arrival.

Rows that come later lie after what is final, so that all up to an instant is known. Of what lies beyond, earlier rows
may still come: there a slice is the elements of some arrival numbers, whatever their instants.

A slice costs something however few rows it has: state is read and written. So slices are as long as somebody may be
held up by one, and longer where most of that would go into what each of them costs.
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


SMALLEST_SLICE, LARGEST_SLICE = 1_000, 4_000_000  # rows
_FORGETTING = 0.6  # what a slice tells counts so much less with each that follows
_FIXED_SHARE = 0.2  # of a slice's time that may go into what it costs without rows
_STEP = 4.0  # a slice has at most so many times as many rows as the one before


class SliceSize:
    """How many rows the next slice should have, by what the last ones took: a fixed time, and some for each row."""

    def __init__(self, first: float) -> None:
        self.rows = first
        self._smallest = min(SMALLEST_SLICE, first)
        self._fixed = 0.0  # seconds
        self._sums = np.zeros(5)  # of 1, rows, rows squared, seconds, and rows times seconds; the last ones count most

    def took(self, rows: int, busy: float, allowed: float) -> None:
        """A slice of so many rows has taken so long, and the next one may take so long. What is cut short by the end
        of history tells nothing."""
        if rows < self.rows / 2 and busy <= allowed:
            return
        self._sums = _FORGETTING * self._sums + np.array([1, rows, rows * rows, busy, rows * busy])
        self._fixed = min(self._fitted(), busy)
        by_row = max(busy - self._fixed, 1e-9) / max(rows, 1)
        wanted = max(allowed - self._fixed, self._fixed * (1 / _FIXED_SHARE - 1)) / by_row
        wanted = min(max(wanted, self.rows / _STEP), self.rows * _STEP)
        self.rows = min(max(wanted, self._smallest), LARGEST_SLICE)

    def _fitted(self) -> float:
        """The fixed time, by least squares. Slices that were all alike tell nothing: what they were taken to cost is
        believed less and less, until they differ."""
        rows, squares, busy, products = self._sums[1:] / self._sums[0]
        spread = squares - rows * rows
        if spread < 0.01 * squares:
            return _FORGETTING * self._fixed
        return max(0.0, float(busy - rows * max(0.0, products - rows * busy) / spread))
