"""Rows as change points: a row enters at its start with +weight and leaves at its end with -weight.

Points up to the frontier are due, the others wait in time queues. Where many rows of a group start and end
together, as under SLIDE, their contributions are summed into panes before they become points: what waits is
then a few sums per group and slide instead of every row of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation import accumulators, exact_sum
from millstream.kernel.aggregation.accumulators import Accumulator, Totals
from millstream.kernel.aggregation.exact_sum import Limbs
from millstream.kernel.aggregation.group_table import GROUP, Arrivals
from millstream.kernel.aggregation.instants import GroupInstants, PointOrder
from millstream.kernel.batch import END, INF, START, WEIGHT
from millstream.kernel.columns import ascending, frame_of, only, parted, take
from millstream.kernel.storage.time_queue import TIME

Int64s = NDArray[np.int64]
# Summing pays once a pane stands for this many rows.
_ROWS_PER_PANE = 4


@dataclass(frozen=True, eq=False)
class Points:
    """What is added to the totals of groups at instants; in any order, several to an instant."""

    group: Int64s
    time: Int64s
    totals: Totals

    def __len__(self) -> int:
        return len(self.time)

    def take(self, places: Int64s) -> Points:
        return Points(
            self.group[places],
            self.time[places],
            accumulators.map_totals(self.totals, lambda limbs: limbs.take(places)),
        )

    def due(self, low: int) -> tuple[Points, Points]:
        """The points up to `low`, and those after it."""
        is_due = self.time <= low
        if is_due.all():
            return self, self.take(np.zeros(0, np.int64))
        return self.take(np.flatnonzero(is_due)), self.take(np.flatnonzero(~is_due))

    def to_segment(self) -> pl.DataFrame:
        columns = [pl.Series(TIME, self.time), pl.Series(GROUP, self.group)]
        return take(frame_of(columns + accumulators.to_columns(self.totals)), ascending(self.time))


def concatenated(pieces: Sequence[Points]) -> Points:
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return bare(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Points(
        np.concatenate([piece.group for piece in pieces]),
        np.concatenate([piece.time for piece in pieces]),
        accumulators.concatenated([piece.totals for piece in pieces]),
    )


def padded(points: Points, wanted: Sequence[Accumulator]) -> Points:
    """The points with all accumulators wanted; they add nothing to those they did not have."""
    missing = {name: exact_sum.zeros(len(points)) for name in wanted if name not in points.totals}
    return Points(points.group, points.time, {**points.totals, **missing})


def bare(group: Int64s, time: Int64s) -> Points:
    """Points that change no totals, but at which a group is looked at."""
    return Points(group, time, {})


def from_segment(segment: pl.DataFrame, wanted: Sequence[Accumulator]) -> Points:
    """Points kept as sums."""
    return Points(
        segment.get_column(GROUP).to_numpy(),
        segment.get_column(TIME).to_numpy(),
        accumulators.from_columns(segment, wanted),
    )


def from_rows(points: pl.DataFrame, wanted: Sequence[Accumulator]) -> Points:
    """Points kept as rows."""
    return Points(
        points.get_column(GROUP).to_numpy(),
        points.get_column(TIME).to_numpy(),
        accumulators.contributions(points, wanted),
    )


def running(limbs: Limbs, instants: GroupInstants, sorting: PointOrder, carried: Limbs) -> Limbs:
    """What each group had, and all that its points added up to and including each instant."""
    return on_top(exact_sum.cumulated(limbs.take(sorting.order)).take(sorting.last), instants, carried)


def on_top(sums: Limbs, instants: GroupInstants, carried: Limbs) -> Limbs:
    """Running sums over all instants as sums of each group, on top of what it had."""
    if len(instants.first) == 1:
        return exact_sum.added(sums, carried.take(instants.owner))
    # One running sum goes through all groups: where it stood when a group began is taken off again.
    since = np.where(instants.first > 0, instants.first - 1, 0)
    base = [np.where(instants.first > 0, part[since], 0) for part in sums.parts]
    begun = exact_sum.added(carried, Limbs(sums.low, tuple(base)).negated())
    return exact_sum.added(sums, begun.take(instants.owner))


def row_points(rows: pl.DataFrame, columns: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Where rows enter, and where they leave."""
    start, end, weight = (rows.get_column(name) for name in (START, END, WEIGHT))
    others = [rows.get_column(name) for name in columns]
    starts = frame_of([start.alias(TIME), rows.get_column(GROUP), weight, *others])
    negated = pl.Series(WEIGHT, -weight.to_numpy())
    ends = frame_of([end.alias(TIME), rows.get_column(GROUP), negated, *others])
    return starts, only(ends, end.to_numpy() < INF)


def split(points: Sequence[pl.DataFrame], low: int) -> tuple[list[pl.DataFrame], list[pl.DataFrame]]:
    """The points up to `low`, and those after it."""
    due, ahead = [], []
    for piece in points:
        is_due = piece.get_column(TIME).to_numpy() <= low
        if is_due.all():
            due.append(piece)
        elif is_due.any():
            now, later = parted(piece, is_due)
            due.append(now)
            ahead.append(later)
        else:
            ahead.append(piece)
    return due, ahead


@dataclass(frozen=True, eq=False)
class Panes:
    """Rows of a group that start and end together as one: the place of the group among the arrivals, and the totals."""

    owner: Int64s
    start: Int64s
    end: Int64s
    sums: Totals


@dataclass(frozen=True, eq=False)
class Spans:
    """From when to when rows are there: a row of each span, and of each row its span."""

    heads: Int64s
    of: Int64s

    def __len__(self) -> int:
        return len(self.heads)


def rows_together(rows: pl.DataFrame) -> Spans | None:
    """Which rows start and end together; None where these are too few to be worth anything."""
    if not rows.height:
        return None
    start, end = rows.get_column(START).to_numpy(), rows.get_column(END).to_numpy()
    begins = np.append(0, np.flatnonzero((start[1:] != start[:-1]) | (end[1:] != end[:-1])) + 1)
    heads, of = begins, np.arange(len(begins))
    firsts = start[begins]
    if (firsts[1:] < firsts[:-1]).any():  # as rows of many queries come, and not as a stream in the order of time
        heads, of = _again_together(begins, firsts, end[begins] - firsts)
    if len(heads) * _ROWS_PER_PANE > rows.height:
        return None
    return Spans(heads, np.repeat(of, np.diff(begins, append=rows.height)))


def _again_together(begins: Int64s, start: Int64s, length: Int64s) -> tuple[Int64s, Int64s]:
    """Of stretches of rows those that start alike as one, where all are equally long and few instants are between the
    first and the last: one of them, and of each its place among these."""
    first = int(start.min())
    instants = int(start.max()) - first + 1
    if instants > len(start) or (length != length[0]).any():
        return begins, np.arange(len(begins))
    head = np.full(instants, -1, np.int64)
    head[start - first] = begins
    there = head >= 0
    return head[there], (np.cumsum(there) - 1)[start - first]


def pane_codes(rows: pl.DataFrame, spans: Spans, arrivals: Arrivals) -> Int64s | None:
    """Of each row the number of its pane, which says where it begins and whose it is; None where there may be too few
    rows in each."""
    groups = len(arrivals.number)
    if len(spans) * groups * _ROWS_PER_PANE > rows.height:
        return None
    return spans.of * groups + arrivals.owner[: rows.height]


def panes(rows: pl.DataFrame, spans: Spans, arrivals: Arrivals, wanted: Sequence[Accumulator]) -> Panes | None:
    """Rows summed by group, start and end; None where too few rows go together to be worth it."""
    codes = pane_codes(rows, spans, arrivals)
    if codes is None:
        return None
    groups = len(arrivals.number)
    size = len(spans) * groups
    filled = np.flatnonzero(np.bincount(codes, minlength=size))
    sums = accumulators.map_totals(
        accumulators.contributions(rows, wanted),
        lambda limbs: exact_sum.grouped(limbs, codes, size).take(filled),
    )
    heads = spans.heads[filled // groups]
    start, end = (rows.get_column(name).to_numpy()[heads] for name in (START, END))
    return Panes(filled % groups, start, end, sums)


def pane_points(rows: pl.DataFrame, arrivals: Arrivals, wanted: Sequence[Accumulator]) -> Points | None:
    """The points of rows summed by group, start and end, where that is worth it."""
    spans = rows_together(rows)
    found = None if spans is None else panes(rows, spans, arrivals, wanted)
    return (
        None
        if found is None
        else _entering_and_leaving(arrivals.number[found.owner], found.start, found.end, found.sums)
    )


def points_of_sums(rows: pl.DataFrame, wanted: Sequence[Accumulator]) -> Points:
    """Where rows that have totals enter and leave."""
    group, start, end = (rows.get_column(name).to_numpy() for name in (GROUP, START, END))
    return _entering_and_leaving(group, start, end, accumulators.contributions(rows, wanted))


def _entering_and_leaving(group: Int64s, start: Int64s, end: Int64s, sums: Totals) -> Points:
    leaving = Points(group, end, accumulators.map_totals(sums, exact_sum.Limbs.negated))
    return concatenated([Points(group, start, sums), leaving.take(np.flatnonzero(end < INF))])
