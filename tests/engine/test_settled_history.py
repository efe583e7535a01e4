"""Small batches of history lie among segments while a database is open, and in files of their own once it is closed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from tests.support.answers import read_by_duckdb

import millstream as ms

READ = "SELECT a, _arrival FROM read_parquet('{}/history/s/**/*.parquet', union_by_name = true) ORDER BY _arrival"


def opened(path: Path) -> ms.Database:
    return ms.connect(path, engine="inprocess")


def test_a_database_that_is_closed_has_its_history_for_others_to_read(tmp_path: Path) -> None:
    path, expected = tmp_path / "db", list[int]()
    with opened(path) as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY t; CREATE TABLE d (k INT)")
        db.register("SELECT a FROM s [ROWS 3]", name="q")
        db.execute("INSERT INTO d VALUES (1)")
        for number in range(5):
            if number == 2:
                db.insert("s", pl.DataFrame({"a": range(100, 20_100), "t": [2] * 20_000}))
                expected += range(100, 20_100)
            db.insert("s", [(number, number)])
            expected.append(number)
        assert not [*path.glob("history/d/**/*.parquet")]
        history = db.engine.sources.history("s")["c0"].to_list()
    assert [*path.glob("history/d/**/*.parquet")]
    found = read_by_duckdb(READ.format(path))
    assert found == [(a, number) for number, a in enumerate(expected)]
    with opened(path) as db:
        assert db.engine.sources.history("s")["c0"].to_list() == history == expected
        db.advance(to=5)
        assert db.query("q").result()["a"].to_pylist() == [2, 3, 4]
        assert db.execute("SELECT * FROM d").fetchall() == [(1,)]


def test_to_close_it_without_rows_commits_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY t")
        db.insert("s", [(1, 1)])
    with opened(tmp_path / "db"):
        (before,) = (tmp_path / "db" / "manifest").glob("manifest-*.json")
    assert [*(tmp_path / "db" / "manifest").glob("manifest-*.json")] == [before]
    assert not [*(tmp_path / "db" / "manifest").glob("changes-*.log")]
