"""Windows by functions of users: intervals as they say, however elements are cut into steps."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from tests.kernel.windows.streams import SCHEMA, Stream, as_batch, check_window, streams
from tests.oracle.inputs import Element

from millstream.errors import EvaluationError
from millstream.kernel.batch import BORN
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.windows.time import Range, UserWindow
from millstream.kernel.windows.user_window import DefinedWindow


def range_4(values: pl.DataFrame, instants: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"start": instants, "end": instants + 5})


@given(stream=streams())
@settings(max_examples=40)
def test_a_range_as_a_function_is_that_range(stream: Stream) -> None:
    check_window(DefinedWindow(SCHEMA, UserWindow("range_4", range_4)), Range(4), stream)


def test_values_have_their_names_and_rows_are_generated_when_they_enter() -> None:
    def by_value(values: pl.DataFrame, instants: pl.Series) -> pl.DataFrame:
        return pl.DataFrame(
            {"row": [0, 0, 1], "start": instants[0] + values["v"][0] + pl.Series([0, 5, 9])}
        ).with_columns(end=pl.col("start") + 2)

    window = DefinedWindow(SCHEMA, UserWindow("by_value", by_value), born=True)
    found, _ = window.step([as_batch([Element(3, (0, 7), 0), Element(4, (1, 8), 1)])], NO_STATE, Progress((-1,), (4,)))
    assert found.select("c1", "_start", "_end", BORN).rows() == [(7, 10, 12, 10), (7, 15, 17, 15), (8, 19, 21, 19)]


def test_no_element_is_in_before_it_came() -> None:
    early = UserWindow("early", lambda values, instants: {"start": instants - 1, "end": instants + 1})
    with pytest.raises(EvaluationError, match="has an element of 3 begin at 2"):
        DefinedWindow(SCHEMA, early).step([as_batch([Element(3, (0, 7), 0)])], NO_STATE, Progress((-1,), (3,)))
