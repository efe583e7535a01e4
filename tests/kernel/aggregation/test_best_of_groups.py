"""The best value of groups of rows with weights: by counting, and by sorting where values lie far apart."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.extremes import best_of_groups, order_of
from millstream.types import BIGINT, INT


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("factor", [1, 10**7, 2**57, 2**59])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_what_is_there(function: str, factor: int, seed: int) -> None:
    random, groups = np.random.default_rng(seed), 5
    owner, weight = random.integers(0, groups - 1, 60), random.choice([1, 1, -1], 60)
    drawn = random.integers(-9, 9, 60)
    values = [None if value == 0 else int(value) * factor for value in drawn]
    found = best_of_groups(
        pl.Series(values, dtype=pl.Int64 if factor > 2**27 else pl.Int32),
        weight,
        owner,
        groups,
        order_of(AggregateCall(function, 0, False, BIGINT if factor > 2**27 else INT)),
    )
    for group in range(groups):
        copies: dict[int, int] = {}
        for value, of, times in zip(values, owner, weight, strict=True):
            if of == group and value is not None:
                copies[value] = copies.get(value, 0) + int(times)
        there = [value for value, count in copies.items() if count > 0]
        assert found[group] == ((min if function == "min" else max)(there) if there else None)
