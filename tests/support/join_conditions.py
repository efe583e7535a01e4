"""Conditions of joins, and what each of them means for a row of all inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.support.instants import Bag, Row

from millstream.kernel.just_in_time.tree_shape import Nesting
from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal, conjunction
from millstream.types import BIGINT, BOOLEAN, DataType, Field, Schema

PAIR: Schema = (Field("k", BIGINT), Field("x", BIGINT))


def less(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one < other


def column(index: int, kind: DataType = BIGINT) -> Column:
    return Column(kind, index, f"c{index}")


def compare(function: str, one: int | Expression, other: int | Expression, kind: DataType = BIGINT) -> Expression:
    sides = (side if isinstance(side, Expression) else column(side, kind) for side in (one, other))
    return Call(BOOLEAN, function, tuple(sides))


def plus(index: int, value: int) -> Expression:
    return Call(BIGINT, "+", (column(index), Literal(BIGINT, value)))


CHAIN = conjunction([compare("=", 0, 2), compare("=", 3, 4)])  # a.k = b.k, b.x = c.k
STAR = conjunction([compare("=", 0, 2), compare("=", 2, 4)])  # a.k = b.k = c.k
Holds = Callable[[Row], bool]


def joined(holds: Holds) -> Callable[[list[Bag]], Bag]:
    def expected(bags: list[Bag]) -> Bag:
        result: Bag = Counter()
        for combination in product(*(bag.items() for bag in bags)):
            row = tuple(value for values, _ in combination for value in values)
            if holds(row):
                result[row] += int(np.prod([count for _, count in combination]))
        return result

    return expected


def equal(one: Any, other: Any) -> bool:
    zeros = ("0.0", "-0.0")
    return one is not None and (one == other or (one in zeros and other in zeros))


def same(one: Any, other: Any) -> bool:
    return equal(one, other) or (one is None and other is None)


# Of three inputs (k, x): the condition, and what it means for the row of all six values.
CONDITIONS: dict[str, tuple[Expression, Holds]] = {
    "star": (STAR, lambda r: equal(r[0], r[2]) and equal(r[2], r[4])),
    "chain": (CHAIN, lambda r: equal(r[0], r[2]) and equal(r[3], r[4])),
    "triangle": (
        conjunction([CHAIN, compare("=", 5, 1)]),
        lambda r: equal(r[0], r[2]) and equal(r[3], r[4]) and equal(r[5], r[1]),
    ),
    "two keys": (
        conjunction([STAR, compare("=", 3, 1)]),
        lambda r: equal(r[0], r[2]) and equal(r[2], r[4]) and equal(r[3], r[1]),
    ),
    "one column against two of an input": (
        conjunction([compare("=", 0, 2), compare("=", 1, 2), compare("=", 2, 4)]),
        lambda r: equal(r[0], r[2]) and equal(r[1], r[2]) and equal(r[2], r[4]),
    ),
    "null-safe": (
        conjunction([compare("<=>", 0, 2), compare("<=>", 3, 4)]),
        lambda r: same(r[0], r[2]) and same(r[3], r[4]),
    ),
    "null-safe and not": (
        conjunction([compare("<=>", 0, 2), compare("=", 2, 4)]),
        lambda r: same(r[0], r[2]) and equal(r[2], r[4]),
    ),
    "ranges": (
        conjunction([compare("<=", 1, 3), compare("<", 3, plus(5, 1))]),
        lambda r: not less(r[3], r[1]) and less(r[3], None if r[5] is None else r[5] + 1) and r[1] is not None,
    ),
    "a key and a range": (
        conjunction([compare("=", 0, 2), compare(">=", 5, 3), compare("<=", 5, plus(3, 2))]),
        lambda r: equal(r[0], r[2]) and None not in (r[3], r[5]) and r[3] <= r[5] <= r[3] + 2,
    ),
    "one left alone": (
        conjunction([compare("=", 0, 2), compare("<>", 1, 3)]),
        lambda r: equal(r[0], r[2]) and None not in (r[1], r[3]) and r[1] != r[3],
    ),
    "a condition over all": (
        conjunction([CHAIN, compare("<", Call(BIGINT, "+", (column(1), column(5))), plus(2, 1))]),
        lambda r: equal(r[0], r[2]) and equal(r[3], r[4]) and None not in (r[1], r[5]) and r[1] + r[5] < r[2] + 1,
    ),
    "a condition on one": (
        conjunction([STAR, compare("<", 1, Literal(BIGINT, 1))]),
        lambda r: equal(r[0], r[2]) and equal(r[2], r[4]) and less(r[1], 1),
    ),
    "nothing": (conjunction([]), lambda r: True),
}


def clique(inputs: int) -> tuple[list[Schema], Expression]:
    """Every two inputs are joined by columns of their own, as in the paper's experiments."""
    schema: Schema = tuple(Field(f"x{n}", BIGINT) for n in range(inputs - 1))
    equalities = []
    for one, other in combinations(range(inputs), 2):
        equalities.append(compare("=", one * (inputs - 1) + other - 1, other * (inputs - 1) + one))
    return [schema] * inputs, conjunction(equalities)


def every_two_equal(count: int) -> Holds:
    """The same of a row of all inputs."""
    width = count - 1
    return lambda row: all(
        equal(row[one * width + other - 1], row[other * width + one]) for one, other in combinations(range(count), 2)
    )


@st.composite
def shapes(draw: st.DrawFn, inputs: Sequence[int]) -> Nesting:
    if len(inputs) == 1:
        return inputs[0]
    cut = draw(st.integers(1, len(inputs) - 1))
    return draw(shapes(inputs[:cut])), draw(shapes(inputs[cut:]))
