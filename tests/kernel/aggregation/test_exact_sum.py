"""Exact sums: what limbs hold, and that a result is rounded once, against Python's integers and fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernel.aggregation import exact_sum
from millstream.kernel.aggregation.exact_sum import Limbs

FINITE = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def values(limbs: Limbs) -> list[Fraction]:
    return [
        sum((int(part[i]) * Fraction(2) ** (32 * (limbs.low + j)) for j, part in enumerate(limbs.parts)), Fraction(0))
        for i in range(len(limbs))
    ]


def nearest(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def test_a_double_falls_into_neighbouring_limbs() -> None:
    limbs = exact_sum.from_doubles(np.array([1.0, 2.0**40 + 0.5, -0.25]))
    assert values(limbs) == [1, 2**40 + Fraction(1, 2), Fraction(-1, 4)]
    assert exact_sum.trimmed(limbs).low == -1  # fractions take one limb, whole numbers the others


def test_what_cancels_leaves_no_limbs() -> None:
    huge = exact_sum.cumulated(exact_sum.from_doubles(np.array([1e300, 3.0, -1e300])))
    assert exact_sum.to_doubles(huge).tolist() == [1e300, 1e300, 3.0]
    assert len(exact_sum.trimmed(huge.take(np.array([2]))).parts) == 1


def test_rounding_at_the_edges_of_doubles() -> None:
    half = exact_sum.from_integers(np.array([2**53 + 1, 2**53 + 3, 1, -1]))
    assert exact_sum.to_doubles(half).tolist() == [2.0**53, 2.0**53 + 4, 1.0, -1.0]
    tiny = exact_sum.from_doubles(np.array([5e-324, 5e-324, 1.5e-323, 2.0**-1022]))
    assert exact_sum.to_doubles(tiny, [np.array([2, 1, 2, 4])]).tolist() == [0.0, 5e-324, 1e-323, 2.0**-1024]
    assert (
        exact_sum.to_doubles(exact_sum.cumulated(exact_sum.from_doubles(np.array([1.7e308, 1.7e308]))))[1] == math.inf
    )


def test_integers_that_do_not_fit() -> None:
    edge = exact_sum.cumulated(exact_sum.from_integers(np.array([2**63 - 1, 1, -2, -(2**63 - 1), -(2**63)])))
    found, wrong = exact_sum.to_integers(edge)
    assert wrong.tolist() == [False, True, False, False, True]
    assert found[~wrong].tolist() == [2**63 - 1, 2**63 - 2, -1]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(FINITE, st.integers(1, 2**34), st.integers(1, 2**31)), min_size=1, max_size=8))
def test_sums_of_doubles_are_exact_and_quotients_rounded_once(rows: list[tuple[float, int, int]]) -> None:
    doubles, one, other = (np.array(column) for column in zip(*rows, strict=True))
    limbs = exact_sum.from_doubles(doubles)
    exact = [Fraction(x) for x, _, _ in rows]
    assert values(limbs) == exact
    assert values(exact_sum.squared(limbs)) == [x * x for x in exact]
    sums = exact_sum.cumulated(limbs)
    totals = [sum(exact[: i + 1], Fraction(0)) for i in range(len(exact))]
    assert values(sums) == values(exact_sum.normalized(sums)) == values(exact_sum.trimmed(sums)) == totals
    assert exact_sum.to_doubles(sums).tolist() == [nearest(total) for total in totals]
    quotients = [total / (a * b) for total, (_, a, b) in zip(totals, rows, strict=True)]
    try:
        expected = [quotient.numerator / quotient.denominator for quotient in quotients]
    except OverflowError:
        return
    assert exact_sum.to_doubles(sums, [one, other]).tolist() == expected


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(INTEGERS, INTEGERS, st.integers(1, 2**40)), min_size=1, max_size=8))
def test_weighted_sums_of_integers(rows: list[tuple[int, int, int]]) -> None:
    numbers, weights, divisors = (np.array(column) for column in zip(*rows, strict=True))
    sums = exact_sum.cumulated(exact_sum.multiplied(exact_sum.from_integers(numbers), weights))
    totals = [sum(x * w for x, w, _ in rows[: i + 1]) for i in range(len(rows))]
    assert values(sums) == totals
    found, wrong = exact_sum.to_integers(sums)
    fits = [-(2**63) <= total < 2**63 for total in totals]
    assert wrong.tolist() == [not fit for fit in fits]
    assert [total for total, fit in zip(totals, fits, strict=True) if fit] == found[~wrong].tolist()
    rounded = [(2 * abs(t) + d) // (2 * d) * (1 if t >= 0 else -1) for t, (_, _, d) in zip(totals, rows, strict=True)]
    assert values(exact_sum.divided(sums, divisors)) == rounded
    decimals, wide = exact_sum.to_decimals(sums, 38, 0)
    assert wide.tolist() == [abs(total) >= 10**38 for total in totals]
    assert [int(x) for x, bad in zip(decimals, wide, strict=True) if not bad] == [t for t in totals if abs(t) < 10**38]
    codes = np.arange(len(rows)) % 3
    per_code = exact_sum.grouped(exact_sum.multiplied(exact_sum.from_integers(numbers), weights), codes, 3)
    assert values(per_code) == [sum(x * w for x, w, _ in rows[code::3]) for code in range(3)]
    ones = exact_sum.from_integers(np.ones(len(rows), np.int64))
    assert values(exact_sum.grouped(ones, codes, 3)) == [len(rows[code::3]) for code in range(3)]
    assert values(exact_sum.multiplied(sums, np.ones(len(rows), np.int64))) == totals


@settings(max_examples=50, deadline=None)
@given(st.lists(st.decimals(-(10**30), 10**30, places=4), min_size=1, max_size=6))
def test_decimals_keep_their_digits(numbers: list[Decimal]) -> None:
    column = pl.Series(numbers, dtype=pl.Decimal(38, 4))
    limbs = exact_sum.from_decimals(column)
    assert values(limbs) == [Fraction(number) * 10**4 for number in numbers]
    again, wrong = exact_sum.to_decimals(limbs, 38, 4)
    assert again.to_list() == numbers
    assert not wrong.any()
