"""DISTINCT, UNION, INTERSECT and EXCEPT: hand-picked cases, and random ones against every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import polars as pl
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
    rows_held,
    small,
    sources,
    stream_of_windows,
    texts,
    window,
)
from tests.support.join_conditions import PAIR

from millstream.kernel.batch import INF
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.relational.multiplicity import DirectMultiplicity, DistinctStar, Multiplicity, SetOperation
from millstream.types import BIGINT, DOUBLE, STRING, Field, Schema

ONE: Schema = (Field("v", STRING),)


def run(operator: Operator, steps: Sequence[tuple[list[list[Row]], int]]) -> list[list[Row]]:
    """The output of each step (rows of each input, frontier of all)."""
    state: State = NO_STATE
    outputs, before = [], -1
    for inputs, after in steps:
        batches = [batch(operator.schema, rows) for rows in inputs]
        progress = Progress((before,) * len(inputs), (after,) * len(inputs))
        output, state = operator.step(batches, state, progress)
        outputs.append(sorted(output.rows()))
        before = after
    return outputs


def test_distinct_is_open_until_the_last_copy_leaves() -> None:
    rows: list[Row] = [("a", 0, 5, 1), ("a", 3, 8, 1)]
    outputs = run(Multiplicity(ONE, SetOperation.DISTINCT), [([rows], 4), ([[]], 7), ([[]], 8)])
    assert outputs == [[("a", 0, INF, 1)], [], [("a", 8, INF, -1)]]


def test_what_the_step_sees_end_gets_its_end() -> None:
    rows: list[Row] = [("a", 0, 2, 1), ("a", 4, 6, 3), ("b", 1, 9, 1)]
    outputs = run(Multiplicity(ONE, SetOperation.DISTINCT), [([rows], 6)])
    assert outputs == [[("a", 0, 2, 1), ("a", 4, 6, 1), ("b", 1, INF, 1)]]


def test_a_gap_in_what_was_open_is_a_negative_row_with_an_end() -> None:
    first: list[Row] = [("a", 0, 3, 1)]
    again: list[Row] = [("a", 5, 20, 1)]
    outputs = run(Multiplicity(ONE, SetOperation.DISTINCT), [([first], 2), ([again], 6)])
    assert outputs == [[("a", 0, INF, 1)], [("a", 3, 5, -1)]]


def test_a_row_replaced_at_the_same_instant_changes_nothing() -> None:
    outputs = run(Multiplicity(ONE, SetOperation.DISTINCT), [([[("a", 0, 3, 1), ("a", 3, 9, 1)]], 5)])
    assert outputs == [[("a", 0, INF, 1)]]


def test_except_returns_when_time_passes_without_arrivals() -> None:
    left: list[Row] = [("a", 0, INF, 1), ("a", 0, INF, 1)]
    right: list[Row] = [("a", 2, 5, 1)]
    steps: list[tuple[list[list[Row]], int]] = [([left, right], 3), ([[], []], 9)]
    assert run(Multiplicity(ONE, SetOperation.EXCEPT), steps) == [[("a", 0, 2, 1)], [("a", 5, INF, 1)]]
    assert run(Multiplicity(ONE, SetOperation.EXCEPT_ALL), steps) == [
        [("a", 0, 2, 2), ("a", 2, INF, 1)],
        [("a", 5, INF, 1)],
    ]


def test_nulls_are_equal_and_so_are_zeros_and_nans() -> None:
    schema: Schema = (Field("x", DOUBLE),)
    rows: list[Row] = [(value, 0, 9, 1) for value in (None, None, 0.0, -0.0, math.nan, math.nan)]
    operator = Multiplicity(schema, SetOperation.DISTINCT)
    output, _ = operator.step([batch(schema, rows)], NO_STATE, Progress((-1,), (0,)))
    assert sorted(map(repr, output["c0"])) == ["0.0", "None", "nan"]


def test_nothing_is_said_before_the_slower_input_says_it_too() -> None:
    operator = Multiplicity(ONE, SetOperation.EXCEPT)
    row = batch(ONE, [("a", 0, 9, 1)])
    output, state = operator.step([row, row.clear()], NO_STATE, Progress((-1, -1), (5, -1)))
    assert output.height == 0
    output, _ = operator.step([row.clear(), row], state, Progress((5, -1), (5, 5)))
    assert output.height == 0


def test_rows_without_columns_are_counted() -> None:
    output, _ = Multiplicity((), SetOperation.DISTINCT).step(
        [batch((), [(0, 5, 3), (2, 4, 1)])], NO_STATE, Progress((-1,), (9,))
    )
    assert output.rows() == [(0, 5, 1)]


def test_said_ahead_what_ends_prematurely_is_taken_back() -> None:
    steps: list[tuple[list[list[Row]], int]] = [
        ([[("a", 0, 10, 1), ("b", 0, 10, 1)], []], 0),
        ([[], [("a", 4, 7, 1)]], 4),
        ([[], []], 20),
    ]
    assert run(DirectMultiplicity(ONE, SetOperation.EXCEPT), steps) == [
        [("a", 0, 10, 1), ("b", 0, 10, 1)],
        [("a", 4, 7, -1)],
        [],
    ]


def test_delta_star_prolongs_what_it_has_said() -> None:
    steps: list[tuple[list[list[Row]], int]] = [
        ([[("a", 0, 5, 1)]], 0),
        ([[("a", 3, 8, 1), ("a", 4, 9, 1), ("a", 4, 6, 1)]], 4),
        ([[("a", 12, 14, 1)]], 12),
    ]
    assert run(DistinctStar(ONE), steps) == [[("a", 0, 5, 1)], [("a", 5, 9, 1)], [("a", 12, 14, 1)]]


def test_delta_star_keeps_one_row_per_value() -> None:
    rows: list[Row] = [("a", start, start + 100, 1) for start in range(50)]
    _, state = DistinctStar(ONE).step([batch(ONE, rows)], NO_STATE, Progress((-1,), (49,)))
    assert rows_held(state) == 1
    _, state = DistinctStar(ONE).step([batch(ONE, [])], state, Progress((49,), (148,)))
    assert rows_held(state) == 0


# Against every instant

FUNCTIONS: dict[SetOperation, Callable[[int, int], int]] = {
    SetOperation.DISTINCT: lambda n, _: min(n, 1),
    SetOperation.UNION: lambda n, m: min(n + m, 1),
    SetOperation.INTERSECT: lambda n, m: min(n, m, 1),
    SetOperation.INTERSECT_ALL: min,
    SetOperation.EXCEPT: lambda n, m: 1 if n and not m else 0,
    SetOperation.EXCEPT_ALL: lambda n, m: max(n - m, 0),
}


def by_counts(operation: SetOperation) -> Callable[[list[Bag]], Bag]:
    def zero(bag: Bag) -> Bag:
        result: Bag = Counter()
        for values, count in bag.items():
            result[tuple("0.0" if value == "-0.0" else value for value in values)] += count
        return result

    def expected(bags: list[Bag]) -> Bag:
        first, second = zero(bags[0]), zero(bags[1]) if len(bags) > 1 else Counter()
        levels = {value: FUNCTIONS[operation](first[value], second[value]) for value in first | second}
        return Counter({value: level for value, level in levels.items() if level})

    return expected


SCHEMAS: list[tuple[Schema, st.SearchStrategy[Row]]] = [
    ((Field("v", BIGINT),), st.tuples(small)),
    ((Field("v", STRING),), st.tuples(texts)),
    ((Field("v", DOUBLE), Field("w", BIGINT)), st.tuples(floats, st.sampled_from([None, 1]))),
]


@pytest.mark.parametrize("kind", [Multiplicity, DirectMultiplicity])
@pytest.mark.parametrize("operation", list(SetOperation))
@settings(deadline=None, max_examples=30)
@given(data=st.data(), collide=st.booleans(), steps=st.integers(1, 5))
def test_set_operations_are_right_at_every_instant(
    kind: Callable[[Schema, SetOperation], Operator],
    operation: SetOperation,
    data: st.DataObject,
    collide: bool,
    steps: int,
) -> None:
    schema, values = data.draw(st.sampled_from(SCHEMAS))
    count = 1 if operation is SetOperation.DISTINCT else 2
    inputs = [data.draw(sources(values, steps, retract=True)) for _ in range(count)]
    with odd_sizes(collide):
        check_steps(kind(schema, operation), (schema,) * count, inputs, by_counts(operation))


@settings(deadline=None, max_examples=60)
@given(data=st.data(), collide=st.booleans(), steps=st.integers(1, 5), count=st.integers(1, 2))
def test_delta_star_is_right_at_every_instant(
    data: st.DataObject,
    collide: bool,
    steps: int,
    count: int,
) -> None:
    schema, values = data.draw(st.sampled_from(SCHEMAS))
    inputs = [data.draw(sources(values, steps, retract=False)) for _ in range(count)]
    with odd_sizes(collide):
        check_steps(DistinctStar(schema), (schema,) * count, inputs, by_counts(SetOperation.UNION))


# State


@pytest.mark.parametrize("kind", [Multiplicity, DirectMultiplicity])
@pytest.mark.parametrize("operation", [SetOperation.EXCEPT, SetOperation.UNION])
@pytest.mark.parametrize("make", [window, row_window])
def test_state_is_bounded_by_the_windows(
    kind: Callable[[Schema, SetOperation], Operator],
    operation: SetOperation,
    make: Callable[..., pl.DataFrame],
) -> None:
    length, ticks = 100, 37
    most = stream_of_windows(
        kind(PAIR, operation),
        lambda low, high: (make(low, high, length), make(low, high, length, seed=1)),
        steps=100 * length // ticks,
        ticks=ticks,
    )
    assert most <= 2 * 4 * (length + ticks)


def test_state_of_delta_star_is_bounded_by_the_values() -> None:
    most = stream_of_windows(DistinctStar(PAIR), lambda low, high: (window(low, high, 100),), 300, 29)
    assert most <= 4 * 97
