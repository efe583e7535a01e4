"""When rows were active: the steps, counted from 1, during which they were admitted; each span from its first step to
before its end.

A pair of rows is made when both are active, so that a row which is admitted again has to meet exactly those rows that
it was never active together with. A row has a few spans at most: one that has used them up stays in until it expires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.keys import Positions

MOST_SPANS = 3
_OPEN = np.int32(2**31 - 1)  # the end of a span that has not ended
_BEGAN, _ENDED = "_began_", "_ended_"
Flags = npt.NDArray[np.bool_]
Steps = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ActiveSpans:
    """Of each row its spans, one column after the other; those that it has not used are empty: from 0 to before 0."""

    began: Steps
    ended: Steps

    @classmethod
    def none(cls, rows: int) -> ActiveSpans:
        return cls(np.zeros((rows, 0), np.int32), np.zeros((rows, 0), np.int32))

    @classmethod
    def since(cls, steps: Steps) -> ActiveSpans:
        """One span that has not ended."""
        return cls(steps[:, None], np.full((steps.size, 1), _OPEN))

    @classmethod
    def of(cls, frame: pl.DataFrame) -> ActiveSpans:
        """As they are stored (`columns`)."""
        number = sum(name.startswith(_BEGAN) for name in frame.columns)
        both = np.zeros((2, frame.height, number), np.int32)
        for steps, name in zip(both, (_BEGAN, _ENDED), strict=True):
            for k in range(number):
                steps[:, k] = frame.get_column(f"{name}{k}").to_numpy()
        return cls(*both)

    def columns(self, number: int | None = None) -> list[pl.Series]:
        """`number` spans, or as many as there are."""
        padded = self._padded(self.began.shape[1] if number is None else number)
        return [
            pl.Series(f"{name}{k}", np.ascontiguousarray(steps[:, k]))
            for name, steps in ((_BEGAN, padded.began), (_ENDED, padded.ended))
            for k in range(steps.shape[1])
        ]

    def _padded(self, number: int) -> ActiveSpans:
        missing = np.zeros((self.began.shape[0], number - self.began.shape[1]), np.int32)
        return self if not missing.size else ActiveSpans(*(np.hstack([s, missing]) for s in (self.began, self.ended)))

    def at(self, positions: Positions | Flags) -> ActiveSpans:
        return ActiveSpans(self.began[positions], self.ended[positions])

    @cached_property
    def ever(self) -> Flags:
        """Which rows were active at all."""
        flags: Flags = np.any(self.ended > 0, axis=1)
        return flags

    @cached_property
    def used(self) -> Positions:
        """How many spans of each row are."""
        counts: Positions = np.count_nonzero(self.ended, axis=1).astype(np.intp)
        return counts

    def begin(self, positions: Positions, step: int) -> ActiveSpans:
        """Rows that are not active are from this step on."""
        used = self.used[positions]
        longer = self._padded(max(self.began.shape[1], int(used.max(initial=-1)) + 1))
        began, ended = longer.began.copy(), longer.ended.copy()
        began[positions, used], ended[positions, used] = step, _OPEN
        return ActiveSpans(began, ended)

    def end(self, positions: Positions, step: int) -> ActiveSpans:
        """Rows that are active are not from this step on."""
        ended = self.ended.copy()
        ended[positions, self.used[positions] - 1] = step
        return ActiveSpans(self.began, ended)

    def met(self, own: Positions, other: ActiveSpans, others: Positions) -> Flags:
        """For pairs of rows whether they were active together."""
        found = np.zeros(own.size, np.bool_)
        for k in range(self.began.shape[1]):
            for n in range(other.began.shape[1]):
                begin = np.maximum(self.began[own, k], other.began[others, n])
                found |= begin < np.minimum(self.ended[own, k], other.ended[others, n])
        return found


def most_spans(parts: Sequence[ActiveSpans]) -> int:
    return max((part.began.shape[1] for part in parts), default=0)


def is_span(name: str) -> bool:
    return name.startswith((_BEGAN, _ENDED))
