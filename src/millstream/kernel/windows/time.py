"""Time-based windows: stream to relation by arithmetic on start and end.

Each specification knows the intervals during which elements of instants t are in the window. All sizes are in ticks.
ROWS windows, which must count, are in `rows`.

The other way round, `span` gives for an instant the first and the last instant of the elements that are in the window
then: what a query that probes stored elements asks for. Both grow with the instant. `reach` is for how many ticks after
its own instant an element may be in the window, None for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import BORN, END, INF, START, WEIGHT, Batch, saturating_add
from millstream.kernel.columns import only, with_columns
from millstream.kernel.distribution import Distribution, anywhere, by_value, same_columns
from millstream.kernel.keys import Ticks
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.storage.segments import numbers, released
from millstream.types import Schema


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
        if self.slide == 1:
            return t, saturating_add(t, self.size if self.half_open else self.size + 1)
        start = _ceiling(t, self.slide)
        if self.half_open:
            return start, _ceiling(saturating_add(t, self.size), self.slide)
        end = saturating_add(saturating_add(t, self.size) // self.slide * self.slide, self.slide)
        # The paper leaves the window empty before slide - 1, so what came at 0 shows from there.
        return np.maximum(start, self.slide - 1), end

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
        start = saturating_add(t // self.size * self.size, self.size)
        return start, saturating_add(start, self.size)

    def span(self, at: int) -> tuple[int, int]:
        complete = at // self.size * self.size
        return complete - self.size, complete - 1

    @property
    def reach(self) -> int | None:
        return 2 * self.size - 1

    def __str__(self) -> str:
        return f"[TUMBLE {self.size}]"


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


TimeSpecification = Unbounded | Now | Range | Tumble | BeginEnd
WindowSpecification = TimeSpecification | Rows


class TimeWindow(Operator):
    """S [w] = { (r, w.start(t), w.end(t), +1) : (r, t) in S }. Linear: keeps nothing.

    `born` adds the instant of generation, for the sake of a NON RETROACTIVE join further up.

    >>> Run(TimeWindow(integers("v"), Range(10))).step(stream((7, 4), (8, 6)), to=6)
    (7, [4, 15), +1)
    (8, [6, 17), +1)
    """

    def __init__(self, schema: Schema, window: TimeSpecification, *, born: bool = False) -> None:
        self.schema = schema
        self.window = window
        self.born = born

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return self._shown(inputs[0]), NO_STATE

    def _shown(self, batch: Batch) -> Batch:
        start, end = self.window.interval(numbers(batch, START))
        born = [pl.Series(BORN, start)] if self.born else []
        return only(with_columns(batch, pl.Series(START, start), pl.Series(END, end), *born), start < end)


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
        shown = self._shown(inputs[0])
        forever = pl.lit(INF, pl.Int64).alias(END)
        leaving = shown.filter(pl.col(END) < INF).with_columns(pl.col(END).alias(START), forever, -pl.col(WEIGHT))
        due, pending = released(state.get("pending", ()), leaving, START, progress.low_before, progress.low)
        return pl.concat([shown.with_columns(forever), due]), {"pending": pending}


def _ceiling(t: Ticks, step: int) -> Ticks:
    """The least multiple of step that is not below t; INF where that would pass it."""
    return np.where(t > INF - step, INF, -(-t // step) * step)


def _bound(instant: int | None, age: int) -> str:
    if instant is not None:
        return str(instant)
    return f"NOW - {age}" if age else "NOW"
