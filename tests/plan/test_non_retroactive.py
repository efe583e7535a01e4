"""NON RETROACTIVE tables above semi joins: a row is generated when its partner is there too."""

from __future__ import annotations

import millstream as ms

QUERY = """SELECT x.a, N.b FROM N, (SELECT a FROM S [RANGE 9]
    WHERE EXISTS (SELECT 1 FROM T [RANGE 9] WHERE T.a = S.a)) AS x WHERE N.a = x.a"""


def test_a_row_that_waited_for_its_partner_meets_the_version_of_then() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts; CREATE STREAM T (a INT) TIMESTAMP BY ts;")
        db.execute("CREATE TABLE N (a INT, b INT) NON RETROACTIVE")
        query = db.register(QUERY)
        db.execute("INSERT INTO N VALUES (1, 10)")
        db.insert("S", [(1, 2)])
        db.advance(to=3)
        db.execute("UPDATE N SET b = 20 WHERE a = 1")
        db.advance(to=5)
        db.insert("T", [(1, 6)])
        db.advance(to=8)
        assert query.result().to_pylist() == [{"a": 1, "b": 20}]
