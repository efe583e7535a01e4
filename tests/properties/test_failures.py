"""Queries that fail on their data: they say so whatever they are asked, and leave the others alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.driver import in_process

import millstream as ms
from millstream.query import Query

QUESTIONS: dict[str, Callable[[Query], object]] = {
    "result": lambda query: query.result(),
    "result at": lambda query: query.result(at=1),
    "changes": lambda query: query.changes(),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_failed_query_says_why(question: str) -> None:
    with in_process() as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts")
        failing = db.register("SELECT 10 / a AS x FROM S [NOW]")
        other = db.register("SELECT a FROM S [RANGE 10]")
        db.insert("S", [(1, 1), (0, 2)])
        db.advance(to=5)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            QUESTIONS[question](failing)
        assert failing.final is None
        assert failing.stats()["state"] == "failed"
        assert "division by zero" in failing.stats()["error"]
        assert other.result().num_rows == 2


WINDOWS = st.sampled_from(["RANGE 2", "NOW", "RANGE 3 SLIDE 2", "RANGE 1 SLIDE 5", "TUMBLE 3", "BEGIN 4 END NOW - 1"])
SELECTED = st.sampled_from(["10 / (s.b + t.b) AS x", "s.a, SUM(10 / (s.b - t.b)) AS x", "DISTINCT s.b % t.b AS x"])
ROWS = st.lists(
    st.tuples(st.sampled_from("ST"), st.integers(0, 1), st.integers(-2, 4), st.integers(0, 3)), min_size=2, max_size=12
)


@settings(max_examples=25)
@given(SELECTED, WINDOWS, WINDOWS, ROWS, st.booleans())
def test_lazy_queries_fail_where_eager_ones_do(
    selected: str, one: str, other: str, rows: list[tuple[str, int, int, int]], joined: bool
) -> None:
    """On combinations that are in their windows together, and on no others."""
    grouped = " GROUP BY s.a" if "SUM" in selected else ""
    source = f"S [{one}] s, T [{other}] t WHERE s.a = t.a" if joined else f"S [{one}] s"
    text = f"SELECT {selected if joined else selected.replace('t.b', 's.a')} FROM {source}{grouped}"
    with in_process() as db:
        db.execute("CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts; CREATE STREAM T (a INT, b INT) TIMESTAMP BY ts")
        queries = [db.register(text, name=mode, mode=mode) for mode in ("eager", "lazy")]
        now = 0
        for stream, a, b, passed in rows:
            now += passed
            db.insert(stream, [(a, b, now)])
            db.advance(to=now - 1) if now > 0 else None
            answers = [_answer(query) for query in queries]
            assert answers[0] == answers[1], now


def _answer(query: Query) -> object:
    try:
        return sorted(map(repr, query.result().to_pylist())), query.changes().to_pylist()
    except ms.EvaluationError as error:
        return str(error).partition(" in ")[0]
