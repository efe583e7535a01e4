"""Queries over tables only, or without FROM, see instant 0 before time begins; over streams nothing is final yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.answers import table_of

import millstream as ms

MODES = ["eager", "lazy", "none"]


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute("CREATE TABLE t (a INT); CREATE STREAM S (a INT) TIMESTAMP BY ts")
        yield database


@pytest.mark.parametrize("mode", MODES)
def test_tables_without_rows_hold_from_instant_0(db: ms.Database, mode: str) -> None:
    assert table_of(db, "SELECT count(*) AS n FROM t").to_pylist() == [{"n": 0}]
    query = db.register("SELECT count(*) AS n FROM t", mode=mode)
    assert query.result().to_pylist() == [{"n": 0}]
    assert query.final is None  # rows may still come at 0
    assert query.changes().num_rows == 0
    db.execute("INSERT INTO t VALUES (7)")
    assert query.result().to_pylist() == [{"n": 1}]
    assert table_of(db, "SELECT count(*) AS n FROM t").to_pylist() == [{"n": 1}]
    db.advance(to=0)
    assert query.final == 0
    assert query.result(at=0).to_pylist() == [{"n": 1}]
    assert query.changes().to_pylist() == [{"_ts": 0, "_weight": 1, "n": 1}]


@pytest.mark.parametrize("mode", MODES)
def test_what_reads_nothing_is_final_at_instant_0(db: ms.Database, mode: str) -> None:
    stream = db.register("SELECT 1 AS a", mode=mode)
    assert stream.result().to_pylist() == stream.result(at=0).to_pylist() == [{"_ts": 0, "a": 1}]
    assert table_of(db, "SELECT 1 AS a").to_pylist() == [{"a": 1}]  # asked once, it is what it is now
    query = db.register("SELECT count(*) AS a", mode=mode)
    assert query.final == 0
    assert query.result().to_pylist() == query.result(at=0).to_pylist() == [{"a": 1}]
    assert query.changes().to_pylist() == [{"_ts": 0, "_weight": 1, "a": 1}]
    assert [table.to_pylist() for table in query.follow(timeout=0.01)] == [[{"_ts": 0, "_weight": 1, "a": 1}]]
    with pytest.raises(ms.TimeError, match="it waits for the clock"):
        query.result(at=1)
    db.advance(to=5)
    assert query.final == 5
    assert query.changes().to_pylist() == [{"_ts": 0, "_weight": 1, "a": 1}]
    assert query.changes(since=0).num_rows == 0


@pytest.mark.parametrize("mode", MODES)
def test_over_streams_nothing_is_shown(db: ms.Database, mode: str) -> None:
    query = db.register("SELECT count(*) AS n FROM S [RANGE 5]", mode=mode)
    both = db.register("SELECT count(*) AS n FROM S [RANGE 5] UNION ALL SELECT 1 AS n", mode=mode)
    joined = db.register("SELECT count(*) AS n FROM S [RANGE 5], t", mode=mode)
    for each in (query, both, joined):
        assert each.final is None
        assert each.result().num_rows == each.changes().num_rows == 0
    assert table_of(db, "SELECT count(*) AS n FROM S [RANGE 5]").num_rows == 0
    db.advance("S", to=0)
    assert query.result().to_pylist() == [{"n": 0}]
    assert both.result().to_pylist() == [{"n": 0}, {"n": 1}]
    assert both.changes().num_rows == 2
    assert joined.result().to_pylist() == [{"n": 0}]


def test_streams_of_what_reads_nothing(db: ms.Database) -> None:
    query = db.register("ISTREAM(SELECT 1 AS a)")
    assert query.result().to_pylist() == [{"_ts": 0, "a": 1}]
    db.advance(to=3)
    assert query.result().to_pylist() == [{"_ts": 0, "a": 1}]


def test_sinks_and_many_queries_see_instant_0(db: ms.Database) -> None:
    query = db.register("SELECT 1 AS n")
    seen = []
    db.create_sink("k", query.name, lambda number, changes: seen.extend(changes.to_pylist()))
    assert seen == [{"_ts": 0, "_weight": 1, "n": 1}]
    many = db.register_many("SELECT count(*) AS n FROM t WHERE a > ?", [(i,) for i in range(20)])
    assert db.results(many).to_pylist() == [{"_query": each.name, "n": 0} for each in many]


@pytest.mark.parametrize("mode", MODES)
def test_it_holds_after_opening_again(tmp_path: Path, mode: str) -> None:
    for advanced in (-1, -1, 0, 4):
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            if not db.queries():
                db.execute("CREATE TABLE t (a INT)")
                db.register("SELECT count(*) AS a", "one", mode)
                db.register("SELECT count(*) AS n FROM t", "counted", mode)
            if advanced >= 0:
                db.advance(to=advanced)
            assert db.query("one").result().to_pylist() == [{"a": 1}]
            assert db.query("one").changes().to_pylist() == [{"_ts": 0, "_weight": 1, "a": 1}]
            assert db.query("counted").result().to_pylist() == [{"n": 0}]


def test_changes_beyond_what_is_final_are_refused(db: ms.Database) -> None:
    query = db.register("SELECT a FROM S [RANGE 5]")
    with pytest.raises(ms.TimeError, match=r"(?s)changes of .* since 3 are not final.*nothing is final.*waits for S"):
        query.changes(since=3)
    db.insert("S", [(1, 1), (2, 4)])
    assert query.final == 3
    assert query.changes(since=3).num_rows == 0  # as one who has seen everything asks
    with pytest.raises(ms.TimeError, match=r"(?s)final is 3.*ADVANCE S TO 4"):
        query.changes(since=4)
    # Followers may wait for what is to come.
    assert list(query.follow(since=10, timeout=0.01)) == []
    db.advance("S", to=12)
    assert [table.to_pylist() for table in query.follow(since=9, timeout=0.01)] == [
        [{"_ts": 10, "_weight": -1, "a": 2}]
    ]


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_failed_query_says_so(db: ms.Database, mode: str) -> None:
    query = db.register("SELECT 10 / a AS b FROM S [RANGE 5]", mode=mode)
    assert query.stats()["state"] == "running"
    assert query.error is None
    db.insert("S", [(0, 1)])
    db.advance("S", to=2)
    assert query.final is None
    assert isinstance(query.error, ms.EvaluationError)
    stats = query.stats()
    assert stats["state"] == "failed"
    assert "division by zero" in stats["error"]
    with pytest.raises(ms.EvaluationError):
        query.result()


@pytest.mark.parametrize("to", [2**62 + 1, 2**63 - 1, 2**63, 10**40, -1, 1.5, None, "x", True])
def test_instants_that_cannot_be_carried_are_refused(db: ms.Database, to: int) -> None:
    query = db.register("SELECT count(*) AS n FROM S [RANGE 5]")
    for ask in (
        lambda: db.advance(to=to),
        lambda: db.advance("S", to=to),
        lambda: query.result(at=to) if to is not None else db.advance(to=to),
        lambda: query.changes(since=to) if to is not None else db.advance(to=to),
        lambda: query.follow(since=to) if to is not None else db.advance(to=to),
        lambda: db.insert("S", [(1, to)]),
    ):
        with pytest.raises(ms.Error):
            ask()
    db.advance(to=2**62)
    assert query.result().to_pylist() == [{"n": 0}]
