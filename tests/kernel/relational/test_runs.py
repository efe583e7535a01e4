"""DISTINCT with the instant at which each run of presence began, by counts and by δ*."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import LAST, Bag, Row, Source, at, batch, odd_sizes, run, small, sources

from millstream.kernel.batch import INF
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.relational.multiplicity import SetOperation
from millstream.kernel.relational.runs import CountedRuns, ForetoldRuns
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("v", BIGINT),)


def runs_at(rows: list[Row], instant: int) -> Bag:
    """Each value that is there, with the least instant since which it was there all the time."""
    found: Bag = Counter()
    for (value,), copies in at(rows, 1, instant).items():
        if copies > 0:
            since = instant
            while since > 0 and at(rows, 1, since - 1)[value,] > 0:
                since -= 1
            found[value, since] = 1
    return found


def said_at(output: list[Row], instant: int) -> Bag:
    """Values and births of an output (value, start, end, weight, born)."""
    return at([(value, born, start, end, weight) for value, start, end, weight, born in output], 2, instant)


def check_runs(operator: Operator, source: Source) -> None:
    state: State = NO_STATE
    output: list[Row] = []
    before = -1
    for step, after in enumerate(source.frontiers):
        new, state = operator.step([batch(SCHEMA, source.rows[step])], state, Progress((before,), (after,)))
        output += new.rows()
        for instant in range(min(after, LAST + 8) + 1):
            assert said_at(output, instant) == runs_at(source.until(step), instant), f"at {instant} after step {step}"
        before = after


@given(sources(st.tuples(small), 3, retract=True), st.booleans())
@settings(max_examples=60)
def test_runs_by_counts_are_right_at_every_instant(source: Source, collide: bool) -> None:
    with odd_sizes(collide):
        check_runs(CountedRuns(SCHEMA, SetOperation.DISTINCT), source)


@given(sources(st.tuples(small), 3, retract=False), st.booleans())
@settings(max_examples=60)
def test_foretold_runs_are_right_at_every_instant(source: Source, collide: bool) -> None:
    with odd_sizes(collide):
        check_runs(ForetoldRuns(SCHEMA), source)


def test_what_prolongs_a_run_has_its_first_instant() -> None:
    first, second = batch(SCHEMA, [(1, 2, 5, 1)]), batch(SCHEMA, [(1, 5, 9, 1)])
    steps = [([first], [4]), ([second], [5])]
    assert run(ForetoldRuns(SCHEMA), steps) == [[(1, 2, 5, 1, 2)], [(1, 5, 9, 1, 2)]]
    assert run(CountedRuns(SCHEMA, SetOperation.DISTINCT), steps) == [[(1, 2, INF, 1, 2)], []]


def test_of_two_runs_in_a_step_it_is_the_later_one_that_goes_on() -> None:
    first, second = batch(SCHEMA, [(1, 2, 4, 1), (1, 6, 9, 1)]), batch(SCHEMA, [(1, 8, 12, 1)])
    steps = [([first], [7]), ([second], [8])]
    assert run(ForetoldRuns(SCHEMA), steps) == [[(1, 2, 4, 1, 2), (1, 6, 9, 1, 6)], [(1, 9, 12, 1, 6)]]
    assert run(CountedRuns(SCHEMA, SetOperation.DISTINCT), steps) == [[(1, 2, 4, 1, 2), (1, 6, INF, 1, 6)], []]
