"""GROUP BY ALL before the window that a query ends with; what the names in GROUP BY and HAVING stand for."""

from __future__ import annotations

import duckdb
import pytest

import millstream as ms

TABLES = """
    CREATE TABLE o (c INT, n INT);
    CREATE TABLE i (a INT);
    INSERT INTO o VALUES (1, 1), (2, 2);
    INSERT INTO i VALUES (1), (1), (3)
"""
# The names c and n are of the select list and of the query around.
NAMES = [
    "SELECT o.c, x.n FROM o LEFT JOIN LATERAL (SELECT i.a c, count(*) n FROM i WHERE i.a >= o.c GROUP BY c) x ON TRUE",
    "SELECT o.c, x.n FROM o LEFT JOIN LATERAL "
    "(SELECT i.a k, count(*) n FROM i WHERE i.a >= o.c GROUP BY k HAVING n > 1) x ON TRUE",
    "SELECT o.c FROM o WHERE EXISTS (SELECT i.a c FROM i WHERE i.a >= o.c GROUP BY c HAVING count(*) > 1)",
    "SELECT o.c, x.k FROM o LEFT JOIN LATERAL (SELECT i.a k FROM i GROUP BY k HAVING c > 1) x ON TRUE",
    "SELECT o.c, x.n FROM o LEFT JOIN LATERAL (SELECT o.c c, count(*) n FROM i WHERE i.a >= o.c GROUP BY c) x ON TRUE",
]


@pytest.mark.parametrize("text", NAMES)
def test_names_of_the_select_list_go_before_those_of_the_query_around(text: str) -> None:
    with duckdb.connect() as duck, ms.connect(engine="inprocess") as db:
        duck.execute(TABLES)
        db.execute(TABLES)
        expected = duck.execute(text).fetchall()
        assert sorted(map(str, db.execute(text).fetchall())) == sorted(map(str, expected))
        assert expected


def test_all_may_be_followed_by_the_window_of_the_query() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY t")
        query = db.register("SELECT a, count(*) AS n FROM S GROUP BY ALL BEGIN NOW - 1 END NOW")
        db.insert("S", [(1, 1), (1, 2), (2, 3)])
        db.advance(to=4)
        assert query.result(2).to_pylist() == [{"a": 1, "n": 2}]
        assert query.result(4).to_pylist() == [{"a": 2, "n": 1}]
