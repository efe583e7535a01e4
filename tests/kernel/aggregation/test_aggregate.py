"""GROUP BY and aggregates: cases that a reader learns from."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.kernel.aggregation.aggregates import (
    SCHEMA,
    B,
    D,
    K,
    Midrange,
    N,
    Parity,
    Runner,
    S,
    X,
    batch,
    call,
    comparable,
    row,
    simple,
)

from millstream import errors
from millstream.kernel.aggregation import sorted_runs
from millstream.kernel.aggregation.aggregate import Aggregate, AggregateCall, resolve_aggregate
from millstream.kernel.aggregation.group_table import GROUP, GroupTable
from millstream.kernel.batch import END, INF, START, WEIGHT
from millstream.kernel.operator import NO_STATE, Progress
from millstream.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    DataType,
    Field,
    Schema,
    decimal,
)


def test_a_group_is_replaced_when_its_value_changes() -> None:
    run = simple([call("count"), call("sum", N)], (K,))
    # Two rows of [RANGE 4]: they overlap from 3 to 5.
    out = run.step(batch([(*row("a", 10), 1, 6, 1), (*row("a", 5), 3, 8, 1)]), 3)
    assert out == [("a", 1, 10, 1, 3, 1), ("a", 2, 15, 3, INF, 1)]
    # Time passes and nothing arrives: the first row ends.
    assert run.step(batch([]), 6) == [("a", 1, 5, 6, INF, 1), ("a", 2, 15, 6, INF, -1)]
    # An emptied group goes away, and leaves nothing behind.
    assert run.step(batch([]), 8) == [("a", 1, 5, 8, INF, -1)]
    assert run.rows_held() == 1  # the number that the next group will get


def test_equal_values_emit_nothing() -> None:
    run = simple([call("max", N)], (K,))
    run.step(batch([(*row("a", 7), 1, INF, 1)]), 1)
    assert run.step(batch([(*row("a", 3), 2, INF, 1), (*row("a", 7), 3, INF, 1)]), 5) == []
    # One of two copies of the maximum goes: still 7. A row that leaves as an equal one enters: still 7.
    assert run.step(batch([(*row("a", 7), 6, INF, -1)]), 6) == []
    assert run.step(batch([(*row("a", 7), 7, INF, -1), (*row("a", 7), 7, INF, 1)]), 7) == []
    assert run.step(batch([(*row("a", 7), 8, INF, -1)]), 8) == [("a", 3, 8, INF, 1), ("a", 7, 8, INF, -1)]


def test_without_keys_the_empty_group_is_there_from_instant_0() -> None:
    run = simple([call("count"), call("sum", N), call("max", N), call("every", B)])
    assert run.step(batch([]), -1) == []
    assert run.step(batch([(*row(None, 4), 3, 5, 1)]), 2) == [(0, None, None, None, 0, INF, 1)]
    assert run.step(batch([]), 9) == [
        (0, None, None, None, 3, INF, -1),
        (0, None, None, None, 5, INF, 1),
        (1, 4, 4, None, 3, 5, 1),
    ]
    run = simple([call("count")])
    assert run.step(batch([(*row(), 0, INF, 1)]), 0) == [(1, 0, INF, 1)]


def test_null_is_a_group_and_null_arguments_are_left_out() -> None:
    run = simple([call("count"), call("count", N), call("avg", N)], (K,))
    out = run.step(batch([(*row(None, None), 1, INF, 1), (*row(None, 3), 1, INF, 1), (*row("a"), 1, INF, 1)]), 1)
    assert out == [("a", 1, 0, None, 1, INF, 1), (None, 2, 1, 3.0, 1, INF, 1)]


def test_only_what_is_final_is_said() -> None:
    run = simple([call("count")], (K,))
    assert run.step(batch([(*row("a"), 5, 9, 2)]), 4) == []
    assert run.step(batch([(*row("a"), 6, INF, 1)]), 5) == [("a", 2, 5, INF, 1)]
    assert run.step(batch([]), 20) == [("a", 1, 9, INF, 1), ("a", 2, 6, INF, -1), ("a", 3, 6, 9, 1)]


def test_first_and_last_are_by_time_then_arrival_or_value() -> None:
    calls = [call("first", S), call("last", S)]

    def elements(*rows: tuple[str | None, int, int]) -> list[tuple[Any, ...]]:
        return [("a", None, None, None, s, None, start, end, 1) for s, start, end in rows]

    run = simple(calls, (K,))
    run.step(batch(elements(("late", 3, 20), ("early", 2, 10), (None, 3, 20))), 30)
    assert run.at(2) == {("a", "early", "early"): 1}
    assert run.at(3) == {("a", "early", "late"): 1}
    assert run.at(10) == {("a", None, "late"): 1}  # NULL comes first among equals
    run = simple(calls, (K,))
    arrived = [(*values, number) for number, values in enumerate(elements(("z", 2, 9), ("a", 2, 9)))]
    run.step(batch(arrived, arrival=True), 30)
    assert run.at(2) == {("a", "z", "a"): 1}


def test_sum_overflows_only_where_it_is_looked_at() -> None:
    big = 2**63 - 1
    run = simple([call("sum", N)])
    rows = [(*row(None, big), 1, INF, 1), (*row(None, big), 2, INF, 1), (*row(None, big), 2, INF, -1)]
    run.step(batch(rows), 2)
    assert run.at(2) == {(big,): 1}
    with pytest.raises(errors.EvaluationError, match=r"sum\(i\) does not fit into BIGINT"):
        run.step(batch([(*row(None, 1), 3, INF, 1)]), 3)


def test_floating_sums_do_not_remember_how_they_came_about() -> None:
    run = simple([call("sum", X), call("avg", X), call("stddev", X)])
    run.step(batch([(*row(None, None, 0.1), 1, INF, 1), (*row(None, None, 0.2), 1, INF, 1)]), 1)
    before = run.at(1)
    # Numbers that swallow the others, and some that are not even numbers, come and go.
    run.step(batch([(*row(None, None, value), 2, 3, 1) for value in (1e300, -1e-300, math.inf, math.nan)]), 2)
    assert run.at(2) == {("nan", "nan", "nan"): 1}
    run.step(batch([]), 3)
    assert run.at(3) == before
    # 0.1 + 0.2 + 0.3 - 0.3 is not 0.1 + 0.2 in doubles; here nothing changes where a row is replaced by an equal one.
    run.step(batch([(*row(None, None, 0.3), 4, 5, 1)]), 4)
    run.step(batch([]), 5)
    assert run.at(5) == before


def test_single_value() -> None:
    run = simple([call("single_value", S)])
    one = (None, None, None, None, "v", None)
    run.step(batch([(*one, 2, 5, 1), (*one, 5, 7, 1)]), 6)
    assert [run.at(t) for t in (1, 2, 5)] == [{(None,): 1}, {("v",): 1}, {("v",): 1}]
    with pytest.raises(errors.EvaluationError, match="scalar subquery returned more than one row"):
        run.step(batch([(*one, 7, 9, 1), (*one, 8, 9, 1)]), 8)


def test_user_defined_aggregates() -> None:
    calls = [
        AggregateCall("midrange", N, False, DOUBLE, Midrange),
        AggregateCall("parity", N, False, BIGINT, Parity),
    ]
    run = simple(calls, (K,))
    run.step(batch([(*row("a", 1), 1, INF, 1), (*row("a", 5), 2, 4, 1)]), 2)
    run.step(batch([(*row("a", 1), 5, INF, -1), (*row("a", 8), 3, INF, 2)]), 6)
    assert [run.at(t) for t in (1, 2, 3, 4, 5)] == [
        {("a", "1.0", 1): 1},
        {("a", "3.0", 2): 1},
        {("a", "4.5", 2): 1},
        {("a", "4.5", 1): 1},
        {("a", "8.0", 0): 1},
    ]


def test_a_failing_user_defined_aggregate_is_named() -> None:
    class Broken(Parity):
        def terminate(self, state: int) -> int:
            raise KeyError("oops")

    run = simple([AggregateCall("broken", N, False, BIGINT, Broken)])
    with pytest.raises(errors.EvaluationError, match=r"broken\(i\) failed"):
        run.step(batch([]), 1)


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        ("count", STRING, BIGINT),
        ("sum", INT, BIGINT),
        ("sum", decimal(10, 2), decimal(20, 2)),
        ("sum", decimal(38, 2), decimal(38, 2)),
        ("sum", FLOAT, DOUBLE),
        ("sum", NULL, DOUBLE),
        ("sum", INTERVAL, INTERVAL),
        ("avg", BIGINT, DOUBLE),
        ("avg", decimal(10, 2), decimal(14, 6)),
        ("stddev_samp", INT, DOUBLE),
        ("bool_or", BOOLEAN, BOOLEAN),
        ("count_if", BOOLEAN, BIGINT),
        ("MIN", STRING, STRING),
    ],
)
def test_result_types_are_those_of_spark(function: str, argument: DataType, result: DataType) -> None:
    assert resolve_aggregate(function, argument, False) == result


def test_wrong_calls_say_what_is_wrong() -> None:
    with pytest.raises(errors.NameError, match="summ"):
        resolve_aggregate("summ", INT, False)
    with pytest.raises(errors.TypeError, match="sum takes a number, not STRING"):
        resolve_aggregate("sum", STRING, False)
    with pytest.raises(errors.TypeError, match="every takes a BOOLEAN"):
        resolve_aggregate("every", INT, False)
    with pytest.raises(errors.TypeError, match=r"max\(\*\) has no meaning"):
        resolve_aggregate("max", None, False)


def test_every_type_can_be_a_key_and_have_a_least_value() -> None:
    day, instant = datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    values: dict[DataType, tuple[Any, Any]] = {
        SMALLINT: (-3, 7),
        FLOAT: (-0.5, math.nan),
        BINARY: (b"", b"\xff"),
        DATE: (day, day + datetime.timedelta(1)),
        TIMESTAMP: (instant, instant + datetime.timedelta(1)),
        INTERVAL: (datetime.timedelta(-1), datetime.timedelta(1)),
        BOOLEAN: (False, True),
        decimal(38, 0): (Decimal(-(10**37)), Decimal(10**37)),
        NULL: (None, None),
    }
    for kind, (less, more) in values.items():
        schema: Schema = (Field("v", kind),)
        calls = tuple(AggregateCall(name, 0, False, kind) for name in ("min", "max", "last"))
        for retractions in (False, True):
            by_value = Runner(Aggregate(schema, (0,), calls[:1], retractions=retractions))
            by_value.step(batch([(less, 1, 5, 1), (more, 2, 5, 1)], schema), 3)
            assert len(by_value.at(3)) == (1 if kind == NULL else 2)
            best = Runner(Aggregate(schema, (), calls, retractions=retractions))
            best.step(batch([(more, 1, 5, 1), (less, 2, 4, 1)], schema), 3)
            best.step(batch([(less, 4, 9, 1)], schema), 6)
            assert [list(best.at(t)) for t in (1, 2, 5)] == [
                [comparable((more, more, more))],
                [comparable((less, more, less))],
                [comparable((less, less, less))],
            ]


def test_sums_of_other_types() -> None:
    hour = datetime.timedelta(hours=1)
    schema: Schema = (Field("t", INTERVAL), Field("n", NULL), Field("d", decimal(38, 10)))

    def run(*calls: tuple[str, int]) -> Runner:
        typed = (
            AggregateCall(name, column, False, resolve_aggregate(name, schema[column].type, False))
            for name, column in calls
        )
        return Runner(Aggregate(schema, (), tuple(typed)))

    big = Decimal("1234567890123456789012345678.0123456789")
    rows = batch([(hour, None, big, 1, INF, 1), (2 * hour, None, big, 1, INF, 1)], schema)
    sums = run(("sum", 0), ("avg", 0), ("sum", 1), ("stddev", 1), ("count", 1), ("sum", 2))
    sums.step(rows, 1)
    with localcontext() as context:
        context.prec = 38
        assert list(sums.at(1)) == [(3 * hour, 1.5 * hour, None, None, 0, 2 * big)]
    # Four more digits after the point leave too few before it.
    with pytest.raises(errors.EvaluationError, match=r"avg\(d\) does not fit into DECIMAL\(38,14\)"):
        run(("avg", 2)).step(rows, 1)


def test_decimals_round_half_away_from_zero() -> None:
    run = simple([call("avg", D), call("stddev_pop", D)])
    rows = [(None, None, None, Decimal(text), None, None, 1, INF, 1) for text in ("-0.01", "-0.02", "0.00")]
    run.step(batch(rows), 1)
    rows = [(None, None, None, Decimal("0.00"), None, None, 2, INF, 61)]
    run.step(batch(rows), 2)
    # -0.03 / 64 = -0.00046875
    assert [next(iter(run.at(t)))[0] for t in (1, 2)] == [Decimal("-0.010000"), Decimal("-0.000469")]


def test_a_step_that_touches_nothing_keeps_the_very_segments() -> None:
    numbers = np.arange(10_000)
    times = {START: np.full_like(numbers, 1), END: np.full_like(numbers, 100), WEIGHT: np.full_like(numbers, 1)}
    rows = pl.DataFrame({"c0": ["a", "b"] * 5000, "c1": numbers, **times})
    aggregate = Aggregate(SCHEMA[:2], (K,), (call("sum", N), call("max", N), call("count", N, distinct=True)))
    _, state = aggregate.step([rows], NO_STATE, Progress((-1,), (1,)))
    output, later = aggregate.step([rows.clear()], state, Progress((1,), (50,)))
    assert output.height == 0
    assert later.keys() == state.keys()
    assert all(old is new for name in state for old, new in zip(state[name], later[name], strict=True))


WINDOWED = {
    "sums": ([call("count"), call("avg", X), call("sum", N)], True),
    "bags": ([call("max", N), call("count", N, distinct=True)], True),
    "by time": ([call("first", N), call("last", N)], True),
    "undominated": ([call("max", N), call("last", N)], False),
}


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("kind", WINDOWED)
def test_what_is_held_does_not_grow(kind: str, negative: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 windows of 50 elements each, new keys coming and old ones going all the time."""
    calls, retractions = WINDOWED[kind]
    monkeypatch.setattr(sorted_runs, "_SMALL", 8)
    run = Runner(Aggregate(SCHEMA, (K,), tuple(calls), retractions=retractions))
    random = np.random.default_rng(5)
    window, held = 50, []
    ends: list[tuple[Any, ...]] = []
    for low in range(0, 100 * window, window):
        rows: list[tuple[Any, ...]] = []
        for tick in range(low, low + window):
            values = row(f"key{tick // 10 + random.integers(4)}", int(random.integers(50)), 0.1 * tick)
            said_later = negative and retractions
            rows.append((*values, tick, INF if said_later else tick + window, 1))
            if said_later:
                ends.append((*values, tick + window, INF, -1))
        due = low + window - 1
        run.step(batch([*rows, *(line for line in ends if line[-3] <= due)]), due)
        ends = [line for line in ends if line[-3] > due]
        held.append(run.rows_held())
    assert max(held[50:]) <= 1.3 * max(held[:50])
    assert max(held) < 10 * window
    run.step(batch(ends), 102 * window)
    assert run.rows_held() == 1


def test_one_relation_said_in_several_ways() -> None:
    """Ends that are known, ends that are retractions and foretold ends brought forward come to the same."""
    random = np.random.default_rng(3)
    size, step, instants = 20_000, 3_000, range(0, 25_000, 97)
    tick = np.sort(random.integers(0, size, size))
    columns = {
        "c0": pl.Series(random.integers(0, 5, size)).cast(pl.String),
        "c1": np.where(random.random(size) < 0.5, random.integers(0, 100, size), -tick),
        START: tick,
        END: tick + random.integers(1, 4_000, size),
        WEIGHT: np.ones_like(tick),
    }
    known = pl.DataFrame(columns).with_columns(pl.col("c1").replace(50, None))
    foretold = known.with_columns(pl.col(END) + 9)
    endless = known.with_columns(pl.lit(INF, pl.Int64).alias(END))
    leaves = known.get_column(END).alias(START)
    forward, retracted = (
        pl.concat([rows, rows.with_columns(leaves, -pl.col(WEIGHT))]).sort(START) for rows in (foretold, endless)
    )

    def answers(rows: pl.DataFrame, calls: tuple[AggregateCall, ...], *, retractions: bool) -> list[Any]:
        aggregate = Aggregate(SCHEMA[:2], (K,), calls, retractions=retractions)
        state, pieces = NO_STATE, []
        for low in range(-1, instants.stop, step):
            part = rows.filter(pl.col(START).is_between(low + 1, low + step))
            output, state = aggregate.step([part], state, Progress((low,), (low + step,)))
            pieces.append(output)
        return [_snapshot(pl.concat(pieces), instant) for instant in instants]

    extremes = (call("min", N), call("max", N))
    calls = (*extremes, call("count"), call("count", N, distinct=True))
    expected = []
    for instant in instants:
        there = known.filter(pl.col(START) <= instant, pl.col(END) > instant)
        value = pl.col("c1")
        rows = there.group_by("c0").agg(
            value.min().alias("least"), value.max(), pl.len(), value.drop_nulls().n_unique().alias("d")
        )
        expected.append(sorted(rows.rows(), key=str))
    for rows in (known, forward, retracted):
        assert answers(rows, calls, retractions=True) == expected
    assert answers(known, extremes, retractions=False) == [[line[:3] for line in lines] for lines in expected]


def _snapshot(output: pl.DataFrame, instant: int) -> list[tuple[Any, ...]]:
    there = output.filter(pl.col(START) <= instant, pl.col(END) > instant).drop(START, END)
    copies = there.group_by(pl.exclude(WEIGHT)).agg(pl.col(WEIGHT).sum()).filter(pl.col(WEIGHT) != 0)
    assert copies.get_column(WEIGHT).eq(1).all()
    return sorted(copies.drop(WEIGHT).rows(), key=str)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pl.Int8, [-128, 127, -128, *range(-100, 100)]),  # the span does not fit the type
        (pl.Int64, [2**63 - 1, -(2**63), 2**63 - 1]),
        (pl.Int64, [2**63 - 1, 2**63 - 2, 2**63 - 1]),
        (pl.Int32, [5, None, 5, 6]),
        (pl.String, ["b", "a", "b"]),
    ],
)
def test_groups_are_told_apart_whatever_their_keys(kind: pl.DataType, keys: list[object]) -> None:
    groups = GroupTable([("c0", kind)], {})
    column = pl.Series("c0", keys, dtype=kind)
    arrivals = groups.identify(pl.DataFrame([column]), {})
    names = arrivals.fresh.sort(GROUP).get_column("k0").to_list()
    assert [names[number] for number in arrivals.number[arrivals.owner]] == keys
    assert len(names) == len(set(keys))
