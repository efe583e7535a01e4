"""Queries that fail on their data: they say so whatever they are asked, and leave the others alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.properties.driver import in_process

import millstream as ms
from millstream.query import Query

QUESTIONS: dict[str, Callable[[Query], object]] = {
    "result": lambda query: query.result(),
    "result at": lambda query: query.result(at=1),
    "changes": lambda query: query.changes(),
    "stats": lambda query: query.stats(),
    "final": lambda query: query.final,
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
        assert other.result().num_rows == 2
