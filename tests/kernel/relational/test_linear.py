"""Selection, projection and union work row by row, whatever the batches and frontiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import LAST, Bag, Source, batch, check_steps, run, small, sources

from millstream.kernel.batch import ARRIVAL, BORN, INF
from millstream.kernel.operator import NO_STATE, Operator, Progress
from millstream.kernel.relational.linear import Filter, OneRow, Project, Shorten, Stamp, UnionAll, Values
from millstream.kernel.scalar.expressions import Column, Literal
from millstream.kernel.scalar.functions import call
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("a", BIGINT), Field("b", BIGINT))
A, B = Column(BIGINT, 0, "a"), Column(BIGINT, 1, "b")
VALUES = st.tuples(small, small)
ONE_STEP = Progress((-1,), (LAST,))


def mapped(bag: Bag, change: Callable[[int | None, int | None], tuple[object, ...] | None]) -> Bag:
    """The values that a plain function makes of each row, None where it is not there."""
    found: Bag = Counter()
    for (a, b), copies in bag.items():
        row = change(a, b)  # type: ignore[arg-type]
        if row is not None:
            found[row] += copies
    return found


@given(sources(VALUES, 2, retract=True))
@settings(max_examples=30)
def test_a_selection_keeps_the_rows_on_which_the_condition_is_true(source: Source) -> None:
    operator = Filter(SCHEMA, call("<", [A, B]))

    def expected(bags: list[Bag]) -> Bag:
        return mapped(bags[0], lambda a, b: (a, b) if a is not None and b is not None and a < b else None)

    check_steps(operator, [SCHEMA], [source], expected, linear=True)


@given(sources(VALUES, 2, retract=True))
@settings(max_examples=30)
def test_a_projection_computes_its_expressions(source: Source) -> None:
    operator = Project((Field("b", BIGINT), Field("s", BIGINT)), [B, call("+", [A, Literal(BIGINT, 1)])])

    def expected(bags: list[Bag]) -> Bag:
        return mapped(bags[0], lambda a, b: (b, None if a is None else a + 1))

    check_steps(operator, [SCHEMA], [source], expected, linear=True)


@given(sources(VALUES, 2, retract=True), sources(VALUES, 2, retract=True))
@settings(max_examples=30)
def test_a_union_is_the_sum_of_its_inputs(one: Source, other: Source) -> None:
    def expected(bags: list[Bag]) -> Bag:
        together = Counter(bags[0])
        together.update(bags[1])
        return Counter({row: copies for row, copies in together.items() if copies})

    check_steps(UnionAll(SCHEMA), [SCHEMA, SCHEMA], [one, other], expected, linear=True)


@pytest.mark.parametrize("operator", [Filter(SCHEMA, call("=", [A, A])), Project(SCHEMA, [B, A])])
def test_what_is_no_value_is_passed_on(operator: Operator) -> None:
    rows = batch(SCHEMA, [(1, 2, 0, 5, -1, 3)], born=True).with_columns(pl.lit(9, pl.Int64).alias(ARRIVAL))
    output, state = operator.step([rows], NO_STATE, ONE_STEP)
    assert output.select("_start", "_end", "_weight", BORN, ARRIVAL).rows() == [(0, 5, -1, 3, 9)]
    assert state == NO_STATE


def test_a_stamp_is_the_start_and_shortening_counts_from_it() -> None:
    rows = batch(SCHEMA[:1], [(7, 3, 20, 1), (8, 5, 6, 1), (9, 4, INF, -1)])
    stamped, _ = Stamp(SCHEMA).step([rows], NO_STATE, ONE_STEP)
    assert stamped.rows() == [(7, 3, 3, 20, 1), (8, 5, 5, 6, 1), (9, 4, 4, INF, -1)]
    later = stamped.with_columns(pl.col("_start") + 2, pl.max_horizontal("_end", pl.col("_start") + 3))
    shortened, _ = Shorten(SCHEMA, [(1, 4)]).step([later], NO_STATE, ONE_STEP)
    # From 4 ticks after its instant on a row is gone, and one that would begin later is not there at all.
    assert shortened.rows() == [(7, 3, 5, 7, 1), (8, 5, 7, 8, 1), (9, 4, 6, 8, -1)]
    assert Shorten(SCHEMA, [(1, 2)]).step([later], NO_STATE, ONE_STEP)[0].is_empty()


def test_there_is_one_row_from_the_first_instant_on() -> None:
    nothing = batch((), [])
    assert run(OneRow(), [([nothing], [-1]), ([nothing], [4]), ([nothing], [9])]) == [[], [(0, INF, 1)], []]


def test_rows_of_constants_are_there_once_from_0_on() -> None:
    nothing = batch((), [])
    found = run(Values(SCHEMA, [[1, 2], [None, 2]]), [([nothing], [-1]), ([nothing], [4]), ([nothing], [9])])
    assert found == [[], [(1, 2, 0, INF, 1), (None, 2, 0, INF, 1)], []]
