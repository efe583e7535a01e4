"""Rows of several inputs put together, on their way through SteMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import START
from millstream.kernel.joins.graph import InputSet
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.storage.segments import gather

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class JoinedRows:
    """Rows of some inputs put together. Of each input there is a frame, and which of its rows take part (None: all of
    them, in order), so that values are copied when a row is found and when a result is made, but not in between."""

    parts: Mapping[int, tuple[pl.DataFrame, Positions | None]]
    measures: Mapping[str, Numbers]  # start, end, weight, and born and the signatures of inputs where there are such

    @property
    def height(self) -> int:
        return int(self.measures[START].size)

    @property
    def width(self) -> int:
        """Its columns, once values are copied; and until then of each input a number."""
        return len(self.measures) + sum(frame.width for frame, _ in self.parts.values())

    @property
    def joined(self) -> InputSet:
        return frozenset(self.parts)

    def values(self, source: int, columns: Sequence[str]) -> list[pl.Series]:
        frame, rows = self.parts[source]
        return [frame.get_column(name) for name in columns] if rows is None else gather(frame, columns, rows)

    def only(self, rows: Positions) -> JoinedRows:
        parts = {
            source: (frame, rows if chosen is None else chosen[rows]) for source, (frame, chosen) in self.parts.items()
        }
        return JoinedRows(parts, {name: measure[rows] for name, measure in self.measures.items()})


@dataclass(frozen=True)
class StemMatches:
    """Pairs of combinations (by number) and rows of a stored segment (by position), and what becomes of each."""

    rows: Positions
    stored: Segment
    positions: Positions
    measures: Mapping[str, Numbers]
