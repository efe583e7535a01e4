"""What cannot be computed is a row of errors, and fails a query if it is there at a final instant that counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import LAST, Row, Source, at, batch, sources

from millstream.errors import EvaluationError
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.pending_errors import ERROR
from millstream.kernel.relational.failures import Checked, Failing, Failures
from millstream.kernel.scalar.expressions import Column, Literal
from millstream.kernel.scalar.functions import call
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("a", BIGINT), Field("b", BIGINT))
A, B = Column(BIGINT, 0, "a"), Column(BIGINT, 1, "b")
REMAINDER = call("%", [A, B])
ERRORS = st.sampled_from([("one", None, None), ("other", "detail", "hint")])


def fails_in(operator: Operator, inputs: list[list[list[Row]]], frontiers: list[int]) -> int | None:
    """The step in which an operator over errors raises."""
    state: State = NO_STATE
    before = -1
    for step, after in enumerate(frontiers):
        batches = [batch(ERROR, rows[step]) for rows in inputs]
        progress = Progress((before,) * len(batches), (after,) * len(batches))
        try:
            _, state = operator.step(batches, state, progress)
        except EvaluationError:
            return step
        before = after
    return None


def is_there(rows: list[Row], first: int, frontier: int) -> bool:
    """Whether some error occurs at an instant that counts and is final."""
    return any(max(at(rows, 3, instant).values(), default=0) > 0 for instant in range(first, min(frontier, 99) + 1))


def expected(source: Source, first: int) -> int | None:
    steps = range(len(source.frontiers))
    return next((step for step in steps if is_there(source.until(step), first, source.frontiers[step])), None)


def test_the_rows_that_an_expression_fails_on_are_errors_for_as_long() -> None:
    rows = batch(SCHEMA, [(7, 2, 0, 5, 1), (7, 0, 1, 9, -2), (None, 0, 2, 3, 1), (1, 0, 4, 6, 1)])
    output, state = Failing([REMAINDER], carried=SCHEMA[:1]).step([rows], NO_STATE, Progress((-1,), (9,)))
    assert [row[3:] for row in output.rows()] == [(7, 1, 9, -2), (1, 4, 6, 1)]
    assert output["c0"].str.contains("zero").all()
    assert state == NO_STATE


def test_only_rows_that_the_condition_lets_through_fail() -> None:
    rows = batch(SCHEMA, [(7, 0, 1, 9, 1), (1, 0, 4, 6, 1)])
    operator = Failing([REMAINDER], call(">", [A, Literal(BIGINT, 5)]))
    output, _ = operator.step([rows], NO_STATE, Progress((-1,), (9,)))
    assert output.select("_start", "_end").rows() == [(1, 9)]


@given(sources(ERRORS, 3, retract=True, size=4), st.integers(0, LAST))
@settings(max_examples=100)
def test_errors_that_are_taken_back_before_they_are_final_were_never_there(source: Source, first: int) -> None:
    assert fails_in(Failures(ERROR, first), [source.rows], source.frontiers) == expected(source, first)


@given(sources(ERRORS, 3, retract=False, size=4), st.integers(0, LAST))
@settings(max_examples=60)
def test_errors_that_are_certain_are_awaited(source: Source, first: int) -> None:
    assert fails_in(Checked((), first, rows=False), [source.rows], source.frontiers) == expected(source, first)


def test_rows_go_through_beside_the_errors_that_are_awaited() -> None:
    rows, error = batch(SCHEMA, [(1, 2, 0, 9, 1)]), batch(ERROR, [("no", None, None, 7, 9, 1)])
    output, state = Checked(SCHEMA).step([rows, error], NO_STATE, Progress((-1, -1), (6, 6)))
    assert output.equals(rows)
    with pytest.raises(EvaluationError, match="no"):
        Checked(SCHEMA).step([rows.clear(), error.clear()], state, Progress((6, 6), (7, 7)))
