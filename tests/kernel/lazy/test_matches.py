"""Matches are kept without windows; in a window they are those of which every element lies in it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import Bag, Row, at, batch

from millstream.kernel.batch import INF, empty_batch
from millstream.kernel.lazy.matches import OLDEST, Matches, in_windows, merged
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.windows.time import Range
from millstream.types import BIGINT, Field, Schema

VALUE: Schema = (Field("v", BIGINT),)
PAIRS: Schema = (*VALUE, Field("t1", BIGINT), Field("t2", BIGINT))
ONE_STEP = Progress((-1,), (30,))
Pair = tuple[int, int, int]  # a value, and the instants of two elements
instants = st.integers(0, 9)


def kept(pairs: list[Pair]) -> list[Row]:
    return [(*pair, max(pair[1:]), INF, 1) for pair in pairs]


def core(pairs: list[Pair], sizes: tuple[int, int], instant: int) -> Bag:
    """Of each match both elements are in their window, which is closed on both sides."""
    inside = (pair[:1] for pair in pairs if all(0 <= instant - t <= n for t, n in zip(pair[1:], sizes, strict=True)))
    return Counter(inside)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), instants, instants), max_size=10), min_size=1, max_size=3),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    instants,
    st.sampled_from([0, 0, 3]),
    st.booleans(),
)
@settings(max_examples=80)
def test_any_window_can_be_asked_for(
    pieces: list[list[Pair]], sizes: tuple[int, int], since: int, more: int, together: bool
) -> None:
    operator = Matches(PAIRS, 2, None, timed=False)
    steps = [operator.step([batch(PAIRS, kept(piece))], NO_STATE, ONE_STEP) for piece in pieces]
    assert all(state == NO_STATE and output[OLDEST].is_sorted() for output, state in steps)
    segments = [output for output, _ in steps]
    segments = [merged(segments, 0)] if together else segments
    windows = [Range(size) for size in sizes]
    found = in_windows(segments, empty_batch(VALUE), windows, since, since + more).rows()
    for instant in range(since, since + more + 1):
        assert at(found, 1, instant) == core([pair for piece in pieces for pair in piece], sizes, instant)


def test_rows_with_intervals_of_their_own_keep_these() -> None:
    timed = Matches((*VALUE, Field("t", BIGINT)), 1, None, timed=True)
    rows = [(7, 3, 3, 5, 1), (8, 4, 4, INF, 2)]
    segment, _ = timed.step([batch(timed.schema, rows)], NO_STATE, ONE_STEP)
    found = in_windows([segment], empty_batch(VALUE), [Range(10)], 0, 30)
    assert sorted(found.rows()) == [(7, 3, 5, 1), (8, 4, 15, 2)]


def test_what_is_too_old_is_left_out_when_segments_are_merged() -> None:
    operator = Matches(PAIRS, 2, 5, timed=False)
    segments = [operator.ordered(batch(PAIRS, kept([pair]))) for pair in ((1, 2, 9), (2, 6, 7), (3, 8, 3))]
    assert merged(segments, 3)["c0"].to_list() == [3, 2]
