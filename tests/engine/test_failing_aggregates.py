"""Aggregates that have no value for a group: the query fails where that is read, over groups that HAVING keeps."""

from __future__ import annotations

import polars as pl
import pytest
from tests.engine.failing import failure
from tests.properties.driver import in_process

import millstream as ms

STREAMS = "CREATE STREAM S (a INT, b BIGINT) TIMESTAMP BY ts; CREATE STREAM T (a INT, b BIGINT) TIMESTAMP BY ts"
MOST = 2**63 - 1
ROWS = {"S": [(1, MOST, 1), (1, MOST, 2), (2, 5, 2)], "T": [(1, 1, 1), (1, 2, 1), (2, 7, 1)]}
WAYS = [("eager", "early"), ("eager", "late"), ("lazy", "early"), ("none", "late")]


class Picky:
    """Does not like fives."""

    def initialize(self) -> int:
        return 0

    def iterate(self, state: int, batch: pl.Series) -> int:
        if (batch == 5).any():
            raise ValueError("five")
        return state + int(batch.sum())

    def terminate(self, state: int) -> int:
        return state


class Retracting(Picky):
    def retract(self, state: int, batch: pl.Series) -> int:
        return state - int(batch.sum())


CASES = [
    ("SELECT a, SUM(b) AS s FROM S [RANGE 5] GROUP BY a", "sum(b) does not fit into BIGINT"),
    ("SELECT SUM(b) AS s FROM S [RANGE 5]", "sum(b) does not fit into BIGINT"),
    ("SELECT a, SUM(b) AS s FROM S [RANGE 5] GROUP BY a HAVING a = 2", None),
    ("SELECT a, SUM(b) AS s FROM S [RANGE 5] GROUP BY a HAVING COUNT(*) < 2", None),
    ("SELECT a FROM S [RANGE 5] GROUP BY a HAVING COUNT(*) < 2 OR SUM(b) > 2", "sum(b) does not fit into BIGINT"),
    ("SELECT a FROM S [RANGE 5] GROUP BY a HAVING COUNT(*) > 0 OR SUM(b) > 2", None),
    ("SELECT a FROM S [RANGE 5] GROUP BY a HAVING SUM(b) > 2 AND a = 2", None),
    ("SELECT a FROM (SELECT a, SUM(b) AS s FROM S [RANGE 5] GROUP BY a) x", None),
    ("SELECT a FROM (SELECT a, SUM(b) AS s FROM S [RANGE 5] GROUP BY a) x WHERE s > 1", "does not fit"),
    ("SELECT CASE WHEN a = 1 THEN 0 ELSE SUM(b) END AS x FROM S [RANGE 5] GROUP BY a", None),
    ("SELECT DISTINCT SUM(b) AS x FROM S [RANGE 5] GROUP BY a", "does not fit"),
    ("SELECT a, SUM(b) AS s FROM S [NOW] GROUP BY a", None),
    ("SELECT a, SUM(b) AS s FROM S [ROWS 1] GROUP BY a", None),
    ("SELECT a, SUM(CAST(b AS DECIMAL(38, 0)) * 100000000000000000) AS s FROM S [NOW] GROUP BY a", None),
    ("SELECT SUM(DISTINCT b) AS s FROM S [RANGE 5] WHERE a = 1", None),
    # A scalar subquery of two rows is an error where its value is read.
    ("SELECT S.a, (SELECT T.b FROM T [RANGE 9] WHERE T.a = S.a) AS x FROM S [RANGE 5]", "more than one row"),
    ("SELECT S.a, (SELECT T.b FROM T [RANGE 9] WHERE T.a = S.a) AS x FROM S [RANGE 5] WHERE S.a = 2", None),
    ("SELECT S.a FROM S [RANGE 5] WHERE (SELECT T.b FROM T [RANGE 9] WHERE T.a = S.a) = 7 AND S.a = 2", None),
    ("SELECT S.a FROM S [RANGE 5] WHERE (SELECT T.b FROM T [RANGE 9] WHERE T.a = S.a) = 7", "more than one row"),
    ("SELECT IF(S.a = 1, 0, (SELECT T.b FROM T [RANGE 9] WHERE T.a = S.a)) AS x FROM S [RANGE 5]", None),
    ("SELECT (SELECT SUM(x.b) FROM S [RANGE 9] x WHERE x.a = S.a HAVING COUNT(*) < 2) AS x FROM S [RANGE 5] S", None),
    ("SELECT (SELECT SUM(x.b) FROM S [RANGE 9] x WHERE x.a = S.a) AS x FROM S [RANGE 5] S", "does not fit"),
    ("SELECT a, PICKY(b) AS s FROM S [RANGE 5] GROUP BY a", "picky(b) failed"),
    ("SELECT a, PICKY(b) AS s FROM S [NOW] GROUP BY a HAVING a = 1", None),
]


@pytest.mark.parametrize(("text", "error"), CASES)
def test_an_aggregate_fails_where_it_is_read(text: str, error: str | None) -> None:
    for way in WAYS:
        outcome = _outcome(text, *way)
        assert outcome == "" if error is None else error in outcome, way


def _outcome(text: str, mode: str, when: str) -> str:
    with in_process() as db:
        db.create_aggregate("picky", Picky, returns="bigint")
        db.execute(STREAMS)
        return failure(db, text, ROWS, mode, when)


@pytest.mark.parametrize("definition", [Picky, Retracting])
def test_what_is_gone_within_an_instant_fails_nothing(definition: type[Picky]) -> None:
    """Neither a value that leaves at the instant at which it comes, nor a group that is not there any more; and once it
    has raised, an aggregate goes on with what the group has."""
    with in_process() as db:
        db.create_aggregate("picky", definition, returns="bigint")
        db.execute(STREAMS)
        query = db.register("SELECT PICKY(b) AS s, COUNT(*) AS n FROM S [ROWS 2]")
        hidden = db.register("SELECT IF(COUNT(*) > 1, 0, PICKY(b)) AS s FROM S [RANGE 2]")
        db.insert("S", [(1, 5, 1), (1, 2, 1), (1, 3, 1)])
        db.advance(to=1)
        assert query.result().to_pylist() == [{"s": 5, "n": 2}]
        assert hidden.result().to_pylist() == [{"s": 0}]
        db.insert("S", [(1, 4, 2)])
        db.advance(to=3)
        assert hidden.result().to_pylist() == [{"s": 0}]
        assert query.result().to_pylist() == [{"s": 7, "n": 2}]
        db.advance(to=4)
        assert hidden.result().to_pylist() == [{"s": 4}]
        assert query.error is None


def test_groups_of_queries_find_the_one_that_fails() -> None:
    with in_process() as db:
        db.execute(STREAMS)
        queries = [db.register(f"SELECT SUM(b) AS s FROM S [RANGE 5] WHERE a = {a}") for a in (1, 2, 3)]
        for name, rows in ROWS.items():
            db.insert(name, rows)
        db.advance(to=3)
        with pytest.raises(ms.EvaluationError, match="does not fit"):
            queries[0].result()
        assert [query.result().to_pylist() for query in queries[1:]] == [[{"s": 5}], [{"s": None}]]
