"""ROWS windows hold the last elements that have come, in timestamp order and then in that of arrival."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.windows.streams import SCHEMA, Stream, as_batch, check_window, streams
from tests.oracle.inputs import Element
from tests.support.instants import run

from millstream.kernel.batch import INF
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.windows.rows import RowsWindow
from millstream.kernel.windows.time import Rows


def test_an_element_leaves_when_as_many_have_come_after_it() -> None:
    elements = [Element(ts, (0, value), value) for ts, value in ((3, 1), (5, 2), (5, 3))]
    first, second = run(RowsWindow(SCHEMA, Rows(2)), [([as_batch(elements[:2])], [4]), ([as_batch(elements[2:])], [9])])
    assert first == [(0, 1, 3, INF, 1, 1)]  # nothing is known of its end yet
    assert second == [(0, 1, 5, INF, -1, 1), (0, 2, 5, INF, 1, 2), (0, 3, 5, INF, 1, 3)]


@given(st.integers(1, 4), st.integers(1, 3), st.sampled_from([(), (0,), (0, 1)]), streams())
@settings(max_examples=60)
def test_the_window_is_what_the_oracle_says(rows: int, slide: int, partition: tuple[int, ...], stream: Stream) -> None:
    window = Rows(rows, slide, partition)
    check_window(RowsWindow(SCHEMA, window), window, stream)


def test_elements_leave_without_what_is_forgotten() -> None:
    elements = [Element(ts, (0, value), value) for ts, value in ((3, 1), (5, 2), (6, 3))]
    steps = [([as_batch(elements[:2])], [5]), ([as_batch(elements[2:])], [9])]
    first, second = run(RowsWindow(SCHEMA, Rows(1), forgotten=[1]), steps)
    assert first == [(0, 1, 3, 5, 1, 1), (0, 2, 5, INF, 1, 2)]
    assert second == [(0, 3, 6, INF, 1, 3), (0, None, 6, INF, -1, 2)]


def test_without_a_partition_no_more_is_kept_than_may_still_leave() -> None:
    operator = RowsWindow(SCHEMA, Rows(3, 2))
    state: State = NO_STATE
    for step in range(50):
        element = Element(step, (0, step), step)
        _, state = operator.step([as_batch([element])], state, Progress((step - 1,), (step,)))
        assert sum(segment.height for segment in state["recent"]) <= 3 + 2
