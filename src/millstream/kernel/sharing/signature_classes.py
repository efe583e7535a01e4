"""Pairs of rows that some query wants, found without looking at the others.

Signatures (`input_lineage`) that the same queries want are of one class. Of two inputs it is known which classes some
query wants together. Stored rows are found by key and class, so that a row meets only those that are wanted with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.keys import KEY, Positions, stable_order
from millstream.kernel.operator import Segment
from millstream.kernel.sharing.lineage import Flags
from millstream.kernel.storage.memory import can_keep_index
from millstream.kernel.storage.probing import Pairs, equal_pairs
from millstream.kernel.storage.segments import codes_of, numbers

SIGNATURE = "_signature"
_PROBES = 1 << 18  # look-ups that are made together
_PROBE_COST = 1.5  # what a look-up costs, by what it costs to look at a pair
_WORTH_IT = 0.75  # of the cost of looking at all pairs
_SALT, _POSITION = np.uint64(0x9E3779B97F4A7C15), "_position"

Signatures = npt.NDArray[np.int64]


class SignatureClasses:
    """The classes of the signatures of two inputs, and which of them some query may want together.

    Stored rows are found by their key and class, so that a row meets only those that are wanted with it.
    """

    def __init__(self, of_left: Positions, of_right: Positions, wanted: Flags) -> None:
        self._of = of_left, of_right
        self._wanted = wanted, wanted.T  # by the class of the row that looks, and of the one that is found
        self._numbers = [np.count_nonzero(flags, axis=1) for flags in self._wanted]
        self._partners = [np.nonzero(flags)[1] for flags in self._wanted]  # of class after class
        self._salts = (np.arange(max(wanted.shape), dtype=np.uint64) + np.uint64(1)) * _SALT

    def candidates(self, probe: Segment, stored: Segment, source: int, looked_at: float) -> Iterator[Pairs] | None:
        looking, found = self._of[1 - source][numbers(probe, SIGNATURE)], self._of[source][numbers(stored, SIGNATURE)]
        counts = self._numbers[1 - source][looking]
        shares = np.bincount(found, minlength=self._wanted[1 - source].shape[1]) / stored.height
        part = float((self._wanted[1 - source] @ shares)[looking].mean())
        if counts.sum() * _PROBE_COST + part * looked_at > _WORTH_IT * looked_at:
            return None
        return self._found(probe, stored, looking, counts, self._index(stored, found), source)

    def _index(self, stored: Segment, classes: Positions) -> Segment:
        known = _class_indexes.get(id(stored))
        if known is None or known[0] is not self:
            codes = codes_of(stored) ^ self._salts[classes]
            positions = stable_order(codes)
            index = pl.DataFrame({KEY: codes[positions], _POSITION: positions.astype(np.uint32)})
            if known is None:
                weakref.finalize(stored, _class_indexes.pop, id(stored), None)
            if known is not None or can_keep_index(stored, int(index.estimated_size())):
                _class_indexes[id(stored)] = self, index
            return index
        return known[1]

    def _found(
        self, probe: Segment, stored: Segment, looking: Positions, counts: Positions, index: Segment, source: int
    ) -> Iterator[Pairs]:
        partners, numbers_of = self._partners[1 - source], self._numbers[1 - source]
        firsts = numbers_of.cumsum() - numbers_of
        own, other, positions = codes_of(probe), codes_of(stored), index[_POSITION].to_numpy()
        ends = counts.cumsum()
        low = 0
        while low < probe.height:
            # As many rows as have so many classes to look for, and at least one.
            high = max(int(ends.searchsorted((ends[low - 1] if low else 0) + _PROBES, side="right")), low + 1)
            rows = np.arange(low, high).repeat(counts[low:high])
            within = np.arange(rows.size) - (ends[low:high] - counts[low:high] - (ends[low - 1] if low else 0)).repeat(
                counts[low:high]
            )
            classes = partners[firsts[looking[rows]] + within]
            for asked, places in equal_pairs(index, own[rows] ^ self._salts[classes]):
                i, j = rows[asked], positions[places].astype(np.intp)
                equal = np.flatnonzero(own[i] == other[j])
                yield i[equal], j[equal]
            low = high


# Rows by key and class, by the identity of the segment that has them.
_class_indexes: dict[int, tuple[SignatureClasses, Segment]] = {}
