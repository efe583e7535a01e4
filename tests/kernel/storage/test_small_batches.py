"""Small batches take ways of their own, with the answers of large ones; and steps that are left out change nothing.

Every operator is run over the same random steps twice: once with all batches taken for small ones, once with none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.kernel import columns
from millstream.kernel.aggregation.aggregate import Aggregate
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.batch import ARRIVAL, INF, INTERVAL_COLUMNS, Batch, batch_schema, net_changes, value_columns
from millstream.kernel.joins.existence import ExistenceJoin
from millstream.kernel.joins.pairwise import InnerJoin, NonRetroactiveJoin
from millstream.kernel.keys import first_of_equal
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.relational.linear import UnionAll
from millstream.kernel.relational.multiplicity import DirectMultiplicity, DistinctStar, Multiplicity, SetOperation
from millstream.kernel.scalar.evaluate import select_attempted
from millstream.kernel.scalar.expressions import Call, Column, Expression, Literal
from millstream.kernel.storage.expiry_groups import ExpiryGrouped, Fifo
from millstream.kernel.storage.synopsis import Consolidated
from millstream.kernel.windows.rows import RowsWindow
from millstream.kernel.windows.streams import ChangeStream
from millstream.kernel.windows.time import Rows
from millstream.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Field

SCHEMA = (Field("k", STRING), Field("a", BIGINT), Field("x", DOUBLE))
KEYS = (None, "", "a", "ab", "a\x00", "überlang" * 3)
NUMBERS = (None, 0, 1, 2, -(2**62), 2**62)
DOUBLES = (None, 0.0, -0.0, 1.5, float("nan"), float("-inf"))
LAST = 12  # instant


CALLS = (
    AggregateCall("count", None, False, BIGINT),
    AggregateCall("max", 1, False, BIGINT),
    AggregateCall("min", 2, False, DOUBLE),
    AggregateCall("count", 1, False, BIGINT),
    AggregateCall("last", 1, False, BIGINT),
)
NUMBERED = (Field("a", BIGINT), Field("b", BIGINT))
GROUPED, FIFO = ExpiryGrouped(span=6, groups=2, lazy=2), Fifo(span=6, groups=2, lazy=2)
ALL_EQUAL = Call(
    BOOLEAN,
    "and",
    tuple(Call(BOOLEAN, "=", (Column(STRING, at, "k"), Column(STRING, at + 3, "k"))) for at in (0, 3)),
)


def existence(presence: Multiplicity | DistinctStar, *, negated: bool) -> ExistenceJoin:
    return ExistenceJoin(SCHEMA, presence, (0,), (False,), Consolidated(), negated=negated)


OPERATORS: dict[str, tuple[Callable[[], Operator], int, bool]] = {
    # with the number of inputs, and whether rows may be taken back
    "aggregate": (lambda: Aggregate(SCHEMA, (0,), CALLS, retractions=False), 1, False),
    "aggregate by two": (lambda: Aggregate(SCHEMA, (0, 2), CALLS[:4]), 1, True),
    "aggregate of all": (lambda: Aggregate(SCHEMA, (), CALLS[:3], retractions=False), 1, False),
    "aggregate with retractions": (lambda: Aggregate(SCHEMA, (2,), CALLS[:4]), 1, True),
    "only max": (lambda: Aggregate(SCHEMA, (0,), CALLS[1:2], retractions=False), 1, False),
    "distinct": (lambda: Multiplicity(SCHEMA, SetOperation.DISTINCT), 1, True),
    "except all": (lambda: Multiplicity(SCHEMA, SetOperation.EXCEPT_ALL), 2, True),
    "except said ahead": (lambda: DirectMultiplicity(SCHEMA, SetOperation.EXCEPT), 2, True),
    "distinct star": (lambda: DistinctStar(SCHEMA), 1, False),
    "istream": (lambda: ChangeStream(SCHEMA, "istream"), 1, True),
    "dstream": (lambda: ChangeStream(SCHEMA, "dstream"), 1, True),
    "rows": (lambda: RowsWindow(SCHEMA, Rows(3)), 1, False),
    "rows by partition": (lambda: RowsWindow(SCHEMA, Rows(2, 2, (0, 2))), 1, False),
    "join": (lambda: InnerJoin(SCHEMA, SCHEMA, ((0, 0), (2, 2))), 2, True),
    "join by a number": (lambda: InnerJoin(SCHEMA[1:], SCHEMA[1:], ((0, 0),)), 2, True),
    "join of numbers": (lambda: InnerJoin(NUMBERED, NUMBERED, ((0, 0),)), 2, True),
    "join by expiry groups": (lambda: InnerJoin(SCHEMA, SCHEMA, ((0, 0),), synopses=(GROUPED, GROUPED)), 2, False),
    "join first in first out": (lambda: InnerJoin(SCHEMA, SCHEMA, ((0, 0),), synopses=(FIFO, FIFO)), 2, False),
    "join with a table": (lambda: NonRetroactiveJoin(SCHEMA, SCHEMA, ((0, 0),)), 2, True),
    "join of three": (lambda: StemJoin([SCHEMA] * 3, ALL_EQUAL), 3, True),
    "exists": (lambda: existence(Multiplicity(SCHEMA[:1], SetOperation.DISTINCT), negated=False), 2, True),
    "not exists": (lambda: existence(Multiplicity(SCHEMA[:1], SetOperation.DISTINCT), negated=True), 2, True),
    "not exists, foretold": (lambda: existence(DistinctStar(SCHEMA[:1]), negated=True), 2, False),
    "union": (lambda: UnionAll(SCHEMA), 2, True),
}
SEEDS = st.integers(0, 2**32)


@contextmanager
def small_up_to(rows: int) -> Iterator[None]:
    before, columns._SMALL = columns._SMALL, rows
    try:
        yield
    finally:
        columns._SMALL = before


def rows_between(dice: random.Random, first: int, count: int, *, of_window: bool) -> Batch:
    """Rows that start at or after an instant; elements where a window is to be made of them."""
    found = []
    for number in range(count):
        start = dice.randint(first, first + 3)
        end = start + 1 if of_window else dice.choice([start + dice.randint(1, 5), INF])
        values = dice.choice(KEYS), dice.choice(NUMBERS), dice.choice(DOUBLES)
        found.append((*values, start, end, 1, first * 100 + number))
    return pl.DataFrame(found, schema=batch_schema(SCHEMA, arrival=True), orient="row")


def taken_back(dice: random.Random, before: Sequence[Batch], first: int) -> Batch:
    """From an instant on, some of the rows that would have lasted longer."""
    rows = [row for batch in before for row in batch.rows() if row[4] > first and row[5] > 0]
    chosen = dice.sample(rows, min(len(rows), 2))
    back = [(*row[:3], max(row[3], first), row[4], -1, row[6]) for row in chosen]
    return pl.DataFrame(back, schema=batch_schema(SCHEMA, arrival=True), orient="row")


Step = tuple[list[Batch], Progress]


def columns_of(operator: Operator, batch: Batch) -> Batch:
    """What an operator reads of the rows: numbers alone, where it is of numbers, and without NULL."""
    if not isinstance(operator, InnerJoin) or operator.schemas[0] == SCHEMA:
        return batch
    if operator.schemas[0] == NUMBERED:
        values = pl.col("c1").fill_null(0).alias("c0"), (pl.col(ARRIVAL) % 3).alias("c1")
        return batch.select(*values, *INTERVAL_COLUMNS)
    return batch.select(pl.col("c1").alias("c0"), pl.col("c2").alias("c1"), *INTERVAL_COLUMNS)


def steps_of(name: str, seed: int) -> list[Step]:
    _, inputs, retractions = OPERATORS[name]
    dice, found, low = random.Random(seed), list[Step](), -1
    given: list[list[Batch]] = [[] for _ in range(inputs)]
    for _ in range(5):
        batches = []
        for side in given:
            batch = rows_between(dice, low + 1, dice.choice([0, 1, 6]), of_window=name.startswith("rows"))
            if retractions and side and dice.random() < 0.5:
                batch = pl.concat([batch, taken_back(dice, side, low + 1)])
            side.append(batch)
            batches.append(batch)
        after = low + dice.randint(0, 4)
        found.append((batches, Progress((low,) * inputs, (after,) * inputs)))
        low = after
    return found


def sizes(state: State) -> dict[str, list[pl.DataFrame]]:
    return {name: list(segments) for name, segments in state.items() if segments}


def run(operator: Operator, steps: Sequence[Step]) -> list[Counter[tuple[object, ...]]]:
    """After each step, how often each row is there at each instant, by all that was said."""
    state, said, found = NO_STATE, list[Batch](), list[Counter[tuple[object, ...]]]()
    for given_batches, progress in steps:
        batches = [columns_of(operator, batch) for batch in given_batches]
        rests = not any(batch.height for batch in batches) and operator.is_idle(state, progress)
        output, after = operator.step(batches, state, progress)
        if rests:
            assert not output.height
            assert all(
                len(kept) == len(segments) and all(a.equals(b) for a, b in zip(kept, segments, strict=True))
                for kept, segments in zip(sizes(after).values(), sizes(state).values(), strict=True)
            )
        state = after
        said.append(output)
        found.append(content(said, operator))
    return found


def content(said: Sequence[Batch], operator: Operator) -> Counter[tuple[object, ...]]:
    counts: Counter[tuple[object, ...]] = Counter()
    for batch in said:
        for row in batch.select(*value_columns(len(operator.schema)), "_start", "_end", "_weight").rows():
            *values, start, end, weight = row
            shown = tuple("nan" if value != value else value for value in values)
            for instant in range(start, min(end, LAST + 20)):
                counts[(*shown, instant)] += weight
    return Counter({key: count for key, count in counts.items() if count})


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_small_and_large_batches_have_the_same_answers(name: str, seed: int) -> None:
    make, steps = OPERATORS[name][0], steps_of(name, seed)
    with small_up_to(1 << 30):
        small = run(make(), steps)
    with small_up_to(0):
        large = run(make(), steps)
    assert small == large


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_state_is_understood_by_both(name: str, seed: int) -> None:
    """A step may be small, and the next one not."""
    make, steps = OPERATORS[name][0], steps_of(name, seed)
    with small_up_to(6):
        mixed = run(make(), steps)
    with small_up_to(0):
        assert mixed == run(make(), steps)


@given(seed=SEEDS, rows=st.integers(0, 30))
def test_equal_rows_have_the_same_first_one(seed: int, rows: int) -> None:
    batch = rows_between(random.Random(seed), 0, rows, of_window=True)
    names = value_columns(len(SCHEMA))
    with small_up_to(1 << 30):
        small = first_of_equal(batch, names)
    with small_up_to(0):
        assert small.tolist() == first_of_equal(batch, names).tolist()


@given(seed=SEEDS, rows=st.integers(0, 30))
def test_change_points_are_summed_alike(seed: int, rows: int) -> None:
    points = rows_between(random.Random(seed), 0, rows, of_window=True).drop("_end", ARRIVAL)
    points = points.with_columns(pl.Series("_weight", np.resize([1, -1, 2], rows), pl.Int64))
    names = value_columns(len(SCHEMA))

    def summed() -> Counter[tuple[object, ...]]:
        return Counter(str(row) for row in net_changes(points, names).with_columns(pl.col("c2") + 1).rows())  # type: ignore[misc]

    with small_up_to(1 << 30):
        small = summed()
    with small_up_to(0):
        assert small == summed()


COLUMNS = [Column(BIGINT, 1, "a"), Column(INT, 3, "b")]


@st.composite
def conditions(draw: st.DrawFn, deep: int = 3) -> Expression:
    if deep and draw(st.booleans()):
        arguments = draw(conditions(deep - 1)), draw(conditions(deep - 1))
        return Call(BOOLEAN, draw(st.sampled_from(["and", "or"])), arguments)
    column, function = draw(st.sampled_from(COLUMNS)), draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    sides = column, Literal(column.type, draw(st.integers(-2, 2)))
    return Call(BOOLEAN, function, sides if draw(st.booleans()) else sides[::-1])


@given(conditions(), SEEDS, st.booleans())
def test_comparisons_select_the_same_rows(condition: Expression, seed: int, nulls: bool) -> None:
    dice = random.Random(seed)
    choices = [-2, -1, 0, 1, 2, *([None] if nulls else [])]
    frame = pl.DataFrame(
        {
            "c1": pl.Series([dice.choice(choices) for _ in range(8)], dtype=pl.Int64),
            "c3": pl.Series([dice.choice(choices) for _ in range(8)], dtype=pl.Int32),
        }
    )
    with small_up_to(1 << 30):
        small = select_attempted(frame, condition)
    with small_up_to(0):
        assert small.rows() == select_attempted(frame, condition).rows()


def test_frames_are_put_together_by_column() -> None:
    frames = [pl.DataFrame({"a": [1, None], "b": ["x", "y"]}), pl.DataFrame({"b": ["z"], "a": [3], "c": [0.5]})]
    found = columns.stacked_diagonally(frames)
    assert found.rows() == [(1, "x", None), (None, "y", None), (3, "z", 0.5)]
    assert columns.take(found, np.array([2, 0])).rows() == [(3, "z", 0.5), (1, "x", None)]
    assert columns.only(found, np.array([True, False, True])).rows() == [(1, "x", None), (3, "z", 0.5)]


def test_only_one_zero_is_left() -> None:
    for values in ([-0.0, 0.0, 2.5, float("nan")], [-0.0, None, 1.0]):
        found = columns.one_zero(pl.Series("x", values))
        assert "-0.0" not in map(str, found)
        assert found.null_count() == sum(value is None for value in values)
