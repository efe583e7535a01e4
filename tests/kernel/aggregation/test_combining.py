"""Rows that are put together before they are sent: an aggregate makes the same of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from tests.support.combining import combine_always

from millstream.kernel.aggregation.aggregate import Aggregate, AggregateCall
from millstream.kernel.aggregation.aggregate_calls import canonical, resolve_aggregate
from millstream.kernel.aggregation.combining import AggregateCombiner
from millstream.kernel.batch import END, INF, START, WEIGHT, Batch
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.types import BIGINT, DOUBLE, Field, Schema, decimal, to_polars

SCHEMA: Schema = tuple(
    Field(name, kind) for name, kind in (("k", BIGINT), ("v", BIGINT), ("x", DOUBLE), ("d", decimal(20, 2)))
)
SUMS = (("count", None), ("sum", 3), ("avg", 2), ("count", 2), ("stddev", 3), ("avg", 3))
WHOLE = (("count", None), ("avg", 1), ("var_pop", 1))
EXTREMES = (("min", 1), ("max", 1), ("max", 2))
BAGS = (("max", 2), ("sum", 3), ("min", 1))
ORDERED = (("first", 1), ("count", None))


def calls_of(wanted: tuple[tuple[str, int | None], ...], *, distinct: bool = False) -> tuple[AggregateCall, ...]:
    return tuple(
        AggregateCall(
            canonical(name), at, distinct, resolve_aggregate(name, None if at is None else SCHEMA[at].type, distinct)
        )
        for name, at in wanted
    )


def random_rows(seed: int, first: int, retractions: bool) -> Batch:
    """Rows of windows that slide: many start and end together. Sums of some of them do not fit into a BIGINT."""
    dice = np.random.default_rng(seed)
    count = int(dice.integers(0, 40))
    start = np.sort(dice.integers(first, first + 3, count)) * 5
    odd = dice.choice([0.1, 1e300, -0.0, np.nan, np.inf, 1e-300, 7.5], count)
    columns = {
        "c0": pl.Series(dice.integers(0, 3, count)),
        "c1": pl.Series(dice.choice([1, 2, 2**62, -(2**62), 5], count)),
        "c2": pl.Series(odd if seed % 2 else dice.random(count)),
        "c3": pl.Series(dice.integers(-(10**6), 10**6, count)).cast(to_polars(decimal(20, 2))),
    }
    columns = {
        name: column.set(pl.Series(dice.random(count) < 0.15), None) if count else column
        for name, column in columns.items()
    }
    weight = dice.choice([1, 1, 2], count)
    end = np.where(dice.random(count) < 0.1, INF, start + 10)
    times = {START: start, END: end, WEIGHT: weight}
    frame = pl.DataFrame({**columns, **{name: pl.Series(values, dtype=pl.Int64) for name, values in times.items()}})
    frame = frame.cast({f"c{place}": to_polars(field.type) for place, field in enumerate(SCHEMA)})
    taken_back = frame.filter(pl.Series(dice.random(count) < 0.2)).with_columns(pl.lit(-1, pl.Int64).alias(WEIGHT))
    return pl.concat([frame, taken_back]).sort(START, maintain_order=True) if retractions else frame


def sent(operator: Aggregate, parts: list[Batch], combined: set[int]) -> list[Batch]:
    """The inputs of a step, of which some parts were put together."""
    combiner = operator.combiner
    assert combiner is not None
    rows, sums = [parts[0].clear()], []
    for place, part in enumerate(parts):
        made = combiner.sums(part) if place in combined else None
        if made is not None:
            sums.append(made)
        else:
            rows.append(combiner.consolidated(part) if place in combined else part)
    return [pl.concat(rows), *([pl.concat(sums)] if sums else [])]


def shown(batch: Batch) -> list[str]:
    return sorted(map(repr, batch.rows()))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("keys", [(0,), (), (0, 2)])
@pytest.mark.parametrize(
    ("wanted", "retractions", "distinct"),
    [
        (SUMS, True, False),
        (WHOLE, True, False),
        (SUMS, False, False),
        (EXTREMES, False, False),
        (BAGS, True, False),
        (BAGS, False, False),
        (ORDERED, False, False),
        ((("count", 1), ("sum", 3)), True, True),
    ],
)
def test_what_is_put_together_means_the_same(
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    keys: tuple[int, ...],
    wanted: tuple[tuple[str, int | None], ...],
    retractions: bool,
    distinct: bool,
) -> None:
    combine_always(monkeypatch)
    operator = Aggregate(SCHEMA, keys, calls_of(wanted, distinct=distinct), retractions=retractions)
    states: list[State] = [NO_STATE, NO_STATE]
    for step in range(4):
        parts = [random_rows(100 * seed + 10 * step + task, step * 3, retractions) for task in range(3)]
        progress = Progress((step * 15 - 1,), (step * 15 + 14,))
        outputs = []
        for place, combined in enumerate((set[int](), {0, 1, 2} if seed % 3 else {1})):
            output, states[place] = operator.step(sent(operator, parts, combined), states[place], progress)
            outputs.append(shown(output))
        assert outputs[0] == outputs[1]


def test_totals_of_a_pane_are_one_row() -> None:
    operator = Aggregate(SCHEMA, (0,), calls_of((("count", None), ("sum", 3), ("avg", 2))))
    count = 10_000
    rows = pl.DataFrame(
        {
            "c0": np.arange(count) % 7,
            "c1": np.arange(count),
            "c2": np.full(count, 0.5),
            "c3": pl.Series(np.arange(count)).cast(to_polars(decimal(20, 2))),
            START: np.arange(count) // 1_000 * 60,
            END: np.arange(count) // 1_000 * 60 + 300,
            WEIGHT: np.ones(count, np.int64),
        }
    )
    combiner = operator.combiner
    assert isinstance(combiner, AggregateCombiner)
    made = combiner.sums(rows)
    assert made is not None
    assert made.height == 70
    assert combiner.layout is not None
    assert made.schema == combiner.layout.schema
    # Where each row has a start of its own there is nothing to put together, nor in a few rows.
    assert combiner.sums(rows.with_columns(pl.Series(START, np.arange(count)))) is None
    assert combiner.sums(rows[:500]) is None


def test_extremes_and_equal_rows_are_few() -> None:
    count = 6_000
    start = np.arange(count) // 1_000 * 60
    rows = pl.DataFrame(
        {
            "c0": np.arange(count) % 5,
            "c1": np.arange(count) * 7_919 % 4_001,
            "c2": np.arange(count) % 3 * 0.5,
            "c3": pl.Series(np.zeros(count, np.int64)).cast(to_polars(decimal(20, 2))),
            START: start,
            END: start + 300,
            WEIGHT: np.ones(count, np.int64),
        }
    )
    extremes = Aggregate(SCHEMA, (0,), calls_of((("min", 1), ("max", 1))), retractions=False).combiner
    assert extremes is not None
    assert extremes.layout is None
    assert extremes.consolidated(rows).height == 2 * 5 * 6
    counted = Aggregate(SCHEMA, (0,), calls_of((("max", 2), ("count", None)))).combiner
    assert counted is not None
    found = counted.consolidated(rows)
    assert found.height == 5 * 3 * 6
    assert found[WEIGHT].sum() == count
    distinct = Aggregate(SCHEMA, (0,), calls_of((("max", 1), ("count", None)))).combiner
    assert distinct is not None
    assert distinct.consolidated(rows) is rows  # hardly any are equal
