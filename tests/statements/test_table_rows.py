"""Keys, NOT NULL, DEFAULT and ON CONFLICT: statements do to a table what they do to one of DuckDB, or are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import millstream as ms

TABLE = "CREATE TABLE t (id INT, part STRING, name STRING NOT NULL DEFAULT 'x', n BIGINT DEFAULT 1 + 2, "
KEYED = TABLE + "PRIMARY KEY (id, part))"


def rows_of(db: ms.Database) -> Counter[tuple[Any, ...]]:
    return Counter(db.execute("SELECT id, part, name, n FROM t").fetchall())


ids, parts = some.integers(0, 3), some.sampled_from(["'a'", "'b'"])
keys = some.tuples(ids.map(str), parts)
names = some.sampled_from(["'u'", "'v'", "DEFAULT", "NULL"])
numbers = some.sampled_from(["1", "7", "DEFAULT", "NULL"])
conflicts = some.sampled_from(
    [
        "",
        "",
        " ON CONFLICT DO NOTHING",
        " ON CONFLICT (id, part) DO NOTHING",
        " ON CONFLICT (id, part) DO UPDATE SET n = excluded.n",
        " ON CONFLICT (part, id) DO UPDATE SET n = t.n + 1, name = excluded.name",
        " ON CONFLICT (id, part) DO UPDATE SET name = 'w' WHERE excluded.n > 2",
    ]
)


def insertion(head: str, rows: list[tuple[tuple[str, str], str, str]], conflict: str) -> str:
    if "DO UPDATE" in conflict:  # of which DuckDB takes several for one key, and PostgreSQL does not
        rows = [*{row[0]: row for row in rows}.values()]
    texts = [f"({', '.join(row[0] if head else (*row[0], *row[1:]))})" for row in rows]
    return f"INSERT INTO t {head}VALUES {', '.join(texts)}{conflict}"


inserts = some.builds(
    insertion,
    some.sampled_from(["", "(id, part) "]),
    some.lists(some.tuples(keys, names, numbers), min_size=1, max_size=3),
    conflicts,
)
others = some.sampled_from(
    [
        "DELETE FROM t WHERE id = 1",
        "DELETE FROM t WHERE n IS NULL",
        "DELETE FROM t",
        "UPDATE t SET name = 'z' WHERE id < 2",
        "UPDATE t SET name = DEFAULT, n = DEFAULT WHERE part = 'a'",
        "UPDATE t SET name = NULL WHERE id = 2",
        "UPDATE t SET part = 'a'",
        "UPDATE t SET n = n + id",
        "INSERT INTO t SELECT id + 2, part, name, n FROM t",
        "INSERT INTO t SELECT id + 1, part, name, n FROM t ON CONFLICT DO NOTHING",
        "INSERT INTO t (part, id) SELECT part, id + 1 FROM t ON CONFLICT (id, part) DO UPDATE SET n = excluded.n + t.n",
    ]
)


@given(statements=some.lists(inserts | others, max_size=10), restarts=some.sets(some.integers(0, 9), max_size=1))
@settings(max_examples=25, deadline=None)
def test_as_duckdb_does(tmp_path_factory: pytest.TempPathFactory, statements: list[str], restarts: set[int]) -> None:
    path = tmp_path_factory.mktemp("db")
    db, other = ms.connect(path, engine="inprocess"), duckdb.connect()
    other.execute(KEYED.replace("STRING", "VARCHAR"))
    db.execute(KEYED)
    query = db.register("SELECT id, part, name, n FROM t", name="q")
    for number, statement in enumerate(statements):
        if number in restarts:
            db.close()
            db = ms.connect(path, engine="inprocess")
            query = db.query("q")
        try:
            other.execute(statement)
            taken = True
        except duckdb.Error:
            taken = False
        if taken:
            db.execute(statement)
        else:
            before = rows_of(db)
            with pytest.raises(ms.Error):
                db.execute(statement)
            assert rows_of(db) == before
        assert rows_of(db) == Counter(other.execute("FROM t").fetchall()), statement
    db.execute("CREATE STREAM clock (a INT) TIMESTAMP BY ts; ADVANCE TO 50")
    assert Counter(tuple(row.values()) for row in query.result().to_pylist()) == rows_of(db)
    db.close()
    other.close()


def test_a_key_is_kept_at_every_instant(db: ms.Database) -> None:
    db.execute("CREATE STREAM clock (a INT) TIMESTAMP BY ts; CREATE TABLE t (k INT, v INT) KEY (k)")
    db.execute("INSERT INTO t VALUES (1, 1) AT 10; DELETE FROM t WHERE k = 1 AT 20")
    with pytest.raises(ms.InputError, match="cannot change at 15"):
        db.execute("INSERT INTO t VALUES (1, 2) AT 15")
    db.execute("INSERT INTO t VALUES (1, 2) AT 20")
    with pytest.raises(ms.InputError, match="key k = 1 already"):
        db.execute("INSERT INTO t VALUES (1, 3) AT 30")
    db.execute("INSERT INTO t VALUES (NULL, 3)")
    with pytest.raises(ms.InputError, match="key k = None already"):
        db.execute("INSERT INTO t VALUES (NULL, 4)")
    query = db.register("SELECT k, v FROM t")
    db.execute("ADVANCE TO 40")
    assert [row["_weight"] for row in query.changes().to_pylist()].count(-1) == 1


def test_tables_from_before_and_those_not_enforced_stay_so(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE TABLE old (k INT) KEY (k); CREATE TABLE free (k INT, PRIMARY KEY (k) NOT ENFORCED)")
        entries = db.session.declared.entries
        kept = tuple({key: value for key, value in entry.items() if key != "enforces"} for entry in entries)
        db.engine.commits.declare(kept)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        for name in ("old", "free"):
            db.execute(f"INSERT INTO {name} VALUES (1), (1)")
            assert db.execute(f"SELECT k FROM {name}").fetchall() == [(1,), (1,)]
            with pytest.raises(ms.BindError, match="NOT ENFORCED"):
                db.execute(f"INSERT INTO {name} VALUES (1) ON CONFLICT DO NOTHING")


def test_changes_that_break_a_key_are_malformed_and_readable_at_once(db: ms.Database) -> None:
    db.execute("CREATE TABLE c (k INT, v INT) KEY (k) CHANGES BY op TIMESTAMP BY ts")
    query = db.register("SELECT k, v FROM c._malformed", name="refused")
    rows = [(1, 1, "+", 1), (1, 2, "+", 2), (1, 3, "update", 3), (1, 1, "-", 4), (2, 9, "update", 4), (2, 9, "-", 5)]
    db.insert("c", rows)
    db.advance("c", to=6)
    assert db.execute("SELECT k, v FROM c").fetchall() == [(1, 3)]
    assert db.execute("SELECT k, v, op FROM c._malformed").fetchall() == [(2, 1, 2, "+"), (4, 1, 1, "-")]
    assert query.result().num_rows == 2


def test_rows_in_python_leave_out_what_has_a_default(db: ms.Database) -> None:
    import polars as pl

    db.execute("CREATE STREAM s (a INT NOT NULL, b STRING DEFAULT 'q', d DECIMAL(5,2) DEFAULT 1.5) TIMESTAMP BY ts")
    db.insert("s", [{"a": 1, "ts": 1}, {"a": 2, "b": None, "ts": 2}, {"a": 3, "b": "z", "d": 2, "ts": 3}])
    db.insert("s", [{"a": 4, "ts": 4}, {"a": 5, "ts": 5}])
    db.insert("s", pl.DataFrame({"ts": [6], "a": [6]}))
    db.execute("INSERT INTO s (ts, a) VALUES (7, 7); INSERT INTO s (ts, a) SELECT 8, 8; ADVANCE s TO 9")
    found = db.execute("SELECT a, b, d FROM s [RANGE UNBOUNDED] WHERE TRUE").pl().sort("a")
    assert found["b"].to_list() == ["q", None, "z", "q", "q", "q", "q", "q"]
    assert [str(value) for value in found["d"].to_list()] == ["1.50", "1.50", "2.00", *["1.50"] * 5]
    for rows in ([{"ts": 10}], [(None, "b", 1, 10)], pl.DataFrame({"a": [None], "ts": [10]})):
        with pytest.raises(ms.InputError, match='"a"'):
            db.insert("s", rows)


@pytest.fixture
def db() -> Any:
    with ms.connect(engine="inprocess") as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE TABLE x (a INT UNIQUE)", "UNIQUE is not supported"),
        ("CREATE TABLE x (a INT, CHECK (a > 1))", "CHECK is not supported"),
        ("CREATE TABLE x (a INT REFERENCES t (id))", "REFERENCES is not supported"),
        ("CREATE TABLE x (a)", "expected the type of column a"),
        ("CREATE TABLE x (a INT PRIMARY KEY, b INT PRIMARY KEY)", "there is one PRIMARY KEY"),
        ("CREATE TABLE x (a INT, KEY (a))", "KEY stands behind the columns"),
        ("CREATE TABLE x (a INT PRIMARY KEY) KEY (a)", "the key stands among the columns already"),
        ("CREATE TABLE x (a INT) KEY (a, a)", "names a column of its key twice"),
        ("CREATE TABLE x (a INT) KEY (b)", 'has no column "b"'),
        ("CREATE TABLE x (a INT DEFAULT 'y')", "is INT, not STRING"),
        ("CREATE TABLE x (a INT DEFAULT b)", 'unknown column "b"'),
        ("CREATE TABLE x (a INT DEFAULT rand())", "rand is refused"),
        ("CREATE TABLE x (a INT DEFAULT 1 DEFAULT 2)", "DEFAULT stands twice"),
        ("CREATE TABLE x (a INT NOT NULL DEFAULT NULL)", "its DEFAULT is NULL"),
        ("CREATE STREAM x (a INT PRIMARY KEY) TIMESTAMP BY ts", "elements of a stream have no key"),
        ("INSERT INTO s VALUES (1, 1) ON CONFLICT DO NOTHING", "tables that statements change"),
        ("INSERT INTO t VALUES (1, 'a', 'b', 1) ON CONFLICT (name) DO NOTHING", "the key of table t is"),
        ("INSERT INTO t VALUES (1, 'a', 'b', 1) ON CONFLICT (id, prt) DO NOTHING", 'has no column "prt"'),
        ("INSERT INTO t VALUES (1, 'a', 'b', 1) ON CONFLICT DO UPDATE SET id = 3", "is of the key"),
        ("INSERT INTO t VALUES (1, 'a', 'b', 1) ON CONFLICT DO UPDATE SET n = m", 'unknown column "m"'),
        ("INSERT INTO t VALUES (1, 'a', 'b', 1) ON CONFLICT DO SOMETHING", "expected DO NOTHING or DO UPDATE"),
        ("INSERT INTO free VALUES (1) ON CONFLICT DO NOTHING", "needs a key, and table free has none"),
        ("INSERT INTO more VALUES (1) ON CONFLICT DO UPDATE", "table more is APPEND ONLY"),
        ("UPDATE t SET n = 1, n = 2", 'column "n" is set twice'),
    ],
)
def test_what_is_refused_says_what_to_do(db: ms.Database, text: str, said: str) -> None:
    db.execute(f"{KEYED}; CREATE STREAM s (a INT) TIMESTAMP BY ts; CREATE TABLE free (a INT)")
    db.execute("CREATE TABLE more (a INT) KEY (a) APPEND ONLY")
    with pytest.raises(ms.Error, match=said) as caught:
        db.execute(text)
    assert caught.value.place is not None
