"""Windows by time hold what the oracle says, with ends that are foretold or by negative tuples. The span of a window is
the other side of its interval: elements are in the window at t iff they lie in its span."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.windows.streams import SCHEMA, Stream, as_batch, check_window, streams
from tests.oracle.inputs import Element
from tests.support.instants import run

from millstream.kernel.batch import INF
from millstream.kernel.windows.time import (
    BeginEnd,
    Hop,
    NegativeTimeWindow,
    Now,
    Range,
    TimeSpecification,
    TimeWindow,
    Tumble,
    Unbounded,
)

small = st.integers(0, 9)


@st.composite
def windows(draw: st.DrawFn) -> TimeSpecification:
    begin, end = draw(st.none() | small), draw(st.none() | small)
    age = draw(small)
    end_age = 0 if end is not None else draw(st.integers(0, age))
    options: list[TimeSpecification] = [
        Unbounded(),
        Now(),
        Range(draw(small), draw(st.integers(1, 5)), draw(st.booleans())),
        Tumble(draw(st.integers(1, 5))),
        Hop(draw(st.integers(1, 9)), draw(st.integers(1, 5))),
        BeginEnd(begin, 0 if begin is not None else age, end, end_age),
    ]
    return draw(st.sampled_from(options))


@pytest.mark.parametrize("operator", [TimeWindow, NegativeTimeWindow])
@given(window=windows(), stream=streams())
@settings(max_examples=60)
def test_the_window_is_what_the_oracle_says(
    operator: type[TimeWindow], window: TimeSpecification, stream: Stream
) -> None:
    check_window(operator(SCHEMA, window), window, stream)


def test_negative_tuples_come_when_time_reaches_the_end() -> None:
    element = as_batch([Element(3, (0, 7), 0)])
    window = NegativeTimeWindow(SCHEMA, Range(10))
    first, second, third = run(window, [([element], [3]), ([element.clear()], [13]), ([element.clear()], [14])])
    assert (first, second, third) == ([(0, 7, 3, INF, 1, 0)], [], [(0, 7, 14, INF, -1, 0)])


def interval(window: TimeSpecification, instant: int) -> tuple[int, int]:
    start, end = window.interval(np.array([instant]))
    return int(start[0]), int(end[0])


@given(windows(), st.integers(0, 30), st.integers(0, 30))
def test_span_and_interval_agree(window: TimeSpecification, instant: int, at: int) -> None:
    start, end = interval(window, instant)
    first, last = window.span(at)
    assert (start <= at < end) == (first <= instant <= last)


@given(windows(), st.integers(-1, 30))
def test_spans_grow_with_the_instant(window: TimeSpecification, at: int) -> None:
    assert all(now <= later for now, later in zip(window.span(at), window.span(at + 1), strict=True))


@given(windows(), st.integers(0, 30))
def test_elements_are_in_a_window_no_longer_than_its_reach(window: TimeSpecification, instant: int) -> None:
    start, end = interval(window, instant)
    assert window.reach is None or start >= end or end - 1 - instant <= window.reach
