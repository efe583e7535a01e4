"""Plans of queries in modes LAZY and NONE follow the data: matches are made by another plan, answers stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.queries.replanning import (
    CHAIN,
    FEW_KEYS,
    JOIN,
    MANY_KEYS,
    RETAINED,
    core_of,
    feed,
    leaves,
    move,
    opened,
    wait,
)

from millstream.database import Database
from millstream.engine.materialization import Lazy, Unmaterialized
from millstream.plan import nodes as lo
from millstream.plan import physical as ph

TEXTS = {
    "rows": JOIN,
    "sums": JOIN.replace("s.b, t.b, u.b", "s.a, COUNT(*) AS n, SUM(u.b) AS total") + " GROUP BY s.a",
    "distinct": JOIN.replace("SELECT", "SELECT DISTINCT"),
    "two cores": f"({JOIN}) EXCEPT ({JOIN.replace('20', '4')})",
    "with a table": JOIN.replace(", u [RANGE 20]", ", w").replace("u.", "w."),
}


def lazy(text: str, path: Path | None = None, streams: str | None = None) -> Database:
    db = opened(path) if streams is None else opened(path, streams)
    if not db.queries():
        db.execute("CREATE TABLE w (a INT, b INT)")
        db.register(text, name="q", mode="lazy")
    return db


def kept(db: Database) -> list[lo.Node]:
    own = db.query("q").materialization
    assert isinstance(own, Lazy)
    return [part.plan for part in own.plan.parts]


def check_same(db: Database, still: Database, last: int, first: int = 0) -> None:
    query, expected = db.query("q"), still.query("q")
    for at in range(first, last, 7):
        assert sorted(query.result(at=at).to_pylist(), key=str) == sorted(expected.result(at=at).to_pylist(), key=str)
    one, other = query.changes(since=first), expected.changes(since=first)
    assert sorted(one.to_pylist(), key=str) == sorted(other.to_pylist(), key=str)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_matches_are_made_by_another_plan(tmp_path: Path, text: str) -> None:
    with lazy(text, tmp_path / "db") as db, opened() as still:
        still.execute("CREATE TABLE w (a INT, b INT)")
        still.register(text, name="q")
        for number in range(4):
            for each in (db, still):
                each.execute(f"INSERT INTO w VALUES ({number}, {number})")
                feed(each, range(number * 10, number * 10 + 10))
            before, edges = kept(db), db.query("q").materialization.edges
            if leaves(db, "q", (FEW_KEYS, MANY_KEYS)[number % 2]):
                wait(db, "q")
                assert kept(db) != before
                gone = {*edges} - {*db.query("q").materialization.edges}
                assert not gone & db.engine.snapshot.results.keys()
                assert db.query("q").stats()["replan"]["state"] == "moved"
            check_same(db, still, number * 10 + 9)
        assert "replan" in db.query("q").stats() or text == TEXTS["with a table"]
        plan = kept(db)
    with opened(tmp_path / "db") as db, opened() as still:
        assert kept(db) == plan


@pytest.mark.parametrize("text", [TEXTS["rows"], TEXTS["two cores"]], ids=["rows", "two cores"])
def test_matches_of_before_stay_where_history_was_cut(tmp_path: Path, text: str) -> None:
    streams = RETAINED.replace("30", "40")
    with lazy(text, tmp_path / "db", streams) as db, opened() as still:
        still.register(text, name="q")
        moved = 0
        for begin in range(0, 120, 10):
            for each in (db, still):
                feed(each, range(begin, begin + 10), rows=1)
            if leaves(db, "q", (FEW_KEYS, MANY_KEYS)[moved % 2]):
                wait(db, "q")
                moved += 1
            check_same(db, still, begin + 9, db.query("q").instants.first)
        assert moved > 3
        assert db.engine.retention.lost_before("s") > 50


def test_a_query_that_keeps_nothing_is_asked_by_the_new_plan_at_once(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db, opened() as still:
        query = db.register(JOIN, name="q", mode="none")
        still.register(JOIN, name="q")
        for each in (db, still):
            feed(each, range(40))
        assert isinstance(query.materialization, Unmaterialized)
        before, epoch = query.materialization.plan, db.engine.snapshot.states
        assert leaves(db, "q", FEW_KEYS)
        assert not db._queries.replanning.is_moving(query)
        plan = query.materialization.plan
        assert plan != before
        assert db.engine.snapshot.states == epoch
        check_same(db, still, 39)
    with opened(tmp_path / "db") as db:
        own = db.query("q").materialization
        assert isinstance(own, Unmaterialized)
        assert own.plan == plan
        assert db.query("q").stats()["replan"]["state"] == "moved"


def test_statistics_alone_are_enough_for_a_query_that_keeps_nothing() -> None:
    with opened(least_rows=50) as db:
        query = db.register(JOIN, name="q", mode="none")
        feed(db, range(200), keys=2)
        db.engine.background.do(lambda: None)
        assert isinstance(query.materialization, Unmaterialized)
        assert any(isinstance(node, ph.StemJoin) for node in query.materialization.plan.walk())


def test_matches_of_a_group_are_made_by_another_plan(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db, opened() as still:
        db.execute("SET sharing = 'on'")
        for number in range(3):
            db.register(CHAIN.format(number * 10), name=f"q{number}", mode="lazy")
            still.register(CHAIN.format(number * 10), name=f"q{number}")
        for begin in range(0, 60, 20):
            for each in (db, still):
                feed(each, range(begin, begin + 20), keys=8)
            for query in db.queries():
                for at in range(0, begin + 19, 6):
                    found, expected = query.result(at=at), still.query(query.name).result(at=at)
                    assert sorted(found.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
            move(db, "q1", (FEW_KEYS, MANY_KEYS)[begin // 20 % 2])
        assert core_of(db) == "stems"
        after = db.query("q1").result()
    with opened(tmp_path / "db") as db:
        assert core_of(db) == "stems"
        assert db.query("q1").result() == after
