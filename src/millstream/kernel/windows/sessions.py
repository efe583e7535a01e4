"""[SESSION g] and [SESSION g COMPLETE], separately for each value of the partition columns.

An element keeps its session open for `reach` ticks from its instant on, as long as `[RANGE g]` has it. The elements of
a partition in order, t(1) <= t(2) <= .., are one session as long as t(i+1) <= t(i) + reach; it is over at
c = t(last) + reach, the first instant at which it was not kept open.

    S [SESSION g]           = { (r_i, t(i), c, +1) },         where an end that comes later is said by (r_i, c, INF, -1)
    S [SESSION g COMPLETE]  = { (r_i, c, c + g, +1) }

With bounds, rows have window_start = t(first) and window_end = t(last so far) + g: then those of an open session are
other rows whenever an element comes, and all of them are said again.

Keeps the elements beyond the frontier, and those of sessions that are open at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import ARRIVAL, BORN, END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import frame_of, only, take
from millstream.kernel.keys import Positions, Ticks
from millstream.kernel.operator import Progress, State
from millstream.kernel.storage.expiries import note_gone
from millstream.kernel.storage.segments import numbers
from millstream.kernel.windows.partitions import PartitionedWindow
from millstream.kernel.windows.time import Sessions
from millstream.types import Schema, to_polars

_OPEN = "open"
Bools = npt.NDArray[np.bool_]


class SessionWindow(PartitionedWindow):
    """The window of a stream whose elements have arrival numbers; `born` adds the instants at which rows entered.

    >>> run = Run(SessionWindow(integers("v"), Sessions(5, 5)))
    >>> run.step(stream((7, 3), (8, 6)), to=6)
    (7, [3, INF), +1)
    (8, [6, INF), +1)
    >>> run.wait(to=11)
    (7, [11, INF), -1)
    (8, [11, INF), -1)
    >>> Run(SessionWindow(integers("v"), Sessions(5, 5, complete=True))).step(stream((7, 3), (8, 6)), to=11)
    (7, [11, 16), +1)
    (8, [11, 16), +1)
    """

    def __init__(self, schema: Schema, window: Sessions, *, born: bool = False) -> None:
        super().__init__(schema, window.partition, len(schema) - (0 if window.bounds is None else 2))
        self.window = window
        self.born = born

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        taken = self._taken(inputs[0], state, progress, _OPEN)
        elements, pending = taken.elements, taken.pending
        if not elements.height:
            return self._rows(elements, _NOTHING), {"pending": pending}
        sessions = self._sessions(elements)
        elements = take(elements, sessions.order)
        shown = self._shown(sessions, progress.low_before, progress.low)
        still = only(elements, sessions.over > progress.low)
        note_gone([elements], 0, [still])
        return self._rows(elements, shown), {"pending": pending, **({_OPEN: (still,)} if still.height else {})}

    def _sessions(self, elements: Batch) -> _SessionsOfElements:
        order, partition = self._in_order(elements)
        instants = numbers(elements, START)[order]
        begins = np.ones(order.size, np.bool_)
        begins[1:] = (np.diff(partition) != 0) | (np.diff(instants) > self.window.reach)
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], order.size) - 1
        session = np.cumsum(begins) - 1
        return _SessionsOfElements(
            order, instants, firsts[session], lasts[session], instants[lasts][session] + self.window.reach
        )

    def _shown(self, sessions: _SessionsOfElements, before: int, now: int) -> _Shown:
        """What there is to say of sessions between two frontiers."""
        if self.window.complete:
            over = np.flatnonzero(sessions.over <= now)
            ends = sessions.over[over] + self.window.gap
            return _Shown(over, sessions.over[over], ends, np.ones(over.size, np.int64), sessions.bounds(over))
        if self.window.bounds is not None:
            return self._moving(sessions, before, now)
        new, is_over = sessions.instants > before, sessions.over <= now
        enters, leaves = np.flatnonzero(new), np.flatnonzero(~new & is_over)
        ends = np.where(is_over, sessions.over, INF)
        return _Shown(
            np.concatenate([enters, leaves]),
            np.concatenate([sessions.instants[enters], sessions.over[leaves]]),
            np.concatenate([ends[enters], np.full(leaves.size, INF)]),
            np.repeat([1, -1], [enters.size, leaves.size]),
            None,
        )

    def _moving(self, sessions: _SessionsOfElements, before: int, now: int) -> _Shown:
        """Each row from each instant of its session on, until the next: those that are new, and the ends of those that
        were said before."""
        instants = sessions.instants
        # Of the elements of one instant, the last says when the next instant of its session comes.
        last_of_instant = np.ones(instants.size, np.bool_)
        last_of_instant[:-1] = (np.diff(instants) != 0) | (np.diff(sessions.first) != 0)
        following = np.where(sessions.over <= now, sessions.over, INF)
        inside = np.flatnonzero(np.arange(instants.size) < sessions.last)
        following[inside] = instants[inside + 1]
        new = last_of_instant & (instants > before)
        # One instant of a session was the last that was said: it ends when the next comes, or with the session.
        ended = last_of_instant & (instants <= before) & (following > before) & (following < INF)
        points = np.flatnonzero(new | ended)
        counts = points - sessions.first[points] + 1
        point = np.repeat(points, counts)
        rows = np.arange(point.size) - np.repeat(np.cumsum(counts) - counts, counts) + sessions.first[point]
        is_new = new[point]
        starts = np.where(is_new, instants[point], following[point])
        ends = np.where(is_new, following[point], INF)
        bounds = instants[sessions.first[point]], instants[point]
        return _Shown(rows, starts, ends, np.where(is_new, 1, -1), bounds, instants[point])

    def _rows(self, elements: Batch, shown: _Shown) -> Batch:
        rows = take(elements, shown.rows)
        made = [rows.get_column(name) for name in self.columns]
        if self.window.bounds is not None:
            began, last = shown.bounds if shown.bounds is not None else (shown.starts, shown.starts)
            made += [self._bound(began, 0), self._bound(last + self.window.gap, 1)]
        made += [pl.Series(START, shown.starts), pl.Series(END, shown.ends), pl.Series(WEIGHT, shown.weights)]
        if self.born:
            made.append(pl.Series(BORN, self._generated(rows, shown)))
        return frame_of([*made, rows.get_column(ARRIVAL)])

    def _generated(self, rows: Batch, shown: _Shown) -> Ticks:
        """When the rows came, also those that leave."""
        if self.window.complete:
            return shown.starts
        return numbers(rows, START) if shown.generated is None else shown.generated

    def _bound(self, instants: Ticks, place: int) -> pl.Series:
        kind, unit = self.window.bounds or (self.schema[-1].type, 1)
        return pl.Series(value_column(len(self.columns) + place), instants * unit).cast(to_polars(kind))


@dataclass(frozen=True, eq=False)
class _SessionsOfElements:
    """Elements by partition and in order of time: of each the places of the first and the last one of its session, and
    when that is over."""

    order: Positions  # of the elements as they came
    instants: Ticks
    first: Positions
    last: Positions
    over: Ticks

    def bounds(self, places: Positions) -> tuple[Ticks, Ticks]:
        return self.instants[self.first[places]], self.instants[self.last[places]]


@dataclass(frozen=True, eq=False)
class _Shown:
    """Rows to be said: places of elements, intervals, weights, the first and last instants of sessions, and when rows
    came that are not there since their element is."""

    rows: Positions
    starts: Ticks
    ends: Ticks
    weights: Ticks
    bounds: tuple[Ticks, Ticks] | None
    generated: Ticks | None = None


_NO_TICKS = np.empty(0, np.int64)
_NOTHING = _Shown(np.empty(0, np.intp), _NO_TICKS, _NO_TICKS, _NO_TICKS, (_NO_TICKS, _NO_TICKS), _NO_TICKS)
