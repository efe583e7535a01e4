"""Functions over windows: cases by hand, and random ones against a direct computation at every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cmp_to_key, partial
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.instants import Bag, Row, batch, check_steps, odd_sizes, run, small, sources
from tests.support.orders import compared

from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.batch import INF
from millstream.kernel.ordering import over
from millstream.kernel.ordering.frames import Frame, Unit
from millstream.kernel.ordering.over import Over
from millstream.kernel.ordering.sort_keys import RowOrder, SortKey
from millstream.kernel.ordering.window_functions import WindowCall
from millstream.types import BIGINT, DOUBLE, INT, STRING, Field, Schema

PAIR: Schema = (Field("k", BIGINT), Field("v", BIGINT))
BY_VALUE = RowOrder((0,), (SortKey(1),))


def test_only_rows_that_a_change_reaches_are_computed_again() -> None:
    rows: list[Row] = [(1, value, 0, INF, 1) for value in range(0, 100, 10)]
    operator = Over(PAIR, BY_VALUE, [WindowCall("lag", BIGINT, 1), WindowCall("lead", BIGINT, 1)], ["a", "b"])
    outputs = run(operator, [([batch(PAIR, rows)], [0]), ([batch(PAIR, [(1, 45, 1, INF, 1)])], [1])])
    assert outputs[1] == [
        (1, 40, 30, 45, 1, INF, 1),
        (1, 40, 30, 50, 1, INF, -1),
        (1, 45, 40, 50, 1, INF, 1),
        (1, 50, 40, 60, 1, INF, -1),
        (1, 50, 45, 60, 1, INF, 1),
    ]


def test_copies_have_numbers_of_their_own() -> None:
    rows: list[Row] = [(1, 5, 0, INF, 2), (1, 3, 2, INF, 1)]
    operator = Over(PAIR, BY_VALUE, [WindowCall("row_number", INT)], ["n"])
    assert run(operator, [([batch(PAIR, rows)], [2])]) == [
        [
            (1, 3, 1, 2, INF, 1),
            (1, 5, 1, 0, INF, 1),
            (1, 5, 1, 2, INF, -1),
            (1, 5, 2, 0, INF, 1),
            (1, 5, 3, 2, INF, 1),
        ]
    ]


def test_a_running_sum_without_rows_in_the_frame_is_null() -> None:
    total = WindowCall(
        "aggregate", BIGINT, frame=Frame("rows", None, -1), aggregate=AggregateCall("sum", 1, False, BIGINT)
    )
    rows: list[Row] = [(1, 1, 0, INF, 1), (1, 2, 0, INF, 1), (1, 4, 0, INF, 1)]
    outputs = run(Over(PAIR, BY_VALUE, [total], ["s"]), [([batch(PAIR, rows)], [0])])
    assert outputs == [[(1, 1, None, 0, INF, 1), (1, 2, 1, 0, INF, 1), (1, 4, 3, 0, INF, 1)]]


def _frame(call: WindowCall, order: RowOrder, rows: Sequence[Any], place: int) -> list[int]:
    """The places of the rows in the frame of a row, by the definition."""
    frame, key = call.frame, order.keys[0] if order.keys else None
    peers = partial(compared, order.keys)
    if frame.unit == "rows":
        first = 0 if frame.start is None else place + int(frame.start)
        last = len(rows) - 1 if frame.end is None else place + int(frame.end)
        return [other for other in range(len(rows)) if first <= other <= last]

    def in_bound(bound: float | None, other: int, sign: int) -> bool:
        if bound is None:
            return True
        if bound == 0 or key is None:
            return sign * peers(rows[other], rows[place]) <= 0
        own, value = rows[place][key.column], rows[other][key.column]
        if own is None:
            return sign * peers(rows[other], rows[place]) <= 0
        if value is None:
            return (key.nulls_first) == (sign > 0)
        limit = own - bound if key.descending else own + bound
        return bool(sign * (limit - value if key.descending else value - limit) <= 0)

    return [o for o in range(len(rows)) if in_bound(frame.start, o, -1) and in_bound(frame.end, o, 1)]


def _value(call: WindowCall, order: RowOrder, rows: Sequence[Any], place: int) -> Any:
    peers = [other for other in range(len(rows)) if compared(order.keys, rows[other], rows[place]) == 0]
    match call.function:
        case "row_number":
            return place + 1
        case "rank":
            return peers[0] + 1
        case "dense_rank":
            return 1 + sum(compared(order.keys, rows[p], rows[p + 1]) != 0 for p in range(place))
        case "percent_rank":
            return repr(peers[0] / (len(rows) - 1)) if len(rows) > 1 else "0.0"
        case "cume_dist":
            return repr((peers[-1] + 1) / len(rows))
        case "ntile":
            sizes = [len(rows) // call.number + (n < len(rows) % call.number) for n in range(call.number)]
            return next(n + 1 for n in range(call.number) if place < sum(sizes[: n + 1]))
    column = call.argument if call.aggregate is None else call.aggregate.argument
    values = [row[column] if column is not None else 1 for row in rows]
    if call.function in ("lag", "lead"):
        others = [*reversed(range(place))] if call.function == "lag" else [*range(place + 1, len(rows))]
        found = [values[o] for o in others if not call.ignores_nulls or values[o] is not None]
        if len(found) >= call.number:
            return found[call.number - 1] if call.number else values[place]
        return rows[place][call.default] if call.default is not None else None
    seen = [values[other] for other in _frame(call, order, rows, place)]
    if call.aggregate is not None:
        known = [value for value in seen if value is not None]
        match call.aggregate.function:
            case "count":
                return len(known)
            case "sum":
                return sum(known) if known else None
            case _:
                return max(known) if known else None
    seen = [value for value in seen if value is not None or not call.ignores_nulls]
    at = {"first_value": 0, "last_value": -1}.get(call.function, call.number - 1)
    return seen[at] if -len(seen) <= at < len(seen) else None


def expected(order: RowOrder, calls: Sequence[WindowCall]) -> Callable[[list[Bag]], Bag]:
    def computed(bags: list[Bag]) -> Bag:
        partitions: dict[tuple[object, ...], list[tuple[Any, ...]]] = {}
        for values, count in bags[0].items():
            partitions.setdefault(tuple(values[column] for column in order.partition), []).extend([values] * count)
        found: Bag = Counter()
        everything = (*order.keys, *map(SortKey, (*order.ties, 0, 1, 2)))
        for rows in partitions.values():
            rows.sort(key=cmp_to_key(partial(compared, everything)))
            for place, row in enumerate(rows):
                found[*row, *(_value(call, order, rows, place) for call in calls)] += 1
        return found

    return computed


SCHEMA: Schema = (Field("k", STRING), Field("v", BIGINT), Field("x", BIGINT))
ROWS: st.SearchStrategy[Row] = st.tuples(st.sampled_from(["a", None]), small, small)
BOUND = st.one_of(st.none(), st.integers(-2, 2))


FUNCTIONS = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
    "count",
    "sum",
    "max",
]


@st.composite
def frames(draw: st.DrawFn, *, one_key: bool) -> Frame:
    unit: Unit = draw(st.sampled_from(("rows", "range")))
    bound = BOUND if unit == "rows" or one_key else st.sampled_from([None, 0])
    return Frame(unit, draw(bound), draw(bound))


@st.composite
def calls_of(draw: st.DrawFn, *, one_key: bool) -> WindowCall:
    frame = draw(frames(one_key=one_key))
    ignores, number = draw(st.booleans()), draw(st.integers(1, 2))
    default = draw(st.sampled_from([None, 1]))
    function = draw(st.sampled_from(FUNCTIONS))
    match function:
        case "row_number" | "rank" | "dense_rank":
            return WindowCall(function, INT)
        case "percent_rank" | "cume_dist":
            return WindowCall(function, DOUBLE)
        case "ntile":
            return WindowCall("ntile", INT, number=draw(st.integers(1, 4)))
        case "lag" | "lead":
            return WindowCall(function, BIGINT, 2, draw(st.integers(0, 2)) if not ignores else number, default, ignores)
        case "count" | "sum" | "max":
            call = AggregateCall(function, 2, False, BIGINT)
            return WindowCall("aggregate", BIGINT, frame=frame, aggregate=call)
        case _:
            first = function != "nth_value"
            return WindowCall(function, BIGINT, 2, 1 if first else number, ignores_nulls=ignores, frame=frame)  # type: ignore[arg-type]


@pytest.mark.parametrize("retract", [False, True])
@settings(deadline=None, max_examples=50)
@given(data=st.data(), collide=st.booleans(), steps=st.integers(1, 4))
def test_functions_are_right_at_every_instant(retract: bool, data: st.DataObject, collide: bool, steps: int) -> None:
    keys = st.builds(SortKey, st.sampled_from([1, 2]), st.booleans(), st.booleans())
    unique = st.lists(keys, min_size=0, max_size=2, unique_by=lambda key: key.column)
    order = RowOrder(data.draw(st.sampled_from([(), (0,)])), tuple(data.draw(unique)))
    one_key = len(order.keys) == 1
    calls = data.draw(st.lists(calls_of(one_key=one_key), min_size=1, max_size=2))
    source = data.draw(sources(ROWS, steps, retract=retract))
    operator = Over(SCHEMA, order, calls, [f"f{n}" for n in range(len(calls))])
    with odd_sizes(collide), patch.object(over, "_CHUNK", 7):
        check_steps(operator, [SCHEMA], [source], expected(order, calls))
