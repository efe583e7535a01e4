"""Synopses partitioned by when rows leave, for inputs whose rows are never taken back (Golab and Özsu).

    ExpiryGrouped   WK           partitioned by end, a partition dropped whole when it has passed
    Fifo            WKS, MONO    as they come: the oldest segments are dropped whole

No row is looked at to expire it. Expiry is lazy: segments go when the horizon enters the next lazy interval, since
nothing but space depends on it (rows that have ended match nothing).

Consolidated synopses are faster for nearly all queries, so that these are for experiments: `SET expiry_groups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.kernel.batch import END
from millstream.kernel.columns import only
from millstream.kernel.operator import Segment
from millstream.kernel.storage.memory import can_merge
from millstream.kernel.storage.segments import numbers
from millstream.kernel.storage.shared_work import once
from millstream.kernel.storage.synopsis import is_over, merged, merged_by_size, size_class


@dataclass(frozen=True)
class ExpiryGrouped:
    """Rows partitioned by their ends into `groups` groups over `span` ticks."""

    span: int
    groups: int
    lazy: int

    def retain(self, segments: Sequence[Segment], arrived: Segment, horizon: int, before: int) -> tuple[Segment, ...]:
        width = self._width
        due = _is_due(self.lazy, before, horizon)
        kept = [segment for segment in segments if not (due and self._passed(segment, horizon))]
        members: dict[int, list[Segment]] = {}
        for segment in kept:
            members.setdefault(int(numbers(segment, END)[0]) // width, []).append(segment)
        group = numbers(arrived, END) // width
        for number in np.unique(group[numbers(arrived, END) > horizon]):
            members.setdefault(int(number), []).append(self._group(arrived, group == number, int(number)))
        return tuple(segment for parts in members.values() for segment in merged_by_size(parts))

    def lets_go(self, segments: Sequence[Segment], horizon: int, before: int) -> bool:
        return _is_due(self.lazy, before, horizon) and any(self._passed(segment, horizon) for segment in segments)

    @property
    def _width(self) -> int:
        return max(1, self.span // self.groups)

    def _group(self, arrived: Segment, members: npt.NDArray[np.bool_], number: int) -> Segment:
        return once(lambda: only(arrived, members), [arrived], "group", self.span // self.groups, number)

    def _passed(self, segment: Segment, horizon: int) -> bool:
        """All rows of a segment are of one group, so that one of them tells when the group ends."""
        return (int(numbers(segment, END)[0]) // self._width + 1) * self._width - 1 <= horizon


@dataclass(frozen=True)
class Fifo:
    """Rows that leave in the order in which they came: segments in that order, merged within a part of the span."""

    span: int
    groups: int
    lazy: int

    def retain(self, segments: Sequence[Segment], arrived: Segment, horizon: int, before: int) -> tuple[Segment, ...]:
        kept = list(segments)
        while self.lets_go(kept, horizon, before):
            kept.pop(0)
        if not arrived.height:
            return tuple(kept)
        # The youngest segment grows until it spans a group; older ones are never touched again.
        width = max(1, self.span // self.groups)
        young = [arrived]
        while kept and int(numbers(arrived, END).max()) - int(numbers(kept[-1], END).min()) < width:
            if size_class(kept[-1].height) > size_class(sum(part.height for part in young)):
                break
            if not can_merge([kept[-1], *young]):
                break
            young.insert(0, kept.pop())
        return (*kept, merged(young))

    def lets_go(self, segments: Sequence[Segment], horizon: int, before: int) -> bool:
        return _is_due(self.lazy, before, horizon) and bool(segments) and is_over(segments[0], horizon)


def _is_due(lazy: int, before: int, horizon: int) -> bool:
    """Whether the horizon has entered another lazy interval."""
    return before // max(lazy, 1) != horizon // max(lazy, 1)
