"""What a join that works just in time has done so far, for EXPLAIN ANALYZE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import polars as pl

from millstream.kernel.operator import Segment

COUNTS = "counts"  # synopsis: the tally
_OF_MARKS = ("withdrawn", "marks_of_1", "marks_of_2", "marks_of_more")


@dataclass
class Tally:
    """Rows that inner joins made, rows suspended as they arrived, rows resumed, combinations withheld; how many rows
    wait; and rows that were dropped, since nothing will ever be made of them. Of a detection that remembers marks: rows
    of inner joins that were withdrawn, and how many sub-tuples of one component, of two and of more are known not to be
    demanded."""

    made: int = 0
    suspended: int = 0
    resumed: int = 0
    withheld: int = 0
    waiting: int = 0
    dropped: int = 0
    withdrawn: int = 0
    marks_of_1: int = 0
    marks_of_2: int = 0
    marks_of_more: int = 0

    @classmethod
    def of(cls, kept: Sequence[Segment]) -> Tally:
        return cls(*kept[0].row(0)) if kept else cls()

    @classmethod
    def is_of(cls, segment: Segment) -> bool:
        """Whether it is a tally: windows and set operations have counts, too, which are others."""
        return segment.columns == [f.name for f in fields(cls)][: segment.width]

    def segment(self) -> Segment:
        return pl.DataFrame([pl.Series(f.name, [getattr(self, f.name)]) for f in fields(self)])

    def shown(self) -> dict[str, int]:
        """What there is to say of any tree, and of marks where there are some."""
        counts = {f.name: int(getattr(self, f.name)) for f in fields(self)}
        return {name: n for name, n in counts.items() if n or name not in _OF_MARKS}
