"""Windows of many queries that count rows, each of a size of its own."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.windows.streams import SCHEMA, Stream, check_window, streams

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.examples import Run, integers, queries, stream
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.sharing.rows_of_queries import RowsOfQueries
from millstream.kernel.windows.time import Rows


class OneOfThem(Operator):
    """What a query has whose window is of one of the sizes."""

    schema = SCHEMA

    def __init__(self, window: RowsOfQueries, tables: State, size: int) -> None:
        self.window, self.tables, self.size = window, tables, size

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        rows, after = self.window.step(inputs, {**state, **self.tables}, progress)
        assert QUERIES not in after
        size = pl.col(value_column(len(SCHEMA)))
        return rows.filter(size.is_null() | (size == self.size)).drop(value_column(len(SCHEMA))), after


@given(st.sets(st.integers(1, 5), min_size=1), st.sampled_from([(), (0,), (0, 1)]), streams())
@settings(max_examples=60, deadline=None)
def test_every_query_has_the_window_of_its_size(sizes: set[int], partition: tuple[int, ...], stream: Stream) -> None:
    tables = queries(of={number: [size] for number, size in enumerate(sizes)})
    for size in sizes:
        window = RowsOfQueries(SCHEMA, Rows(8, partition=partition), 0)
        check_window(OneOfThem(window, tables, size), Rows(size, partition=partition), stream)


def test_a_size_that_comes_late_finds_the_elements() -> None:
    window = RowsOfQueries(integers("v"), Rows(8), 0)
    run = Run(window, queries(of={1: [1]}))
    run.step(stream((7, 3), (8, 5), (9, 6)), to=6)
    run.tables = queries(of={1: [1], 2: [3]})
    found = run.step(stream((1, 7)), to=7)
    assert str(found).splitlines() == ["(1, None, [7, INF), +1)", "(7, 3, [7, INF), -1)", "(9, 1, [7, INF), -1)"]


def test_no_more_is_kept_than_the_largest_may_ask_for() -> None:
    run = Run(RowsOfQueries(integers("v"), Rows(4), 0), queries(of={1: [1]}))
    for instant in range(50):
        run.step(stream((instant, instant)), to=instant)
    assert sum(segment.height for segment in run.state["recent"]) <= 5
