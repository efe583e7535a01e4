"""Consolidated synopses: segments are merged by size, and a row and its retraction cancel."""

from __future__ import annotations

import polars as pl
import pytest

from millstream.kernel import columns
from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.storage.synopsis import Consolidated


def rows(key: int, weight: int = 1, end: int = 50) -> pl.DataFrame:
    values = {"c0": [key], START: [0], END: [end], WEIGHT: [weight]}
    return pl.DataFrame({**values, "_key": pl.Series([key], dtype=pl.UInt64)})


def test_three_segments_of_a_size_are_merged_but_a_retraction_meets_its_row_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(columns, "_SMALL", 0)
    two = Consolidated().retain(Consolidated().retain((), rows(2), 0, 0), rows(1), 0, 0)
    assert [segment.height for segment in two] == [1, 1]
    (three,) = Consolidated().retain(two, rows(3), 0, 0)
    assert three["c0"].to_list() == [1, 2, 3]
    (one,) = Consolidated().retain(two, rows(2, -1), 0, 0)
    assert one["c0"].to_list() == [1]


def test_a_few_rows_are_one_segment_of_those_that_live() -> None:
    kept = Consolidated().retain((), rows(2), 0, 0)
    kept = Consolidated().retain(kept, rows(1, end=4), 0, 0)
    assert [segment["c0"].to_list() for segment in kept] == [[1, 2]]
    kept = Consolidated().retain(kept, rows(3), 4, 0)
    assert [segment["c0"].to_list() for segment in kept] == [[2, 3]]
    kept = Consolidated().retain(kept, rows(3, -1), 5, 4)
    assert [segment["c0"].to_list() for segment in kept] == [[2]]


def test_nothing_goes_before_a_segment_has_ended_as_a_whole() -> None:
    kept = Consolidated().retain((), rows(2), 0, 0)
    for horizon in (49, 50):
        assert Consolidated().lets_go(kept, horizon, 0) is (
            Consolidated().retain(kept, rows(0).clear(), horizon, 0) == ()
        )
