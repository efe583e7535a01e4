"""Rows of an input of which some are admitted and the others wait: suspended, on the blacklist.

All rows lie in the same segments, sorted by the key that they are joined by. Beside each segment lies a column that
says of each row what it waits for: the number of a demand, counted from 1, any of them, or nothing if it is in.
Admitting a row changes that column only. Where rows can be suspended again, their active spans lie beside it (`spans`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.columns import only
from millstream.kernel.just_in_time.active_spans import ActiveSpans, is_span, most_spans
from millstream.kernel.keys import KEY, Positions
from millstream.kernel.operator import Segment
from millstream.kernel.storage.segments import alive, gather, numbers, summed
from millstream.kernel.storage.synopsis import merged, size_classes_to_merge, without_expired

IN, ANY = 0, 255  # what a row waits for that is in, and one of which it is not known
_WAITS = "_waits_for"
Flags = npt.NDArray[np.bool_]
Waits = npt.NDArray[np.uint8]


@dataclass
class BlacklistSegment:
    """A segment, what its rows wait for, and when they were active, if that is kept. `frame` is all that as it is
    stored, while it is unchanged."""

    rows: Segment
    waits: Waits
    spans: ActiveSpans | None = None
    frame: Segment | None = None

    @cached_property
    def admitted(self) -> Flags:
        flags: Flags = self.waits == IN
        return flags

    @property
    def ever_in(self) -> Flags:
        """Which rows are in, or have been."""
        return self.admitted if self.spans is None else self.admitted | self.spans.ever

    @cached_property
    def number_in(self) -> int:
        return int(np.count_nonzero(self.admitted))

    @property
    def rows_in(self) -> tuple[Segment, Flags | None]:
        return self.rows, None if self.number_in == self.rows.height else self.admitted

    @property
    def stored(self) -> Segment:
        if self.frame is not None:
            return self.frame
        spans = self.spans.columns() if self.spans is not None else []
        return pl.DataFrame([pl.Series(_WAITS, self.waits), *spans])


@dataclass
class Blacklist:
    """The parts, as they are changed during a step, and as they were `before` it. `resumed` are the rows that were let
    in again, those that had been in before apart, with their spans until now. Spans are kept if there is a step."""

    parts: list[BlacklistSegment]
    step: int | None = None
    before: list[BlacklistSegment] = field(default_factory=list)
    resumed: list[tuple[Segment, ActiveSpans | None]] = field(default_factory=list)

    @classmethod
    def of(cls, segments: Sequence[Segment], frames: Sequence[Segment], step: int | None = None) -> Blacklist:
        parts = [
            BlacklistSegment(
                rows, frame.get_column(_WAITS).to_numpy(), ActiveSpans.of(frame) if step is not None else None, frame
            )
            for rows, frame in zip(segments, frames, strict=True)
        ]
        return cls(parts, step, list(parts))

    def without_ended(self, horizon: int) -> Blacklist:
        """The rows that last beyond an instant."""
        kept = [_only(part, numbers(part.rows, END) > horizon) for part in self.parts]
        parts = [part for part in kept if part.rows.height]
        return Blacklist(parts, self.step, list(parts))

    @property
    def size(self) -> int:
        """How many rows wait."""
        return sum(part.rows.height - part.number_in for part in self.parts)

    def rows_in(self) -> list[tuple[Segment, Flags | None]]:
        """The segments that have rows which are in, and which these are (None: all of them)."""
        return [part.rows_in for part in self.parts if part.number_in]

    def waiting(self) -> Iterator[tuple[int, BlacklistSegment]]:
        """The parts that have rows which wait, each with its number."""
        for number, part in enumerate(self.parts):
            if part.number_in < part.rows.height:
                yield number, part

    def resume(self, number: int, positions: Positions, waits: Waits) -> None:
        """Rows that waited wait for something else, or not any more."""
        part = self.parts[number]
        now, spans = positions[waits == IN], part.spans
        if spans is None or self.step is None:
            self._resumed(part, now, None)
        elif now.size:
            was_in = spans.ever[now]
            self._resumed(part, now[~was_in], None)
            self._resumed(part, now[was_in], spans)
            spans = spans.begin(now, self.step)
        self.parts[number] = BlacklistSegment(part.rows, _changed(part.waits, positions, waits), spans)

    def _resumed(self, part: BlacklistSegment, positions: Positions, spans: ActiveSpans | None) -> None:
        if positions.size:
            rows = pl.DataFrame(gather(part.rows, part.rows.columns, positions))
            self.resumed.append((rows, spans.at(positions) if spans is not None else None))

    def suspend(self, number: int, positions: Positions, waits: Waits) -> None:
        """Rows that are in wait from this step on."""
        part = self.parts[number]
        spans = part.spans.end(positions, self.step) if part.spans is not None and self.step is not None else None
        self.parts[number] = BlacklistSegment(part.rows, _changed(part.waits, positions, waits), spans)

    def retain(self, arrived: Segment, waits: Waits, horizon: int) -> list[BlacklistSegment]:
        """The parts with those that arrived, of which only the instants from the horizon on matter."""
        kept = [live for part in self.parts if (live := _without_expired(part, horizon)).rows.height]
        spans = ActiveSpans.none(arrived.height).begin(np.flatnonzero(waits == IN), self.step) if self.step else None
        new = _only(BlacklistSegment(arrived, waits, spans), numbers(arrived, END) > horizon)
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


def _changed(waits: Waits, positions: Positions, new: Waits) -> Waits:
    changed = waits.copy()
    changed[positions] = new
    return changed


def _without_expired(part: BlacklistSegment, horizon: int) -> BlacklistSegment:
    if without_expired(part.rows, horizon) is part.rows:
        return part
    return _only(part, numbers(part.rows, END) > horizon)


def _only(part: BlacklistSegment, kept: Flags) -> BlacklistSegment:
    if kept.all():
        return part
    return BlacklistSegment(
        only(part.rows, kept), part.waits[kept], part.spans.at(kept) if part.spans is not None else None
    )


def _merged(parts: Sequence[BlacklistSegment], horizon: int) -> BlacklistSegment:
    spans = [part.spans for part in parts if part.spans is not None]
    most = most_spans(spans)
    frames = []
    for part in parts:
        own = part.spans.columns(most) if part.spans is not None else []
        frames.append(pl.DataFrame([*part.rows.get_columns(), pl.Series(_WAITS, part.waits), *own]))
    rows = merged([alive(frame, horizon) for frame in frames])
    if (numbers(rows, WEIGHT) < 0).any():
        rows = summed(rows.with_columns(pl.Series(START, np.maximum(numbers(rows, START), horizon)))).sort(KEY)
    own = [column for column in rows.get_columns() if column.name != _WAITS and not is_span(column.name)]
    return BlacklistSegment(
        pl.DataFrame(own), rows.get_column(_WAITS).to_numpy(), ActiveSpans.of(rows) if spans else None
    )
