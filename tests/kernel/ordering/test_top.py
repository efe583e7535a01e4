"""The first rows of partitions: cases by hand, random ones against every instant, and what is kept."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import (
    Bag,
    Row,
    batch,
    check_steps,
    floats,
    odd_sizes,
    row_window,
    run,
    small,
    sources,
    stream_of_windows,
    texts,
    window,
)
from tests.support.orders import first_rows_of

from millstream.kernel.batch import INF
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.ordering.sort_keys import RowOrder, SortKey
from millstream.kernel.ordering.top import Places, Top
from millstream.types import BIGINT, DOUBLE, STRING, Field, Schema

PAIR: Schema = (Field("k", BIGINT), Field("v", BIGINT))
BEST = RowOrder((0,), (SortKey(1, descending=True),))


def test_what_is_pushed_out_comes_back() -> None:
    first: list[Row] = [(1, 10, 0, INF, 1), (1, 20, 2, 5, 1)]
    outputs = run(Top(PAIR, BEST, Places(1)), [([batch(PAIR, first)], [3]), ([batch(PAIR, [])], [9])])
    assert outputs == [[(1, 10, 0, 2, 1), (1, 20, 2, INF, 1)], [(1, 10, 5, INF, 1), (1, 20, 5, INF, -1)]]


def test_copies_have_places_of_their_own() -> None:
    rows: list[Row] = [(1, 10, 0, INF, 3), (1, 20, 2, INF, 1)]
    outputs = run(Top(PAIR, BEST, Places(2)), [([batch(PAIR, rows)], [3])])
    assert outputs == [[(1, 10, 0, 2, 2), (1, 10, 2, INF, 1), (1, 20, 2, INF, 1)]]


def test_ties_of_the_last_row_are_wanted_too() -> None:
    schema: Schema = (*PAIR, Field("x", BIGINT))
    rows: list[Row] = [(1, 10, 1, 0, INF, 1), (1, 10, 2, 0, INF, 1), (1, 20, 0, 2, 4, 1)]
    with_ties = run(Top(schema, BEST, Places(1, with_ties=True)), [([batch(schema, rows)], [9])])
    assert with_ties == [
        [
            (1, 10, 1, 0, 2, 1),
            (1, 10, 1, 4, INF, 1),
            (1, 10, 2, 0, 2, 1),
            (1, 10, 2, 4, INF, 1),
            (1, 20, 0, 2, 4, 1),
        ]
    ]


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(), offset=st.integers(0, 2), with_ties=st.booleans(), steps=st.integers(1, 4), retract=st.booleans()
)
def test_each_partition_may_want_as_many_as_a_column_of_it_says(
    data: st.DataObject, offset: int, with_ties: bool, steps: int, retract: bool
) -> None:
    schema: Schema = (*PAIR, Field("limit", BIGINT))
    rows = st.tuples(st.integers(0, 3), small).map(lambda row: (*row, row[0]))
    source = data.draw(sources(rows, steps, retract=retract, size=8))
    top = Top(schema, BEST, Places(None, offset, with_ties), retractions=retract, limit_column=2)

    def first_rows(bags: list[Bag]) -> Bag:
        found: Bag = Counter()
        for limit in range(4):
            own = Counter({row: count for row, count in bags[0].items() if row[0] == limit})
            found += first_rows_of(BEST, Places(limit, offset, with_ties))([own])
        return found

    with odd_sizes(collide=False):
        check_steps(top, [schema], [source], first_rows)


SCHEMAS: list[tuple[Schema, st.SearchStrategy[Row]]] = [
    ((Field("k", BIGINT), Field("v", BIGINT)), st.tuples(st.sampled_from([None, 1, 2]), small)),
    ((Field("k", STRING), Field("v", STRING), Field("x", BIGINT)), st.tuples(texts, texts, small)),
    ((Field("k", BIGINT), Field("v", DOUBLE)), st.tuples(st.sampled_from([1, 2]), floats)),
]


@pytest.mark.parametrize("retract", [False, True])
@settings(deadline=None, max_examples=40)
@given(data=st.data(), collide=st.booleans(), steps=st.integers(1, 5))
def test_first_rows_are_right_at_every_instant(retract: bool, data: st.DataObject, collide: bool, steps: int) -> None:
    schema, values = data.draw(st.sampled_from(SCHEMAS))
    columns = st.integers(0, len(schema) - 1)
    keys = st.builds(SortKey, columns, st.booleans(), st.booleans())
    partition = data.draw(st.sampled_from([(), (0,), (0, 1)]))
    unique = st.lists(keys, min_size=1, max_size=2, unique_by=lambda key: key.column)
    order = RowOrder(partition, tuple(data.draw(unique)), tuple(data.draw(st.lists(columns, max_size=1))))
    limit = data.draw(st.sampled_from([0, 1, 2, 3, None]))
    places = Places(limit, data.draw(st.integers(0, 2)), data.draw(st.booleans()) and limit is not None)
    source = data.draw(sources(values, steps, retract=retract, size=16))
    with odd_sizes(collide):
        check_steps(Top(schema, order, places, retractions=retract), [schema], [source], first_rows_of(order, places))


@pytest.mark.parametrize("limit", [1, 5])
def test_what_others_outlive_is_not_kept(limit: int) -> None:
    """Of a window of any length a few rows; when to look at them again is kept beside them."""
    for length in (1_000, 10_000):
        operator, state = Top(PAIR, RowOrder((), (SortKey(0),)), Places(limit), retractions=False), NO_STATE
        most = 0
        for low in range(0, 11_100, 370):
            progress = Progress((low - 1,), (low + 369,))
            _, state = operator.step([window(low, low + 370, length)], state, progress)
            most = max(most, sum(segment.height for segment in state["rows"]))
        assert most < 5_000  # segments below 8,192 rows are merged first


def test_rows_that_are_taken_back_are_forgotten() -> None:
    order = RowOrder((), (SortKey(0),))
    most = stream_of_windows(Top(PAIR, order, Places(2)), lambda low, high: (row_window(low, high, 100),), 300, 37)
    assert most <= 4 * (100 + 37)
