"""Bounds of windows: at every instant the rows of the window are there, with the bounds that the oracle has."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.windows.streams import SCHEMA, Stream, as_batch, by_the_oracle, contents, streams
from tests.support.instants import Row, at

from millstream.kernel.batch import BORN, batch_schema
from millstream.kernel.examples import batch
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.windows.bounds import NegativeWindowBounds, WindowBounds
from millstream.kernel.windows.time import Hop, Range, TimeWindow, Tumble
from millstream.types import BIGINT, Field

BOUNDED = (*SCHEMA, Field("window_start", BIGINT), Field("window_end", BIGINT))


@st.composite
def sliding(draw: st.DrawFn) -> Range | Tumble | Hop:
    size, slide = draw(st.integers(0, 9)), draw(st.integers(2, 5))
    options: list[Range | Tumble | Hop] = [Range(size, slide, draw(st.booleans())), Tumble(slide), Hop(size + 1, slide)]
    return draw(st.sampled_from(options))


@pytest.mark.parametrize("operator", [WindowBounds, NegativeWindowBounds])
@given(window=sliding(), stream=streams())
@settings(max_examples=60)
def test_rows_have_the_bounds_of_each_instant(
    operator: type[WindowBounds], window: Range | Tumble | Hop, stream: Stream
) -> None:
    shown = TimeWindow(SCHEMA, window)
    cut = operator(BOUNDED, window.size, window.size if isinstance(window, Tumble) else window.slide)
    state: State = NO_STATE
    output: list[Row] = []
    before = -1
    for elements, after in zip(stream.elements, stream.frontiers, strict=True):
        progress = Progress((before,), (after,))
        rows, _ = shown.step([as_batch(elements)], NO_STATE, progress)
        new, state = cut.step([rows], state, progress)
        output += new.select(*batch_schema(BOUNDED)).rows()
        for instant in range(after + 1):
            bounds = by_the_oracle(window).bounds(instant)
            right = Counter({(*row, *bounds): n for row, n in contents(window, stream, instant).items()})
            assert at(output, len(BOUNDED), instant) == right, f"{window} at {instant}"
        before = after


def test_a_row_is_generated_when_its_window_is() -> None:
    rows = batch((7, 5, 15, +1))
    rows = rows.with_columns(rows["_start"].alias(BORN))
    schema = (Field("v", BIGINT), *BOUNDED[len(SCHEMA) :])
    found, _ = WindowBounds(schema, 10, 5).step([rows], NO_STATE, Progress((-1,), (5,)))
    assert found[BORN].to_list() == found["_start"].to_list() == [5, 10]
