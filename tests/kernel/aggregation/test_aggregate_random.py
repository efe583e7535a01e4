"""Aggregates over random relations, cut into random batches, against brute force at every instant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
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
)

from millstream.kernel.aggregation import change_points, ordered_bag, sorted_runs
from millstream.kernel.aggregation.aggregate import Aggregate, AggregateCall
from millstream.kernel.batch import INF
from millstream.kernel.storage import time_queue
from millstream.types import BIGINT, DOUBLE, DataType

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
        total = sum(exact, Fraction()) / (1 if one.function == "sum" else len(exact))
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
    mean = sum(exact, Fraction()) / count
    value = _double(sum(((x - mean) ** 2 for x in exact), Fraction()) / (count if population else count - 1))
    return math.sqrt(value) if one.function.startswith("stddev") else value


# Random relations, cut into random batches

HORIZON = 24
VALUES = st.tuples(
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, 0, 1, 2, 3, -5, 2**33, -(2**40)]),
    st.sampled_from([None, 0.0, -0.0, 0.1, 0.2, -0.3, 1e16, -1e16, 1e300, 5e-324, math.inf, -math.inf, math.nan]),
    st.sampled_from([None, Decimal("0.01"), Decimal("-7.77"), Decimal("99999999.99"), Decimal("2.50")]),
    st.sampled_from([None, "", "u", "v", "w"]),
    st.sampled_from([None, True, False]),
)
LINEAR = [
    call("count"),
    *(call("count", column) for column in (N, S)),
    *(
        call(name, column)
        for name in ("sum", "avg", "stddev", "stddev_pop", "variance", "var_pop")
        for column in (N, X, D)
    ),
    *(call(name, B) for name in ("any", "every", "count_if")),
]
OTHERS = [
    *(call(name, column) for name in ("min", "max") for column in (N, X, D, S, B)),
    *(call(name, column, distinct=True) for name in ("count", "sum", "avg") for column in (N, X, D)),
    call("count", S, distinct=True),
    call("variance", N, distinct=True),
    AggregateCall("midrange", N, False, DOUBLE, Midrange),
    AggregateCall("midrange", N, True, DOUBLE, Midrange),
    AggregateCall("parity", N, False, BIGINT, Parity),
    AggregateCall("parity", N, True, BIGINT, Parity),
]
BY_TIME = [call(name, column) for name in ("first", "last") for column in (N, S)]
EXTREMES = [one for one in (*OTHERS, *BY_TIME) if one.function in ("min", "max", "first", "last")]


@dataclass(frozen=True)
class Script:
    """Rows by the step in which they arrive, the frontier after each step, and the copies they stand for."""

    arrivals: list[list[tuple[Any, ...]]]
    lows: list[int]
    copies: list[Copy]


@st.composite
def scripts(draw: st.DrawFn, *, retractions: bool, early: bool = True, length_of_all: int | None = None) -> Script:
    lows = [*sorted(draw(st.lists(st.integers(-1, HORIZON), min_size=1, max_size=5))), HORIZON + 2]
    script = Script([[] for _ in lows], lows, [])

    def arrive(line: tuple[Any, ...], not_before: int, *, last_chance: bool) -> int:
        """Some step at which the start of the row is not final yet."""
        latest = next(step for step, low in enumerate(lows) if low >= min(line[-4], HORIZON))
        at = latest if last_chance else draw(st.integers(min(not_before, latest), latest))
        script.arrivals[at].append(line)
        return at

    for number in range(draw(st.integers(0, 12))):
        values, start = draw(VALUES), draw(st.integers(0, HORIZON))
        length = length_of_all or draw(st.one_of(st.integers(1, 8), st.just(INF)))
        end, weight = min(start + length, INF), draw(st.sampled_from([1, 1, 1, 2]))
        # Ends are known from the start, or said later by a retraction, or foretold and then brought forward.
        said = draw(st.sampled_from(["direct", "retracted", "earlier"])) if retractions and end < INF else "direct"
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
        result += [Copy(copy.values, copy.start, end, copy.arrival) for copy, end in zip(came, ends, strict=True)]
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
        written = len(run.step(batch([line if arrival else line[:-1] for line in lines], arrival=arrival), low))
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


KEYS = st.sampled_from([(), (K,), (K,), (X, B), (S, N)])


@settings(max_examples=30, deadline=None)
@given(scripts(retractions=True), KEYS, st.lists(st.sampled_from([*LINEAR, *OTHERS]), max_size=4, unique=True))
def test_any_aggregates_agree_with_brute_force(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall]
) -> None:
    check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=False)


@settings(max_examples=30, deadline=None)
@given(scripts(retractions=True), KEYS, st.lists(st.sampled_from([*OTHERS, *BY_TIME]), max_size=3, unique=True))
def test_what_large_states_need_works_on_small_ones(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall]
) -> None:
    with (
        mock.patch.multiple(sorted_runs, _HASH_INTEGERS=0, _HASH_OTHERS=0),
        mock.patch.object(sorted_runs, "_SMALL", 0),
        mock.patch.object(ordered_bag, "_FIRST_LOOK", 1),
        mock.patch.object(time_queue, "FULL", 1),
    ):
        check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=True)


@settings(max_examples=25, deadline=None)
@given(scripts(retractions=False, length_of_all=5), KEYS, st.lists(st.sampled_from(LINEAR), max_size=3, unique=True))
def test_sums_per_pane_of_rows_in_any_order(script: Script, keys: tuple[int, ...], calls: list[AggregateCall]) -> None:
    with mock.patch.object(change_points, "_ROWS_PER_PANE", 0):
        check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=False)


@settings(max_examples=25, deadline=None)
@given(scripts(retractions=True), KEYS, st.lists(st.sampled_from(LINEAR), max_size=3, unique=True))
def test_sums_per_pane(script: Script, keys: tuple[int, ...], calls: list[AggregateCall]) -> None:
    with mock.patch.object(change_points, "_ROWS_PER_PANE", 0):
        check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=False)


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=30, deadline=None)
@given(scripts(retractions=True), KEYS, st.lists(st.sampled_from(BY_TIME), min_size=1, max_size=3, unique=True))
def test_first_and_last_with_retractions_by_arrival(
    script: Script, keys: tuple[int, ...], calls: list[AggregateCall]
) -> None:
    check(Aggregate(SCHEMA, keys, tuple(calls)), script, script.copies, arrival=True)


@settings(max_examples=30, deadline=None)
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
