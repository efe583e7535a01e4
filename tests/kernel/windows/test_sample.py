"""SAMPLE tosses the oracle's coin, whatever else is in the batch."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest
from tests.oracle.sampling import derived_key, kept

from millstream.kernel.batch import ARRIVAL, END, START, WEIGHT
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.windows.sample import Sample
from millstream.types import BIGINT, Field, Schema

SCHEMA: Schema = (Field("v", BIGINT),)
COUNT = 300


def elements() -> pl.DataFrame:
    starts = [n // 3 for n in range(COUNT)]
    ends = [start + 1 for start in starts]
    return pl.DataFrame({"c0": range(COUNT), START: starts, END: ends, WEIGHT: [1] * COUNT, ARRIVAL: range(COUNT)})


def sampled(operator: Sample, batch: pl.DataFrame) -> list[int]:
    output, state = operator.step([batch], NO_STATE, Progress((-1,), (COUNT,)))
    assert state == NO_STATE
    return output["c0"].to_list()


@pytest.mark.parametrize("percent", [0, 1, 37.5, 100])
@pytest.mark.parametrize("seed", [0, -1, 7])
def test_the_coin_is_that_of_the_oracle(percent: float, seed: int) -> None:
    found = sampled(Sample(SCHEMA, percent, seed, derived=False), elements())
    assert found == [n for n in range(COUNT) if kept(n, Fraction(percent), seed)]


def test_of_a_derived_stream_the_coin_is_tossed_by_instant_and_place() -> None:
    batch = elements().with_columns(pl.col(ARRIVAL) % 3)
    found = sampled(Sample(SCHEMA, 30, 5, derived=True), batch)
    assert found == [n for n in range(COUNT) if kept(derived_key(n // 3, n % 3), Fraction(30), 5)]


def test_the_batch_does_not_matter() -> None:
    operator, batch = Sample(SCHEMA, 50, 1, derived=False), elements()
    assert sampled(operator, batch) == sampled(operator, batch[:100]) + sampled(operator, batch[100:])
