"""Semi and anti joins: cases a reader learns from, and random ones against a recomputation of every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import (
    Bag,
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
from tests.support.join_conditions import PAIR

from millstream.kernel.batch import INF
from millstream.kernel.joins.existence import ExistenceJoin
from millstream.kernel.relational.multiplicity import DistinctStar, Multiplicity, SetOperation
from millstream.kernel.storage.synopsis import Consolidated
from millstream.types import BIGINT, DOUBLE, STRING, Field, Schema

LEFT: Schema = (Field("k", BIGINT), Field("a", STRING))
KEY: Schema = (Field("k", BIGINT),)


def counted(schema: Schema) -> Multiplicity:
    return Multiplicity(schema, SetOperation.DISTINCT)


ANTI = ExistenceJoin(LEFT, counted(KEY), (0,), (False,), Consolidated(), negated=True)
FORETOLD = ExistenceJoin(LEFT, DistinctStar(KEY), (0,), (False,), Consolidated(), negated=True)
NO_LEFT, NO_KEYS = batch(LEFT, []), batch(KEY, [])


def test_a_row_without_partner_keeps_its_end() -> None:
    left = batch(LEFT, [(1, "x", 0, 9, 1), (2, "y", 0, 9, 1)])
    assert run_two(ANTI, [(left, batch(KEY, [(2, 0, INF, 1)]), 0, 0)])[0] == [
        (1, "x", 0, 9, 1),
        (2, "y", 0, 9, -1),
        (2, "y", 0, 9, 1),
    ]


def test_a_partner_that_comes_takes_rows_away_and_one_that_leaves_gives_them_back() -> None:
    left = batch(LEFT, [(1, "x", 0, 9, 1)])
    steps = [(left, NO_KEYS, 1, 1), (NO_LEFT, batch(KEY, [(1, 3, 6, 1)]), 4, 4), (NO_LEFT, NO_KEYS, 7, 7)]
    assert run_two(ANTI, steps) == [[(1, "x", 0, 9, 1)], [(1, "x", 3, 9, -1)], [(1, "x", 6, 9, 1)]]


def test_nothing_is_said_of_a_key_that_stays() -> None:
    first = batch(LEFT, [(1, "x", 1, 9, 1)])
    steps = [(NO_LEFT, batch(KEY, [(1, 0, 5, 1)]), 0, 0), (first, batch(KEY, [(1, 4, 20, 1)]), 8, 8)]
    assert run_two(ANTI, steps) == [[], []]


def test_foretold_rows_come_back_when_a_partner_is_known_to_leave() -> None:
    left, key = batch(LEFT, [(1, "x", 0, 9, 1)]), batch(KEY, [(1, 0, 6, 1)])
    steps = [(NO_LEFT, key, 0, 0), (batch(LEFT, [(1, "x", 1, 9, 1)]), NO_KEYS, 1, 1)]
    assert run_two(FORETOLD, steps) == [[], [(1, "x", 6, 9, 1)]]
    longer = batch(KEY, [(1, 4, 8, 1)])
    assert run_two(FORETOLD, [(NO_LEFT, key, 0, 0), (left, NO_KEYS, 1, 1), (NO_LEFT, longer, 4, 4)])[2] == [
        (1, "x", 6, 8, -1)
    ]


def test_foretold_semi_joins_take_nothing_back() -> None:
    operator = ExistenceJoin(LEFT, DistinctStar(KEY), (0,), (False,), Consolidated(), negated=False)
    left = batch(LEFT, [(1, "x", 0, 9, 1)])
    steps = [(left, batch(KEY, [(1, 2, 4, 1)]), 2, 2), (NO_LEFT, batch(KEY, [(1, 3, 7, 1)]), 3, 3)]
    assert run_two(operator, steps) == [[(1, "x", 2, 4, 1)], [(1, "x", 4, 7, 1)]]


def test_rows_wait_for_the_other_side() -> None:
    left = batch(LEFT, [(1, "x", 0, 9, 1)])
    steps = [(left, NO_KEYS, 5, -1), (NO_LEFT, NO_KEYS, 5, 5)]
    assert run_two(ANTI, steps) == [[], [(1, "x", 0, 9, 1)]]


@pytest.mark.parametrize(("safe", "given"), [(False, [(None, "x", 0, 9, 1)]), (True, [])])
def test_a_null_has_no_partner_unless_nulls_are_equal(safe: bool, given: list[tuple[object, ...]]) -> None:
    operator = ExistenceJoin(LEFT, counted(KEY), (0,), (safe,), Consolidated(), negated=True)
    null = batch(KEY, [(None, 0, 20, 1)])
    output = run_two(operator, [(NO_LEFT, null, 0, 0), (batch(LEFT, [(None, "x", 1, 9, 1)]), NO_KEYS, 1, 1)])[1]
    assert [row[:2] for row in output] == [row[:2] for row in given]


def test_a_key_without_columns_asks_for_any_row() -> None:
    operator = ExistenceJoin(LEFT, counted(()), (), (), Consolidated(), negated=False)
    left, found = batch(LEFT, [(1, "x", 0, 9, 1), (2, "y", 0, 9, 1)]), batch((), [(4, 6, 3)])
    assert run_two(operator, [(left, found, 20, 20)]) == [[(1, "x", 4, 6, 1), (2, "y", 4, 6, 1)]]


def having_partners(positions: tuple[int, ...], null_safe: tuple[bool, ...], wanted: bool) -> Callable[..., Bag]:
    def equal(one: object, other: object, safe: bool) -> bool:
        if one is None or other is None:
            return safe and one is other
        return one == other or {one, other} == {"0.0", "-0.0"}

    def expected(bags: list[Bag]) -> Bag:
        def has_partner(row: tuple[object, ...]) -> bool:
            own = [row[position] for position in positions]
            return any(all(map(equal, own, key, null_safe)) for key in bags[1])

        return Counter({row: count for row, count in bags[0].items() if has_partner(row) == wanted})

    return expected


@pytest.mark.parametrize("kind", [counted, DistinctStar])
@settings(deadline=None, max_examples=80)
@given(data=st.data(), negated=st.booleans(), collide=st.booleans(), retract=st.booleans(), steps=st.integers(1, 5))
def test_existence_joins_are_right_at_every_instant(
    kind: Callable[[Schema], Multiplicity | DistinctStar],
    data: st.DataObject,
    negated: bool,
    collide: bool,
    retract: bool,
    steps: int,
) -> None:
    kinds = {STRING: texts, BIGINT: small, DOUBLE: floats}
    one, other = data.draw(st.sampled_from(list(kinds))), data.draw(st.sampled_from(list(kinds)))
    schema = (Field("k", one), Field("a", other))
    positions = data.draw(st.sampled_from([(0,), (1, 0), ()]))
    key_schema = tuple(schema[position] for position in positions)
    null_safe = tuple(data.draw(st.booleans()) for _ in positions)
    left = data.draw(sources(st.tuples(kinds[one], kinds[other]), steps, retract=retract))
    values = st.tuples(*(kinds[field.type] for field in key_schema))
    right = data.draw(sources(values, steps, retract=retract and kind is counted))
    with odd_sizes(collide):
        operator = ExistenceJoin(schema, kind(key_schema), positions, null_safe, Consolidated(), negated=negated)
        expected = having_partners(positions, null_safe, not negated)
        check_steps(operator, (schema, key_schema), (left, right), expected)


@pytest.mark.parametrize(("make", "kind"), [(window, DistinctStar), (window, counted), (row_window, counted)])
def test_state_is_bounded_by_the_windows(
    make: Callable[..., pl.DataFrame], kind: Callable[[Schema], Multiplicity | DistinctStar]
) -> None:
    length, ticks = 100, 37
    operator = ExistenceJoin(PAIR, kind(PAIR[:1]), (0,), (False,), Consolidated(), negated=True)
    most = stream_of_windows(
        operator,
        lambda low, high: (make(low, high, length), make(low, high, length, seed=1).drop("c1")),
        steps=100 * length // ticks,
        ticks=ticks,
    )
    assert most <= 2 * 4 * (length + ticks)
