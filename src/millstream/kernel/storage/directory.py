"""Directories: where the codes of a segment begin, by their upper bits.

Codes of keys are well mixed, so that as many equal ranges of codes as there are rows hold about one row each. Looking a
code up there costs the same in a segment of any size, where a binary search misses the caches more often the larger the
segment is.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.kernel.keys import Codes, Positions
from millstream.kernel.operator import Segment
from millstream.kernel.storage.memory import can_keep_index
from millstream.kernel.storage.segments import codes_of


@dataclass(frozen=True)
class Directory:
    """Codes whose upper bits are b stand from starts[b] to starts[b + 1], exclusive."""

    starts: npt.NDArray[np.uint32]
    shift: np.uint64

    def ranges(self, codes: Codes) -> tuple[Positions, Positions]:
        """Where the segment has codes with the same upper bits."""
        upper = (codes >> self.shift).view(np.int64)
        return self.starts[upper].astype(np.intp), self.starts[upper + 1].astype(np.intp)


_directories: dict[int, Directory] = {}


def directory_of(segment: Segment) -> Directory | None:
    """Made when it is first asked for and kept as long as the segment, if there is room: as segments stay the same
    objects until they are merged, making it is a small part of the work of merging them."""
    known = _directories.get(id(segment))
    if known is None and can_keep_index(segment, 4 << _bits(segment.height)):
        known = _directories[id(segment)] = directory_over(codes_of(segment))
        weakref.finalize(segment, _directories.pop, id(segment), None)
    return known


def _bits(rows: int) -> int:
    return max(rows.bit_length(), 1)


def directory_over(codes: Codes) -> Directory:
    """Of codes that are in order."""
    bits = _bits(codes.size)
    shift = np.uint64(64 - bits)
    counts = np.bincount((codes >> shift).view(np.int64), minlength=1 << bits)
    starts = np.zeros(counts.size + 1, np.uint32)
    starts[1:] = counts.cumsum(out=counts)
    return Directory(starts, shift)
