"""Whether a query fails is decided by its rows at final instants, and by nothing else: whatever the settings, the mode,
the batches and the time of registration. Compared with the definition (`tests.oracle.failing`)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.failing import Elements, Query
from tests.properties.driver import in_process
from tests.properties.failing import queries

import millstream as ms
from millstream.database import Database

STREAMS = "; ".join(f"CREATE STREAM {name} (a INT, b INT) TIMESTAMP BY ts" for name in "STU")
SETTINGS = (
    "",
    "SET jit = on",
    "SET join_plan = 'eddy'; SET jit = on",
    "SET join_plan = 'mjoin'",
    "SET strategy = 'negative'",
    "SET shards = 3",
    "SET disabled_rules = 'push_selections, prune_columns, commute_windows, reduce_windows'",
    "SET disabled_rules = 'pull_up_negation, push_distinct, merge_projections'",
)


ROWS = st.lists(
    st.tuples(st.sampled_from("STU"), st.none() | st.integers(-1, 2), st.integers(-1, 2), st.integers(0, 2)),
    min_size=1,
    max_size=9,
)


def play(db: Database, rows: Sequence[tuple[str, int | None, int, int]], batch: int) -> dict[str, Elements]:
    """Insert rows, so many at a time, and let all streams be final up to the last instant."""
    now, elements = 1, {name: Elements() for name in "STU"}
    timed = [(name, (a, b, now := now + passed)) for name, a, b, passed in rows]
    for first in range(0, len(timed), batch):
        for name in "STU":
            some = [row for other, row in timed[first : first + batch] if other == name]
            if some:
                db.insert(name, some)
                elements[name] += some
    db.advance(to=now + 8)
    return elements


def has_failed(db: Database, text: str, mode: str, registered: ms.Query | None) -> bool:
    try:
        query = registered or db.register(text, mode=mode)
        query.result()
        query.changes()
    except ms.EvaluationError as error:
        assert "division by zero" in str(error)  # noqa: PT017
        return True
    return False


def check(query: Query, rows: Sequence[tuple[str, int | None, int, int]], setting: str, how: str, batch: int) -> None:
    mode, _, when = how.partition(" ")
    with in_process() as db:
        db.execute(STREAMS)
        if setting:
            db.execute(setting)
        early = db.register(query.text, mode=mode) if when == "early" else None
        elements = play(db, rows, batch)
        last = max(e[2] for each in elements.values() for e in each)
        fails = any(query.fails(elements, at) for at in range(last + 8))
        assert has_failed(db, query.text, mode, early) == fails, (query.text, elements)


HOW = ("eager early", "eager late", "lazy early", "lazy late", "none early", "none late")


@settings(max_examples=60)
@given(queries(), ROWS, st.sampled_from(SETTINGS), st.sampled_from(HOW), st.sampled_from([1, 3, 9]))
def test_a_query_fails_where_its_rows_do(
    query: Query, rows: list[tuple[str, int | None, int, int]], setting: str, how: str, batch: int
) -> None:
    check(query, rows, setting, how, batch)


@pytest.mark.slow
@settings(max_examples=1500)
@given(queries(), ROWS, st.sampled_from(SETTINGS), st.sampled_from(HOW), st.sampled_from([1, 3, 9]))
def test_many_queries_fail_where_their_rows_do(
    query: Query, rows: list[tuple[str, int | None, int, int]], setting: str, how: str, batch: int
) -> None:
    check(query, rows, setting, how, batch)
