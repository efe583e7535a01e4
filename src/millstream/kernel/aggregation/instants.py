"""The instants of a step: every (group, time) at which an aggregate may change, sorted and without repetitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from millstream.kernel.aggregation.ordinals import heads
from millstream.kernel.columns import ascending

Int64s = NDArray[np.int64]

AT = "_at"  # the column that says at which instant something happens


@dataclass(frozen=True, eq=False)
class GroupInstants:
    """Instants by group, then time. Groups are ascending; `first` and `stop` delimit the instants of each."""

    groups: GroupNumbers
    first: Int64s
    stop: Int64s
    owner: Int64s  # of each instant: the place of its group
    time: Int64s
    codes: Int64s  # owner and time as one number, ascending
    axis: TimeAxis

    def __len__(self) -> int:
        return len(self.time)

    @property
    def group(self) -> Int64s:
        return self.groups.number

    def owners(self, group: Int64s) -> Int64s:
        """Where groups, which must be among these, have their place."""
        return self.groups.places(group)

    def place(self, owner: Int64s, time: Int64s) -> Int64s:
        """The first instant of a group at or after a time; the group's `stop` when there is none."""
        result = self.stop[owner]
        sought = np.flatnonzero(time <= self.axis.last)
        result[sought] = np.searchsorted(self.codes, self.axis.code(owner[sought], time[sought]))
        return result


@dataclass(frozen=True, eq=False)
class GroupNumbers:
    """Distinct group numbers, ascending; found by a table where they are dense, by bisection where not."""

    number: Int64s
    table: Int64s | None

    @staticmethod
    def of(group: Int64s) -> GroupNumbers:
        base, last = int(group.min()), int(group.max())
        if last - base > 4 * len(group) + 1024:
            return GroupNumbers(np.unique(group), None)
        here = np.zeros(last - base + 1, np.bool_)
        here[group - base] = True
        return GroupNumbers(np.flatnonzero(here) + base, np.cumsum(here) - 1)

    def places(self, group: Int64s) -> Int64s:
        if self.table is None:
            return np.searchsorted(self.number, group)
        found: Int64s = self.table[group - self.number[0]]
        return found


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """Numbers for (owner, time) that sort as the pair does: times counted from the least, or ranked if far apart."""

    base: int
    last: int
    span: int
    ranked: Int64s | None

    @staticmethod
    def over(owners: int, time: Int64s) -> TimeAxis:
        base, last = int(time.min()), int(time.max())
        span = last - base + 1
        if owners * span < 1 << 62:
            return TimeAxis(base, last, span, None)
        ranked = np.unique(time)
        return TimeAxis(base, last, len(ranked), ranked)

    def code(self, owner: Int64s, time: Int64s) -> Int64s:
        """Of times up to the last one; what lies before the first counts as the first."""
        if self.ranked is not None:
            offset: Int64s = np.searchsorted(self.ranked, time)
        else:
            offset = np.maximum(time, self.base) - self.base
        return owner * self.span + offset


@dataclass(frozen=True, eq=False)
class PointOrder:
    """How change points, given in any order, belong to instants."""

    order: Int64s  # sorts the points
    last: Int64s  # in that order, the last point of each instant

    def at(self) -> Int64s:
        """The instant of each point."""
        result = np.empty(len(self.order), np.int64)
        begins = np.zeros(len(self.order), np.int64)
        begins[self.last[:-1] + 1] = 1
        result[self.order] = np.cumsum(begins)
        return result


def make_instants(group: Int64s, time: Int64s) -> tuple[GroupInstants, PointOrder]:
    """The instants of change points, which come in any order."""
    if not len(group):
        none = np.zeros(0, np.int64)
        return GroupInstants(
            GroupNumbers(none, None), none, none, none, none, none, TimeAxis(0, 0, 1, None)
        ), PointOrder(none, none)
    groups = GroupNumbers.of(group)
    axis = TimeAxis.over(len(groups.number), time)
    codes = axis.code(groups.places(group), time)
    order = ascending(codes)
    codes = codes[order]
    last = np.flatnonzero(np.append(heads(codes)[1:], True))
    codes = codes[last]
    owner = codes // axis.span
    stop = np.searchsorted(owner, np.arange(len(groups.number)), side="right")
    first = np.concatenate(([0], stop[:-1]))
    return GroupInstants(groups, first, stop, owner, time[order[last]], codes, axis), PointOrder(order, last)
