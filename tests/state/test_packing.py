"""Frames that are kept in fewer bytes are the same when they are read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from millstream.state.packing import packed, unpacked

ROWS = 2_000
KINDS = ("constant", "numbers", "narrow", "int", "small int", "extremes", "nulls", "almost constant", "text")


def column(kind: str, seed: int) -> pl.Series:
    dice = np.random.default_rng(seed)
    if kind == "constant":
        return pl.Series(np.full(ROWS, dice.integers(-5, 5)))
    if kind == "numbers":
        return pl.Series(dice.integers(-(2**63), 2**63 - 1, ROWS))
    if kind == "narrow":
        return pl.Series(dice.integers(0, 2 ** int(dice.integers(1, 34)), ROWS) - int(dice.integers(0, 2**62)))
    if kind == "int":
        return pl.Series(dice.integers(-(2**31), 2 ** int(dice.integers(0, 31)), ROWS), dtype=pl.Int32)
    if kind == "small int":
        return pl.Series(2**31 - 1 - dice.integers(0, 2 ** int(dice.integers(1, 17)), ROWS), dtype=pl.Int32)
    if kind == "extremes":
        return pl.Series(np.r_[np.full(ROWS - 1, -(2**63)), 2**63 - 1])
    if kind == "nulls":
        return pl.Series([None, *range(1, ROWS)], dtype=pl.Int64)
    if kind == "almost constant":
        return pl.Series(np.r_[np.zeros(ROWS - 1, np.int64), 1])
    return pl.Series([f"text {n}" for n in range(ROWS)])


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 2)),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**63), 2**63 - 1)), max_size=3),
)
def test_a_frame_comes_back(kinds: list[tuple[str, int]], shifted: list[tuple[int, int]]) -> None:
    columns = [column(*kind) for kind in kinds]
    for place, by in shifted:
        other = columns[place % len(columns)]
        if other.dtype == pl.Int64 and not other.null_count():
            columns.append(pl.Series(other.to_numpy() + np.int64(by)))
    frame = pl.DataFrame([series.alias(f"c{place}") for place, series in enumerate(columns)])
    assert_frame_equal(unpacked(packed(frame)), frame)


def test_numbers_that_lie_close_together_take_few_bytes() -> None:
    numbers = np.random.default_rng(1).integers(2**60, 2**60 + 60_000, ROWS)
    frame = pl.DataFrame({"a": numbers, "b": numbers % 200, "c": pl.Series(numbers % 70_000, dtype=pl.Int32)})
    assert [str(kind) for kind in packed(frame).schema.types] == ["uint16", "uint8", "int32"]
    assert_frame_equal(unpacked(packed(frame)), frame)


def test_elements_are_kept_as_values_and_nothing_else() -> None:
    stamps = np.random.default_rng(1).integers(0, 1_000, ROWS)
    frame = pl.DataFrame({"c0": stamps, "_start": stamps, "_end": stamps + 1, "_weight": np.ones(ROWS, np.int64)})
    assert packed(frame).column_names == ["c0"]
    assert_frame_equal(unpacked(packed(frame)), frame)


@pytest.mark.parametrize("height", [0, 1, 1_023, 1_024])
def test_frames_of_any_height(height: int) -> None:
    frame = pl.DataFrame({"a": np.ones(height, np.int64), "b": np.ones(height, np.int64)})
    assert_frame_equal(unpacked(packed(frame)), frame)
