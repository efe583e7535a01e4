"""The instants of a step: every (group, time) at which an aggregate may change, sorted and without repetitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Instants:
    """Instants by group, then time. Groups are ascending; `first` and `stop` delimit the instants of each."""

    group: Int64s
    first: Int64s
    stop: Int64s
    owner: Int64s  # of each instant: the place of its group in `group`
    time: Int64s
    codes: Int64s  # owner and time as one number, ascending
    axis: TimeAxis

    def __len__(self) -> int:
        return len(self.time)

    def owners(self, group: Int64s) -> Int64s:
        """Where groups, which must be among these, have their place in `group`."""
        return np.searchsorted(self.group, group)

    def place(self, owner: Int64s, time: Int64s) -> Int64s:
        """The first instant of a group at or after a time; the group's `stop` when there is none."""
        return np.searchsorted(self.codes, self.axis.code(owner, time))


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """Numbers for (owner, time) that sort as the pair does: times counted from the least, or ranked if far apart."""

    base: int
    span: int
    ranked: Int64s | None

    @staticmethod
    def over(owners: int, time: Int64s) -> TimeAxis:
        base, last = int(time.min()), int(time.max())
        span = last - base + 2  # one more, for all that lies beyond the last
        if owners * span < 1 << 62:
            return TimeAxis(base, span, None)
        ranked = np.unique(time)
        return TimeAxis(0, len(ranked) + 1, ranked)

    def code(self, owner: Int64s, time: Int64s) -> Int64s:
        if self.ranked is not None:
            return owner * self.span + np.searchsorted(self.ranked, time)
        # Clipped before the subtraction, which would overflow for the endless.
        return owner * self.span + (np.clip(time, self.base, self.base + self.span - 1) - self.base)


def make_instants(group: Int64s, time: Int64s) -> tuple[Instants, Int64s, Int64s]:
    """The instants of change points in any order; an order that sorts the points, and the last point of each instant."""
    distinct, owner = _distinct(group)
    axis = TimeAxis.over(len(distinct), time)
    codes = axis.code(owner, time)
    order = pl.Series(codes).arg_sort().to_numpy().astype(np.int64)
    codes = codes[order]
    last = np.flatnonzero(np.append(codes[1:] != codes[:-1], True))
    codes = codes[last]
    owner = codes // axis.span
    stop = np.searchsorted(owner, np.arange(len(distinct)), side="right")
    first = np.concatenate(([0], stop[:-1]))
    return Instants(distinct, first, stop, owner, time[order[last]], codes, axis), order, last


def _distinct(group: Int64s) -> tuple[Int64s, Int64s]:
    """np.unique with its inverse, by a table instead of sorting where the numbers are dense enough."""
    base, last = int(group.min()), int(group.max())
    if last - base > 4 * len(group) + 1024:
        distinct, inverse = np.unique(group, return_inverse=True)
        return distinct, inverse
    here = np.zeros(last - base + 1, np.bool_)
    here[group - base] = True
    return np.flatnonzero(here) + base, (np.cumsum(here) - 1)[group - base]
