"""Bloom filters over the keys of a segment: whether it may have a key, for a few bits per row.

They say "maybe" of some keys that are not there, and never "no" of one that is. They are made when first asked for and
last as long as the segment.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.kernel.keys import KEY, Codes, mixed, word_of
from millstream.kernel.operator import Segment
from millstream.kernel.storage.segments import codes_of

_BITS_PER_ROW = 8
_SECOND = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class BloomFilter:
    """Two bits per key, at places given by the upper bits of its code and of a multiple of it."""

    bits: npt.NDArray[np.bool_]
    shift: np.uint64

    @classmethod
    def over(cls, codes: Codes) -> BloomFilter:
        width = max(3, (codes.size * _BITS_PER_ROW).bit_length())
        made = cls(np.zeros(1 << width, np.bool_), np.uint64(64 - width))
        for places in made._places(codes):
            made.bits[places] = True
        return made

    def may_have(self, codes: Codes) -> npt.NDArray[np.bool_]:
        one, other = self._places(codes)
        return self.bits[one] & self.bits[other]

    def _places(self, codes: Codes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return (codes >> self.shift).view(np.int64), ((codes * _SECOND) >> self.shift).view(np.int64)


_filters: dict[int, dict[tuple[str, ...], BloomFilter]] = {}


def bloom_of(segment: Segment, columns: Sequence[str]) -> BloomFilter:
    """By some columns, or by the codes that the segment is sorted by."""
    known = _filters.get(id(segment))
    if known is None:
        known = _filters[id(segment)] = {}
        weakref.finalize(segment, _filters.pop, id(segment), None)
    key = tuple(columns)
    if key not in known:
        by_key = key == (KEY,)
        codes = codes_of(segment) if by_key else mixed([word_of(segment.get_column(name)) for name in key])
        known[key] = BloomFilter.over(codes)
    return known[key]
