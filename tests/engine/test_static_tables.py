"""STATIC tables: all rows are there from tick 0 on. Joins just in time drop what has no partner there."""

from __future__ import annotations

import pytest
from tests.engine.just_in_time import counts
from tests.support.answers import table_of

import millstream as ms
from millstream.database import Database

SCHEMA = """
CREATE STREAM A (k INT, x INT) TIMESTAMP BY ts;
CREATE STREAM B (k INT, y INT) TIMESTAMP BY ts;
CREATE TABLE F (x INT, f STRING) STATIC;
INSERT INTO F VALUES (1, 'one'), (3, 'three'), (NULL, 'none');
"""
JOINED = "SELECT A.k, A.x, B.y, f FROM A [RANGE 9], B [RANGE 9], F WHERE A.k = B.k AND A.x = F.x"
ASKED = (
    "SELECT A.k, A.x, B.y FROM A [RANGE 9], B [RANGE 9] WHERE A.k = B.k AND EXISTS (SELECT * FROM F WHERE F.x = A.x)"
)


def fill(db: Database) -> None:
    db.advance(to=0)
    for t in range(1, 21):
        db.insert("A", [(t % 3, t % 5, t)])
        db.insert("B", [(t % 3, t, t)])
    db.advance(to=40)


@pytest.mark.parametrize("query", [JOINED, ASKED])
def test_rows_without_a_partner_in_a_static_table_are_dropped(query: str) -> None:
    found = {}
    for jit in ("on", "off"):
        with ms.connect(engine="inprocess") as db:
            db.execute(f"{SCHEMA} SET join_plan = 'tree'; SET jit = {jit}")
            registered = db.register(query, name="q")
            fill(db)
            changes = registered.changes()
            found[jit] = sorted(zip(*(changes[name].to_pylist() for name in changes.column_names), strict=True))
            if jit == "on":
                assert counts(db, "q")["dropped"] == 12  # those with x = 0, 2 and 4
    assert found["on"] == found["off"]
    assert len(found["on"]) > 10


def test_nothing_is_dropped_before_all_rows_are_there() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = 'tree'; SET jit = on")
        query = db.register(JOINED, name="q")
        db.insert("A", [(1, 7, 0)])
        db.insert("B", [(1, 1, 0)])
        db.execute("INSERT INTO F VALUES (7, 'seven')")
        db.advance(to=5)
        assert query.result().to_pylist() == [{"k": 1, "x": 7, "y": 1, "f": "seven"}]


def test_a_static_table_is_monotonic() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        assert db.register("SELECT x FROM F").kind == "stream"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO F VALUES (5, 'five')", "table F is STATIC: all its rows are there from tick 0 on"),
        ("INSERT INTO F VALUES (5, 'five') AT 50", "table F is STATIC: all its rows are there from tick 0 on"),
        ("DELETE FROM F WHERE x = 1", "table F is STATIC"),
        ("UPDATE F SET x = 2 WHERE x = 1", "table F is STATIC"),
        (
            "CREATE TABLE G (x INT) STATIC CHANGES BY op TIMESTAMP BY ts",
            "a STATIC table never changes: leave STATIC or CHANGES BY out",
        ),
    ],
)
def test_changes_are_refused(statement: str, message: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        db.advance(to=3)
        with pytest.raises(ms.Error, match=message):
            db.execute(statement)
        assert table_of(db, "SELECT COUNT(*) AS n FROM F").to_pylist() == [{"n": 3}]
