"""The definitions of windows against DESIGN.md's table of intervals: two ways to say the same thing."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.inputs import Element
from tests.oracle.windows import Bound, Window, contents

INF = 10**6
HORIZON = 40

stamps = st.lists(st.integers(0, 25), max_size=12).map(sorted)
sizes = st.integers(1, 8)
bounds = st.booleans()

# An element stands for its number in every instant t with start <= t < end.
Interval = tuple[int, int]


def elements_at(times: list[int]) -> list[Element]:
    return [Element(ts, (number,), number) for number, ts in enumerate(times)]


def check(window: Window, times: list[int], intervals: list[Interval], *, half_open: bool = False) -> None:
    elements = elements_at(times)
    for t in range(HORIZON):
        seen = contents(window, [e for e in elements if e.ts <= t], t, half_open=half_open)
        expected = [number for number, (start, end) in enumerate(intervals) if start <= t < end]
        assert Counter(e.values[0] for e in seen) == Counter(expected), t


@given(stamps, bounds)
def test_now(times: list[int], half_open: bool) -> None:
    check(Window("NOW"), times, [(ts, ts + 1) for ts in times], half_open=half_open)


@given(stamps, bounds)
def test_unbounded(times: list[int], half_open: bool) -> None:
    for kind in ("RANGE", "ROWS"):
        check(Window(kind), times, [(ts, INF) for ts in times], half_open=half_open)


@given(stamps, st.integers(0, 8))
def test_range(times: list[int], size: int) -> None:
    check(Window("RANGE", size), times, [(ts, ts + size + 1) for ts in times])
    check(Window("RANGE", size), times, [(ts, ts + size) for ts in times], half_open=True)


@given(stamps, st.integers(0, 12), sizes)
def test_range_slide(times: list[int], size: int, slide: int) -> None:
    def closed(ts: int) -> Interval:
        return max(math.ceil(ts / slide) * slide, slide - 1), ((ts + size) // slide + 1) * slide

    def half_open(ts: int) -> Interval:
        return math.ceil(ts / slide) * slide, math.ceil((ts + size) / slide) * slide

    check(Window("RANGE", size, slide), times, [closed(ts) for ts in times])
    check(Window("RANGE", size, slide), times, [half_open(ts) for ts in times], half_open=True)


@given(stamps, sizes, bounds)
def test_tumble(times: list[int], size: int, half_open: bool) -> None:
    starts = [(ts // size + 1) * size for ts in times]
    check(Window("TUMBLE", size), times, [(start, start + size) for start in starts], half_open=half_open)


@given(stamps, sizes)
def test_rows(times: list[int], size: int) -> None:
    ends = [*times[size:], *[INF] * size]
    check(Window("ROWS", size), times, list(zip(times, ends, strict=False)))


@given(stamps, sizes, sizes)
def test_rows_slide(times: list[int], size: int, slide: int) -> None:
    def arrival(number: int) -> int:
        """Of the number-th element, from 1 on."""
        return times[number - 1] if number <= len(times) else INF

    def interval(number: int) -> Interval:
        return arrival(math.ceil(number / slide) * slide), arrival(math.ceil((number + size) / slide) * slide)

    check(Window("ROWS", size, slide), times, [interval(number + 1) for number in range(len(times))])


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2)), max_size=12), st.integers(1, 3), st.integers(1, 3))
def test_partitions_are_separate_row_windows(found: list[tuple[int, int]], size: int, slide: int) -> None:
    elements = [Element(ts, (number, key), number) for number, (ts, key) in enumerate(sorted(found))]
    for t in range(25):
        upto = [e for e in elements if e.ts <= t]
        whole = contents(Window("ROWS", size, slide, (1,)), upto, t, half_open=False)
        parts: list[Element] = []
        for key in range(3):
            mine = [e for e in upto if e.values[1] == key]
            parts += contents(Window("ROWS", size, slide), mine, t, half_open=False)
        assert Counter(whole) == Counter(parts)


@given(stamps, st.integers(0, 8), st.integers(0, 8), bounds)
def test_begin_end(times: list[int], first: int, second: int, half_open: bool) -> None:
    early, late = max(first, second), min(first, second)
    both = Window("BEGIN", begin=Bound(True, early), end=Bound(True, late))
    check(both, times, [(ts + late, ts + early + 1) for ts in times], half_open=half_open)
    landmark = Window("BEGIN", begin=Bound(False, first), end=Bound(True, 0))
    check(landmark, times, [(ts, INF if ts >= first else 0) for ts in times], half_open=half_open)
    fixed = Window("BEGIN", begin=Bound(False, late), end=Bound(False, early))
    check(fixed, times, [(ts, INF if late <= ts <= early else 0) for ts in times], half_open=half_open)
    until = Window("BEGIN", begin=Bound(True, first), end=Bound(False, second))
    check(until, times, [(ts, ts + first + 1 if ts <= second else 0) for ts in times], half_open=half_open)
