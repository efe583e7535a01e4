"""Files with what does not fit: what CREATE and run tell of them, NOT NULL and DEFAULT in sources, sinks replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark


@pytest.fixture
def db(session: SparkSession, tmp_path: Path) -> Iterator[ms.Database]:
    with ms.connect(tmp_path / "db", spark=session) as opened:
        yield opened


def written(path: Path, *lines: str) -> str:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("\n".join(lines) + "\n")
    return str(path.parent)


def test_a_table_tells_what_it_read(db: ms.Database, tmp_path: Path) -> None:
    where = written(tmp_path / "in" / "a.csv", "1,a", "2,b,more", "x,c", "y,d", "3,", "4,e")
    said = db.execute(f"CREATE TABLE t (id INT, name STRING NOT NULL) USING csv OPTIONS (path '{where}')").message
    lines = said.split("\n")
    assert lines[0] == "table t created: 2 rows read, 4 malformed"
    assert any("3 values, not 2" in line for line in lines)
    assert any("'x,c'" in line for line in lines)
    assert not any("'y,d'" in line for line in lines), "one example of each reason"
    assert any("NOT NULL" in line for line in lines)
    assert lines[-1].strip() == "SELECT * FROM t._malformed has all"
    assert len(db.execute("SELECT raw, reason FROM t._malformed").fetchall()) == 4
    # The number of columns is another one throughout.
    said = db.execute(f"CREATE TABLE u (id INT, name STRING, z INT) USING csv OPTIONS (path '{where}')").message
    assert said.startswith("table u created: 1 row read, 5 malformed") or "0 rows read" in said
    twice = written(tmp_path / "twice" / "a.csv", "1,a", "1,b")
    with pytest.raises(ms.ConstraintError, match="two rows of its files have the key id = 1"):
        db.execute(f"CREATE TABLE w (id INT, name STRING) KEY (id) USING csv OPTIONS (path '{twice}')")
    assert "w" not in db.catalog
    db.execute(f"CREATE TABLE w (id INT, name STRING) KEY (id) NOT ENFORCED USING csv OPTIONS (path '{twice}')")


def test_a_run_tells_what_came(db: ms.Database, tmp_path: Path) -> None:
    rows = [{"a": 1, "ts": 1}, {"a": 2, "ts": 9}, {"a": 0, "ts": 3}, {"a": None, "ts": 10}]
    where = written(tmp_path / "in" / "a.json", *map(json.dumps, rows), "no json")
    made = db.execute(f"CREATE STREAM s (a INT NOT NULL) TIMESTAMP BY ts USING json OPTIONS (path '{where}')")
    assert "db.run()" in made.message
    db.execute("REGISTER QUERY fails AS SELECT 1 / a AS x FROM s [RANGE 5]")
    db.execute("REGISTER QUERY fine AS SELECT a FROM s [RANGE 50]")

    def broken(number: int, changes: object) -> None:
        raise ValueError("no room")

    db.sinks.pause = 0.0
    db.create_sink("k", "fine", broken)
    report = db.run()
    found = report.sources["s"]
    assert (found.rows, found.late, found.malformed, found.shed) == (3, 1, 2, 0)
    assert "SELECT * FROM s._malformed" in found.example
    db.execute("ADVANCE s TO 20")
    report = db.run()
    assert report.sources["s"].rows == 0
    assert {*report.paused} == {"k"}
    assert "sink k is paused: delivery 1: ValueError('no room')" in str(report)
    assert len(db.execute("SELECT a FROM s._late").fetchall()) == 1
    assert len(db.execute("SELECT reason FROM s._malformed").fetchall()) == 2


def test_failed_queries_are_told(db: ms.Database, tmp_path: Path) -> None:
    where = written(tmp_path / "in" / "a.csv", "0,1", "1,5")
    db.execute(f"CREATE STREAM s (a INT) TIMESTAMP BY ts USING csv OPTIONS (path '{where}')")
    db.execute("REGISTER QUERY fails AS SELECT 1 / a AS x FROM s [RANGE 5]")
    report = db.run()
    assert {*report.failed} == {"fails"}
    assert str(report).startswith("s: 2 rows\nquery fails has failed: ")


def test_columns_that_files_do_not_have(db: ms.Database, tmp_path: Path) -> None:
    where = written(tmp_path / "in" / "a.csv", "a,ts", "1,1", "2,2")
    options = f"USING csv OPTIONS (path '{where}', header 'true')"
    db.execute(f"CREATE STREAM s (a INT, b STRING DEFAULT 'q') TIMESTAMP BY ts {options}")
    db.run()
    db.execute("ALTER STREAM s ADD COLUMN c INT DEFAULT 7")
    written(tmp_path / "in" / "b.csv", "a,b,c,ts", "3,z,8,3", "4,,,4")
    written(tmp_path / "in" / "c.csv", "a,ts", "5,5")
    db.run()
    db.execute("ADVANCE s TO 9")
    found = sorted(db.execute("SELECT a, b, c FROM s [RANGE 50]"), key=str)
    assert found == [(1, "q", 7), (2, "q", 7), (3, "z", 8), (4, None, None), (5, "q", 7)]
    db.execute("ALTER STREAM s RENAME TO other")
    written(tmp_path / "in" / "d.csv", "a,b,c,ts", "6,y,2,10")
    assert db.run().sources["other"].rows == 1, "it goes on where it was"
    db.execute("ADVANCE other TO 11")
    assert sorted(db.execute("SELECT a, b, c FROM other [RANGE 50]"), key=str) == [*found, (6, "y", 2)]


def test_parquet_files_are_judged_by_their_footers(db: ms.Database, session: SparkSession, tmp_path: Path) -> None:
    where = str(tmp_path / "in")
    session.createDataFrame([(1, 1), (2, 2)], "a INT, ts BIGINT").coalesce(1).write.mode("append").parquet(where)
    session.createDataFrame([(None, 3), (4, 4)], "a INT, ts BIGINT").coalesce(1).write.mode("append").parquet(where)
    # Spark names the files at random, and files of one batch come in the order of their names: none makes another late.
    declared = "CREATE STREAM s (a INT NOT NULL) TIMESTAMP BY ts HEARTBEAT EXPLICIT"
    db.execute(f"{declared} USING parquet OPTIONS (path '{where}')")
    report = db.run()
    assert report.sources["s"].malformed == 1
    db.execute("ALTER STREAM s ADD COLUMN b INT DEFAULT 3; ADVANCE s TO 9")
    assert sorted(db.execute("SELECT a, b FROM s [RANGE 50]")) == [(1, 3), (2, 3), (4, 3)]


def test_sinks_are_replaced(db: ms.Database, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts; REGISTER QUERY q AS SELECT a FROM s [RANGE 50]")
    db.execute(f"CREATE SINK k FOR q USING json OPTIONS (path '{one}')")
    db.execute("INSERT INTO s VALUES (1, 1); ADVANCE s TO 2")
    assert one.exists()
    before = db.execute(f"CREATE OR REPLACE SINK k FOR q USING json OPTIONS (path '{one}')").message
    assert before == "sink k is there already"
    with pytest.raises(ms.NameError):
        db.execute("CREATE OR REPLACE SINK k FOR nothing USING json OPTIONS (path 'x')")
    said = db.execute(f"CREATE OR REPLACE SINK k FOR q USING json OPTIONS (path '{other}')").message
    assert said == "sink k replaced"
    db.execute("INSERT INTO s VALUES (2, 3); ADVANCE s TO 4")
    delivered = [json.loads(line) for file in sorted(other.rglob("*.json")) for line in file.read_text().splitlines()]
    assert sorted(row["a"] for row in delivered) == [1, 2], "it begins with all that holds"
    assert "path" in db.execute("SHOW CREATE SINK k").message
