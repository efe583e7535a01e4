"""Matches: combinations of elements that satisfy a query's conditions, kept apart from its windows (PSoup-P).

    M = { (r, t_1, .., t_k) : r a combination of elements at t_1, .., t_k },    ordered by min t_i
    core(t) = { r : (r, t_1, ..) in M, t in w_1(t_1), .., t in w_k(t_k) }

Data that comes probes the queries' conditions, and what satisfies them is added to M. A query that is asked probes M:
an element that is in its window at t lies between two instants, so that the window is a range of the order by the
oldest element, found by binary search, and only that range is looked at. Segments of M are sorted each by itself.

Rows that have intervals of their own as well (`timed`), because a table or the result of another query takes part,
keep these, and are in the core where both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, INTERVAL_COLUMNS, START, WEIGHT, Batch, concat, value_column, value_columns
from millstream.kernel.columns import only
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.keys import Ticks
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.storage.segments import gather, numbers
from millstream.kernel.windows.time import TimeSpecification
from millstream.types import Schema

OLDEST = "_oldest"


def instant_column(index: int) -> str:
    return f"_t{index}"


class Matches(Operator):
    """Takes the instants of the elements, the last value columns of its input, and orders the rows by the oldest.

    Keeps nothing: what it gives is what is kept. Rows may be forgotten `kept` ticks after their oldest element.

    >>> from millstream.kernel.batch import empty_batch
    >>> from millstream.kernel.windows.time import Range
    >>> run = Run(Matches(integers("v", "t1", "t2"), instants=2, kept=None, timed=False))
    >>> run.step(batch((7, 1, 4, 4, INF, +1), (8, 3, 2, 3, INF, +1)), to=4)
    (7, t0 1, t1 4, oldest 1)
    (8, t0 3, t1 2, oldest 2)
    >>> windows = Range(2), Range(9)
    >>> show(in_windows([run.output], empty_batch(integers("v")), windows, since=3, until=9))
    (8, [3, 6), +1)
    """

    def __init__(self, schema: Schema, instants: int, kept: int | None, *, timed: bool) -> None:
        self.schema = schema
        self.instants = instants
        self.kept = kept
        self.timed = timed

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema) - self.instants))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return self.ordered(inputs[0]), NO_STATE

    def ordered(self, batch: Batch) -> Segment:
        return in_order(self.timed_rows(batch))

    def timed_rows(self, batch: Batch) -> pl.DataFrame:
        """The rows with their instants in columns of their own."""
        width = len(self.schema) - self.instants
        times = [batch[value_column(width + n)].alias(instant_column(n)) for n in range(self.instants)]
        rest = [batch[name] for name in (INTERVAL_COLUMNS if self.timed else ())]
        rows = pl.DataFrame([*batch[value_columns(width)], *times, *rest])
        return with_oldest(rows, self.instants)


def with_oldest(rows: pl.DataFrame, instants: int) -> pl.DataFrame:
    """Of one element the instant itself says it; of several it is noted."""
    if instants == 1:
        return rows
    oldest = numbers(rows, instant_column(0))
    for index in range(1, instants):
        oldest = np.minimum(oldest, numbers(rows, instant_column(index)))
    return rows.with_columns(pl.Series(OLDEST, oldest))


def oldest_of(segment: Segment) -> Ticks:
    return numbers(segment, OLDEST if OLDEST in segment.columns else instant_column(0))


def youngest_of(segment: Segment) -> Ticks:
    """When the last of its elements came, of each row."""
    found = numbers(segment, instant_column(0))
    for index in range(1, sum(name.startswith("_t") and name[2:].isdigit() for name in segment.columns)):
        found = np.maximum(found, numbers(segment, instant_column(index)))
    return found


def is_matches(segment: pl.DataFrame) -> bool:
    return instant_column(0) in segment.columns


def in_order(rows: pl.DataFrame) -> Segment:
    oldest = oldest_of(rows)
    if (oldest[1:] >= oldest[:-1]).all():
        return rows
    return pl.DataFrame(gather(rows, rows.columns, np.argsort(oldest, kind="stable")))


def merged(segments: Sequence[Segment], first: int) -> Segment:
    """One segment of several, without rows whose oldest element lies before `first`."""
    rows = pl.concat(segments, rechunk=True)
    rows = only(rows, oldest_of(rows) >= first) if first > 0 else rows
    if WEIGHT in rows.columns and (numbers(rows, WEIGHT) < 0).any():
        identity = [name for name in rows.columns if name != WEIGHT]
        rows = rows.group_by(identity).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0).select(rows.columns)
    return in_order(rows)


def span_of(windows: Sequence[TimeSpecification], since: int, until: int) -> list[tuple[int, int]]:
    """Of each element, between which instants it lies if it is in its window at some instant of since .. until."""
    return [(window.span(since)[0], window.span(until)[1]) for window in windows]


def bounds(windows: Sequence[TimeSpecification], since: int, until: int) -> tuple[int, int]:
    """Between which instants the oldest element of a row lies that is in the core at some instant of since .. until."""
    spans = span_of(windows, since, until)
    return min(first for first, _ in spans), min(last for _, last in spans)


def _range(segment: Segment, first: int, last: int) -> slice:
    oldest = oldest_of(segment)
    return slice(int(np.searchsorted(oldest, first)), int(np.searchsorted(oldest, last, side="right")))


def in_windows(
    segments: Sequence[Segment], like: Batch, windows: Sequence[TimeSpecification], since: int, until: int
) -> Batch:
    """The rows of the core that hold at some instant of since .. until, as far as they do."""
    first, last = bounds(windows, since, until)
    found = [read_columns(segment, like)[_range(segment, first, last)] for segment in segments]
    return shown([rows for rows in found if rows.height], like, windows, since, until)


def read_columns(segment: Segment, like: Batch) -> Segment:
    """With the value columns that are wanted, and those that say when."""
    return segment[[name for name in segment.columns if name in like.columns or is_time(name)]]


def is_time(name: str) -> bool:
    return name.startswith("_")


def shown(
    pieces: Sequence[Segment], like: Batch, windows: Sequence[TimeSpecification], since: int, until: int
) -> Batch:
    """Matches with the intervals that the windows give them, cut to since .. until."""
    if not pieces:
        return like
    spans = span_of(windows, since, until)
    rows = concat([_within(piece, spans) for piece in pieces], pieces[0])
    if since == until:
        # What is within the span is in its window.
        start, end = np.full(rows.height, since, np.int64), np.full(rows.height, until + 1, np.int64)
    else:
        start, end = _intervals(rows, windows, since, until)
    if START in rows.columns:
        start, end = np.maximum(start, numbers(rows, START)), np.minimum(end, numbers(rows, END))
    weight = numbers(rows, WEIGHT) if WEIGHT in rows.columns else np.ones(rows.height, np.int64)
    times = {START: start, END: end, WEIGHT: weight}
    found = pl.DataFrame([pl.Series(c, times[c]) if c in times else rows.get_column(c) for c in like.columns])
    return only(found, start < end)


def _within(rows: Segment, spans: Sequence[tuple[int, int]]) -> Segment:
    """The rows of which every element lies where it may."""
    kept = np.ones(rows.height, np.bool_)
    for index, (first, last) in enumerate(spans):
        times = numbers(rows, instant_column(index))
        kept &= (times >= first) & (times <= last)
    return only(rows, kept)


def _intervals(
    rows: Segment, windows: Sequence[TimeSpecification], since: int, until: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    bounds = [window.interval(numbers(rows, instant_column(index))) for index, window in enumerate(windows)]
    start = reduce(np.maximum, (start for start, _ in bounds), np.full(rows.height, max(since, 0)))
    return start, reduce(np.minimum, (end for _, end in bounds), np.full(rows.height, until + 1))


def overlapping(rows: Batch, since: int, until: int) -> Batch:
    """Rows with intervals of their own, cut to since .. until."""
    start = np.maximum(numbers(rows, START), max(since, 0))
    end = np.minimum(numbers(rows, END), until + 1)
    return only(rows.with_columns(pl.Series(START, start), pl.Series(END, end)), start < end)
