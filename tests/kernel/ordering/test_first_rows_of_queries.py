"""The first rows of one relation for many queries, each with a limit of its own."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import check_steps, odd_sizes, small, sources
from tests.support.orders import first_rows_of

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.examples import Run, batch, integers, queries
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.ordering.first_rows_of_queries import FirstRowsOfQueries
from millstream.kernel.ordering.sort_keys import RowOrder, SortKey
from millstream.kernel.ordering.top import Places
from millstream.kernel.sharing.parameters import QUERIES
from millstream.types import BIGINT, Field, Schema

PAIR: Schema = (Field("k", BIGINT), Field("v", BIGINT))
BEST = RowOrder((), (SortKey(1, descending=True),))


class OneOfThem(Operator):
    """What a query has whose limit is one of them."""

    schema = PAIR

    def __init__(self, rows: FirstRowsOfQueries, tables: State, limit: int) -> None:
        self.rows, self.tables, self.limit = rows, tables, limit

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        shown, after = self.rows.step(inputs, {**state, **self.tables}, progress)
        assert QUERIES not in after
        own = value_column(len(PAIR))
        return shown.filter(pl.col(own) == self.limit).drop(own), after


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(),
    limits=st.sets(st.integers(0, 6), min_size=1),
    offset=st.integers(0, 2),
    steps=st.integers(1, 4),
    retract=st.booleans(),
)
def test_every_query_has_the_first_rows_that_it_wants(
    data: st.DataObject, limits: set[int], offset: int, steps: int, retract: bool
) -> None:
    source = data.draw(sources(st.tuples(small, small), steps, retract=retract, size=8))
    tables = queries(of={number: [limit] for number, limit in enumerate(sorted(limits))})
    for limit in limits:
        rows = FirstRowsOfQueries(PAIR, BEST, Places(8, offset), 0, retractions=retract)
        with odd_sizes(collide=False):
            check_steps(OneOfThem(rows, tables, limit), [PAIR], [source], first_rows_of(BEST, Places(limit, offset)))


def test_a_limit_that_comes_late_finds_the_rows() -> None:
    run = Run(FirstRowsOfQueries(integers("v"), RowOrder((), (SortKey(0),)), Places(8), 0), queries(of={1: [1]}))
    run.step(batch((1, 0, 9, +1), (2, 0, 9, +1), (3, 0, 5, +1), (4, 0, 9, +1)), to=2)
    run.tables = queries(of={1: [1], 2: [3]})
    found = run.step(batch((0, 4, 9, +1)), to=4)
    assert str(found).splitlines() == [
        "(0, 1, [4, INF), +1)",
        "(0, 3, [4, INF), +1)",
        "(1, 1, [4, INF), -1)",
        "(3, 3, [4, INF), -1)",
    ]


def test_a_row_that_moves_is_told_to_those_whose_limits_it_crosses() -> None:
    tables = queries(of={number: [number] for number in range(1, 100)})
    run = Run(FirstRowsOfQueries(integers("v"), RowOrder((), (SortKey(0),)), Places(128), 0), tables)
    run.step(batch(*((value, 0, 99, +1) for value in range(10, 120))), to=2)
    found = run.step(batch((55, 4, 99, +1)), to=4)  # a further copy
    lines = str(found).splitlines()
    assert len(lines) == 2 * (99 - 46)  # it comes for limits from 47 on, and the last row of each goes


def test_no_more_is_kept_than_the_largest_may_ask_for() -> None:
    best = RowOrder((), (SortKey(0, descending=True),))
    run = Run(FirstRowsOfQueries(integers("v"), best, Places(4), 0, retractions=False), queries(of={1: [1]}))
    for instant in range(50):
        run.step(batch((instant, instant, 1000, +1)), to=instant)
    assert sum(segment.height for segment in run.state["rows"]) <= 4
