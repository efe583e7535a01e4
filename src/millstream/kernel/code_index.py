"""Where in a segment the rows of a key are, for whoever only asks whether and where.

Made when first asked for, and kept as long as the segment: the codes of the key in order, and the positions of their
rows. Codes are mixed from the words of columns (`keys.mixed`).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.kernel.keys import Codes, Positions, has_word, mixed, stable_order, word_of
from millstream.kernel.operator import Segment
from millstream.kernel.segments import codes_of


@dataclass(frozen=True)
class CodeIndex:
    """`places` is None where the rows are in the order of their codes already."""

    codes: Codes
    places: npt.NDArray[np.uint32] | None = None

    def runs(self, codes: Codes) -> tuple[Positions, Positions]:
        return self.codes.searchsorted(codes), self.codes.searchsorted(codes, side="right")

    def rows(self, places: Positions) -> Positions:
        return places if self.places is None else self.places[places].astype(np.intp)


_indexes: dict[int, dict[tuple[str, ...], CodeIndex]] = {}


def code_index(segment: Segment, columns: tuple[str, ...], sorted_by: tuple[str, ...]) -> CodeIndex:
    """By the columns of a segment that is sorted by others, or by these."""
    # Texts have no words of their own: their codes are others than the segment is sorted by.
    if columns == sorted_by and all(has_word(segment.schema[name]) for name in columns):
        return CodeIndex(codes_of(segment))
    known = _indexes.get(id(segment))
    if known is None:
        known = _indexes[id(segment)] = {}
        weakref.finalize(segment, _indexes.pop, id(segment), None)
    if columns not in known:
        codes = mixed([word_of(segment.get_column(name)) for name in columns])
        order = stable_order(codes)
        known[columns] = CodeIndex(codes[order], order.astype(np.uint32))
    return known[columns]
