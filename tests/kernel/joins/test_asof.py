"""ASOF joins: of the rows with the same key the nearest, at every instant, whatever the batches and frontiers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import Bag, Source, batch, check_steps, run, small, sources

from millstream.kernel.batch import INF
from millstream.kernel.joins.asof import AsofJoin, Nearest
from millstream.types import BIGINT, Field, Schema

LEFT: Schema = (Field("k", BIGINT), Field("t", BIGINT))
RIGHT: Schema = (Field("k", BIGINT), Field("u", BIGINT), Field("v", BIGINT))
OPERATORS: tuple[Nearest, ...] = (">=", ">", "<=", "<")


def first_key(row: tuple[Any, ...]) -> tuple[tuple[bool, int], ...]:
    """NULL comes first."""
    return tuple((value is not None, value or 0) for value in row)


def expected(left: Bag, right: Bag, operator: Nearest, outer: bool, keyed: bool) -> Bag:
    found: Bag = Counter()
    compare = {">=": int.__ge__, ">": int.__gt__, "<=": int.__le__, "<": int.__lt__}[operator]
    sign = -1 if operator in (">=", ">") else 1

    def is_near(own: Any, other: Any) -> bool:
        if None in (own[1], other[1]) or (keyed and None in (own[0], other[0])):
            return False
        return compare(own[1], other[1]) and (not keyed or own[0] == other[0])

    def distance(other: Any) -> Any:
        return sign * other[1], first_key(other)

    for own, copies in left.items():
        near = min((other for other in right if is_near(own, other)), key=distance, default=None)
        if near is not None or outer:
            found[own + (near or (None, None, None))] += copies
    return found


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_nearest_at_every_instant(operator: Nearest, outer: bool, keyed: bool) -> None:
    join = AsofJoin(LEFT, RIGHT, ((0, 0),) if keyed else (), (1, operator, 1), outer)

    @given(sources(st.tuples(small, small), 2, retract=True), sources(st.tuples(small, small, small), 2, retract=True))
    @settings(max_examples=25)
    def check(left: Source, right: Source) -> None:
        check_steps(join, [LEFT, RIGHT], [left, right], lambda bags: expected(bags[0], bags[1], operator, outer, keyed))

    check()


def test_a_nearer_one_comes_and_goes() -> None:
    join = AsofJoin(LEFT, RIGHT, ((0, 0),), (1, ">=", 1))
    said = run(
        join,
        [
            ([batch(LEFT, [(1, 10, 0, INF, 1)]), batch(RIGHT, [(1, 5, 50, 0, INF, 1)])], [0, 0]),
            ([batch(LEFT, []), batch(RIGHT, [(1, 8, 80, 3, INF, 1)])], [3, 3]),
            ([batch(LEFT, []), batch(RIGHT, [(1, 8, 80, 7, INF, -1)])], [7, 7]),
        ],
    )
    assert [sorted(rows) for rows in said] == [
        [(1, 10, 1, 5, 50, 0, INF, 1)],
        [(1, 10, 1, 5, 50, 3, INF, -1), (1, 10, 1, 8, 80, 3, INF, 1)],
        [(1, 10, 1, 5, 50, 7, INF, 1), (1, 10, 1, 8, 80, 7, INF, -1)],
    ]
