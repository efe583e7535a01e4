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
    with pytest.raises(ms.CatalogError, match="followed by the sink k"):
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
    with pytest.raises(ms.NameError):
        db.execute("DROP QUERY r; CREATE OR REPLACE VIEW w AS SELECT z FROM v")
    assert db.execute("CREATE OR REPLACE VIEW w AS SELECT x FROM v").message == "view w is there already"
    with pytest.raises(ms.NameError, match='no view called "s"'):
        db.execute("CREATE OR REPLACE VIEW s AS SELECT a FROM s")
    with pytest.raises(ms.SyntaxError, match="OR REPLACE would lose"):
        db.execute("CREATE OR REPLACE STREAM s (a INT) TIMESTAMP BY ts")


READ = """
CREATE VIEW w AS SELECT a, count(*) AS n FROM v GROUP BY a;
REGISTER QUERY on_v MODE LAZY AS SELECT a FROM v WHERE a > 0;
REGISTER QUERY on_w AS SELECT * FROM w;
REGISTER QUERY g1 AS SELECT a FROM v WHERE a > 1;
REGISTER QUERY g2 AS SELECT a FROM v WHERE a > 2;
REGISTER QUERY g3 MODE NONE AS SELECT a FROM v WHERE a > 3;
COMMENT ON QUERY on_w IS 'how many'
"""
# It reads what was created after those that read the view.
LATER = """
CREATE TABLE few (a INT);
INSERT INTO few VALUES (5), (7);
ADVANCE s TO 5;
CREATE OR REPLACE VIEW v AS SELECT few.a FROM few, s [RANGE 10] WHERE few.a = s.a
"""


def check_read(db: ms.Database, values: list[int]) -> None:
    expected = {
        "on_v": [{"a": a} for a in values],
        "on_w": [{"a": a, "n": 1} for a in values],
        **{f"g{n}": [{"a": a} for a in values if a > n] for n in (1, 2, 3)},
    }
    found = {name: sorted(db.query(name).result().to_pylist(), key=str) for name in expected}
    assert found == expected


def test_views_that_are_read(db: ms.Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    db.execute(READ)
    check_read(db, [1, 5, 7])
    made = commits_of(db, monkeypatch)
    said = db.execute("CREATE OR REPLACE VIEW v AS SELECT a FROM s [RANGE 10] WHERE a < 6").message
    assert said == "view v replaced: a relation; planned again over it: w, on_v, on_w, g1, g2, g3"
    assert len(made) == 1, "one commit"
    monkeypatch.undo()
    check_read(db, [1, 5])
    assert db.execute("DESCRIBE on_w").message.endswith("how many")
    db.execute(LATER)
    check_read(db, [5, 7])
    for _ in range(2):
        db.close()
        db = ms.connect(tmp_path / "db", engine="inprocess")
        check_read(db, [5, 7])
        assert [db.query(name).mode for name in ("on_v", "on_w", "g3")] == ["lazy", "eager", "none"]
    db.execute("INSERT INTO few VALUES (9); INSERT INTO s VALUES (9, 1, 6); ADVANCE s TO 7")
    check_read(db, [5, 7, 9])
    db.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT b FROM s [RANGE 10]", 'view "w" reads it'),  # which has no a
        ("SELECT CAST(a AS BIGINT) AS a FROM s [RANGE 10]", "would have the columns (a BIGINT, n BIGINT)"),
        ("SELECT a FROM w", "would read itself"),
        ("SELECT a FROM nowhere", "no stream, table or view"),
        ("SELECT a, b FROM s [RANGE 10]", "it would have the columns (a INT, b INT), and has (a INT)"),
        ("SELECT ISTREAM(a) FROM s [RANGE 10]", "reads it"),
    ],
)
def test_views_that_others_cannot_read_change_nothing(db: ms.Database, text: str, said: str) -> None:
    db.execute(f"{READ}; REGISTER QUERY star AS SELECT * FROM v")
    entries = db.session.declared.entries
    with pytest.raises(ms.Error) as caught:
        db.execute(f"CREATE OR REPLACE VIEW v AS {text}")
    assert said in str(caught.value)
    assert db.session.declared.entries is entries
    check_read(db, [1, 5, 7])


def test_views_of_templates_and_sinks_stay(db: ms.Database) -> None:
    db.register_many("SELECT a FROM v WHERE a = ?", [(1,), (5,)], template="some")
    with pytest.raises(ms.CatalogError, match="of the template some"):
        db.execute("CREATE OR REPLACE VIEW v AS SELECT b AS a FROM s [RANGE 10]")
    db.execute("DROP TEMPLATE some; REGISTER QUERY r AS SELECT a FROM v")
    db.create_sink("k", "r", lambda number, rows: None)
    with pytest.raises(ms.CatalogError, match="the sink k follows it"):
        db.execute("CREATE OR REPLACE VIEW v AS SELECT b AS a FROM s [RANGE 10]")


def test_what_fails_on_the_way_is_put_back(db: ms.Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    db.execute(READ)
    registration, count = db._queries.registration, 0
    before = registration.register

    def fails(*given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise ms.CatalogError("no room")
        return before(*given, **more)

    monkeypatch.setattr(registration, "register", fails)
    with pytest.raises(ms.CatalogError, match="no room"):
        db.execute("CREATE OR REPLACE VIEW v AS SELECT a FROM s [RANGE 10] WHERE a < 6")
    check_read(db, [1, 5, 7])
    db.close()
    with ms.connect(tmp_path / "db", engine="inprocess") as again:
        check_read(again, [1, 5, 7])


_REPLACED = """
import sys, millstream as ms
db = ms.connect(sys.argv[1], engine="inprocess")
db.execute("CREATE OR REPLACE VIEW v AS SELECT a FROM s [RANGE 10] WHERE a < 6")
"""


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


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_whoever_is_stopped_has_one_view_and_all_that_reads_it(tmp_path: Path, point: str) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{SETUP}; {READ}")
        check_read(db, [1, 5, 7])
    environment = {**os.environ, "MILLSTREAM_FAULT": f"{point}:1"}
    done = subprocess.run([sys.executable, "-c", _REPLACED, str(tmp_path / "db")], env=environment, capture_output=True)
    assert done.returncode in (-signal.SIGKILL, 0), done.stderr.decode()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        is_new = "a < 6" in db.execute("SHOW CREATE VIEW v").message
        check_read(db, [1, 5] if is_new else [1, 5, 7])


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


def test_a_query_with_the_name_of_something_else_is_told(db: ms.Database) -> None:
    assert db.execute("REGISTER QUERY V AS SELECT b FROM s").notices == ("FROM V goes on reading the view v",)
    assert not db.execute("REGISTER QUERY w AS SELECT b FROM s").notices
