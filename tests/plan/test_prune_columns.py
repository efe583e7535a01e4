"""Joins keep the columns that are read: at least one, if there is any."""

from __future__ import annotations

import millstream as ms

TEXT = (
    "WITH x(w0, w1) AS (SELECT DISTINCT right('a%b', 1) AS c0, (-1) AS c1 FROM S [RANGE 5] AS r0 "
    "LEFT ANTI JOIN S [RANGE 1 SLIDE 4] AS r1 ON r0.c = r1.c WHERE NOT (NOT EXISTS (SELECT ((-1) DIV 2) AS c0))) "
    "SELECT mod(nvl(dayofyear(CAST(NULL AS DATE)), (r2.w1 * 2)), 3) AS c0, r2.w0 AS c1 FROM x AS r2 "
    "WHERE NOT ((r2.w0 NOT LIKE 'b%'))"
)


def test_a_join_with_one_row_without_columns() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a BIGINT, b STRING, c STRING) TIMESTAMP BY ts")
        db.insert("S", [(1, "a", "b", 0), (1, "a", None, 1)])
        query = db.register(TEXT)
        db.advance(to=3)
        assert query.result().to_pylist() == [{"c0": -2, "c1": "b"}]


def test_aggregates_that_became_equal_since_nobody_reads_them() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts")
        db.execute(
            "CREATE VIEW V AS SELECT RSTREAM(b AS c0, SUM(a) AS c1, SUM(a + 1) AS c2) FROM S [RANGE 5] GROUP BY b "
            "HAVING SUM(DISTINCT b) < 1 AND COUNT(*) >= b"
        )
        query = db.register("SELECT c0 FROM V [NOW]")
        db.insert("S", [(1, 0, 0), (1, 2, 0), (3, 0, 1)])
        db.advance(to=3)
        assert query.result().to_pylist() == [{"c0": 0}]
