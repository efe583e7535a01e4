"""INSERT INTO .. SELECT: what a query answers now becomes rows."""

from __future__ import annotations

import pytest

import millstream as ms
from millstream.database import Database


@pytest.fixture
def db() -> Database:
    db = ms.connect(engine="inprocess")
    db.execute("CREATE STREAM s (k STRING, v INT) TIMESTAMP BY t; CREATE TABLE best (k STRING, v BIGINT)")
    db.execute("CREATE STREAM u (v INT, k STRING) TIMESTAMP BY at")
    db.execute("INSERT INTO s VALUES ('a', 1, 1), ('a', 2, 2), ('b', 5, 3); ADVANCE s TO 9")
    return db


def test_into_a_table(db: Database) -> None:
    result = db.execute("INSERT INTO best SELECT k, max(v) FROM s [RANGE 100] GROUP BY k")
    assert result.insert is not None
    assert result.insert.accepted == 2
    assert sorted(db.execute("SELECT k, v FROM best")) == [("a", 2), ("b", 5)]
    db.execute("INSERT INTO best (v) SELECT 7 FROM s [RANGE 100] WHERE v = 5 AT 20")
    assert (None, 7) in db.execute("SELECT k, v FROM best").fetchall()
    db.execute("INSERT INTO best (v, k) (SELECT v + 1, k FROM best) AT 30")
    assert sorted(db.execute("SELECT v, k FROM best WHERE k = 'a'")) == [(2, "a"), (3, "a")]


def test_into_a_stream_by_names_and_from_elements(db: Database) -> None:
    db.execute("INSERT INTO u (k, v, at) SELECT ISTREAM(k, v, 4) FROM s [RANGE 100]")
    db.execute("INSERT INTO u (SELECT v, k, 6 FROM s [RANGE 100] WHERE k = 'b')")
    db.execute("INSERT INTO u WITH x AS (SELECT v, k FROM s [RANGE 100]) SELECT v + 10, k, 7 FROM x WHERE v = 1")
    db.execute("ADVANCE u TO 9")
    assert sorted(db.execute("SELECT v, k FROM u")) == [
        (4, 1, "a"),
        (4, 2, "a"),
        (4, 5, "b"),
        (6, 5, "b"),
        (7, 11, "a"),
    ]


def test_rows_that_came_too_late_are_told(db: Database) -> None:
    db.execute("ADVANCE u TO 50")
    result = db.execute("INSERT INTO u SELECT v, k, 6 FROM s [RANGE 100]")
    assert result.insert is not None
    assert (result.insert.accepted, result.insert.late) == (0, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INSERT INTO best SELECT k FROM s [RANGE 100]", "the query has 1 columns, and 2 are wanted"),
        ("INSERT INTO best (x) SELECT k FROM s [RANGE 100]", '"x"'),
        ("INSERT INTO best SELECT v, k FROM s [RANGE 100]", "STRING"),
        ("INSERT INTO u (SELECT v, k, 6 FROM s [RANGE 100]) AT 5", "AT belongs to tables"),
        ("INSERT INTO best SELECT k, w FROM s [RANGE 100]", '"w"'),
        ("INSERT INTO nothing SELECT k FROM s [RANGE 100]", "nothing"),
        ("INSERT INTO best", "expected VALUES or a query"),
        ("INSERT INTO best DEFAULT VALUES", "expected|DEFAULT"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_kept(db: Database, text: str, said: str) -> None:
    with pytest.raises(ms.Error, match=said):
        db.execute(text)
    assert db.execute("SELECT k, v FROM best").fetchall() == []
