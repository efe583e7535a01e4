"""Sessions hold what the oracle says, running or complete, with their bounds where these are read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.windows.streams import SCHEMA, Stream, as_batch, by_the_oracle, check_window, streams
from tests.oracle.windows import sessions
from tests.support.instants import Row, at

from millstream.kernel.batch import BORN, batch_schema
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.windows.sessions import SessionWindow
from millstream.kernel.windows.time import Sessions
from millstream.types import BIGINT, Field

BOUNDED = (*SCHEMA, Field("window_start", BIGINT), Field("window_end", BIGINT))


@st.composite
def windows(draw: st.DrawFn) -> Sessions:
    gap = draw(st.integers(1, 4))
    partition = draw(st.sampled_from([(), (0,), (1,), (0, 1)]))
    return Sessions(gap, gap + draw(st.integers(0, 1)), draw(st.booleans()), partition)


@given(window=windows(), stream=streams())
@settings(max_examples=120)
def test_the_window_is_what_the_oracle_says(window: Sessions, stream: Stream) -> None:
    check_window(SessionWindow(SCHEMA, window), window, stream)


@given(window=windows(), stream=streams())
@settings(max_examples=120)
def test_bounds_are_those_of_the_session_so_far(window: Sessions, stream: Stream) -> None:
    operator = SessionWindow(BOUNDED, replace(window, bounds=(BIGINT, 1)), born=True)
    half_open = window.reach == window.gap
    state: State = NO_STATE
    output: list[Row] = []
    before = -1
    for elements, after in zip(stream.elements, stream.frontiers, strict=True):
        new, state = operator.step([as_batch(elements)], state, Progress((before,), (after,)))
        assert (new[BORN] <= new["_start"]).all()
        output += new.select(*batch_schema(BOUNDED)).rows()
        for instant in range(after + 1):
            found = sessions(by_the_oracle(window), stream.until(instant), instant, half_open=half_open)
            right = Counter((*element.values, first, last + window.gap) for element, first, last in found)
            assert at(output, len(BOUNDED), instant) == right, f"{window} at {instant}"
        before = after
