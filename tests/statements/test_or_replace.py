"""OR REPLACE: a view, query or sink in the place of another, by one commit; whoever is stopped has one of them."""

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
CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts;
CREATE VIEW v AS SELECT a FROM s [RANGE 10];
REGISTER QUERY q AS SELECT a FROM s [RANGE 10] WHERE a > 3;
INSERT INTO s VALUES (1, 10, 1), (5, 20, 2), (7, 30, 3);
ADVANCE s TO 4
"""
NEW = "REGISTER OR REPLACE QUERY q MODE {} AS {}"
TEXTS = [
    "SELECT a FROM s [RANGE 10] WHERE a > 6",
    "SELECT a, b FROM s [RANGE 10]",
    "SELECT ISTREAM(a) FROM s [RANGE 10] WHERE a > 0",
    "SELECT count(*) AS n FROM s [ROWS 2]",
]


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with ms.connect(tmp_path / "db", engine="inprocess") as opened:
        opened.execute(SETUP)
        yield opened


def commits_of(db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    made: list[object] = []
    journal = db.engine.commits.journal
    before = journal.commit

    def commit(*given: Any) -> None:
        made.append(given)
        before(*given)

    monkeypatch.setattr(journal, "commit", commit)
    monkeypatch.setattr(journal, "note", made.append)
    return made


@pytest.mark.parametrize("mode", ["EAGER", "LAZY", "NONE"])
@pytest.mark.parametrize("grouped", [False, True], ids=["alone", "in a group"])
def test_queries(db: ms.Database, mode: str, grouped: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if grouped:
        for n in range(3):
            db.execute(f"REGISTER QUERY other{n} AS SELECT a FROM s [RANGE 10] WHERE a > {n}")
    for number, text in enumerate(TEXTS):
        old = db.query("q")
        made = commits_of(db, monkeypatch)
        result = db.execute(NEW.format(mode, text))
        assert len(made) == 1, "one commit"
        monkeypatch.undo()
        assert result.message.startswith("query q replaced")
        assert result.query is db.query("q")
        with pytest.raises(ms.Error):
            old.result()
        expected = db.register(text, name=f"expected{number}").result()
        assert sorted(map(str, db.query("q").result().to_pylist())) == sorted(map(str, expected.to_pylist()))
        assert db.execute(NEW.format(mode, text)).message == "query q is there already"
    db.close()
    with ms.connect(tmp_path / "db", engine="inprocess") as again:
        assert again.query("q").mode == mode.lower()
        assert again.query("q").result().to_pylist() == [{"n": 2}]
        again.execute("INSERT INTO s VALUES (1, 1, 6); ADVANCE s TO 7")
        assert again.query("q").result().to_pylist() == [{"n": 2}]


def test_what_is_wrong_changes_nothing(db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    query = db.query("q")
    taken: list[int] = []
    db.execute("COMMENT ON QUERY q IS 'large'")
    for text in ("SELECT z FROM s", "SELECT RSTREAM(a) FROM s ORDER BY a", "SELECT a FROM"):
        with pytest.raises(ms.Error):
            db.execute(NEW.format("EAGER", text))
    assert db.query("q") is query
    db.create_sink("k", "q", lambda number, rows: taken.append(number))
    with pytest.raises(ms.CatalogError, match="in use"):
        db.execute(NEW.format("EAGER", TEXTS[0]))
    with pytest.raises(ms.SyntaxError, match="do not go together"):
        db.execute("REGISTER OR REPLACE QUERY IF NOT EXISTS q AS SELECT 1")
    db.execute("DROP SINK k")
    # What cannot be registered for another reason leaves what was there.
    registration = db._queries.registration
    before = registration.register

    def fails_once(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(registration, "register", before)
        raise ms.CatalogError("no")

    monkeypatch.setattr(registration, "register", fails_once)
    with pytest.raises(ms.CatalogError, match="no"):
        db.execute(NEW.format("EAGER", TEXTS[1]))
    assert db.query("q").result().to_pylist() == [{"a": 5}, {"a": 7}]
    assert db.execute("DESCRIBE q").message.endswith("large")
    db.execute(NEW.format("LAZY", TEXTS[1]))
    assert db.execute("DESCRIBE q").message.endswith("large")


def test_views(db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made = commits_of(db, monkeypatch)
    assert db.execute("CREATE OR REPLACE VIEW v (x) AS SELECT b FROM s [RANGE 5]").message.startswith("view v replaced")
    assert len(made) == 1
    monkeypatch.undo()
    assert sorted(db.execute("SELECT x FROM v")) == [(10,), (20,), (30,)]
    db.execute("CREATE OR REPLACE VIEW w AS SELECT x FROM v; REGISTER QUERY r AS SELECT x FROM w")
    for name in ("v", "w"):
        with pytest.raises(ms.CatalogError, match="in use"):
            db.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT a AS x FROM s [NOW]")
    with pytest.raises(ms.NameError):
        db.execute("DROP QUERY r; CREATE OR REPLACE VIEW w AS SELECT z FROM v")
    assert db.execute("CREATE OR REPLACE VIEW w AS SELECT x FROM v").message == "view w is there already"
    with pytest.raises(ms.NameError, match='no view called "s"'):
        db.execute("CREATE OR REPLACE VIEW s AS SELECT a FROM s")
    with pytest.raises(ms.SyntaxError, match="OR REPLACE would lose"):
        db.execute("CREATE OR REPLACE STREAM s (a INT) TIMESTAMP BY ts")


_STOPPED = """
import sys, millstream as ms
db = ms.connect(sys.argv[1], engine="inprocess")
db.execute("REGISTER OR REPLACE QUERY q AS SELECT a, b FROM s [RANGE 10]")
db.execute("CREATE OR REPLACE VIEW v AS SELECT b FROM s [NOW]")
"""


POINTS = (
    *("catalog-half-written", "catalog-renamed", "manifest-half-written", "manifest-linked", "manifest-counts"),
    *("before-sweep", "segment-written"),
)


@pytest.mark.parametrize("point", POINTS)
def test_whoever_is_stopped_has_one_of_them(tmp_path: Path, point: str) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(SETUP)
        db.query("q").result()
    environment = {**os.environ, "MILLSTREAM_FAULT": f"{point}:1"}
    done = subprocess.run([sys.executable, "-c", _STOPPED, str(tmp_path / "db")], env=environment, capture_output=True)
    assert done.returncode in (-signal.SIGKILL, 0), done.stderr.decode()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        found = db.query("q").result().to_pylist()
        assert found in (
            [{"a": 5}, {"a": 7}],
            [{"a": 1, "b": 10}, {"a": 5, "b": 20}, {"a": 7, "b": 30}],
        )
        assert [row[0] for row in db.execute("DESCRIBE v")] in (["a"], ["b"])
        db.execute("REGISTER OR REPLACE QUERY q AS SELECT b FROM s [RANGE 10]")
        assert db.query("q").result().num_rows == 3
