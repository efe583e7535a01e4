"""Aggregates that are put together of parts: as one aggregate of all rows would be."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl
import pytest

from millstream.kernel.aggregation.accumulators import Accumulator
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.aggregation.combined import CombinedAggregate
from millstream.kernel.batch import END, INTERVAL_COLUMNS, START, WEIGHT, Batch, value_columns
from millstream.kernel.examples import Run, integers
from millstream.types import BIGINT

LAST = 12


def random_rows(seed: int, width: int, count: int, first: int) -> Batch:
    """Whole numbers from 0 to 3, that hold for some instants from `first` on."""
    random = np.random.default_rng(seed)
    values = {name: random.integers(0, 4, count) for name in value_columns(width)}
    start = random.integers(first, first + 3, count)
    times = {START: start, END: start + random.integers(1, 5, count), WEIGHT: random.integers(1, 3, count)}
    return pl.DataFrame({**values, **times}).cast(pl.Int64)


def held(rows: Batch, instant: int) -> list[tuple[int, ...]]:
    """The values of rows at an instant, as often as they are there."""
    found: dict[tuple[int, ...], int] = defaultdict(int)
    names = [name for name in rows.columns if name not in INTERVAL_COLUMNS]
    for row in rows.filter((pl.col(START) <= instant) & (pl.col(END) > instant)).iter_rows(named=True):
        found[tuple(row[name] for name in names)] += row[WEIGHT]
    return sorted(values for values, count in found.items() for _ in range(count))


def in_two_steps(run: Run, batches: list[Batch]) -> Batch:
    output = []
    for number, batch in enumerate(batches):
        run.step(batch, to=3 * number + 2)
        output.append(run.output)
    run.wait(to=LAST + 10)
    return pl.concat([*output, run.output])


@pytest.mark.parametrize("seed", range(5))
def test_parts_are_put_together(seed: int) -> None:
    """Each row has how many copies a part has, and their sum."""
    batches = [random_rows(10 * seed + number, 3, 30, 3 * number) for number in range(2)]
    calls = AggregateCall("count", None, False, BIGINT), AggregateCall("sum", 3, False, BIGINT)
    sums = {Accumulator("copies"): 1, Accumulator("count", 3): 1, Accumulator("sum", 3): 2}
    operator = CombinedAggregate(integers("k", "copies", "sum"), 1, integers("v"), calls, sums)
    made = in_two_steps(Run(operator), batches)
    for instant in range(LAST):
        copies: dict[int, int] = defaultdict(int)
        added: dict[int, int] = defaultdict(int)
        for key, count, value in held(pl.concat(batches), instant):
            copies[key] += count
            added[key] += value
        assert held(made, instant) == sorted((key, count, added[key]) for key, count in copies.items() if count)
