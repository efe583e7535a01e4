"""Where in a segment the rows of a key are, for whoever only asks whether and where.

Made when first asked for, and kept as long as the segment: the codes of the key in order, and the positions of their
rows. Codes are mixed from the words of columns (`keys.mixed`).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END
from millstream.kernel.keys import Codes, Positions, Ticks, has_word, mixed, stable_order, word_of
from millstream.kernel.operator import Segment
from millstream.kernel.storage.directory import Directory, directory_over
from millstream.kernel.storage.probing import Pairs, pairs_of_runs
from millstream.kernel.storage.segments import codes_of

_MANY = 500  # codes above which a directory of the index is worth making


@dataclass(frozen=True)
class CodeIndex:
    """`places` is None where the rows are in the order of their codes already."""

    codes: Codes
    ends: pl.Series  # of the rows as they lie in the segment
    places: npt.NDArray[np.uint32] | None = None

    @cached_property
    def _directory(self) -> Directory:
        return directory_over(self.codes)

    @cached_property
    def _last_ends(self) -> Ticks:
        """Of all rows with the same code, at each of their places."""
        ends = self.ends.to_numpy()
        starts = np.flatnonzero(np.concatenate([[True], self.codes[1:] != self.codes[:-1]]))
        last = np.maximum.reduceat(ends if self.places is None else ends[self.places], starts)
        return last.repeat(np.diff(starts, append=self.codes.size))

    def lasts_beyond(self, horizon: int, codes: Codes) -> npt.NDArray[np.bool_]:
        """Which of the codes have a row that ends after the horizon."""
        first = np.minimum(self.codes.searchsorted(codes), self.codes.size - 1)
        lasting: npt.NDArray[np.bool_] = (self.codes[first] == codes) & (self._last_ends[first] > horizon)
        return lasting

    def pairs(self, codes: Codes) -> Iterator[Pairs]:
        """All (number of the code, position of a row that has it), in chunks."""
        if codes.size < _MANY:
            for i, j in pairs_of_runs(self.codes.searchsorted(codes), self.codes.searchsorted(codes, side="right")):
                yield i, self._rows(j)
            return
        for i, j in pairs_of_runs(*self._directory.ranges(codes)):
            equal = np.flatnonzero(self.codes[j] == codes[i])
            yield i[equal], self._rows(j[equal])

    def _rows(self, places: Positions) -> Positions:
        return places if self.places is None else self.places[places].astype(np.intp)


_indexes: dict[int, dict[tuple[str, ...], CodeIndex]] = {}


def code_index(segment: Segment, columns: tuple[str, ...], sorted_by: tuple[str, ...]) -> CodeIndex:
    """By the columns of a segment that is sorted by others, or by these."""
    known = _indexes.get(id(segment))
    if known is None:
        known = _indexes[id(segment)] = {}
        weakref.finalize(segment, _indexes.pop, id(segment), None)
    if columns not in known:
        ends = segment.get_column(END)
        # Texts have no words of their own: their codes are others than the segment is sorted by.
        if columns == sorted_by and all(has_word(segment.schema[name]) for name in columns):
            known[columns] = CodeIndex(codes_of(segment), ends)
        else:
            codes = mixed([word_of(segment.get_column(name)) for name in columns])
            order = stable_order(codes)
            known[columns] = CodeIndex(codes[order], ends, order.astype(np.uint32))
    return known[columns]
