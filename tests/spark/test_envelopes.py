"""Rows as they travel between the tasks of a job: they come as they were sent, in fewer bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from millstream.engine.epochs.exchange import Envelope
from millstream.errors import EvaluationError
from millstream.kernel.batch import ARRIVAL, END, START, WEIGHT
from millstream.spark.envelopes import from_arrow, seal, to_arrow, unseal


def elements(count: int) -> pl.DataFrame:
    dice = np.random.default_rng(5)
    starts = np.sort(dice.integers(10**9, 10**9 + 10**6, count))
    return pl.DataFrame(
        {
            "c0": dice.integers(0, 50_000, count),
            "c1": dice.integers(0, 100, count).astype(np.int32),
            START: starts,
            END: starts + 1,
            WEIGHT: np.ones(count, np.int64),
            ARRIVAL: np.arange(count),
        }
    )


def values(count: int) -> pl.DataFrame:
    """Columns of all kinds, with NULLs, of which none follows from another."""
    dice = np.random.default_rng(6)
    return pl.DataFrame(
        {
            "c0": [None if n % 7 == 0 else f"text {n % 11}" for n in range(count)],
            "c1": pl.Series([None if n % 5 == 0 else n for n in range(count)], dtype=pl.Int64),
            "c2": dice.normal(size=count),
            "c3": [[n, None] for n in range(count)],
            START: dice.integers(-(2**62), 2**62, count),
        }
    )


@pytest.mark.parametrize("count", [1, 1_023, 5_000, 200_000])
@pytest.mark.parametrize("rows", [elements, values])
def test_rows_come_as_they_were_sent(rows: Callable[[int], pl.DataFrame], count: int) -> None:
    sent = rows(count)
    came = [unseal(sealed) for sealed in from_arrow(to_arrow(seal(Envelope("flow", 3, 2, sent))))]
    assert {(one.flow, one.shard, one.origin) for one in came} == {("flow", 3, 2)}
    pieces = [one.content for one in came if isinstance(one.content, pl.DataFrame)]
    assert_frame_equal(pl.concat(pieces), sent)


def test_elements_travel_in_a_third_of_their_bytes() -> None:
    """The ends, weights and arrival numbers of elements follow from what else is known of them."""
    sent = elements(100_000)
    travelling = sum(len(sealed.content) for sealed in seal(Envelope("flow", 0, 0, sent)))
    assert travelling < sent.estimated_size() / 3


def test_what_failed_travels_too() -> None:
    [sealed] = seal(Envelope("flow", 1, 0, EvaluationError("division by zero")))
    content = unseal(sealed).content
    assert isinstance(content, EvaluationError)
    assert content.primary == "division by zero"
