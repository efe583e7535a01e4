"""Consolidated synopses: segments are merged by size, and a row and its retraction cancel."""

from __future__ import annotations

import polars as pl

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.storage.synopsis import Consolidated


def test_three_segments_of_a_size_are_merged_but_a_retraction_meets_its_row_at_once() -> None:
    def rows(key: int, weight: int = 1) -> pl.DataFrame:
        columns = {"c0": [key], START: [0], END: [50], WEIGHT: [weight]}
        return pl.DataFrame({**columns, "_key": pl.Series([key], dtype=pl.UInt64)})

    two = Consolidated().retain(Consolidated().retain((), rows(2), 0, 0), rows(1), 0, 0)
    assert [segment.height for segment in two] == [1, 1]
    (three,) = Consolidated().retain(two, rows(3), 0, 0)
    assert three["c0"].to_list() == [1, 2, 3]
    (one,) = Consolidated().retain(two, rows(2, -1), 0, 0)
    assert one["c0"].to_list() == [1]
