"""Names of users never meet names of Millstream's own."""

from __future__ import annotations

import millstream as ms


def test_a_stream_may_be_called_clock() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM clock (a INT) TIMESTAMP BY ts")
        db.execute("REGISTER QUERY q AS SELECT a, 1 AS one FROM clock [NOW]")
        db.execute("REGISTER QUERY constant AS SELECT 1 AS one; INSERT INTO clock VALUES (7, 3); ADVANCE TO 5")
        assert db.query("q").result(at=3).to_pylist() == [{"a": 7, "one": 1}]
        assert db.query("constant").result().to_pylist() == [{"_ts": 0, "one": 1}]


def test_output_columns_are_made_unique() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts")
        query = db.register("SELECT S.a, S.A, S.a + 1, x.a FROM S [NOW], S [NOW] AS x", name="Twice")
        assert query.schema.names == ["a", "A_1", "S.a + 1", "a_2"]
        assert db.query("twice") is query


def test_columns_called_as_those_of_answers_get_other_names_there() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts; CREATE VIEW late AS SELECT * FROM S._late")
        query = db.register("SELECT * FROM late WHERE _ts < 5", name="q")
        db.insert("S", [(1, 5), (2, 4), (3, 7)])
        db.advance(to=9)
        assert query.schema.names == ["a", "_ts_1"]
        assert query.result().to_pylist() == [{"_ts": 7, "a": 2, "_ts_1": 4}]
