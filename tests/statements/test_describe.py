"""DESCRIBE, SHOW FUNCTIONS, SETTINGS and CREATE, and COMMENT ON."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

SETUP = """
CREATE STREAM s (a INT NOT NULL, b STRING DEFAULT 'q') TIMESTAMP BY ts;
CREATE TABLE t (id INT PRIMARY KEY, name STRING);
CREATE VIEW v AS SELECT a, count(*) AS n FROM s [RANGE 5] GROUP BY a;
REGISTER QUERY q AS SELECT a FROM s [RANGE 10] WHERE a > 3;
REGISTER QUERY r MODE LAZY AS SELECT a FROM s [RANGE 10] WHERE a > 4;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(SETUP)
    return tmp_path / "db"


def test_describe(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        assert db.execute("DESCRIBE s").fetchall() == [
            ("a", "INT", False, None, False, None),
            ("b", "STRING", True, "q", False, None),
        ]
        assert db.execute("DESC TABLE t").fetchall()[0] == ("id", "INT", False, None, True, None)
        assert db.execute("DESCRIBE VIEW v").fetchall()[1][:2] == ("n", "BIGINT")
        assert db.execute("DESCRIBE r").fetchall() == [("a", "INT")]
        assert "mode LAZY" in db.execute("DESCRIBE QUERY r").message
        assert db.execute("DESCRIBE SELECT a + 1.5 AS x FROM s [NOW]").fetchall() == [("x", "DECIMAL(12,1)")]
        assert [row[0] for row in db.execute("DESCRIBE s._late")] == ["a", "b", "_ts"]
        with pytest.raises(ms.NameError, match='no view called "s"'):
            db.execute("DESCRIBE VIEW s")
        with pytest.raises(ms.NameError, match="did you mean"):
            db.execute("DESCRIBE ss")


def test_functions_and_settings(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.create_function("score", lambda a: a, returns="double")
        everything = db.execute("SHOW FUNCTIONS").arrow().column("name").to_pylist()
        assert everything == sorted(everything)
        assert {"abs", "count", "row_number", "score"} <= {*everything}
        assert db.execute("SHOW FUNCTIONS LIKE '%SCO_E'").fetchall()[0][1] == "scalar of this database"
        for name in everything:
            assert db.execute(f"DESCRIBE FUNCTION {name}").fetchone() is not None
        with pytest.raises(ms.NameError, match='did you mean "substr"'):
            db.execute("DESCRIBE FUNCTION supstr")
        db.execute("SET jit = off; SET shedding = 'sample' FOR s")
        found = db.execute("SHOW SETTINGS LIKE 'jit'")
        assert found.fetchall()[0][:3] == ("jit", "off", "auto")
        assert "s: shedding = sample" in found.message
        assert db.execute("SHOW SETTINGS").arrow().num_rows > 20


def test_show_create_makes_the_same_again(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db, ms.connect(engine="inprocess") as other:
        for name in ("s", "t", "v", "q", "r"):
            other.execute(str(db.execute(f"SHOW CREATE {name}").message))
            assert other.execute(f"DESCRIBE {name}").fetchall() == db.execute(f"DESCRIBE {name}").fetchall()
            assert other.execute(f"SHOW CREATE {name}").message == db.execute(f"SHOW CREATE {name}").message
        assert other.query("r").mode == "lazy"
        db.create_sink("k", "q", lambda number, rows: None)
        assert "db.create_sink" in db.execute("SHOW CREATE SINK k").message
        with pytest.raises(ms.CatalogError, match="Millstream's own"):
            db.execute("SHOW CREATE sys.epochs".replace("sys.epochs", "`sys.epochs`"))


def test_comments_stay_with_what_they_are_about(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.register_many("SELECT a FROM s [RANGE 10] WHERE a > ?", [(n,) for n in range(4)], template="many")
        for kind, name in (("STREAM", "s"), ("TABLE", "t"), ("VIEW", "v"), ("QUERY", "q"), ("TEMPLATE", "many")):
            db.execute(f"COMMENT ON {kind} {name} IS 'it''s {name}'")
        db.execute(
            "COMMENT ON COLUMN s.a IS 'first'; COMMENT ON COLUMN s.a IS 'a number'; COMMENT ON COLUMN v.n IS 'x'"
        )
        db.execute("COMMENT ON COLUMN v.n IS NULL")
        for text, said in (
            ("COMMENT ON TABLE s IS 'x'", 'no table called "s"'),
            ("COMMENT ON COLUMN s.z IS 'x'", 'no column "z"'),
            ("COMMENT ON COLUMN q.a IS 'x'", "is a query"),
            ("COMMENT ON s IS 'x'", "COMMENT ON takes"),
            ("COMMENT ON STREAM s IS 5", "a text in quotes"),
        ):
            with pytest.raises(ms.Error, match=said):
                db.execute(text)
    with ms.connect(path, engine="inprocess") as db:
        assert [row[5] for row in db.execute("DESCRIBE s")] == ["a number", None]
        assert [row[5] for row in db.execute("DESCRIBE v")] == [None, None]
        for name in ("s", "t", "v", "q", "many"):
            assert db.execute(f"DESCRIBE {name}").message.endswith(f"it's {name}")
        db.execute("DROP STREAM s CASCADE; DROP TABLE t")
        assert not [entry for entry in db.session.declared.entries if entry["kind"] == "comment"]
        db.execute(SETUP)
        assert "it's" not in db.execute("DESCRIBE q").message
