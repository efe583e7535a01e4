"""ALTER STREAM and TABLE: rows from before have the default, and files keep the names they were written with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import millstream as ms

SETUP = """
CREATE STREAM s (a INT, b STRING) TIMESTAMP BY ts RETAIN 100;
CREATE TABLE t (id INT PRIMARY KEY, n INT);
CREATE TABLE c (k INT, v INT) KEY (k) CHANGES BY op TIMESTAMP BY ts;
INSERT INTO s VALUES (1, 'x', 1), (2, 'y', 2);
INSERT INTO t VALUES (1, 10);
INSERT INTO c VALUES (1, 1, '+', 1);
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(SETUP)
    return tmp_path / "db"


def rows(db: ms.Database, text: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(text), key=str)


def test_columns_are_added(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.execute("ALTER STREAM s ADD COLUMN d DECIMAL(5,2) DEFAULT 1.5; ALTER STREAM s ADD e INT")
        db.execute("ALTER TABLE t ADD COLUMN m STRING NOT NULL DEFAULT 'new'; ALTER TABLE c ADD COLUMN w INT")
        db.execute("INSERT INTO s VALUES (3, 'z', 2.5, 7, 3); INSERT INTO s (a, ts) VALUES (4, 4)")
        db.execute("INSERT INTO s VALUES (0, 'late', 0, 0, 1)")
        db.execute("INSERT INTO t (id) VALUES (2); INSERT INTO c VALUES (2, 2, 22, '+', 2); ADVANCE TO 9")
    for _ in range(2):
        with ms.connect(path, engine="inprocess") as db:
            found = rows(db, "SELECT a, b, CAST(d AS STRING), e FROM s [RANGE 50]")
            assert found == [
                (1, "x", "1.50", None),
                (2, "y", "1.50", None),
                (3, "z", "2.50", 7),
                (4, None, "1.50", None),
            ]
            assert rows(db, "SELECT a FROM s [RANGE 50] WHERE d > 1.5 OR e = 7") == [(3,)]
            assert rows(db, "SELECT * FROM t") == [(1, 10, "new"), (2, None, "new")]
            assert rows(db, "SELECT * FROM c") == [(1, 1, None), (2, 2, 22)]
            assert [row[1:4] for row in rows(db, "SELECT a, b, e FROM s._late")] == [(0, "late", 0)]
            for mode in ("eager", "lazy", "none"):
                query = db.register("SELECT e, count(*) AS n FROM s [RANGE 50] GROUP BY e", name=mode, mode=mode)
                assert sorted(map(str, query.result().to_pylist())) == ["{'e': 7, 'n': 1}", "{'e': None, 'n': 3}"]
                query.drop()


def test_names_change(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.execute("COMMENT ON COLUMN s.b IS 'it'; COMMENT ON STREAM s IS 'all'; SET shedding = 'sample' FOR s")
        db.execute("ALTER STREAM s ADD COLUMN d INT DEFAULT 5; ALTER STREAM s RENAME COLUMN b TO name")
        db.execute("INSERT INTO s (a, name, ts) VALUES (3, 'z', 3); ALTER STREAM s RENAME d TO e")
        db.execute(
            "ALTER STREAM s RENAME TO sensors; ALTER TABLE t RENAME COLUMN id TO no; ALTER TABLE c RENAME TO log"
        )
        db.execute("INSERT INTO sensors VALUES (4, 'w', 6, 4); INSERT INTO log VALUES (1, 2, 'update', 3)")
        with pytest.raises(ms.ConstraintError, match="key no = 1"):
            db.execute("INSERT INTO t VALUES (1, 1)")
        with pytest.raises(ms.NameError, match='called "s"'):
            db.execute("SELECT * FROM s")
        db.execute("ADVANCE TO 9; CREATE STREAM s (other INT) TIMESTAMP BY ts; INSERT INTO s VALUES (99, 20)")
    with ms.connect(path, engine="inprocess") as db:
        found = rows(db, "SELECT a, name, e FROM sensors [RANGE 50]")
        assert found == [(1, "x", 5), (2, "y", 5), (3, "z", 5), (4, "w", 6)]
        assert rows(db, "SELECT * FROM log") == [(1, 2)]
        assert rows(db, "SELECT other FROM s._late") == []
        assert [row[5] for row in db.execute("DESCRIBE sensors")] == [None, "it", None]
        assert db.execute("DESCRIBE sensors").message.endswith("all")
        assert db.settings.of_stream("sensors").shedding == "sample"
        db.backup(path.parent / "copy")
    with ms.connect(path.parent / "copy", engine="inprocess") as db:
        assert len(rows(db, "SELECT e FROM sensors [RANGE 50]")) == 4


def test_retain_changes(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.execute("INSERT INTO s VALUES (3, 'z', 300), (4, 'w', 301); ADVANCE s TO 302")
        query = db.register("SELECT a FROM s [RANGE 20]", name="q")
        assert query.result(240).num_rows == 0
        db.execute("ALTER STREAM s SET RETAIN 50")
        with pytest.raises(ms.TimeError):
            query.result(240)
        assert query.result().num_rows == 2
        db.execute("DROP QUERY q; ALTER STREAM s SET RETAIN FOREVER")
    with ms.connect(path, engine="inprocess") as db:
        assert "retain FOREVER" in db.execute("SHOW STREAMS").fetchall()[0][2]
        assert rows(db, "SELECT a FROM s [RANGE 20]") == [(3,), (4,)]
        query = db.register("SELECT a FROM s [RANGE 20]", name="q")
        with pytest.raises(ms.TimeError):
            query.result(20)
        db.execute("INSERT INTO s VALUES (5, 'v', 900); ADVANCE s TO 901")
        assert query.result(302).num_rows == 2


def test_a_name_and_a_column_that_were_there_before(path: Path) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.execute("ALTER STREAM s RENAME COLUMN b TO x; ALTER STREAM s ADD COLUMN b INT DEFAULT 9")
        db.execute("ALTER STREAM s RENAME TO old; CREATE STREAM s (z INT) TIMESTAMP BY ts RETAIN 5")
        db.execute("INSERT INTO s VALUES (1, 4), (2, 3); INSERT INTO old VALUES (3, 'u', 1, 4); ADVANCE TO 9")
        db.execute(
            "ALTER STREAM s RENAME TO `s~2`; CREATE STREAM s (y INT) TIMESTAMP BY ts; INSERT INTO s VALUES (7, 5)"
        )
    with ms.connect(path, engine="inprocess") as db:
        assert rows(db, "SELECT a, x, b FROM old [RANGE 50]") == [(1, "x", 9), (2, "y", 9), (3, "u", 1)]
        assert rows(db, "SELECT * FROM `s~2` [RANGE 50]") == [(1,)]
        assert rows(db, "SELECT z FROM `s~2`._late") == [(4, 2)]
        db.execute("DROP STREAM `s~2`; ADVANCE TO 12")
        assert rows(db, "SELECT * FROM s [RANGE 50]") == [(7,)]
        assert len(rows(db, "SELECT * FROM old [RANGE 50]")) == 3


def test_a_file_with_alterations_is_run_again(db_path: Path) -> None:
    text = "CREATE STREAM s (a INT) TIMESTAMP BY ts; ALTER STREAM s ADD COLUMN b INT; ALTER STREAM s SET RETAIN 50;"
    text += "CREATE TABLE t (a INT); ALTER TABLE t RENAME TO u; CREATE TABLE other (a INT)"
    for number in range(3):
        with ms.connect(db_path, engine="inprocess") as db:
            told = db.execute(text, again=True).notices
            assert len(told) == (6 if number else 0)
            assert [row[0] for row in db.execute("DESCRIBE s")] == ["a", "b"]


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "again"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ALTER STREAM s ADD COLUMN b INT", 'has a column "b" already'),
        ("ALTER STREAM s ADD COLUMN ts INT", 'has a column "ts" already'),
        ("ALTER TABLE c ADD COLUMN op INT", 'has a column "op" already'),
        ("ALTER STREAM s ADD COLUMN _x INT", "starts with _"),
        ("ALTER STREAM s ADD COLUMN x INT NOT NULL", "rows that are there have no value"),
        ("ALTER STREAM s ADD COLUMN x", "expected the type of column x"),
        ("ALTER TABLE t ADD COLUMN x INT PRIMARY KEY", "cannot be the key"),
        ("ALTER TABLE s ADD COLUMN x INT", 'no table called "s"'),
        ("ALTER TABLE t SET RETAIN 5", "RETAIN belongs to streams"),
        ("ALTER TABLE t DROP COLUMN n", "ALTER TABLE takes ADD COLUMN"),
        ("ALTER TABLE t RENAME COLUMN x TO y", 'has no column "x"'),
        ("ALTER TABLE t RENAME COLUMN id TO n", 'has a column "n" already'),
        ("ALTER TABLE t RENAME TO s", '"s" is there already'),
        ("ALTER TABLE t RENAME TO `a.b`", "has a dot in it"),
        ("ALTER VIEW v RENAME TO w", "is replaced: CREATE OR REPLACE"),
    ],
)
def test_what_is_refused_changes_nothing(path: Path, text: str, said: str) -> None:
    with ms.connect(path, engine="inprocess") as db:
        before = db.session.declared.entries
        with pytest.raises(ms.Error, match=said) as caught:
            db.execute(text)
        assert caught.value.place is not None
        assert db.session.declared.entries == before
        db.execute("REGISTER QUERY q AS SELECT k FROM c")
        with pytest.raises(ms.CatalogError, match="in use") as caught:
            db.execute("ALTER TABLE c ADD COLUMN x INT")
        assert "by q; a change that takes a row away says all its columns" in str(caught.value)


_STOPPED = """
import sys, millstream as ms
db = ms.connect(sys.argv[1], engine="inprocess")
db.execute(sys.argv[2])
"""


@pytest.mark.parametrize("point", ["catalog-written", "catalog-renamed", "manifest-written", "manifest-linked"])
@pytest.mark.parametrize("text", ["ALTER STREAM s ADD COLUMN x INT DEFAULT 3", "ALTER STREAM s RENAME TO x"])
def test_whoever_is_stopped_has_one_of_them(path: Path, point: str, text: str) -> None:
    with ms.connect(path, engine="inprocess") as db:
        db.register("SELECT * FROM s [RANGE 50]", name="q")
    environment = {**os.environ, "MILLSTREAM_FAULT": f"{point}:1"}
    command = [sys.executable, "-c", _STOPPED, str(path), text]
    done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    with ms.connect(path, engine="inprocess") as db:
        db.execute("ADVANCE TO 9")
        name = "s" if "s" in db.catalog else "x"
        columns = [row[0] for row in db.execute(f"DESCRIBE {name}")]
        assert columns in (["a", "b"], ["a", "b", "x"])
        expected = [(1, "x", 3), (2, "y", 3)] if len(columns) == 3 else [(1, "x"), (2, "y")]
        assert rows(db, f"SELECT * FROM {name} [RANGE 50]") == expected
        assert db.query("q").fetchall() == [(1, "x"), (2, "y")]
