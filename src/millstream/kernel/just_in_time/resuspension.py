"""Rows of SteMs that are in are asked again, by turns, whether every other SteM still has something for them.

In each step it is the turn of one SteM, and there of about as many rows as have arrived, so that asking costs a part of
what admitting them does. A SteM is gone through in the order of the codes that its rows are sorted by: however its
segments are merged in between, a round asks every row once.

A row r that SteM j has no living row for is suspended. No result is lost, and none is made twice:

* A result is made in the step in which the last of its rows arrives, by the way of that row through the SteMs. Rows of
  j from before that have ended for all that arrives from now on have no part in any. Those that arrive in this step
  count, ended or not: j may be late, and they meet what is there. So results with r need a row of j that arrives later.
* A row of j that arrives and matches r finds it among those that wait, before anything is sent. Then r is back, or it
  waits for another SteM that has nothing for it, of which the same holds.
* What r had a part in while it was in was made then, and while it waited there was nothing to be made. Being back it is
  found by new rows, and is not sent itself.

Weights have no part in this: other inputs may take rows back, and a row and its retraction that have cancelled are not
there. But both must be in or neither, or they would not cancel: rows that may be taken back themselves are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.just_in_time.blacklist import IN, BlacklistSegment, Waits
from millstream.kernel.just_in_time.gates import DemandExperience, Gate, PartnerCheck
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.storage.segments import codes_of

_FEWEST = 256  # rows that are asked in a step: fewer would cost as much
_CODES = 2**64  # how many there are
_ROUNDS = "rounds"
LivingRows = Callable[[int], list[tuple[Segment, int]]]  # the rows of a SteM, and the horizon that they must outlast


@dataclass(frozen=True)
class ResuspensionRange:
    """The rows of a SteM with codes from the first to before the past one (None: to the last)."""

    stem: int
    first: int
    past: int | None

    def positions(self, part: BlacklistSegment) -> Positions:
        """Those of the rows that are in, in a segment."""
        codes = codes_of(part.rows)
        low = int(codes.searchsorted(np.uint64(self.first)))
        high = codes.size if self.past is None else int(codes.searchsorted(np.uint64(self.past)))
        return low + np.flatnonzero(part.admitted[low:high])


class Resuspension:
    """How often each SteM has been gone through; of a round that is under way, which part."""

    def __init__(self, rounds: npt.NDArray[np.float64]) -> None:
        self.rounds = rounds

    @classmethod
    def of(cls, stems: int, kept: Sequence[Segment]) -> Resuspension:
        return cls(kept[0][_ROUNDS].to_numpy().copy() if kept else np.zeros(stems))

    def segment(self) -> Segment:
        return pl.DataFrame({_ROUNDS: self.rounds})

    def take(self, among: Sequence[int], rows: Sequence[int], arrived: int) -> ResuspensionRange:
        """The next: of the SteM that has been gone through least, of those that are asked."""
        stem = min(among, key=lambda one: self.rounds[one])
        done = float(self.rounds[stem])
        whole = np.floor(done)
        after = min(done + max(arrived, _FEWEST) / rows[stem], whole + 1)
        self.rounds[stem] = after
        past = int((after - whole) * _CODES) if after < whole + 1 else None
        return ResuspensionRange(stem, int((done - whole) * _CODES), past)


def waits_of(
    gate: Gate, rows: Segment, positions: Positions, known: Sequence[DemandExperience], living: LivingRows
) -> Waits:
    """What rows of a segment would wait for by now: a SteM that nothing lives in for them any more."""
    waits = np.zeros(positions.size, np.uint8)
    if not positions.size:
        return waits
    first = int(positions[0])
    near, places = rows.slice(first, int(positions[-1]) + 1 - first), positions - first
    for number, (check, experience) in enumerate(zip(gate.checks, known, strict=True)):
        left = np.flatnonzero(waits == IN)
        if experience.given_up or not left.size:
            continue
        if not isinstance(check, PartnerCheck) or not isinstance(check.opposite, int):
            raise AssertionError("SteMs are asked one by one")
        link = check.to_opposite
        codes = link.codes(near)[places[left]]
        waits[left[~link.has_living(codes, living(check.opposite))]] = number + 1
    return waits
