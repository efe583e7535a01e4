"""Windows by DESIGN's table: from the elements of a stream to intervals [start, end) of their rows.

Elements are (instant, row), in the order in which ROWS windows count: by instant, ties by arrival.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

BOUNDS = ("window_start", "window_end")
INF = 2**62

Row = tuple[Any, ...]


class Element(NamedTuple):
    instant: int
    row: Row


class Interval(NamedTuple):
    """A row that is there at every instant t with start <= t < end; `order` is its place among the elements."""

    row: Row
    start: int
    end: int
    order: int = 0


@dataclass(frozen=True)
class Window:
    """`text` is what stands in brackets; the rest is what it means."""

    text: str
    form: str
    size: int = 0
    slide: int = 1
    partition: tuple[int, ...] = ()
    begin: int | None = None  # an instant; where there is none, NOW - begin_age
    begin_age: int = 0
    end: int | None = None
    end_age: int = 0
    column: int = 0  # of RANGE .. ON
    tick: int | None = None  # where bounds are read: microseconds in a tick, 0 where instants are numbers

    @property
    def has_bounds(self) -> bool:
        return self.form in ("session", "complete") or self.step > 1

    @property
    def step(self) -> int:
        """By how much it slides, where it has bounds."""
        return {"range": self.slide, "hop": self.slide, "tumble": self.size}.get(self.form, 1)

    def intervals(self, elements: Sequence[Element], half_open: bool) -> list[Interval]:
        if self.form == "rows":
            return self._rows(elements)
        if self.form == "range on":
            return self._range_on(elements, half_open)
        if self.form in ("session", "complete"):
            return [piece for part in self._sessions(elements, half_open) for piece in self._session(part, half_open)]
        found = []
        for order, (t, row) in enumerate(elements):
            start, end = self._span(t, half_open)
            if start < end:
                found.append(Interval(row, start, end, order))
        return found if self.tick is None else [piece for interval in found for piece in self._cut(interval, self.tick)]

    def _cut(self, interval: Interval, tick: int) -> list[Interval]:
        """At every instant t, window_end is the last multiple of the slide, and window_start is the size before."""
        found, step = [], self.step
        for end in range(interval.start // step * step, interval.end, step):
            bounds = tuple(_told(instant, tick) for instant in (end - self.size, end))
            start, until = max(interval.start, end), min(interval.end, end + step)
            found.append(Interval((*interval.row, *bounds), start, until, interval.order))
        return found

    def _range_on(self, elements: Sequence[Element], half_open: bool) -> list[Interval]:
        """While the column of the latest element is at most the size above; elements in which it falls do not count."""
        parts: dict[Row, list[tuple[int, Element]]] = defaultdict(list)
        for order, element in enumerate(elements):
            part = parts[tuple(_key(element.row[index]) for index in self.partition)]
            value = element.row[self.column]
            if value is not None and math.isfinite(value) and (not part or value >= part[-1][1].row[self.column]):
                part.append((order, element))
        found = []
        for part in parts.values():
            for place, (order, (instant, row)) in enumerate(part):
                ahead = ((later.row[self.column] - row[self.column], later.instant) for _, later in part[place:])
                end = next((t for apart, t in ahead if (apart >= self.size if half_open else apart > self.size)), INF)
                if instant < end:
                    found.append(Interval(row, instant, end, order))
        return found

    def _sessions(self, elements: Sequence[Element], half_open: bool) -> list[list[tuple[int, Element]]]:
        """Of each partition, elements that follow one another before RANGE g is empty."""
        parts: dict[Row, list[list[tuple[int, Element]]]] = defaultdict(list)
        for order, element in enumerate(elements):
            part = parts[tuple(_key(element.row[index]) for index in self.partition)]
            if not part or element.instant > self._over(part[-1], half_open):
                part.append([])
            part[-1].append((order, element))
        return [session for part in parts.values() for session in part]

    def _over(self, session: Sequence[tuple[int, Element]], half_open: bool) -> int:
        """The first instant at which RANGE g is empty."""
        return session[-1][1].instant + self.size + (0 if half_open else 1)

    def _session(self, session: Sequence[tuple[int, Element]], half_open: bool) -> list[Interval]:
        first, over = session[0][1].instant, self._over(session, half_open)
        instants = sorted({element.instant for _, element in session})
        found = []
        for order, (instant, row) in session:
            if self.form == "complete":
                shown = [(over, over + self.size, instants[-1])]
            elif self.tick is None:
                shown = [(instant, over, 0)]
            else:
                later = [*(t for t in instants if t >= instant), over]
                shown = [(start, end, start) for start, end in itertools.pairwise(later)]
            for start, end, last in shown:
                bounds = () if self.tick is None else (_told(first, self.tick), _told(last + self.size, self.tick))
                found.append(Interval((*row, *bounds), start, end, order))
        return found

    def last_shown(self, seen: int, half_open: bool) -> int:
        """The last instant at which elements up to one may be in the window; -1 for none, INF for ever."""
        if self.form in ("unbounded", "session", "complete", "range on") or seen >= INF - 1:
            return INF
        if self.form == "begin end":
            if self.begin is not None:
                return INF if seen >= self.begin else -1
            seen = seen if self.end is None else min(seen, self.end)
        return self._span(seen, half_open)[1] - 1

    def _span(self, t: int, half_open: bool) -> tuple[int, int]:
        size, slide = self.size, self.slide
        match self.form:
            case "now":
                return t, t + 1
            case "unbounded":
                return t, INF
            case "range" if half_open:
                return _up(t, slide), _up(t + size, slide)
            case "range" if slide == 1:
                return t, t + size + 1
            case "range":
                return max(_up(t, slide), slide - 1), ((t + size) // slide + 1) * slide
            case "tumble":
                start = (t // size + 1) * size
                return start, start + size
            case "hop":
                return (t // slide + 1) * slide, ((t + size) // slide + 1) * slide
            case "begin end":
                return self._begin_end(t)
        raise AssertionError(self.form)

    def _begin_end(self, t: int) -> tuple[int, int]:
        """In at every instant u with begin(u) <= t <= end(u); nothing is seen before it comes."""
        if (self.begin is not None and t < self.begin) or (self.end is not None and t > self.end):
            return 0, 0
        start = t + self.end_age if self.end is None else t
        return start, INF if self.begin is not None else t + self.begin_age + 1

    def _rows(self, elements: Sequence[Element]) -> list[Interval]:
        parts: dict[Row, list[tuple[int, Element]]] = defaultdict(list)
        for order, element in enumerate(elements):
            parts[tuple(_key(element.row[index]) for index in self.partition)].append((order, element))
        found = []
        for part in parts.values():
            for i, (order, element) in enumerate(part, 1):
                start = _arrival(part, -(-i // self.slide) * self.slide)
                end = _arrival(part, -(-(i + self.size) // self.slide) * self.slide)
                if start < end:
                    found.append(Interval(element.row, start, end, order))
        return found


def _told(instant: int, tick: int) -> Any:
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=instant * tick) if tick else instant


def _up(t: int, slide: int) -> int:
    return -(-t // slide) * slide


def _arrival(part: Sequence[tuple[int, Element]], number: int) -> int:
    return part[number - 1][1].instant if number <= len(part) else INF


def _key(value: Any) -> Any:
    return "NaN" if value != value else value


UNBOUNDED = Window("", "unbounded")
