"""Plans follow the data: queries move to other plans between epochs, and nobody who reads notices."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import millstream as ms
from millstream.database import Database
from millstream.plan.cost import SourceStatistics, Statistics

STREAMS = """
CREATE STREAM s (a INT, b INT) TIMESTAMP BY t;
CREATE STREAM t (a INT, b INT) TIMESTAMP BY t;
CREATE STREAM u (a INT, b INT) TIMESTAMP BY t;
"""
JOIN = "SELECT s.b, t.b, u.b FROM s [RANGE 20], t [RANGE 20], u [RANGE 20] WHERE s.a = t.a AND t.a = u.a"
NEGATION = "SELECT s.a, s.b FROM s [RANGE 20] WHERE NOT EXISTS (SELECT * FROM t [RANGE 20] WHERE t.a = s.a)"
FEW_KEYS = {name: SourceStatistics(50.0, 1000, (2.0, 2.0)) for name in "stu"}
MANY_KEYS = {name: SourceStatistics(1.0, 1000, (1000.0, 1000.0)) for name in "stu"}


def opened(path: Path | None = None, streams: str = STREAMS, least_rows: int = 1 << 40) -> Database:
    db = ms.connect(path, engine="inprocess")
    db._queries.replanning.least_rows = least_rows
    if "s" not in db.catalog:
        db.execute(streams)
    return db


def feed(db: Database, instants: range, keys: int = 2, rows: int = 2) -> None:
    for name in "stu":
        db.insert(name, [(t * rows % keys + n % keys, t + n, t) for t in instants for n in range(rows)])


def move(db: Database, name: str, statistics: Statistics) -> None:
    """Have a query move to the plan that it would have by these statistics."""
    replanning, query = db._queries.replanning, db.query(name)
    replanning.margin = 0
    assert replanning.consider(query, statistics)
    wait(db, name)


def wait(db: Database, name: str) -> None:
    query = db.query(name)
    db.engine.notifier.wait_until(lambda: not db._queries.replanning.is_moving(query), 60)
    assert not db._queries.replanning.is_moving(query)


def joins(db: Database, name: str) -> str:
    return next(line.strip() for line in db.query(name).explain().splitlines() if "join" in line.lower())


def test_a_query_that_came_before_its_data_gets_the_plan_for_them(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "millstream")
    with opened(least_rows=50) as db, opened() as still:
        for each in (db, still):
            each.register(JOIN, name="q")
        before = joins(db, "q")
        for begin in range(0, 200, 20):
            for each in (db, still):
                feed(each, range(begin, begin + 20))
            db.engine.background.do(lambda: None)
            wait(db, "q")
            assert db.query("q").changes() == still.query("q").changes()
        assert joins(db, "q") != before == joins(still, "q")
        said = db.query("q").stats()["replan"]
        assert said["state"] == "moved"
        assert f"replan: moved since epoch {said['epoch']}: {said['reason']}" in db.query("q").explain()
        assert "query q: moved since epoch" in caplog.text
        assert len([line for line in caplog.text.splitlines() if "moved since" in line]) == 1


def test_and_not_where_that_is_off() -> None:
    with opened(least_rows=50) as db:
        db.execute("SET replan = 'off'")
        query = db.register(JOIN, name="q")
        before = joins(db, "q")
        feed(db, range(200))
        db.engine.background.do(lambda: None)
        wait(db, "q")
        assert joins(db, "q") == before
        assert "replan" not in query.stats()


def test_answers_stay_and_the_old_state_goes(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        query = db.register(JOIN, name="q")
        feed(db, range(40))
        before, steps, edge = query.changes(), {*db.engine.snapshot.states}, query.edge
        move(db, "q", FEW_KEYS)
        assert query.changes() == before
        assert query.edge != edge and edge not in db.engine.snapshot.results
        assert edge not in db.engine.shared_plan.shown
        feed(db, range(40, 60))
        after = query.changes()
        move(db, "q", MANY_KEYS)
        assert query.changes() == after
        assert query.edge == edge
        assert {*db.engine.snapshot.states} == steps
    with opened(tmp_path / "db") as db:
        assert db.query("q").edge == edge
        assert db.query("q").changes() == after
