"""Text that means nothing is refused at its place, wherever it stands in a statement; so are options given twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import millstream as ms
from millstream.language.dialect import CQL
from millstream.language.statement_parser import parse

STATEMENTS = [
    "CREATE STREAM x (a INT, c DECIMAL(10,2)) TIMESTAMP BY ts HEARTBEAT DELAY 3 RETAIN 5",
    "CREATE STREAM x (a INT) TIMESTAMP BY ts TIMESTAMP TICK INTERVAL '1' SECOND IDLE AFTER 5 SECONDS RETAIN 7 DAYS",
    "CREATE STREAM x (a INT) TIMESTAMP BY ts HEARTBEAT CLOCK RETAIN FOREVER USING json OPTIONS (path 'p', n 5)",
    "CREATE TABLE x (a INT, b STRING) KEY (a) NON RETROACTIVE",
    "CREATE TABLE x (a INT) APPEND ONLY USING csv",
    "CREATE TABLE x (a INT) KEY (a) CHANGES BY op TIMESTAMP BY ts BIGINT HEARTBEAT EXPLICIT",
    "CREATE SINK k FOR q USING json OPTIONS (path 'p')",
    "DROP QUERY q",
    "DROP TABLE t",
    "ADVANCE s TO 9",
    "SET jit = off",
    "EXPLAIN QUERY q",
    "SHOW STREAMS",
    "SHOW PLAN",
]
GARBAGE = ["zzz", "7", "'zzz'", ",", "(", ")", "[", "]", "*", "AND", "NULL", "=", "."]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_word_too_many(statement: str, garbage: str) -> None:
    places = [token.start for token in CQL().tokenize(statement)] + [len(statement)]
    accepted, nowhere = [], []
    for at in places:
        text = f"{statement[:at]} {garbage} {statement[at:]}"
        try:
            parse(text)
            accepted.append(" ".join(text.split()))
        except ms.Error as error:
            nowhere += [text] if error.place is None else []
    assert nowhere == []
    assert [text for text in accepted if not _is_meant(text)] == []


def _is_meant(text: str) -> bool:
    """Options may have an equals sign; a dot before a number, and one between names, belong to them; NULL behind the
    type of a column says what holds anyway."""
    spaced = text.replace(" (", "(").replace("( ", "(")
    is_nullable = re.search(r"(INT|STRING|10,2 ?\)) NULL ?[,)]", text) is not None
    return (" = " in spaced and "OPTIONS" in spaced) or " . " in text or is_nullable


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute("CREATE STREAM s (a INT, b STRING) TIMESTAMP BY ts; CREATE TABLE t (a INT, b STRING)")
        yield database


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("SELECT , a FROM s", ","),
        ("SELECT a, FROM s", "FROM"),
        ("SELECT a FROM s [RANGE 5], WHERE a = 1", "WHERE"),
        ("SELECT a FROM s WHERE a > 1 ,", ""),
        ("SELECT a FROM s *", "*"),
        ("SELECT a FROM s [RANGE 5] 'name'", "'name'"),
        ("SELECT a FROM .s", "."),
        ("SELECT count(*,) FROM s", ")"),
        ("SELECT a FROM s GROUP BY a,, b", ","),
        ("SELECT a FROM s [PARTITION BY , b ROWS 3]", ","),
        ("SELECT a FROM s WHERE a IN (1,)", ")"),
        ("SELECT * EXCEPT (a,) FROM s", ")"),
        ("SELECT CAST(1 AS DECIMAL(10,)) AS a", ")"),
        ("SELECT INTERVAL NOT '1' HOUR AS a", "INTERVAL NOT '1' HOUR"),
        ("INSERT INTO t VALUES (1, NOT 'x')", "NOT 'x'"),
        ("SELECT '1' || 1 + 2 AS a", "'1' || 1 + 2"),
        ("SELECT -1::STRING AS a", "-1::STRING"),
        ("INSERT INTO t VALUES (1, - 'x')", "- 'x'"),
        ("CREATE TABLE x (a INT) USING csv OPTIONS (path 'p', PATH 'q')", "'q'"),
    ],
)
def test_refused_at_its_place(db: ms.Database, text: str, refused: str) -> None:
    with pytest.raises(ms.Error) as caught:
        db.execute(text)
    place = caught.value.place
    assert place is not None
    assert text[place.start : place.end] == refused


def test_the_sign_of_an_interval_counts(db: ms.Database) -> None:
    found = db.execute(
        "SELECT TIMESTAMP '2020-01-01 12:00:00' + INTERVAL -1 HOUR = TIMESTAMP '2020-01-01 11:00:00' AS a, "
        "INTERVAL -1 HOUR = - INTERVAL '1' HOUR AS b, INTERVAL '-1' HOUR = INTERVAL -1 HOUR AS c"
    ).table
    assert found is not None
    assert [found[name].to_pylist() for name in "abc"] == [[True], [True], [True]]


def test_what_spark_reads_alike(db: ms.Database) -> None:
    found = db.execute("SELECT X'1' AS a, X'1F' AS b, 1 + 2 || 3 AS c, 'a' || (1 + 2) AS d, (-1)::STRING AS e").table
    assert found is not None
    assert [found[name].to_pylist()[0] for name in "abcde"] == [b"\x01", b"\x1f", "33", "a3", "-1"]
