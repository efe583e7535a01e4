"""Rows with numbers: a retraction finds its row, and both are forgotten together."""

from __future__ import annotations

import polars as pl
import pytest

from millstream.kernel.batch import ARRIVAL, END, INF, START, WEIGHT
from millstream.kernel.keys import KEY
from millstream.kernel.operator import Segment
from millstream.kernel.storage.identified import Identified, completed


def segment(*rows: tuple[int, str | None, int, int, int]) -> Segment:
    """Rows of a number, a text, start, end and weight; the key is the number."""
    frame = pl.DataFrame(rows, [ARRIVAL, "c0", START, END, WEIGHT], orient="row")
    schema = {ARRIVAL: pl.Int64, "c0": pl.String, START: pl.Int64, END: pl.Int64, WEIGHT: pl.Int64}
    return frame.cast(schema).with_columns(pl.col(ARRIVAL).cast(pl.UInt64).alias(KEY)).sort(KEY)  # type: ignore[arg-type]


def test_retractions_have_the_texts_of_the_rows_that_they_take_back() -> None:
    stored = segment((1, "one", 0, INF, 1), (4, None, 0, INF, 1)), segment((7, "seven", 2, INF, 1))
    arrived = segment((7, None, 5, INF, -1), (8, "eight", 5, INF, 1), (1, None, 5, INF, -1), (4, None, 5, INF, -1))
    found = completed(arrived, stored, ["c0"])
    assert dict(zip(found[ARRIVAL], found["c0"], strict=True)) == {1: "one", 4: None, 7: "seven", 8: "eight"}
    assert found.drop("c0").equals(arrived.drop("c0"))


def test_what_comes_to_stay_is_left_as_it_is() -> None:
    arrived = segment((8, "eight", 5, INF, 1))
    assert completed(arrived, (), ["c0"]) is arrived


def test_a_row_that_is_not_there_cannot_be_taken_back() -> None:
    with pytest.raises(AssertionError, match="not there"):
        completed(segment((8, None, 5, INF, -1)), (segment((1, "one", 0, INF, 1)),), ["c0"])


def test_a_row_goes_with_its_retraction_once_nothing_comes_before_that() -> None:
    stored = (segment((1, "one", 0, INF, 1), (2, "two", 0, INF, 1)),)
    kept = Identified().retain(stored, segment((1, "one", 5, INF, -1)), horizon=4, before=4)
    assert sum(part.height for part in kept) == 3
    kept = Identified().retain(kept, segment((3, "three", 6, INF, 1)), horizon=6, before=4)
    assert sorted(number for part in kept for number in part[ARRIVAL]) == [2, 3]


def test_rows_that_stay_until_further_notice_are_kept_though_no_partner_comes_any_more() -> None:
    kept = Identified().retain((), segment((1, "one", 0, INF, 1), (2, "two", 0, 9, 1)), horizon=INF, before=0)
    assert [number for part in kept for number in part[ARRIVAL]] == [1]
