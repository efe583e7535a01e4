"""RSTREAM .. EVERY where ticks are microseconds: said at slides by default, over long jumps, in every mode."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import millstream as ms

START = dt.datetime(2026, 3, 1)
CREATE = "CREATE STREAM C (k STRING) TIMESTAMP BY ts TIMESTAMP RETAIN FOREVER"


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_rows_are_said_at_multiples_only(mode: str, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db") as db:
        db.execute(CREATE)
        query = db.register("SELECT RSTREAM(k) EVERY 10 SECONDS FROM C [RANGE 15 SECONDS]", name="q", mode=mode)
        db.insert("C", [("a", at(0)), ("b", at(7))])
        db.insert("C", [("c", at(30 * 86_400))])
        found = [(row["_ts"].replace(tzinfo=None), row["k"]) for row in query.result().to_pylist()]
        assert found == [(at(0), "a"), (at(10), "a"), (at(10), "b"), (at(20), "b")]
    with ms.connect(tmp_path / "db") as db:
        query = db.query("q")
        changes = [row["k"] for table in query.follow(timeout=0.01) for row in table.to_pylist()]
        assert changes == ["a", "a", "b", "b"]
        db.insert("C", [("d", at(30 * 86_400 + 20))])
        assert query.result().num_rows == 6


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_without_streams_ticks_are_numbers(mode: str, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        query = db.register("RSTREAM(SELECT CAST(NULL AS INT) AS c) EVERY 3", name="q", mode=mode)
        db.advance(to=7)
        assert query.result().to_pydict() == {"_ts": [0, 3, 6], "c": [None] * 3}
        assert query.changes()["_ts"].to_pylist() == [0, 3, 6]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        query = db.query("q")
        assert [ts for table in query.follow(timeout=0.01) for ts in table["_ts"].to_pylist()] == [0, 3, 6]
        db.advance(to=9)
        assert query.changes(since=3)["_ts"].to_pylist() == [6, 9]


def test_a_view_without_streams_has_the_ticks_of_what_it_is_joined_with() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(CREATE.replace("RETAIN", "TICK INTERVAL '1' SECOND RETAIN"))
        db.execute("CREATE VIEW Beats AS SELECT RSTREAM(1 AS one) EVERY 1000000000")
        query = db.register("SELECT RSTREAM(k, one) EVERY 10 SECONDS FROM C [RANGE 15 SECONDS], Beats [ROWS 1]")
        db.insert("C", [("a", at(0)), ("b", at(30))])
        found = [(row["_ts"].replace(tzinfo=None), row["one"]) for row in query.result().to_pylist()]
        assert found == [(at(0), 1), (at(10), 1)]


def test_windows_of_one_slide_imply_it() -> None:
    with ms.connect() as db:
        db.execute(CREATE)
        query = db.register("SELECT RSTREAM(k, COUNT(*) AS n) FROM C [HOP 20 SECONDS SLIDE 10 SECONDS] GROUP BY k")
        assert query.defaults == ["RSTREAM is said when the windows slide: EVERY 10 SECONDS"]
        assert " EVERY 10 SECONDS FROM " in query.cql
        db.insert("C", [("a", at(3)), ("a", at(12)), ("b", at(60))])
        found = [(row["_ts"].replace(tzinfo=None), row["n"]) for row in query.result().to_pylist()]
        assert found == [(at(10), 1), (at(20), 2), (at(30), 1)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT RSTREAM(k) FROM C [RANGE 5 SECONDS]",
        "SELECT RSTREAM(a.k) FROM C [TUMBLE 5 SECONDS] AS a, C [TUMBLE 10 SECONDS] AS b",
        "SELECT RSTREAM(k) EVERY 1 MICROSECOND FROM C [RANGE 5 SECONDS]",
    ],
)
def test_without_it_rows_would_be_repeated_every_microsecond(text: str) -> None:
    with ms.connect() as db:
        db.execute(CREATE)
        with pytest.raises(ms.BindError, match="every microsecond"):
            db.register(text)
