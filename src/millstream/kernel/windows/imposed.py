"""Windows that joins impose on the rows that they find, as CACQ has it: the rows are kept as the elements of their
stream, for as long as the largest of the windows needs them, and end for each join by its own window.

    S [RANGE n] ⋈ T:    the join has the elements (r, t, t + 1) of S, and takes each as (r, t, t + n + 1)

So joins with windows of all sizes over a stream keep the same segments (`kernel.storage.shared_work`).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.kernel.batch import END, START, saturating_add
from millstream.kernel.keys import Positions, Ticks
from millstream.kernel.operator import Horizons, Segment
from millstream.kernel.storage.segments import numbers

_last_ends: dict[int, int] = {}


@dataclass(frozen=True)
class Imposed:
    """For how many ticks an element is in the window, from its instant on; None where rows have ends of their own."""

    ticks: int | None = None

    def ends(self, rows: Segment, positions: Positions | slice = slice(None)) -> Ticks:
        if self.ticks is None:
            return numbers(rows, END)[positions]
        starts = numbers(rows, START)
        if isinstance(positions, slice) or positions.size < starts.size:
            return saturating_add(starts[positions], self.ticks)
        return saturating_add(starts, self.ticks)[positions]

    def horizons(self, horizons: Horizons) -> Horizons:
        """As they are for the elements: one that has ended is needed while it is in the window."""
        later = 0 if self.ticks is None else self.ticks - 1
        return Horizons(horizons.before - later, horizons.after - later)

    def reaches(self, rows: Segment, instant: int) -> bool:
        """Whether some of the rows that are kept are there at an instant, or after it: mostly it is those that came
        last, which lie apart from most others."""
        later = 0 if self.ticks is None else self.ticks - 1
        return _last_end(rows) > instant - later


AS_THEY_ARE = Imposed()


def imposing(windows: Sequence[Imposed], count: int) -> tuple[Imposed, ...]:
    """The windows of so many inputs; without any, rows are as they come."""
    return tuple(windows) or (AS_THEY_ARE,) * count


def _last_end(segment: Segment) -> int:
    known = _last_ends.get(id(segment))
    if known is None:
        known = _last_ends[id(segment)] = int(numbers(segment, END).max())
        weakref.finalize(segment, _last_ends.pop, id(segment), None)
    return known
