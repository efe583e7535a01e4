"""Random streams that arrive in steps, and what windows over them hold by the oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import polars as pl
from hypothesis import strategies as st
from tests.oracle import windows as oracle
from tests.oracle.inputs import Element
from tests.support.instants import LAST, Bag, Row, at

from millstream.kernel.batch import batch_schema
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.windows.time import (
    BeginEnd,
    Hop,
    Now,
    Range,
    RangeOn,
    Rows,
    Sessions,
    Tumble,
    Unbounded,
    UserWindow,
    WindowSpecification,
)
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("p", BIGINT), Field("v", BIGINT))
WIDTH = len(SCHEMA)


@dataclass(frozen=True)
class Stream:
    """Elements in the order of arrival by the step in which they come, and the frontier after each step."""

    elements: list[list[Element]]
    frontiers: list[int]

    def until(self, instant: int) -> list[Element]:
        """In the order of time, ties by arrival."""
        return sorted((e for step in self.elements for e in step if e.ts <= instant), key=lambda e: (e.ts, e.key))


@st.composite
def streams(draw: st.DrawFn, most: int = 12) -> Stream:
    frontiers = sorted(draw(st.lists(st.integers(-1, LAST), min_size=2, max_size=3)))
    elements: list[list[Element]] = []
    arrival, earliest = 0, 0
    values = st.integers(0, 1), st.integers(0, 2)
    for frontier in frontiers:
        drawn = draw(st.lists(st.tuples(st.integers(earliest, LAST + 2), *values), max_size=most))
        elements.append([Element(ts, (p, v), arrival + place) for place, (ts, p, v) in enumerate(drawn)])
        arrival, earliest = arrival + len(drawn), frontier + 1
    return Stream(elements, frontiers)


def as_batch(elements: list[Element]) -> pl.DataFrame:
    rows = [(*e.values, e.ts, e.ts + 1, 1, e.key) for e in elements]
    return pl.DataFrame(rows, schema=batch_schema(SCHEMA, arrival=True), orient="row")


def check_window(operator: Operator, window: WindowSpecification, stream: Stream) -> None:
    """At every final instant the operator has said what the oracle finds in the window."""
    state: State = NO_STATE
    output: list[Row] = []
    before = -1
    for elements, after in zip(stream.elements, stream.frontiers, strict=True):
        new, state = operator.step([as_batch(elements)], state, Progress((before,), (after,)))
        output += new.select(*batch_schema(SCHEMA)).rows()
        for instant in range(after + 1):
            assert at(output, WIDTH, instant) == contents(window, stream, instant), f"{window} at {instant}"
        before = after


def contents(window: WindowSpecification, stream: Stream, instant: int) -> Bag:
    half_open = isinstance(window, Range) and window.half_open
    half_open = half_open or (isinstance(window, Sessions) and window.reach == window.gap)
    found = oracle.contents(by_the_oracle(window), stream.until(instant), instant, half_open=half_open)
    return Counter(element.values for element in found)


def by_the_oracle(window: WindowSpecification) -> oracle.Window:
    match window:
        case Unbounded():
            return oracle.UNBOUNDED
        case Now():
            return oracle.Window("NOW")
        case Range():
            return oracle.Window("RANGE", window.size, window.slide)
        case Tumble():
            return oracle.Window("TUMBLE", window.size)
        case Hop():
            return oracle.Window("HOP", window.size, window.slide)
        case Sessions():
            return oracle.Window("SESSION", window.gap, partition=window.partition, complete=window.complete)
        case BeginEnd():
            begin = oracle.Bound(window.begin is None, window.begin_age if window.begin is None else window.begin)
            end = oracle.Bound(window.end is None, window.end_age if window.end is None else window.end)
            return oracle.Window("BEGIN", begin=begin, end=end)
        case UserWindow() | RangeOn():
            raise AssertionError("whatever it means")
        case Rows():
            return oracle.Window("ROWS", window.rows, window.slide, window.partition)
