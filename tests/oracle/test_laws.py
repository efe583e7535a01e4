"""Laws that hold for every input: if the oracle broke one of them, it could not say what is right."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import Oracle
from tests.oracle.strategies import (
    HORIZON,
    Input,
    bounded_windows,
    conditions,
    operators,
    ordered_streams,
    range_bounds,
    time_windows,
    unbounded_windows,
    unordered_streams,
    windows,
)

RELATIONAL = (
    "SELECT k, v + 1 AS w FROM S {w} WHERE {c}",
    "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM S {w} GROUP BY k",
    "SELECT x.v, y.v AS w FROM S {w} x, T [RANGE 3] y WHERE x.k = y.k",
    "SELECT v FROM S {w} UNION ALL SELECT v FROM T [ROWS 2]",
    "SELECT v FROM (SELECT DSTREAM(k, v) FROM S {w}) [RANGE 2 SLIDE 2] d WHERE {c}",
    "SELECT DISTINCT k FROM S {w} WHERE NOT EXISTS (SELECT * FROM T [RANGE 4] WHERE T.v = S.v)",
)
MONOTONIC = (
    "SELECT k FROM S {w} WHERE {c}",
    "SELECT DISTINCT v FROM S {w}",
    "SELECT S.v FROM S {w} JOIN T ON S.k = T.k",
    "SELECT v FROM S {w} WHERE k IN (SELECT k FROM T) AND EXISTS (SELECT * FROM T WHERE T.v = S.v)",
    "SELECT v FROM S {w} UNION SELECT k FROM T",
    "SELECT v FROM S {w} INTERSECT ALL SELECT v FROM T",
    "SELECT v FROM (SELECT DSTREAM(v) FROM S [RANGE 2]) {w}",
)


def opened(first: list[Input], second: list[Input], bounds: str = "closed", dense_limit: int = 400) -> Oracle:
    oracle = Oracle(dense_limit=dense_limit)
    oracle.execute(f"""
        SET range_bounds = '{bounds}';
        CREATE STREAM S (k INT, v INT) TIMESTAMP BY ts HEARTBEAT DELAY 4;
        CREATE STREAM T (k INT, v INT) TIMESTAMP BY ts;
    """)
    oracle.insert("S", first)
    oracle.insert("T", second)
    oracle.advance(to=HORIZON)
    return oracle


@settings(max_examples=30, deadline=None)
@given(unordered_streams(), ordered_streams(5), windows, conditions, st.sampled_from(RELATIONAL), range_bounds)
def test_every_instant_or_only_those_of_changes(
    first: list[Input], second: list[Input], window: str, condition: str, shape: str, bounds: str
) -> None:
    query = shape.format(w=window, c=condition)
    every, some = opened(first, second, bounds), opened(first, second, bounds, dense_limit=-1)
    assert every.changes(query) == some.changes(query)


@settings(max_examples=30, deadline=None)
@given(unordered_streams(), ordered_streams(5), bounded_windows, conditions, st.sampled_from(RELATIONAL))
def test_a_relation_is_what_was_inserted_less_what_was_deleted(
    first: list[Input], second: list[Input], window: str, condition: str, shape: str
) -> None:
    oracle = opened(first, second)
    query = shape.format(w=window, c=condition)
    inserted, deleted = (oracle.elements(f"{name}({query})", HORIZON) for name in ("ISTREAM", "DSTREAM"))
    repeated = oracle.elements(f"RSTREAM({query})", HORIZON)
    sums: Counter[tuple[object, ...]] = Counter()
    for t in range(HORIZON + 1):
        now = oracle.relation(query, t)
        sums += Counter({row: count for (ts, row), count in inserted.items() if ts == t})
        sums -= Counter({row: count for (ts, row), count in deleted.items() if ts == t})
        assert sums == now
        assert Counter({row: count for (ts, row), count in repeated.items() if ts == t}) == now


@settings(max_examples=30, deadline=None)
@given(unordered_streams(), ordered_streams(5), unbounded_windows, conditions, st.sampled_from(MONOTONIC))
def test_what_is_called_monotonic_never_loses_a_row(
    first: list[Input], second: list[Input], window: str, condition: str, shape: str
) -> None:
    oracle = opened(first, second)
    query = shape.format(w=window, c=condition)
    assert oracle.kind(query) == "stream"
    assert oracle.elements(f"DSTREAM({query})", HORIZON) == Counter()


@settings(max_examples=20, deadline=None)
@given(unordered_streams(), conditions, st.booleans(), operators)
def test_window_reduction(first: list[Input], condition: str, derived: bool, operator: str) -> None:
    """Section 10.1; the stream may be "a subquery producing a stream"."""
    oracle = opened(first, [])
    source = f"(SELECT {operator}(k, v) FROM S [RANGE 2])" if derived else "S"
    unbounded = f"SELECT ISTREAM(v, k) FROM {source} [RANGE UNBOUNDED] WHERE {condition}"
    reduced = f"SELECT RSTREAM(v, k) FROM {source} [NOW] WHERE {condition}"
    assert oracle.elements(unbounded, HORIZON) == oracle.elements(reduced, HORIZON)


@settings(max_examples=20, deadline=None)
@given(unordered_streams(), time_windows, conditions, range_bounds)
def test_filters_commute_with_time_windows(first: list[Input], window: str, condition: str, bounds: str) -> None:
    """Section 10.2."""
    oracle = opened(first, [], bounds)
    before = f"SELECT * FROM (SELECT v FROM S WHERE {condition}) {window}"
    after = f"SELECT v FROM S {window} WHERE {condition}"
    assert oracle.changes(before) == oracle.changes(after)


@settings(max_examples=20, deadline=None)
@given(unordered_streams(), windows, st.integers(0, 12))
def test_inserting_in_parts_changes_nothing(first: list[Input], window: str, cut: int) -> None:
    query = f"SELECT k, v FROM S {window}"
    whole = opened(first, [])
    parts = Oracle()
    parts.execute("CREATE STREAM S (k INT, v INT) TIMESTAMP BY ts HEARTBEAT DELAY 4")
    taken = [parts.insert("S", first[:cut]), parts.insert("S", first[cut:])]
    parts.advance(to=HORIZON)
    assert parts.changes(query) == whole.changes(query)
    assert sum(part.accepted + part.late for part in taken) == len(first)
