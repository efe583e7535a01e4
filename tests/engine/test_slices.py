"""How large the slices of a backfill are."""

from __future__ import annotations

import pytest

from millstream.engine.history.slices import LARGEST_SLICE, SliceSize


def settled(fixed: float, by_row: float, allowed: float, slices: int = 40) -> SliceSize:
    size = SliceSize(20_000)
    for _ in range(slices):
        rows = int(size.rows)
        size.took(rows, fixed + by_row * rows, allowed)
    return size


def test_a_slice_takes_as_long_as_it_may() -> None:
    assert settled(0.0, 1e-6, 0.02).rows == pytest.approx(20_000, rel=0.01)
    assert settled(0.0, 1e-6, 0.5).rows == pytest.approx(500_000, rel=0.01)
    assert settled(0.005, 1e-6, 0.1).rows == pytest.approx(95_000, rel=0.05)


def test_a_slice_that_costs_much_without_rows_has_many() -> None:
    """State of many groups is read and written by each: there a slice of a thousand rows is no better than one of a
    hundred thousand."""
    assert settled(0.05, 1e-6, 0.02).rows == pytest.approx(200_000, rel=0.05)


def test_slices_follow_what_they_cost() -> None:
    size = settled(0.0, 1e-6, 0.02)
    for _ in range(30):
        rows = int(size.rows)
        size.took(rows, 1e-5 * rows, 0.02)
    assert size.rows == pytest.approx(2_000, rel=0.1)


def test_slices_have_bounds_and_what_is_cut_short_tells_nothing() -> None:
    assert settled(0.0, 1e-12, 1.0).rows == LARGEST_SLICE
    assert settled(0.0, 1.0, 0.02).rows == 1_000
    size = SliceSize(20_000)
    size.took(10, 0.001, 0.02)
    assert size.rows == 20_000
