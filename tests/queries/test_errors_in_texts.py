"""What rows make fail is pointed at in the text of the query, however the query is run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import millstream as ms


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT, v DOUBLE, t STRING) TIMESTAMP BY ts")
        db.insert("s", [(1, 2.0, "x", 1)])
        db.advance("s", to=2)
        yield db


def pointed(error: ms.Error | None) -> str:
    """The part of the text that an error points at."""
    assert error is not None
    assert error.place is not None
    return error.place.text[error.place.start : error.place.end]


@pytest.mark.parametrize(
    ("select", "part"),
    [
        ("a, 10 / (a - 1) AS x", "10 / (a - 1)"),
        ("a,\n  CAST(t AS INT) AS n", "CAST(t AS INT)"),
        ("CASE WHEN a > 0 THEN 1 / (a - 1) END AS c", "1 / (a - 1)"),
        ("sum(1 / (a - 1)) AS c", "1 / (a - 1)"),
    ],
)
def test_statements_point_at_what_failed(db: ms.Database, select: str, part: str) -> None:
    query = f"SELECT {select} FROM s [RANGE 10]"
    for text in (query, f"REGISTER QUERY q AS {query}", f"SHOW STREAMS; {query}"):
        with pytest.raises(ms.EvaluationError) as failed:
            db.execute(text)
        assert pointed(failed.value) == part
    with pytest.raises(ms.EvaluationError) as failed:
        db.register(query)
    assert "".join(pointed(failed.value).split()) == "".join(part.split())


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("count", [1, 12])
def test_standing_queries_point_into_their_own_texts(db: ms.Database, mode: str, count: int) -> None:
    text = "SELECT t FROM s [RANGE 10] WHERE v > {c} AND a / (v - {c}) > 0"
    queries = [db.register(text.format(c=5 + c), name=f"q{c}", mode=mode) for c in range(count)]
    db.insert("s", [(3, 4.5 + count, "y", 3)])
    db.advance("s", to=4)
    assert all(query.error is None for query in queries)
    wrong = "SELECT t FROM s [RANGE 10] WHERE a / (v - {c}) > 0"
    queries = [db.register(wrong.format(c=5 + c), name=f"w{c}", mode=mode) for c in range(count)]
    db.insert("s", [(3, 4.0 + count, "y", 5)])
    db.advance("s", to=6)
    assert pointed(queries[-1].error) == f"a / (v - {4 + count})"
    with pytest.raises(ms.EvaluationError) as failed:
        queries[-1].result()
    assert pointed(failed.value) == f"a / (v - {4 + count})"


def test_what_can_have_no_value_is_noticed(db: ms.Database) -> None:
    said = db.execute("REGISTER QUERY q AS SELECT t FROM s [RANGE 10] WHERE a > 1 AND v > 'abc'")
    assert said.notices == (
        "it fails as soon as a row comes to this: v > 'abc' (line 1, column 64): "
        "cannot read a text as DOUBLE in CAST('abc' AS DOUBLE)",
    )
    assert db.execute("REGISTER QUERY r AS SELECT t FROM s [RANGE 10] WHERE a > 1 AND v > '2.5'").notices == ()


def test_members_without_constants_are_explained(db: ms.Database) -> None:
    for c in range(12):
        db.register(f"SELECT t FROM s [RANGE 10] WHERE a > {c}", name=f"q{c}")
    shown = db.register("SELECT t FROM s [RANGE 10] WHERE a > v", name="own").explain()
    assert "sharing: evaluated last, row by row: (CAST(a AS DOUBLE) > v)" in shown
    assert db.query("own").stats()["unindexed"] == ["(CAST(a AS DOUBLE) > v)"]


def test_what_is_misspelt_is_guessed(db: ms.Database) -> None:
    for text, said in (
        ("SELECT a FROM s [RANG 10]", 'did you mean "RANGE"?'),
        ("REGISTER q AS SELECT a FROM s [NOW]", "as in REGISTER QUERY q AS"),
        ("CREATE SINK k ON q", "as in CREATE SINK s FOR q USING"),
    ):
        with pytest.raises(ms.SyntaxError) as refused:
            db.execute(text)
        assert said in refused.value.primary
    for text, said in (
        ("SELECT ISTREAM a FROM s", "SELECT ISTREAM(a, b) FROM"),
        ("SELECT ts FROM s", "ts says when rows come, and is no column of theirs"),
        ("SELECT t, count(*) AS number FROM s GROUP BY t HAVING numbr > 1", 'did you mean "number"?'),
        ("SELECT t FROM s EMIT CHANGES", "leave EMIT CHANGES out"),
    ):
        with pytest.raises(ms.StatementError, match=re.escape(said)):
            db.execute(text)
    assert db.execute("ADVANCE s TO 1").message == "s was at 2 already"
    db.register_many("SELECT t FROM s [NOW] WHERE a > ?", list(range(20)), template="many")
    db.register("SELECT t FROM s [NOW]", name="zz")
    with pytest.raises(ms.NameError, match="hint: there are: zz, q1, "):
        db.execute("DROP QUERY nothing_like_it")
