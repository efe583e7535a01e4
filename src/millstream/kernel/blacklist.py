"""Rows of an input of which some are let in and the others wait: suspended, on the blacklist.

All rows lie in the same segments, sorted by the key that they are joined by. Beside each segment lies a column that
says which of its rows are in. Letting a row in changes that column only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.keys import KEY, Positions
from millstream.kernel.operator import Segment
from millstream.kernel.segments import alive, gather, numbers, only, summed
from millstream.kernel.synopsis import merged, size_classes_to_merge, without_expired

_IN = "_in"
Flags = npt.NDArray[np.bool_]


@dataclass
class Part:
    """A segment and which of its rows are in. `frame` is that column as it is stored, while it is unchanged."""

    rows: Segment
    let_in: Flags
    frame: Segment | None = None

    @property
    def stored(self) -> Segment:
        return self.frame if self.frame is not None else pl.DataFrame({_IN: self.let_in.view(np.uint8)})


@dataclass
class Blacklist:
    """The parts; rows are let in during a step, and `before` says which were when it began."""

    parts: list[Part]
    before: list[Flags] = field(default_factory=list)

    @classmethod
    def of(cls, segments: Sequence[Segment], frames: Sequence[Segment]) -> Blacklist:
        parts = [
            Part(rows, frame[_IN].to_numpy().view(np.bool_), frame)
            for rows, frame in zip(segments, frames, strict=True)
        ]
        return cls(parts, [part.let_in for part in parts])

    @property
    def size(self) -> int:
        """How many rows wait."""
        return sum(part.rows.height - int(np.count_nonzero(part.let_in)) for part in self.parts)

    def waiting(self) -> Iterator[tuple[int, Segment, Flags]]:
        """The parts that have rows which wait, each with its number and those that do not."""
        for number, part in enumerate(self.parts):
            if not part.let_in.all():
                yield number, part.rows, part.let_in

    def let_in(self, number: int, positions: Positions) -> Segment:
        part = self.parts[number]
        flags = part.let_in.copy()
        flags[positions] = True
        self.parts[number] = Part(part.rows, flags)
        return pl.DataFrame(gather(part.rows, part.rows.columns, positions))

    def retain(self, arrived: Segment, let_in: Flags, horizon: int) -> list[Part]:
        """The parts with those that arrived, of which only the instants from the horizon on matter."""
        kept = [live for part in self.parts if (live := _without_expired(part, horizon)).rows.height]
        new = _only(Part(arrived, let_in), numbers(arrived, END) > horizon)
        if new.rows.height:
            kept.append(new)
        retracting = arrived.height > 0 and bool((numbers(arrived, WEIGHT) < 0).any())
        staying, merging = size_classes_to_merge([part.rows for part in kept], 2 if retracting else 3)
        by_rows = {id(part.rows): part for part in kept}
        parts = [by_rows[id(rows)] for rows in staying]
        if merging:
            together = _merged([by_rows[id(rows)] for rows in merging], horizon)
            parts += [together] if together.rows.height else []
        return parts


def _without_expired(part: Part, horizon: int) -> Part:
    if without_expired(part.rows, horizon) is part.rows:
        return part
    return _only(part, numbers(part.rows, END) > horizon)


def _only(part: Part, kept: Flags) -> Part:
    return part if kept.all() else Part(only(part.rows, kept), part.let_in[kept])


def _merged(parts: Sequence[Part], horizon: int) -> Part:
    flags = [pl.Series(_IN, part.let_in.view(np.uint8)) for part in parts]
    marked = [pl.DataFrame([*part.rows.get_columns(), own]) for part, own in zip(parts, flags, strict=True)]
    rows = merged([alive(segment, horizon) for segment in marked])
    if (numbers(rows, WEIGHT) < 0).any():
        rows = summed(rows.with_columns(pl.Series(START, np.maximum(numbers(rows, START), horizon)))).sort(KEY)
    values = [series for series in rows.get_columns() if series.name != _IN]
    return Part(pl.DataFrame(values), rows[_IN].to_numpy().view(np.bool_))
