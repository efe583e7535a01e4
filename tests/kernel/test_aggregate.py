"""GROUP BY and aggregates: cases to learn from, then random inputs against brute force at every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any
from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import errors
from millstream.kernel import change_points, ordered_bag, sorted_runs, time_queue
from millstream.kernel.aggregate import Aggregate, AggregateCall, resolve_aggregate
from millstream.kernel.batch import ARRIVAL, INF, batch_schema
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    STRING,
    DataType,
    Field,
    Schema,
    decimal,
)

SCHEMA: Schema = (
    Field("k", STRING),
    Field("i", BIGINT),
    Field("x", DOUBLE),
    Field("d", decimal(10, 2)),
    Field("s", STRING),
    Field("b", BOOLEAN),
)
K, I, X, D, S, B = range(6)


def call(function: str, argument: int | None = None, *, distinct: bool = False) -> AggregateCall:
    argument_type = None if argument is None else SCHEMA[argument].type
    return AggregateCall(function, argument, distinct, resolve_aggregate(function, argument_type, distinct))


class Midrange:
    """A user-defined aggregate that cannot retract: half way between the least and the greatest."""

    def initialize(self) -> tuple[int, ...]:
        return ()

    def iterate(self, state: tuple[int, ...], batch: pl.Series) -> tuple[int, ...]:
        return (*state, *batch.drop_nulls())

    def terminate(self, state: tuple[int, ...]) -> float | None:
        return (min(state) + max(state)) / 2 if state else None


class Parity:
    """A user-defined aggregate that can: how many odd values there are."""

    def initialize(self) -> int:
        return 0

    def iterate(self, state: int, batch: pl.Series) -> int:
        return state + sum(value % 2 for value in batch.drop_nulls())

    def retract(self, state: int, batch: pl.Series) -> int:
        return state - sum(value % 2 for value in batch.drop_nulls())

    def terminate(self, state: int) -> int:
        return state


# Running an aggregate


def batch(rows: Sequence[tuple[Any, ...]], schema: Schema = SCHEMA, *, arrival: bool = False) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=batch_schema(schema, arrival=arrival), orient="row")


class Runner:
    """Feeds batches and remembers all that came out."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.state: State = NO_STATE
        self.frontier = -1
        self.rows: list[tuple[Any, ...]] = []

    def step(self, rows: pl.DataFrame, low: int) -> list[tuple[Any, ...]]:
        progress = Progress((self.frontier,), (low,))
        output, self.state = self.aggregate.step([rows], self.state, progress)
        assert list(output.schema.items()) == list(batch_schema(self.aggregate.schema).items())
        self.frontier = low
        self.rows += output.rows()
        return sorted(output.rows(), key=repr)

    def at(self, instant: int) -> Counter[tuple[Any, ...]]:
        bag: Counter[tuple[Any, ...]] = Counter()
        for *values, start, end, weight in self.rows:
            if start <= instant < end:
                bag[comparable(values)] += weight
        return Counter({row: copies for row, copies in bag.items() if copies})

    def rows_held(self) -> int:
        return sum(segment.height for segments in self.state.values() for segment in segments)


def comparable(values: Sequence[Any]) -> tuple[Any, ...]:
    """NaN is a value like any other here; 0.0 and -0.0 are told apart."""
    return tuple(repr(value) if isinstance(value, float) else value for value in values)


def simple(calls: Sequence[AggregateCall], keys: tuple[int, ...] = (), *, retractions: bool = True) -> Runner:
    return Runner(Aggregate(SCHEMA, keys, tuple(calls), retractions=retractions))


def row(k: str | None = None, i: int | None = None, x: float | None = None) -> tuple[Any, ...]:
    return (k, i, x, None, None, None)


# Cases to learn from


def test_a_group_is_replaced_when_its_value_changes() -> None:
    run = simple([call("count"), call("sum", I)], (K,))
    # Two rows of [RANGE 4]: they overlap from 3 to 5.
    out = run.step(batch([(*row("a", 10), 1, 6, 1), (*row("a", 5), 3, 8, 1)]), 3)
    assert out == [("a", 1, 10, 1, 3, 1), ("a", 2, 15, 3, INF, 1)]
    # Time passes and nothing arrives: the first row ends.
    assert run.step(batch([]), 6) == [("a", 1, 5, 6, INF, 1), ("a", 2, 15, 6, INF, -1)]
    # An emptied group goes away, and leaves nothing behind.
    assert run.step(batch([]), 8) == [("a", 1, 5, 8, INF, -1)]
    assert run.rows_held() == 1  # the number that the next group will get


def test_equal_values_emit_nothing() -> None:
    run = simple([call("max", I)], (K,))
    run.step(batch([(*row("a", 7), 1, INF, 1)]), 1)
    assert run.step(batch([(*row("a", 3), 2, INF, 1), (*row("a", 7), 3, INF, 1)]), 5) == []
    # One of two copies of the maximum goes: still 7. A row that leaves as an equal one enters: still 7.
    assert run.step(batch([(*row("a", 7), 6, INF, -1)]), 6) == []
    assert run.step(batch([(*row("a", 7), 7, INF, -1), (*row("a", 7), 7, INF, 1)]), 7) == []
    assert run.step(batch([(*row("a", 7), 8, INF, -1)]), 8) == [("a", 3, 8, INF, 1), ("a", 7, 8, INF, -1)]


def test_without_keys_the_empty_group_is_there_from_instant_0() -> None:
    run = simple([call("count"), call("sum", I), call("max", I), call("every", B)])
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
    run = simple([call("count"), call("count", I), call("avg", I)], (K,))
    out = run.step(
        batch([(*row(None, None), 1, INF, 1), (*row(None, 3), 1, INF, 1), (*row("a"), 1, INF, 1)]), 1
    )
    assert out == [("a", 1, 0, None, 1, INF, 1), (None, 2, 1, 3.0, 1, INF, 1)]


def test_only_what_is_final_is_said() -> None:
    run = simple([call("count")], (K,))
    assert run.step(batch([(*row("a"), 5, 9, 2)]), 4) == []
    assert run.step(batch([(*row("a"), 6, INF, 1)]), 5) == [("a", 2, 5, INF, 1)]
    assert run.step(batch([]), 20) == [("a", 1, 9, INF, 1), ("a", 2, 5 + 1, INF, -1), ("a", 3, 6, 9, 1)]


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
    run = simple([call("sum", I)])
    rows = [(*row(None, big), 1, INF, 1), (*row(None, big), 2, INF, 1), (*row(None, big), 2, INF, -1)]
    run.step(batch(rows), 2)
    assert run.at(2) == {(big,): 1}
    with pytest.raises(errors.EvaluationError, match=r"sum\(i\) does not fit into BIGINT"):
        run.step(batch([(*row(None, 1), 3, INF, 1)]), 3)


def test_floating_sums_do_not_remember_how_they_came_about() -> None:
    run = simple([call("sum", X), call("avg", X), call("stddev", X)])
    run.step(batch([(*row(None, None, 0.1), 1, INF, 1), (*row(None, None, 0.2), 1, INF, 1)]), 1)
    before = run.at(1)
    run.step(batch([(*row(None, None, value), 2, 3, 1) for value in (1e300, -1e-300, math.inf, math.nan)]), 2)
    run.step(batch([]), 3)
    assert run.at(3) == before
    # A running sum of doubles would have invented a change here.
    assert run.step(batch([(*row(None, None, 0.3), 4, 5, 1)]), 10)[-1][:3] != ()
    assert run.at(10) == before


def test_single_value() -> None:
    run = simple([call("single_value", S)])
    one = (None, None, None, None, "v", None)
    run.step(batch([(*one, 2, 5, 1), (*one, 5, 7, 1)]), 6)
    assert [run.at(t) for t in (1, 2, 5)] == [{(None,): 1}, {("v",): 1}, {("v",): 1}]
    with pytest.raises(errors.EvaluationError, match="scalar subquery returned more than one row"):
        run.step(batch([(*one, 7, 9, 1), (*one, 8, 9, 1)]), 8)


def test_user_defined_aggregates() -> None:
    calls = [
        AggregateCall("midrange", I, False, DOUBLE, Midrange),
        AggregateCall("parity", I, False, BIGINT, Parity),
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

    run = simple([AggregateCall("broken", I, False, BIGINT, Broken)])
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


# Brute force


@dataclass(frozen=True)
class Copy:
    """One copy of a row: what the relation holds, whatever intervals said so."""

    values: tuple[Any, ...]
    start: int
    end: int
    arrival: int


def brute(one: AggregateCall, copies: list[Copy], arrival: bool) -> Any:
    if one.argument is None:
        return len(copies)
    kind = SCHEMA[one.argument].type
    present = [copy.values[one.argument] for copy in copies if copy.values[one.argument] is not None]
    if one.distinct:
        present = list({repr(value): value for value in present}.values())
    match one.function:
        case "first" | "last":

            def order(copy: Copy) -> tuple[Any, ...]:
                value = copy.values[one.argument or 0]
                return (copy.start, copy.arrival if arrival else 0, () if value is None else (value,))

            pick = min if one.function == "first" else max
            return pick(copies, key=order).values[one.argument] if copies else None
        case "count":
            return len(present)
        case "count_if":
            return present.count(True)
        case "any" | "every" if present:
            return any(present) if one.function == "any" else all(present)
        case "min" | "max" if present:
            return (min if one.function == "min" else max)(present, key=lambda value: _total_order(value))
        case "midrange":
            return Midrange().terminate(tuple(present))
        case "parity":
            return sum(value % 2 for value in present)
    if not present or one.function in ("any", "every", "min", "max"):
        return None
    return _numeric(one, present, kind)


def _total_order(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def _numeric(one: AggregateCall, present: list[Any], kind: DataType) -> Any:
    if kind == DOUBLE and not all(map(math.isfinite, present)):
        total = sum(value for value in present if not math.isfinite(value))
        return total if one.function in ("sum", "avg") else _variance(one, [], len(present))
    exact = [Fraction(value) for value in present]
    if one.function in ("sum", "avg"):
        total = sum(exact) / (1 if one.function == "sum" else len(exact))
        if not one.type.is_decimal:
            return int(total) if one.type == BIGINT else _double(total)
        with localcontext() as context:
            context.prec = 60
            return Decimal(_half_up(total * 10**one.type.scale)).scaleb(-one.type.scale)
    return _variance(one, exact, len(exact))


def _half_up(value: Fraction) -> int:
    return int(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


def _double(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _variance(one: AggregateCall, exact: list[Fraction], count: int) -> float | None:
    population = one.function.endswith("_pop")
    if count < (1 if population else 2):
        return None
    if not exact:
        return math.nan
    mean = sum(exact) / count
    value = _double(sum((x - mean) ** 2 for x in exact) / (count if population else count - 1))
    return math.sqrt(value) if one.function.startswith("stddev") else value


# Random relations, cut into random batches

HORIZON = 24
VALUES = st.tuples(
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, 0, 1, 2, 3, -5, 2**33, -(2**40)]),
    st.sampled_from(
        [None, 0.0, -0.0, 0.1, 0.2, -0.3, 1e16, -1e16, 1e300, 5e-324, math.inf, -math.inf, math.nan]
    ),
    st.sampled_from([None, Decimal("0.01"), Decimal("-7.77"), Decimal("99999999.99"), Decimal("2.50")]),
    st.sampled_from([None, "", "u", "v", "w"]),
    st.sampled_from([None, True, False]),
)
LINEAR = [
    call("count"),
    *(call("count", column) for column in (I, S)),
    *(
        call(name, column)
        for name in ("sum", "avg", "stddev", "stddev_pop", "variance", "var_pop")
        for column in (I, X, D)
    ),
    *(call(name, B) for name in ("any", "every", "count_if")),
]
OTHERS = [
    *(call(name, column) for name in ("min", "max") for column in (I, X, D, S, B)),
    *(call(name, column, distinct=True) for name in ("count", "sum", "avg") for column in (I, X, D)),
    call("count", S, distinct=True),
    call("variance", I, distinct=True),
    AggregateCall("midrange", I, False, DOUBLE, Midrange),
    AggregateCall("midrange", I, True, DOUBLE, Midrange),
    AggregateCall("parity", I, False, BIGINT, Parity),
    AggregateCall("parity", I, True, BIGINT, Parity),
]
BY_TIME = [call(name, column) for name in ("first", "last") for column in (I, S)]
EXTREMES = [one for one in (*OTHERS, *BY_TIME) if one.function in ("min", "max", "first", "last")]


@dataclass(frozen=True)
class Script:
    """Rows by the step in which they arrive, the frontier after each step, and the copies they stand for."""

    arrivals: list[list[tuple[Any, ...]]]
    lows: list[int]
    copies: list[Copy]


@st.composite
def scripts(draw: st.DrawFn, *, retractions: bool, early: bool = True) -> Script:
    lows = sorted(draw(st.lists(st.integers(-1, HORIZON), min_size=1, max_size=5))) + [HORIZON + 2]
    script = Script([[] for _ in lows], lows, [])

    def arrive(line: tuple[Any, ...], not_before: int, *, last_chance: bool) -> int:
        """Some step at which the start of the row is not final yet."""
        latest = next(step for step, low in enumerate(lows) if low >= min(line[-4], HORIZON))
        at = latest if last_chance else draw(st.integers(min(not_before, latest), latest))
        script.arrivals[at].append(line)
        return at

    for number in range(draw(st.integers(0, 12))):
        values, start = draw(VALUES), draw(st.integers(0, HORIZON))
        length = draw(st.one_of(st.integers(1, 8), st.just(INF)))
        end, weight = min(start + length, INF), draw(st.sampled_from([1, 1, 1, 2]))
        # Ends are known from the start, or said later by a retraction, or foretold and then brought forward.
        said = (
            draw(st.sampled_from(["direct", "retracted", "earlier"]))
            if retractions and end < INF
            else "direct"
        )
        told = {"direct": end, "retracted": INF, "earlier": end + 3}[said]
        came = arrive((*values, start, told, weight, number), 0, last_chance=False)
        if said != "direct":
            arrive((*values, end, told, -weight, number), came, last_chance=not early)
        script.copies.extend([Copy(one_zero(values), start, end, number)] * weight)
    return script


def one_zero(values: Sequence[Any]) -> tuple[Any, ...]:
    """-0.0 is 0.0, as a key and as a value."""
    return tuple(value + 0.0 if isinstance(value, float) else value for value in values)


def oldest_first(script: Script, columns: set[int]) -> list[Copy]:
    """The copies as retractions pick them where nothing else tells equal ones apart: the oldest goes first."""
    kinds: dict[Any, tuple[list[Copy], list[int]]] = {}
    for *values, start, end, weight, number in (line for lines in script.arrivals for line in lines):
        came, gone = kinds.setdefault((*(repr(values[c]) for c in sorted(columns)), end), ([], []))
        if weight > 0:
            came.extend([Copy(one_zero(values), start, end, number)] * weight)
        else:
            gone.extend([start] * -weight)
    result = []
    for came, gone in kinds.values():
        came.sort(key=lambda copy: copy.start)
        ends = [*sorted(gone), *(copy.end for copy in came[len(gone) :])]
        result += [
            Copy(copy.values, copy.start, end, copy.arrival) for copy, end in zip(came, ends, strict=True)
        ]
    return result


def check(aggregate: Aggregate, script: Script, copies: list[Copy], *, arrival: bool) -> None:
    """Every step: right at every instant up to the frontier, and not one row more than needed."""
    run = Runner(aggregate)
    calls, keys = aggregate.plan.calls, aggregate.keys
    answers: list[dict[Any, tuple[Any, ...]]] = []
    for instant in range(HORIZON + 3):
        groups: dict[Any, list[Copy]] = {} if keys else {(): []}
        for copy in copies:
            if copy.start <= instant < copy.end:
                groups.setdefault(comparable([copy.values[key] for key in keys]), []).append(copy)
        answers.append(
            {key: comparable([brute(one, there, arrival) for one in calls]) for key, there in groups.items()}
        )
    for lines, low in zip(script.arrivals, script.lows, strict=True):
        before = run.frontier
        written = len(
            run.step(batch([line if arrival else line[:-1] for line in lines], arrival=arrival), low)
        )
        for instant in range(low + 1):
            expected = {(*key, *value): 1 for key, value in answers[instant].items()}
            assert run.at(instant) == expected, f"at {instant}, frontier {low}"
        assert written == fewest_rows(answers, before, low)


def fewest_rows(answers: list[dict[Any, tuple[Any, ...]]], before: int, low: int) -> int:
    """New rows wherever a group's row changes, and a retraction of the one that an earlier step left open."""
    rows, replaced = 0, set()
    for instant in range(max(before + 1, 0), low + 1):
        old = answers[instant - 1] if instant else {}
        for key in {*old, *answers[instant]}:
            if old.get(key) != answers[instant].get(key):
                rows += key in answers[instant]
                rows += key in old and key not in replaced
                replaced.add(key)
    return rows


KEYS = st.sampled_from([(), (K,), (K,), (X, B), (S, I)])


@settings(max_examples=100, deadline=None)
@given(
    scripts(retractions=True), KEYS, st.lists(st.sampled_from([*LINEAR, *OTHERS]), max_size=4, unique=True)
)
def test_any_aggregates_agree_with_brute_force(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall]
) -> None:
    check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=False)


@settings(max_examples=100, deadline=None)
@given(
    scripts(retractions=True), KEYS, st.lists(st.sampled_from([*OTHERS, *BY_TIME]), max_size=3, unique=True)
)
def test_what_large_states_need_works_on_small_ones(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall]
) -> None:
    with (
        mock.patch.object(sorted_runs, "_SCAN_FACTOR", 0),
        mock.patch.object(ordered_bag, "_FIRST_LOOK", 1),
        mock.patch.object(time_queue, "FULL", 1),
        mock.patch.object(change_points, "_ROWS_PER_PANE", 0),
    ):
        check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=True)


@settings(max_examples=100, deadline=None)
@given(
    scripts(retractions=False),
    KEYS,
    st.lists(st.sampled_from([*OTHERS, *BY_TIME]), max_size=3, unique=True),
    st.booleans(),
)
def test_undominated_rows_beside_sums(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall], arrival: bool
) -> None:
    calls = [call("count"), *calls]
    check(Aggregate(SCHEMA, keys, tuple(calls), retractions=False), script, script.copies, arrival=arrival)


@settings(max_examples=100, deadline=None)
@given(
    scripts(retractions=False),
    KEYS,
    st.lists(st.sampled_from(EXTREMES), min_size=1, max_size=3, unique=True),
    st.booleans(),
)
def test_undominated_rows_alone(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall], arrival: bool
) -> None:
    check(Aggregate(SCHEMA, keys, tuple(calls), retractions=False), script, script.copies, arrival=arrival)


@settings(max_examples=100, deadline=None)
@given(
    scripts(retractions=True), KEYS, st.lists(st.sampled_from(BY_TIME), min_size=1, max_size=3, unique=True)
)
def test_first_and_last_with_retractions_by_arrival(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall]
) -> None:
    check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=True)


@settings(max_examples=100, deadline=None)
@given(
    scripts(retractions=True, early=False),
    KEYS,
    st.lists(st.sampled_from(BY_TIME), min_size=1, max_size=3, unique=True),
)
def test_first_and_last_with_retractions_oldest_first(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall]
) -> None:
    columns = {*keys, *(one.argument for one in calls if one.argument is not None)}
    check(Aggregate(SCHEMA, keys, tuple(calls)), script, oldest_first(script, columns), arrival=False)
