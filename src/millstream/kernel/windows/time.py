"""Time-based windows: stream to relation by arithmetic on start and end.

Each specification knows the intervals during which elements of instants t are in the window. All sizes are in ticks.
ROWS windows, which must count, are in `rows`.

The other way round, `span` gives for an instant the first and the last instant of the elements that are in the window
then: what a query that probes stored elements asks for. Both grow with the instant. `reach` is for how many ticks after
its own instant an element may be in the window, None for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from millstream.kernel.batch import BORN, END, INF, INSTANT, START, WEIGHT, Batch, saturating_add
from millstream.kernel.columns import numbered, only, with_columns
from millstream.kernel.distribution import Distribution, anywhere, by_value, same_columns
from millstream.kernel.keys import Ticks
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.storage.segments import numbers, released
from millstream.types import DataType, Schema


@dataclass(frozen=True)
class Unbounded:
    """[RANGE UNBOUNDED]: (t, INF)."""

    def interval(self, t: Ticks) -> tuple[Ticks, Ticks]:
        return t, np.full_like(t, INF)

    def span(self, at: int) -> tuple[int, int]:
        return 0, at

    @property
    def reach(self) -> int | None:
        return None

    def __str__(self) -> str:
        return "[RANGE UNBOUNDED]"


@dataclass(frozen=True)
class Now:
    """[NOW]: (t, t+1), which is how streams are kept anyway."""

    def interval(self, t: Ticks) -> tuple[Ticks, Ticks]:
        return t, t + 1

    def span(self, at: int) -> tuple[int, int]:
        return at, at

    @property
    def reach(self) -> int | None:
        return 0

    def __str__(self) -> str:
        return "[NOW]"


@dataclass(frozen=True)
class Range:
    """[RANGE size SLIDE slide], closed on both sides, or half open where the database says so."""

    size: int
    slide: int = 1
    half_open: bool = False

    def interval(self, t: Ticks) -> tuple[Ticks, Ticks]:
        return range_intervals(t, self.size, self.slide, half_open=self.half_open)

    def span(self, at: int) -> tuple[int, int]:
        last = at // self.slide * self.slide
        if self.half_open:
            return last - self.size + 1, last
        return last - self.size, last if at >= self.slide - 1 else -1

    @property
    def reach(self) -> int | None:
        return self.size + self.slide - 1 - self.half_open

    def __str__(self) -> str:
        slide = f" SLIDE {self.slide}" if self.slide != 1 else ""
        return f"[RANGE {self.size}{slide}{' HALF OPEN' if self.half_open else ''}]"


@dataclass(frozen=True)
class Tumble:
    """[TUMBLE size]: half open, so that windows partition the stream; shown when complete."""

    size: int

    def interval(self, t: Ticks) -> tuple[Ticks, Ticks]:
        return tumble_intervals(t, self.size)

    def span(self, at: int) -> tuple[int, int]:
        complete = at // self.size * self.size
        return complete - self.size, complete - 1

    @property
    def reach(self) -> int | None:
        return 2 * self.size - 1

    def __str__(self) -> str:
        return f"[TUMBLE {self.size}]"


@dataclass(frozen=True)
class Hop:
    """[HOP size SLIDE slide]: TUMBLE with windows that overlap, half open in either setting; shown when complete."""

    size: int
    slide: int

    def interval(self, t: Ticks) -> tuple[Ticks, Ticks]:
        return hop_intervals(t, self.size, self.slide)

    def span(self, at: int) -> tuple[int, int]:
        complete = at // self.slide * self.slide
        return complete - self.size, complete - 1

    @property
    def reach(self) -> int | None:
        return self.size + self.slide - 1

    def __str__(self) -> str:
        return f"[HOP {self.size} SLIDE {self.slide}]"


@dataclass(frozen=True)
class BeginEnd:
    """[BEGIN x END y] of PSoup. A bound is an instant (`begin`, `end`) or an age relative to now."""

    begin: int | None
    begin_age: int
    end: int | None
    end_age: int

    def interval(self, t: Ticks) -> tuple[Ticks, Ticks]:
        if self.begin is None:
            leaves = saturating_add(t, self.begin_age + 1)
            return (
                (saturating_add(t, self.end_age), leaves)
                if self.end is None
                else (t, np.where(t <= self.end, leaves, t))
            )
        inside = t >= self.begin if self.end is None else (t >= self.begin) & (t <= self.end)
        start = saturating_add(t, self.end_age) if self.end is None else t
        return start, np.where(inside, INF, start)

    def span(self, at: int) -> tuple[int, int]:
        first = at - self.begin_age if self.begin is None else self.begin
        last = at - self.end_age if self.end is None else min(at, self.end)
        return first, last

    @property
    def reach(self) -> int | None:
        return self.begin_age if self.begin is None else None

    @property
    def is_monotonic(self) -> bool:
        return self.begin is not None

    def __str__(self) -> str:
        return f"[BEGIN {_bound(self.begin, self.begin_age)} END {_bound(self.end, self.end_age)}]"


@dataclass(frozen=True)
class Rows:
    """[ROWS rows SLIDE slide], separately for each value of the partition columns."""

    rows: int
    slide: int = 1
    partition: tuple[int, ...] = ()

    def __str__(self) -> str:
        slide = f" SLIDE {self.slide}" if self.slide != 1 else ""
        by = f"PARTITION BY {', '.join(f'#{column}' for column in self.partition)} " if self.partition else ""
        return f"[{by}ROWS {self.rows}{slide}]"


@dataclass(frozen=True)
class Sessions:
    """[SESSION gap], separately for each value of the partition columns: an element keeps its session open for `reach`
    ticks. With `bounds`, of a type in which a tick counts so many, rows have these as further columns."""

    gap: int
    reach: int
    complete: bool = False
    partition: tuple[int, ...] = ()
    bounds: tuple[DataType, int] | None = None

    def __str__(self) -> str:
        complete = " COMPLETE" if self.complete else ""
        by = f" PARTITION BY {', '.join(f'#{column}' for column in self.partition)}" if self.partition else ""
        return f"[SESSION {self.gap}{complete}{by}]"


@dataclass(frozen=True)
class RangeOn:
    """[RANGE within ON column], separately for each value of the partition columns: the elements whose column is so
    near to that of the latest one. `within` counts what the column's type is kept in: days, microseconds, last
    digits. Or the elements that such windows leave out (`left_out`), with the greatest value before each."""

    column: int
    within: int | float
    half_open: bool = False
    partition: tuple[int, ...] = ()
    left_out: bool = field(default=False, metadata={"fingerprint": "where given"})

    def __str__(self) -> str:
        by = f"PARTITION BY {', '.join(f'#{column}' for column in self.partition)} " if self.partition else ""
        size = "left out of RANGE" if self.left_out else f"RANGE {self.within}"
        return f"[{by}{size} ON #{self.column}{' HALF OPEN' if self.half_open else ''}]"


@dataclass(frozen=True)
class UserWindow:
    """[name], which a function of a user's gives a meaning: from values and instants to intervals (`user_window`)."""

    name: str
    # Within a database a name is given once; the fingerprint must be the same in the next process.
    body: Callable[[pl.DataFrame, pl.Series], Any] = field(repr=False, metadata={"fingerprint": False})

    def __str__(self) -> str:
        return f"[{self.name}]"


TimeSpecification = Unbounded | Now | Range | Tumble | Hop | BeginEnd
ElementSpecification = Rows | Sessions | RangeOn | UserWindow  # whose intervals do not follow from instants alone
WindowSpecification = TimeSpecification | ElementSpecification


class TimeWindow(Operator):
    """S [w] = { (r, w.start(t), w.end(t), +1) : (r, t) in S }. Linear: keeps nothing.

    `born` adds the instant of generation, for the sake of a NON RETROACTIVE join further up, `timed` that of the
    element, for FIRST and LAST.

    >>> Run(TimeWindow(integers("v"), Range(10))).step(stream((7, 4), (8, 6)), to=6)
    (7, [4, 15), +1)
    (8, [6, 17), +1)
    """

    def __init__(self, schema: Schema, window: TimeSpecification, *, born: bool = False, timed: bool = False) -> None:
        self.schema = schema
        self.window = window
        self.born, self.timed = born, timed

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return self._shown(inputs[0]), NO_STATE

    def _shown(self, batch: Batch) -> Batch:
        instants = numbers(batch, START)
        start, end = self.window.interval(instants)
        made = {END: end}
        if start is not instants:
            made[START] = start
        if self.born:
            made[BORN] = start
        if self.timed:
            made[INSTANT] = instants
        return only(with_columns(batch, *numbered(made)), start < end)


class NegativeTimeWindow(TimeWindow):
    """The same relation by negative tuples: (r, start, INF, +1), and (r, end, INF, -1) once the end is due.

    Keeps every row until then. It is how the negative-tuple strategy says expirations, for comparison.

    >>> run = Run(NegativeTimeWindow(integers("v"), Range(10)))
    >>> run.step(stream((7, 4)), to=4)
    (7, [4, INF), +1)
    >>> run.wait(to=15)
    (7, [15, INF), -1)
    """

    @property
    def distribution(self) -> Distribution:
        return by_value(len(self.schema))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return by_negative_tuples(self._shown(inputs[0]), state, progress)


def by_negative_tuples(shown: Batch, state: State, progress: Progress) -> tuple[Batch, State]:
    """Rows without their ends, and what says those that are due; the others are kept."""
    forever = pl.lit(INF, pl.Int64).alias(END)
    leaving = shown.filter(pl.col(END) < INF).with_columns(pl.col(END).alias(START), forever, -pl.col(WEIGHT))
    due, pending = released(state.get("pending", ()), leaving, START, progress.low_before, progress.low)
    return pl.concat([shown.with_columns(forever), due]), {"pending": pending}


def range_intervals(t: Ticks, size: int | Ticks, slide: int | Ticks, *, half_open: bool) -> tuple[Ticks, Ticks]:
    """Of elements of instants t in [RANGE size SLIDE slide], all of one size or each of its own."""
    if np.all(slide == 1):
        return t, saturating_add(t, size if half_open else size + 1)
    start = _ceiling(t, slide)
    if half_open:
        return start, _ceiling(saturating_add(t, size), slide)
    end = saturating_add(saturating_add(t, size) // slide * slide, slide)
    # The paper leaves the window empty before slide - 1, so what came at 0 shows from there.
    return np.maximum(start, slide - 1), end


def tumble_intervals(t: Ticks, size: int | Ticks) -> tuple[Ticks, Ticks]:
    """The same in [TUMBLE size]."""
    start = saturating_add(t // size * size, size)
    return start, saturating_add(start, size)


def hop_intervals(t: Ticks, size: int | Ticks, slide: int | Ticks) -> tuple[Ticks, Ticks]:
    """The same in [HOP size SLIDE slide]: in the windows that end after the element, and begin at it or before."""
    start = saturating_add(t // slide * slide, slide)
    return start, saturating_add(saturating_add(t, size) // slide * slide, slide)


def _ceiling(t: Ticks, step: int | Ticks) -> Ticks:
    """The least multiple of step that is not below t; INF where that would pass it."""
    return np.where(t > INF - step, INF, -(-t // step) * step)


def _bound(instant: int | None, age: int) -> str:
    if instant is not None:
        return str(instant)
    return f"NOW - {age}" if age else "NOW"
