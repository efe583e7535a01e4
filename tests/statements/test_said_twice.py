"""Statements that can be said twice, and drops that take along what reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app
from millstream.database import Database

APP = """
CREATE STREAM s (v INT) TIMESTAMP BY t;   -- of sensors
CREATE TABLE names (v INT, name STRING) KEY (v);
CREATE VIEW large AS SELECT v FROM s [RANGE 10] WHERE v > 5;
REGISTER QUERY q AS SELECT count(*) FROM large;
REGISTER QUERY r MODE LAZY AS SELECT v FROM s [RANGE 10] WHERE v > 3;
"""


@pytest.fixture
def db() -> Database:
    db = ms.connect(engine="inprocess")
    db.execute(APP)
    return db


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM IF NOT EXISTS s (other STRING) TIMESTAMP BY t",
        "CREATE TABLE IF NOT EXISTS NAMES (v INT)",
        "CREATE VIEW IF NOT EXISTS large AS SELECT v FROM s [NOW]",
        "REGISTER QUERY IF NOT EXISTS q AS SELECT v FROM s [NOW]",
    ],
)
def test_if_not_exists_leaves_what_is_there(db: Database, statement: str) -> None:
    before = db.query("q").cql
    assert db.execute(statement).message.endswith("is there already")
    assert db.query("q").cql == before
    with pytest.raises(ms.CatalogError, match="already"):
        db.execute(statement.replace("IF NOT EXISTS ", ""))


def test_if_not_exists_creates_what_is_not_there(db: Database) -> None:
    made = db.execute(
        "CREATE STREAM IF NOT EXISTS u (v INT) TIMESTAMP BY t; REGISTER QUERY IF NOT EXISTS x AS SELECT v FROM u"
    )
    assert made.query is db.query("x")
    assert db.execute("REGISTER QUERY IF NOT EXISTS x AS SELECT v FROM u").query is db.query("x")


def test_a_name_of_another_kind_is_no_reason_to_be_silent(db: Database) -> None:
    with pytest.raises(ms.CatalogError, match='there is a table "names" already'):
        db.execute("CREATE STREAM IF NOT EXISTS names (v INT) TIMESTAMP BY t")


def test_if_exists(db: Database) -> None:
    for kind in ("QUERY", "TEMPLATE", "VIEW", "STREAM", "TABLE", "SINK"):
        assert db.execute(f"DROP {kind} IF EXISTS nothing").message.endswith("nothing to drop")
        with pytest.raises(ms.NameError):
            db.execute(f"DROP {kind} nothing")
    db.execute("DROP QUERY IF EXISTS q")
    assert [query.name for query in db.queries()] == ["r"]
    with pytest.raises(ms.CatalogError, match="in use"):
        db.execute("DROP STREAM IF EXISTS s")


def test_a_text_that_is_run_again(db: Database) -> None:
    result = db.execute(
        APP.replace("-- of sensors", "").replace("(v INT) TIMESTAMP", "(v   INT)\n TIMESTAMP"), again=True
    )
    assert [notice.split(" is ")[0] for notice in result.notices] == [
        "stream s", "table names", "view large", "query q", "query r",
    ]  # fmt: skip
    for changed in ("v > 4", "v < 3"):
        with pytest.raises(ms.CatalogError, match='query "r" already, and it is another one'):
            db.execute(APP.replace("v > 3", changed), again=True)
    with pytest.raises(ms.CatalogError, match='query "r" already'):
        db.execute(APP.replace("MODE LAZY", "MODE NONE"), again=True)
    with pytest.raises(ms.CatalogError, match='stream "s" already'):
        db.execute(APP.replace("s (v INT)", "s (v BIGINT)"), again=True)


def test_a_file_is_run_twice(tmp_path: Path) -> None:
    file = tmp_path / "app.cql"
    file.write_text(APP + "INSERT INTO s VALUES (7, 1); SELECT 1;")
    arguments = ["run", str(file), "--db", str(tmp_path / "db"), "--in-process"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert "already" not in first.output
    second = CliRunner().invoke(app, arguments)
    assert second.exit_code == 0, second.output
    assert second.output.count("is there already") == 5
    file.write_text(APP.replace("v > 5", "v > 6"))
    third = CliRunner().invoke(app, arguments)
    assert third.exit_code == 1


def test_cascade(db: Database) -> None:
    taken: list[int] = []
    db.create_sink("k", "q", lambda number, rows: taken.append(number))
    alerts = db.register_many("SELECT v FROM s [RANGE 10] WHERE v > ?", [(n,) for n in range(5)], template="alerts")
    db.create_sink("a", alerts, lambda number, rows: taken.append(number))
    db.create_sink("one", alerts[0], lambda number, rows: taken.append(number))
    with pytest.raises(ms.CatalogError, match="in use"):
        db.execute("DROP QUERY q")
    with pytest.raises(ms.CatalogError, match="in use"):
        db.execute("DROP STREAM s")
    told = db.execute("DROP STREAM s CASCADE").message
    assert {"sink k dropped", "view large dropped", "template alerts dropped", "query r dropped"} <= {*told.split("; ")}
    assert db.queries() == []
    assert db.templates() == []
    assert db.execute("SHOW SINKS").fetchall() == []
    assert db.execute("SHOW TABLES").arrow().column("name").to_pylist() == ["names"]
    db.execute(APP, again=True)
    db.insert("s", [(7, 1)])
    db.advance("s", to=2)
    assert db.query("q").result().to_pylist() == [{"count(*)": 1}]


def test_cascade_of_what_is_not_there(db: Database) -> None:
    with pytest.raises(ms.NameError):
        db.execute("DROP STREAM nothing CASCADE")
    assert db.execute("DROP STREAM IF EXISTS nothing CASCADE").message.endswith("nothing to drop")
