"""ALTER of what views and queries read: these keep columns, answers and state, in every mode and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream as ms

SETUP = """
CREATE STREAM s (a INT, b STRING) TIMESTAMP BY ts;
CREATE TABLE t (id INT PRIMARY KEY, n INT);
CREATE TABLE c (k INT, w INT) KEY (k) CHANGES BY op TIMESTAMP BY ts;
CREATE TABLE u (d INT);
CREATE TABLE x (id INT, z INT);
INSERT INTO u VALUES (8);
INSERT INTO x VALUES (1, 7);
CREATE VIEW v AS SELECT * FROM s [RANGE 50];
INSERT INTO s VALUES (1, 'x', 1), (2, 'y', 2);
INSERT INTO t VALUES (1, 10), (2, 20);
INSERT INTO c VALUES (1, 1, '+', 1)
"""
# What is registered before, and what it is equal to by the names of now.
TEXTS = {
    "star": ("SELECT * FROM s [RANGE 50]", "SELECT a, {b} AS b FROM {s} [RANGE 50]"),
    "stream": (
        "SELECT ISTREAM(*) FROM s [RANGE 50] WHERE a > 1",
        "SELECT ISTREAM(a, {b} AS b) FROM {s} [RANGE 50] WHERE a > 1",
    ),
    "unbounded": ("SELECT * FROM s", "SELECT a, {b} AS b FROM {s}"),
    "rows": (
        "SELECT b, count(*) AS n FROM s [ROWS 3] GROUP BY b",
        "SELECT {b} AS b, count(*) AS n FROM {s} [ROWS 3] GROUP BY {b}",
    ),
    "table": ("SELECT * FROM t", "SELECT id, n FROM {t}"),
    "changed": ("SELECT * FROM c", "SELECT k, w FROM c"),
    "joined": (
        "SELECT s.*, t.n FROM s [RANGE 50], t WHERE s.a = t.id",
        "SELECT x.a, x.{b} AS b, y.n FROM {s} [RANGE 50] AS x, {t} AS y WHERE x.a = y.id",
    ),
    "all": (
        "SELECT * FROM s [RANGE 50], t, u WHERE a = id",
        "SELECT s.a, s.{b} AS b, t.id, t.n, u.d FROM {s} [RANGE 50] AS s, {t} AS t, u WHERE a = id",
    ),
    "counted": ("SELECT count(*) FROM s [RANGE 50], t", "SELECT count(*) FROM {s} [RANGE 50], {t}"),
    "using": ("SELECT * FROM t JOIN x USING (id)", "SELECT id, t.n, x.z FROM {t} AS t JOIN x USING (id)"),
    "late": ("SELECT * FROM s._late", "SELECT a, {b} AS b, `_ts` FROM {s}._late"),
    "view": ("SELECT * FROM v", "SELECT a, {b} AS b FROM {s} [RANGE 50]"),
    "with": ("WITH s AS (SELECT a FROM s [RANGE 50]) SELECT * FROM s", "SELECT a FROM {s} [RANGE 50]"),
    "nested": (
        "SELECT a FROM s [RANGE 50] WHERE EXISTS (SELECT * FROM t WHERE t.id = s.a)",
        "SELECT a FROM {s} [RANGE 50] WHERE a IN (SELECT id FROM {t})",
    ),
}
MODES = ("eager", "lazy", "none")


def answer(query: ms.Query) -> list[str]:
    return sorted(map(str, query.result().to_pylist()))


def answers(db: ms.Database) -> dict[str, list[str]]:
    return {query.name: answer(query) for query in db.queries()}


def as_now(db: ms.Database, text: str) -> list[str]:
    query = db.register(text, name="as_now")
    try:
        return answer(query)
    finally:
        query.drop()


def check(db: ms.Database, **names: str) -> None:
    """Every query has the answer that its columns have by their names of now; so have the texts that it shows."""
    called = {"s": "s", "t": "t", "b": "b", **names}
    found = answers(db)
    for name, (_, now) in TEXTS.items():
        expected = as_now(db, now.format(**called))
        assert expected, name
        for mode in MODES:
            assert found[f"{name}_{mode}"] == expected, (name, mode)
    for n in range(3):
        expected = as_now(db, f"SELECT a, {called['b']} AS b FROM {called['s']} [RANGE 50] WHERE a > {n}")
        assert found[f"eager{n}"] == found[f"lazy{n}"] == expected
    for query in db.queries():
        assert as_now(db, query.cql) == found[query.name], query.cql


def feed(db: ms.Database, at: int, s: str = "s", t: str = "t", b: str = "b") -> None:
    db.execute(f"INSERT INTO {s} (a, {b}, d, ts) VALUES ({at % 4}, 'z', {at * 10}, {at}), (9, 'late', 9, 0)")
    db.execute(f"INSERT INTO {t} VALUES ({at % 4}, 1, 'm') ON CONFLICT DO UPDATE SET n = 5")
    db.execute(f"INSERT INTO c VALUES ({at}, 2, '+', {at}); ADVANCE TO {at + 1}")


def registered(db: ms.Database) -> None:
    db.execute(SETUP)
    for name, (text, _) in TEXTS.items():
        for mode in MODES:
            db.register(text, name=f"{name}_{mode}", mode=mode)
    for n in range(3):
        for mode in ("eager", "lazy"):
            db.register(f"SELECT * FROM s [RANGE 50] WHERE a > {n}", name=f"{mode}{n}", mode=mode)
    db.register_many("SELECT * FROM s [RANGE 50] WHERE a = ?", [(1,), (2,), (3,)], template="alerts")
    db.advance(to=3)


def opened(path: Path) -> Iterator[ms.Database]:
    """Once with what has run, and once after a restart."""
    for _ in range(2):
        with ms.connect(path, engine="inprocess") as db:
            yield db


def test_queries_keep_what_they_have(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with ms.connect(path, engine="inprocess") as db:
        registered(db)
        before, steps = answers(db), {step.name for step in db.engine.pipeline.steps}
        said = db.execute("ALTER STREAM s ADD COLUMN d INT DEFAULT 7").message
        assert said.startswith("stream s: column d added; v, star_eager, star_lazy, ... (")
        db.execute("ALTER TABLE t ADD COLUMN m STRING")
        assert answers(db) == before
        assert {step.name for step in db.engine.pipeline.steps} == steps
        feed(db, 4)
        check(db)
        assert db.query("star_eager").cql == "SELECT * EXCEPT (d) FROM s [RANGE 50]"
        assert db.execute("SELECT * FROM s [RANGE 50] WHERE b = 'z'").fetchall() == [(0, "z", 40)]
        kept = answers(db)
    for at, db in zip((5, 6), opened(path), strict=True):
        assert answers(db) == kept
        assert {step.name for step in db.engine.pipeline.steps} == steps  # nothing was run again
        feed(db, at)
        check(db)
        kept = answers(db)


def test_queries_are_found_by_other_names(tmp_path: Path) -> None:
    path, called = tmp_path / "db", {"s": "sensors", "t": "things", "b": "name"}
    with ms.connect(path, engine="inprocess") as db:
        registered(db)
        db.execute("ALTER STREAM s ADD COLUMN d INT DEFAULT 7; ALTER TABLE t ADD COLUMN m STRING")
        db.execute("ALTER STREAM s ADD COLUMN e INT; ALTER STREAM s ADD COLUMN f INT DEFAULT 3")
        between = db.register("SELECT * FROM s [RANGE 50]", name="between")
        db.execute("ALTER STREAM s RENAME TO sensors; ALTER TABLE t RENAME TO things")
        db.execute("ALTER STREAM sensors RENAME COLUMN b TO name; CREATE STREAM s (other INT) TIMESTAMP BY ts")
        assert between.schema.names == ["a", "b", "d", "e", "f"]
        feed(db, 4, **called)
        db.execute("INSERT INTO s VALUES (99, 5); ADVANCE TO 6")
        check(db, **called)
        assert db.execute("SHOW CREATE VIEW v").message == (
            "CREATE VIEW v AS SELECT * EXCEPT (d, e, f) FROM sensors [RANGE 50] AS s(a, b, d, e, f)"
        )
        assert "Stream sensors" in db.execute("EXPLAIN QUERY star_lazy").message
        with pytest.raises(ms.TimeError, match="it waits for sensors"):
            db.query("between").result(1000)
        kept = answers(db)
    for at, db in zip((6, 8), opened(path), strict=True):
        assert answers(db) == kept
        feed(db, at, **called)
        db.execute(f"ADVANCE TO {at + 2}")
        check(db, **called)
        assert db.query("between").schema.names == ["a", "b", "d", "e", "f"]
        assert "Stream sensors" in db.execute("EXPLAIN QUERY star_lazy").message
        kept = answers(db)
    with ms.connect(path, engine="inprocess") as db:
        many = db.template("alerts")
        db.register_many(many.text, [(0,)], template="alerts")  # by the names that it was declared with
        assert many.schema.names[2:] == ["a", "b"]
        with pytest.raises(ms.CatalogError, match="in use"):
            db.execute("DROP STREAM sensors")
        db.execute("DROP STREAM s; DROP STREAM sensors CASCADE")
        assert {query.name for query in db.queries()} == {
            f"{name}_{mode}" for name in ("table", "changed", "using") for mode in MODES
        }


def test_followers_and_sinks_go_on(tmp_path: Path) -> None:
    taken: list[list[dict[str, object]]] = []
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(SETUP)
        query = db.register("SELECT ISTREAM(*) FROM s [RANGE 50]", name="q")
        db.create_sink("k", "q", lambda number, rows: taken.append(rows.to_pylist()))
        follower = query.follow()
        db.execute("ADVANCE TO 2")
        first = next(follower).to_pylist()
        db.execute("ALTER STREAM s ADD COLUMN d INT; ALTER STREAM s RENAME TO new; ALTER STREAM new RENAME b TO name")
        db.execute("INSERT INTO new VALUES (3, 'z', 1, 3); ADVANCE TO 4")
        assert first + next(follower).to_pylist() == [row for rows in taken for row in rows]
        assert [row["b"] for rows in taken for row in rows] == ["x", "y", "z"]


def test_retain_is_longer_while_queries_read(tmp_path: Path) -> None:
    path, text = tmp_path / "db", "SELECT a FROM s [RANGE 5]"
    with ms.connect(path, engine="inprocess") as db:
        db.execute(
            "CREATE STREAM s (a INT) TIMESTAMP BY ts RETAIN 20; CREATE STREAM slow (a INT) TIMESTAMP BY ts RETAIN 20"
        )
        for mode in MODES:
            db.register(text, name=mode, mode=mode)
        db.register("SELECT s.a FROM s [RANGE 5], slow [RANGE 5] WHERE s.a = slow.a", name="both")
        db.insert("s", [(n, n) for n in range(100)])
        db.insert("slow", [(n, n) for n in range(50)])
        db.execute("ADVANCE s TO 100; ADVANCE slow TO 50")
        said = db.execute("ALTER STREAM s SET RETAIN 1000").message
        assert said == "stream s: retain 1000; what was before 80 stays forgotten"
        db.insert("s", [(n, n) for n in range(101, 200)])
        db.execute("ADVANCE s TO 300")
    for db in opened(path):
        for mode in MODES:
            assert db.query(mode).result(80).num_rows == 6
            assert db.query(mode).result(103).num_rows == 5  # which RETAIN 20 would have forgotten by now
            with pytest.raises(ms.TimeError, match="no longer kept"):
                db.query(mode).result(79)
        assert db.query("both").result(50).num_rows == 5
        assert db.query("both").result(30).num_rows == 6
        with pytest.raises(ms.TimeError, match="no longer kept"):
            db.query("both").result(29)
