"""Joins: cases a reader learns from, and random ones against a recomputation of every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import (
    LAST,
    Bag,
    Row,
    at,
    batch,
    check_steps,
    floats,
    odd_sizes,
    row_window,
    run_two,
    small,
    sources,
    stream_of_windows,
    texts,
    window,
)
from tests.support.join_conditions import PAIR, less

from millstream import types
from millstream.kernel import keys
from millstream.kernel.batch import BORN, INF
from millstream.kernel.joins.pairwise import InnerJoin, NonRetroactiveJoin
from millstream.kernel.keys import key_codes, order_codes
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.scalar.expressions import TRUE, Call, Column, Expression, Literal, conjunction
from millstream.types import BIGINT, BOOLEAN, DOUBLE, STRING, Field, Schema

# Hand-picked cases

LEFT: Schema = (Field("k", BIGINT), Field("a", STRING))
RIGHT: Schema = (Field("k", BIGINT), Field("b", BIGINT))


def test_a_pair_lives_while_both_rows_do() -> None:
    left = batch(LEFT, [(1, "x", 0, 10, 1), (2, "y", 0, 10, 1)])
    right = batch(RIGHT, [(1, 7, 4, 20, 2), (1, 8, 10, 20, 1)])
    assert run_two(InnerJoin(LEFT, RIGHT, ((0, 0),)), [(left, right, 4, 4)]) == [[(1, "x", 1, 7, 4, 10, 2)]]


def test_a_retraction_takes_back_its_pairs_from_then_on() -> None:
    left = batch(LEFT, [(1, "x", 0, INF, 1)])
    right = batch(RIGHT, [(1, 7, 2, INF, 1)])
    gone = batch(LEFT, [(1, "x", 5, INF, -1)])
    operator = InnerJoin(LEFT, RIGHT, ((0, 0),))
    outputs = run_two(operator, [(left, right, 2, 2), (gone, right.clear(), 5, 5)])
    assert outputs == [[(1, "x", 1, 7, 2, INF, 1)], [(1, "x", 1, 7, 5, INF, -1)]]


def test_a_self_join_sees_each_pair_once_per_order() -> None:
    schema: Schema = (Field("k", BIGINT),)
    first, second = batch(schema, [(1, 0, 9, 1)]), batch(schema, [(1, 3, 12, 1)])
    outputs = run_two(InnerJoin(schema, schema, ((0, 0),)), [(first, first, 0, 0), (second, second, 3, 3)])
    assert outputs == [[(1, 1, 0, 9, 1)], [(1, 1, 3, 12, 1), (1, 1, 3, 9, 1), (1, 1, 3, 9, 1)]]


def test_null_keys_meet_only_where_null_is_safe() -> None:
    left, right = batch(LEFT, [(None, "x", 0, 9, 1)]), batch(RIGHT, [(None, 7, 0, 9, 1)])
    assert run_two(InnerJoin(LEFT, RIGHT, ((0, 0),)), [(left, right, 0, 0)]) == [[]]
    safe = InnerJoin(LEFT, RIGHT, ((0, 0),), null_safe=True)
    assert run_two(safe, [(left, right, 0, 0)]) == [[(None, "x", None, 7, 0, 9, 1)]]


def test_a_null_is_not_the_number_its_code_stands_for() -> None:
    schema: Schema = (Field("k", BIGINT),)
    number = int(np.array(keys._NULL_WORD).astype(np.int64))
    left, right = batch(schema, [(None, 0, 9, 1)]), batch(schema, [(number, 0, 9, 1)])
    assert run_two(InnerJoin(schema, schema, ((0, 0),), null_safe=True), [(left, right, 0, 0)]) == [[]]


def test_keys_of_zero_and_nan_are_equal_as_in_spark_and_keep_their_bits() -> None:
    schema: Schema = (Field("k", DOUBLE),)
    left = batch(schema, [(0.0, 0, 9, 1), (math.nan, 0, 9, 1)])
    right = batch(schema, [(-0.0, 0, 9, 1), (math.nan, 0, 9, 1)])
    outputs = run_two(InnerJoin(schema, schema, ((0, 0),)), [(left, right, 0, 0)])
    assert repr(outputs) == "[[(0.0, -0.0, 0, 9, 1), (nan, nan, 0, 9, 1)]]"


def test_born_is_the_latest_of_the_components() -> None:
    operator = InnerJoin(LEFT, RIGHT, ((0, 0),))
    left = batch(LEFT, [(1, "x", 4, 9, 1, 2)], born=True)
    right = batch(RIGHT, [(1, 7, 3, 9, 1, 3)], born=True)
    assert run_two(operator, [(left, right, 4, 4)]) == [[(1, "x", 1, 7, 4, 9, 1, 3)]]
    assert run_two(operator, [(left, right.drop(BORN), 4, 4)]) == [[(1, "x", 1, 7, 4, 9, 1, 2)]]


def test_rows_are_forgotten_when_the_other_side_has_passed_them() -> None:
    operator = InnerJoin(LEFT, RIGHT, ((0, 0),))
    nothing = batch(RIGHT, [])
    left = batch(LEFT, [(1, "x", 0, 5, 1), (2, "y", 0, 9, 1)])
    _, state = operator.step((left, nothing), NO_STATE, Progress((-1, -1), (0, 3)))
    assert [segment.height for segment in state["left"]] == [2]
    kept = state["left"][0]
    _, state = operator.step((left.clear(), nothing), state, Progress((0, 3), (0, 4)))
    assert state["left"][0] is kept  # half of it lives, so it is not written again
    _, state = operator.step((left.clear(), nothing), state, Progress((0, 4), (0, 8)))
    assert state["left"] == ()


def test_rows_that_nothing_can_meet_are_never_kept() -> None:
    left, right = batch(LEFT, [(1, "x", 0, INF, 1)]), batch(RIGHT, [(1, 7, 0, 5, 1)])
    operator = InnerJoin(LEFT, RIGHT, ((0, 0),))
    _, state = operator.step((left, right), NO_STATE, Progress((-1, -1), (0, INF)))
    assert state["left"] == ()
    assert [segment.height for segment in state["right"]] == [1]


def test_codes_do_not_depend_on_the_batch() -> None:
    texts = ["", "a", "ab", "exactly8", "nine byte", None, "ä" * 40, "a\0", "a\0\0"]
    alone = [key_codes(pl.DataFrame({"c0": [text]}, schema={"c0": pl.String}), ["c0"])[0] for text in texts]
    together = key_codes(pl.DataFrame({"c0": texts}), ["c0"])
    assert list(together) == alone
    assert len(set(alone)) == len(texts)
    sliced = pl.DataFrame({"c0": texts}).slice(3, 4)
    assert list(key_codes(sliced, ["c0"])) == alone[3:7]


def test_codes_are_fixed_for_ever() -> None:
    frame = pl.DataFrame({"c0": ["stream", None], "c1": [7, -7], "c2": [0.5, math.nan]})
    codes = key_codes(frame, ["c0", "c1", "c2"])
    assert [hex(code) for code in codes] == ["0xa7e98a337222b988", "0x4eb108668bf09c6a"]


@pytest.mark.parametrize("precision", [5, 38])
def test_decimals_have_codes(precision: int) -> None:
    numbers = [Decimal("1.25"), Decimal("-1.25"), Decimal("0.00"), Decimal("-0.01"), None]
    numbers += [Decimal(10**30)] if precision == 38 else []
    codes = key_codes(pl.DataFrame({"c0": numbers}, schema={"c0": pl.Decimal(precision, 2)}), ["c0"])
    assert len(set(codes)) == len(numbers)


def test_order_codes_compare_as_values_do() -> None:
    ordered = [-math.inf, -1.5, -5e-324, -0.0, 5e-324, 2.0, math.inf, math.nan]
    codes = order_codes(pl.Series(ordered))
    assert (codes[1:] > codes[:-1]).all()
    assert codes[3] == order_codes(pl.Series([0.0]))[0]
    codes = order_codes(pl.Series([-(2**63), -1, 0, 2**63 - 1]))
    assert (codes[1:] > codes[:-1]).all()


# Residual conditions

L0, L1, R0, R1 = (Column(BIGINT, index, name) for index, name in enumerate(("l.k", "l.x", "r.k", "r.x")))


def call(function: str, *arguments: Expression) -> Call:
    return Call(BIGINT if function in "+-" else BOOLEAN, function, arguments)


def not_less(one: Any, other: Any) -> bool:
    return less(other, one) or (one is not None and one == other)


TWO = Literal(BIGINT, 2)
RESIDUALS: dict[str, tuple[Expression, Callable[[Row, Row], bool]]] = {
    "true": (TRUE, lambda left, right: True),
    "less": (call("<", L1, R1), lambda left, right: less(left[1], right[1])),
    "greater": (call(">", L1, R0), lambda left, right: less(right[0], left[1])),
    "between": (
        conjunction([call(">=", R1, L0), call("<=", R1, L1)]),
        lambda left, right: not_less(right[1], left[0]) and not_less(left[1], right[1]),
    ),
    "near": (
        conjunction([call("<", call("-", R1, TWO), L1), call("<", L1, call("+", TWO, R1))]),
        lambda left, right: None not in (left[1], right[1]) and abs(left[1] - right[1]) < 2,
    ),
    "differ": (call("<>", L1, R1), lambda left, right: less(left[1], right[1]) or less(right[1], left[1])),
}


@pytest.mark.parametrize(("name", "sides"), [("less", 2), ("between", 1), ("near", 2), ("differ", 0)])
def test_range_conditions_are_found(name: str, sides: int) -> None:
    operator = InnerJoin(PAIR, PAIR, (), RESIDUALS[name][0])
    bands = [band for band in operator._bands if band is not None]
    assert len(bands) == (2 if name != "differ" else 0)
    assert sum(bool(band.lower) and bool(band.upper) for band in bands) == (sides if name != "less" else 0)


def test_a_bound_past_the_last_number_bounds_nothing() -> None:
    most = 2**63 - 1
    condition = call("<=", call("-", L1, TWO), R1)
    left = batch(PAIR, [(0, 0, 0, 9, 1)])
    right = batch(PAIR, [(0, most, 0, 9, 1), (0, most - 1, 0, 9, 1), (0, -3, 0, 9, 1)])
    outputs = run_two(InnerJoin(PAIR, PAIR, (), condition), [(left, right, 0, 0)])
    assert [row[3] for row in outputs[0]] == [most - 1, most]


# Against every instant


def product(
    keys: Sequence[tuple[int, int]], residual: Callable[[Row, Row], bool], null_safe: bool
) -> Callable[[list[Bag]], Bag]:
    def equal(one: object, other: object) -> bool:
        if one is None or other is None:
            return null_safe and one is other
        zeros = ("0.0", "-0.0")
        return one == other or (one in zeros and other in zeros)

    def expected(bags: list[Bag]) -> Bag:
        result: Bag = Counter()
        for left, one in bags[0].items():
            for right, other in bags[1].items():
                if all(equal(left[i], right[j]) for i, j in keys) and residual(left, right):
                    result[left + right] += one * other
        return result

    return expected


@settings(deadline=None, max_examples=60)
@given(data=st.data(), null_safe=st.booleans(), collide=st.booleans(), steps=st.integers(1, 5))
def test_inner_join_is_right_at_every_instant(
    data: st.DataObject,
    null_safe: bool,
    collide: bool,
    steps: int,
) -> None:
    kinds = {STRING: texts, BIGINT: small, DOUBLE: floats}
    kind, other = data.draw(st.sampled_from(list(kinds))), data.draw(st.sampled_from(list(kinds)))
    schemas = ((Field("k", kind), Field("a", other)), (Field("b", other), Field("k", kind)))
    keys = data.draw(st.sampled_from([((0, 1),), ((0, 1), (1, 0))]))
    left = data.draw(sources(st.tuples(kinds[kind], kinds[other]), steps, retract=True))
    right = data.draw(sources(st.tuples(kinds[other], kinds[kind]), steps, retract=True))
    with odd_sizes(collide):
        operator = InnerJoin(*schemas, keys, null_safe=null_safe)
        check_steps(operator, schemas, (left, right), product(keys, lambda *_: True, null_safe), linear=True)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), name=st.sampled_from(sorted(RESIDUALS)), keyed=st.booleans(), steps=st.integers(1, 4))
def test_any_condition_is_right_at_every_instant(
    data: st.DataObject,
    name: str,
    keyed: bool,
    steps: int,
) -> None:
    residual, holds = RESIDUALS[name]
    keys = ((0, 0),) if keyed else ()
    inputs = [data.draw(sources(st.tuples(small, small), steps, retract=True, size=8)) for _ in range(2)]
    with odd_sizes(collide=False):
        operator = InnerJoin(PAIR, PAIR, keys, residual)
        check_steps(operator, (PAIR, PAIR), inputs, product(keys, holds, False), linear=True)


@settings(deadline=None, max_examples=30)
@given(data=st.data(), steps=st.integers(1, 5))
def test_self_join_is_right_at_every_instant(data: st.DataObject, steps: int) -> None:
    source = data.draw(sources(st.tuples(small, small), steps, retract=True))
    with odd_sizes(collide=False):
        operator = InnerJoin(PAIR, PAIR, ((0, 1),))
        expected = product(((0, 1),), lambda *_: True, False)
        check_steps(operator, (PAIR, PAIR), (source, source), expected, linear=True)


# Non-retroactive tables


def test_a_row_meets_the_table_as_of_its_birth() -> None:
    operator = NonRetroactiveJoin(LEFT, RIGHT, ((0, 0),))
    table = batch(RIGHT, [(1, 7, 0, INF, 1), (1, 7, 5, INF, -1), (1, 8, 5, INF, 1)])
    early, late = batch(LEFT, [(1, "x", 4, INF, 1)]), batch(LEFT, [(1, "y", 5, 9, 1)])
    outputs = run_two(operator, [(early, table, 4, 6), (late, table.clear(), 6, 6)])
    assert outputs == [[(1, "x", 1, 7, 4, INF, 1)], [(1, "y", 1, 8, 5, 9, 1)]]


def test_a_retraction_meets_the_version_of_what_it_retracts() -> None:
    operator = NonRetroactiveJoin(LEFT, RIGHT, ((0, 0),))
    table = batch(RIGHT, [(1, 7, 0, INF, 1), (1, 7, 5, INF, -1), (1, 8, 5, INF, 1)])
    rows = batch(LEFT, [(1, "x", 4, INF, 1, 4)], born=True)
    gone = batch(LEFT, [(1, "x", 8, INF, -1, 4)], born=True)
    outputs = run_two(operator, [(rows, table, 4, 4), (gone, table.clear(), 8, 8)])
    assert outputs == [[(1, "x", 1, 7, 4, INF, 1, 4)], [(1, "x", 1, 7, 8, INF, -1, 4)]]


def test_rows_wait_for_the_table() -> None:
    operator = NonRetroactiveJoin(LEFT, RIGHT, ((0, 0),))
    row, change = batch(LEFT, [(1, "x", 4, 9, 1)]), batch(RIGHT, [(1, 7, 4, INF, 1)])
    outputs = run_two(operator, [(row, change.clear(), 4, 3), (row.clear(), change, 4, 4)])
    assert outputs == [[], [(1, "x", 1, 7, 4, 9, 1)]]


@settings(deadline=None, max_examples=60)
@given(data=st.data(), steps=st.integers(1, 5), lag=st.sampled_from([None, 4]), born=st.booleans())
def test_non_retroactive_join_is_right_at_every_instant(
    data: st.DataObject, steps: int, lag: int | None, born: bool
) -> None:
    stream = data.draw(sources(st.tuples(small, small), steps, retract=lag is None and born))
    table = data.draw(sources(st.tuples(small, small), steps, retract=True))
    births: dict[Row, list[tuple[int, int]]] = {}

    def with_birth(row: Row) -> Row:
        """A retraction takes the birth of what it retracts: the latest equal row that has begun by then."""
        *values, start, end, weight = row
        key = (*values, end)
        if weight == -1:
            retracted = max(known for known in births[key] if known[0] <= start)
            births[key].remove(retracted)
            return (*row, retracted[1])
        birth = max(0, start - data.draw(st.integers(0, lag or 4)))
        births.setdefault(key, []).append((start, birth))
        return (*row, birth)

    rows = [[with_birth(row) if born else (*row, row[2]) for row in arrived] for arrived in stream.rows]
    everything = table.until(steps)
    joined: list[Row] = []
    for row in (row for arrived in rows for row in arrived):
        for value, count in at(everything, 2, row[5]).items():
            if row[0] is not None and row[0] == value[0]:
                joined.append((*row[:2], *value, *row[2:4], row[4] * count))

    operator = NonRetroactiveJoin(PAIR, PAIR, ((0, 0),), lag=lag)
    state: State = NO_STATE
    output: list[Row] = []
    before = (-1, -1)
    with odd_sizes(collide=False):
        for step in range(steps):
            after = (stream.frontiers[step], table.frontiers[step])
            left = batch(PAIR, rows[step], born=True)
            inputs = (left if born else left.drop(BORN), batch(PAIR, table.rows[step]))
            new, state = operator.step(inputs, state, Progress(before, after))
            output += [row[:7] for row in new.rows()]
            for instant in range(min(*after, 2 * LAST) + 1):
                assert at(output, 4, instant) == at(joined, 4, instant)
            before = after


# State


@pytest.mark.parametrize("make", [window, row_window])
@pytest.mark.parametrize("ticks", [29, 100, 300])
def test_state_is_bounded_by_the_windows(make: Callable[..., pl.DataFrame], ticks: int) -> None:
    operator = InnerJoin(PAIR, PAIR, ((0, 0), (1, 1)))
    length = 100
    most = stream_of_windows(
        operator,
        lambda low, high: (make(low, high, length), make(low, high, length, seed=1)),
        steps=100 * length // ticks,
        ticks=ticks,
    )
    assert most <= 2 * 4 * (length + ticks)


def test_state_of_a_table_is_bounded_by_its_versions() -> None:
    operator = NonRetroactiveJoin(PAIR, PAIR, ((0, 0),))
    length, ticks = 100, 29
    most = stream_of_windows(
        operator, lambda low, high: (window(low, high, 10), row_window(low, high, length)), 1000, ticks
    )
    assert most <= 4 * (length + ticks)


def test_all_types_can_be_kept() -> None:
    kinds = [types.BOOLEAN, types.TINYINT, types.FLOAT, types.DATE, types.TIMESTAMP, types.INTERVAL]
    kinds += [types.BINARY, types.NULL, types.decimal(20, 3)]
    schema = tuple(Field(f"f{number}", kind) for number, kind in enumerate(kinds))
    rows = batch(schema, [(*(None,) * len(kinds), 0, 9, 1)])
    keys = tuple((number, number) for number in range(len(kinds)))
    operator = InnerJoin(schema, schema, keys, null_safe=True)
    output, _ = operator.step((rows, rows), NO_STATE, Progress((-1, -1), (0, 0)))
    assert output.height == 1
