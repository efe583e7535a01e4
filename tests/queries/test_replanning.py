"""Plans follow the data: queries move to other plans between epochs, and nobody who reads notices."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.queries.replanning import (
    FEW_KEYS,
    JOIN,
    MANY_KEYS,
    RETAINED,
    feed,
    joins,
    leaves,
    move,
    opened,
    wait,
)

from millstream.database import Database
from millstream.engine.epochs.task import EpochOutcome, EpochTask
from millstream.engine.history.backfill import Backfills
from millstream.engine.history.replay import HistoryRun, Replay
from millstream.plan.cost import Statistics
from millstream.plan.nodes import StreamScan
from millstream.queries.replanning import Replanning


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
        assert query.edge != edge
        assert edge not in db.engine.snapshot.results
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


def test_readers_of_all_kinds_get_each_change_once(tmp_path: Path) -> None:
    delivered: list[pa.Table] = []
    with opened(tmp_path / "db") as db, opened() as still:
        query, expected = db.register(JOIN, name="q"), still.register(JOIN, name="q")
        db.create_sink("k", "q", lambda _, changes: delivered.append(changes))
        follower, followed = query.follow(timeout=60), list[pa.Table]()
        for number in range(6):
            for each in (db, still):
                feed(each, range(number * 10, number * 10 + 10))
            followed.append(next(follower))
            move(db, "q", (FEW_KEYS, MANY_KEYS)[number % 2])
            assert query.result(at=number * 10) == expected.result(at=number * 10)
            assert query.changes(since=5) == expected.changes(since=5)
        assert pa.concat_tables(followed) == pa.concat_tables(delivered) == expected.changes()


def test_what_a_follower_was_not_given_yet_comes_from_before_the_move() -> None:
    with opened(streams=RETAINED) as db, opened() as still:
        query, expected = db.register(JOIN, name="q"), still.register(JOIN, name="q")
        for each in (db, still):
            feed(each, range(10))
        follower = query.follow(timeout=60)
        given = [next(follower)]
        for begin in range(10, 100, 10):
            for each in (db, still):
                feed(each, range(begin, begin + 10))
        assert db.engine.retention.lost_before("s") > 0
        move(db, "q", FEW_KEYS)
        given.append(next(follower))
        assert pa.concat_tables(given) == expected.changes()


def test_history_that_was_cut_is_not_needed_where_the_windows_are_covered(tmp_path: Path) -> None:
    """What the old plan said of instants before that stays."""
    with opened(tmp_path / "db", RETAINED) as db, opened() as still:
        query, expected = db.register(JOIN, name="q"), still.register(JOIN, name="q")
        for begin in range(0, 200, 10):
            for each in (db, still):
                feed(each, range(begin, begin + 10))
            if begin % 40 == 0:
                move(db, "q", (FEW_KEYS, MANY_KEYS)[begin // 40 % 2])
            first = query.instants.first
            for at in range(first, begin + 9, 3):
                assert query.result(at=at) == expected.result(at=at)
            assert query.changes(since=first) == expected.changes(since=first)
        assert db.engine.retention.lost_before("s") > 100
    with opened(tmp_path / "db") as db:
        assert db.query("q").changes(since=first) == expected_changes(200, first)


def expected_changes(last: int, since: int | None = None) -> pa.Table:
    with opened() as db:
        query = db.register(JOIN, name="q")
        feed(db, range(last))
        return query.changes(since=since)


@pytest.mark.parametrize(
    ("text", "statistics", "reason"),
    [
        (JOIN.replace("20", "40").replace("SELECT", "SELECT DISTINCT"), FEW_KEYS, "more than joins"),
        (JOIN.replace("SELECT s.b", "SELECT 7 / (s.a + 1)"), FEW_KEYS, "what fails counts from there on"),
    ],
    ids=["distinct", "fragile"],
)
def test_a_query_stays_where_history_no_longer_covers_it(text: str, statistics: Statistics, reason: str) -> None:
    with opened(streams=RETAINED) as db:
        query = db.register(text, name="q")
        for begin in range(0, 100, 10):
            feed(db, range(begin, begin + 10))
        before, edge = query.changes(), query.edge
        assert not leaves(db, "q", statistics)
        assert query.stats()["replan"]["state"] == "stays"
        assert "the history of s begins at" in query.explain()
        assert reason in query.explain()
        assert query.edge == edge
        assert query.changes() == before


def test_queries_of_one_plan_move_one_by_one() -> None:
    with opened() as db:
        one, other = db.register(JOIN, name="one"), db.register(JOIN, name="other")
        feed(db, range(30))
        before, edge = one.changes(), one.edge
        move(db, "one", FEW_KEYS)
        assert (other.edge, one.edge != edge) == (edge, True)
        assert one.changes() == other.changes() == before
        move(db, "other", FEW_KEYS)  # which runs already
        assert one.edge == other.edge
        feed(db, range(30, 40))
        assert one.changes() == other.changes()
        one.drop()
        feed(db, range(40, 50))
        with opened() as still:
            expected = still.register(JOIN)
            feed(still, range(50))
            assert other.changes() == expected.changes()


def test_others_may_come_to_a_plan_that_a_query_is_about_to_move_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patching:
        patching.setattr(Backfills, "_wake", lambda _: None)
        with opened() as db:
            query = db.register(JOIN, name="q")
            feed(db, range(30))
            replanning = db._queries.replanning
            assert leaves(db, "q", FEW_KEYS)
            assert query.stats()["replan"]["state"] == "moving"
            db.execute("SET join_plan = 'eddy'")
            other = db.register(JOIN, name="other")
            assert not replanning.is_moving(query)
            assert "replan" not in query.stats()
            assert query.changes() == other.changes()
            assert leaves(db, "q", FEW_KEYS)
            assert query.edge == other.edge
            assert query.changes() == other.changes()


def test_a_query_that_is_dropped_on_its_way_is_gone() -> None:
    with opened() as db:
        query, states = db.register(JOIN, name="q"), {*db.engine.snapshot.states}
        feed(db, range(30))
        with db.engine.lock:  # which the move waits for
            assert leaves(db, "q", FEW_KEYS)
            query.drop()
        again = db.register(JOIN, name="q")
        wait(db, "q")
        assert again.plan_change is None
        again.drop()
        assert {*db.engine.snapshot.states} == states
        assert not db.engine.snapshot.results


def test_nothing_moves_any_more_once_it_is_off() -> None:
    with opened() as db:
        query = db.register(JOIN, name="q")
        feed(db, range(30))
        before = query.edge
        with db.engine.lock:
            assert leaves(db, "q", FEW_KEYS)
            db.execute("SET replan = 'off'")
        wait(db, "q")
        assert query.edge == before
        assert "replan" not in query.stats()


def test_plans_do_not_flap(caplog: pytest.LogCaptureFixture) -> None:
    """Statistics that go to and fro by less than the margin move nothing."""
    caplog.set_level(logging.INFO, "millstream")
    with opened(least_rows=1) as db:
        db.register(JOIN, name="q")
        for number in range(20):
            feed(db, range(number * 10, number * 10 + 10), keys=(18, 22)[number % 2], rows=1)
            db.engine.background.do(lambda: None)
            wait(db, "q")
        assert len([line for line in caplog.text.splitlines() if "moved since" in line]) <= 1


def test_a_move_reads_no_more_rows_than_have_come_since_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a restart."""
    monkeypatch.setattr(Replanning, "_has_changed", lambda *_: True)
    made = Replanning._planned
    monkeypatch.setattr(Replanning, "_planned", lambda self, entry, _: made(self, entry, wanted[-1]))
    wanted: list[Statistics] = [FEW_KEYS]
    with opened(tmp_path / "db") as db:
        db.register(JOIN, name="q")
        feed(db, range(40))
        move(db, "q", None)
    with opened(tmp_path / "db") as db:
        query = db.query("q")
        wanted.append(MANY_KEYS)
        feed(db, range(40, 50))
        moved = query.edge
        assert not leaves(db, "q", None)
        assert query.edge == moved
        assert "but a move would read 132 rows, and 60 have come since the last" in query.explain()
        feed(db, range(50, 70))
        move(db, "q", None)
        assert query.edge != moved
        assert query.changes() == expected_changes(70)


def test_answers_are_there_while_plans_change() -> None:
    """Others feed, and read what is final, at every moment."""
    with opened() as db, opened() as still:
        query, expected = db.register(JOIN, name="q"), still.register(JOIN, name="q")
        for each in (db, still):
            feed(each, range(20))
        at_ten, ended, errors = expected.result(at=10), threading.Event(), list[object]()

        def read() -> None:
            while not ended.is_set():
                if query.result(at=10) != at_ten or query.final is None or query.is_filling:
                    errors.append("another answer")

        def insert() -> None:
            for begin in range(20, 60, 5):
                feed(db, range(begin, begin + 5))

        readers = [threading.Thread(target=read) for _ in range(2)]
        feeder = threading.Thread(target=insert)
        for thread in (*readers, feeder):
            thread.start()
        for number in range(8):
            move(db, "q", (FEW_KEYS, MANY_KEYS)[number % 2])
        feeder.join(60)
        ended.set()
        for thread in readers:
            thread.join(60)
        assert not errors
        for begin in range(20, 60, 5):
            feed(still, range(begin, begin + 5))
        assert query.changes() == expected.changes()


def test_a_move_may_begin_before_the_last_one_is_tidied_up() -> None:
    with opened() as db:
        query = db.register(JOIN, name="q")
        feed(db, range(20))
        edges, begun = [query.edge], list[bool]()

        def published() -> None:
            edges.append(query.edge)
            if not begun:
                begun.append(leaves(db, "q", MANY_KEYS))

        db.engine.backfills.on_published = published
        assert leaves(db, "q", FEW_KEYS)
        db.engine.notifier.wait_until(lambda: len(edges) == 3, 60)
        assert begun == [True]
        assert edges[0] == edges[2] != edges[1]
        wait(db, "q")
        assert str(query.plan_change).startswith("moved")


PROGRAM = """
import sys
from pathlib import Path
from tests.queries.replanning import FEW_KEYS, JOIN, MANY_KEYS, RETAINED, feed_missing, leaves, opened, wait
with opened(Path(sys.argv[1]), RETAINED) as db:
    if not db.queries():
        db.register(JOIN, name="q")
    for batch in range(8):
        if feed_missing(db, batch):
            assert leaves(db, "q", FEW_KEYS) or leaves(db, "q", MANY_KEYS)
            wait(db, "q")
"""


def run(path: Path, fault: str = "") -> int:
    environment = {**os.environ, "MILLSTREAM_FAULT": fault}
    return subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, check=False).returncode


@pytest.mark.parametrize(
    "fault",
    [
        "backfill-finished:5",
        "segment-half-written:34",
        "catalog-half-written:9",
        "catalog-renamed:9",
        "changes-written:30",
        "change-counts:30",
        "plan-moved:5",
        "before-sweep:34",
    ],
)
def test_a_process_that_is_killed_leaves_the_old_plan_or_the_new_one(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "db"
    assert run(path, fault) == -signal.SIGKILL
    assert run(path) == 0
    with opened(path) as db:
        query = db.query("q")
        assert db.engine.snapshot.results.keys() <= {query.edge}
        first = query.instants.first
        assert first > 20
        with opened() as still:
            expected = still.register(JOIN)
            feed(still, range(80))
            assert query.changes(since=first) == expected.changes(since=first)
            assert query.result(at=first) == expected.result(at=first)


def test_skewed_data_change_the_order_of_joins(tmp_path: Path) -> None:
    chain = "SELECT s.b, u.a FROM s [RANGE 20], t [RANGE 20], u [RANGE 20] WHERE s.a = t.a AND t.b = u.b"

    def skewed(db: Database, instants: range) -> None:
        for name in "stu":
            db.insert(name, [(n % 2, 100 * t + n, t) for t in instants for n in range(4)])

    with opened(tmp_path / "db", least_rows=100) as db, opened() as still:
        query, expected = db.register(chain, name="q"), still.register(chain, name="q")
        assert order(db) == ["s", "t", "u"]
        for begin in range(0, 80, 20):
            for each in (db, still):
                skewed(each, range(begin, begin + 20))
            db.engine.background.do(lambda: None)
            wait(db, "q")
            assert query.changes() == expected.changes()
        assert order(db)[0] != "s"
        changed = order(db)
    with opened(tmp_path / "db") as db:
        assert order(db) == changed
        assert db.query("q").stats()["replan"]["state"] == "moved"
        with opened() as still:
            again = still.register(chain)
            for each in (db, still):
                skewed(each, range(80 if each is db else 0, 100))
            assert db.query("q").changes() == again.changes()


def order(db: Database) -> list[str]:
    """The streams of a query's plan, as they are joined."""
    return [node.name for node in db.query("q").common.plan.walk() if isinstance(node, StreamScan)]


def test_of_a_long_history_a_move_reads_what_is_in_the_windows_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "db") as db, opened() as still:
        db.execute("SET background_rows = 0")
        query, expected = db.register(JOIN, name="q"), still.register(JOIN, name="q")
        for begin in range(0, 120, 20):
            for each in (db, still):
                feed(each, range(begin, begin + 20))
        taken: list[int] = []
        usual = Replay.take

        def take(replay: Replay, run: HistoryRun, task: EpochTask, outcome: EpochOutcome) -> None:
            taken.append(task.arriving)
            usual(replay, run, task, outcome)

        monkeypatch.setattr(Replay, "take", take)
        move(db, "q", FEW_KEYS)
        assert sum(taken) < 200  # of 720 that there are
        assert query.changes() == expected.changes()
        for each in (db, still):
            feed(each, range(120, 130))
        assert query.changes() == expected.changes()
    with opened(tmp_path / "db") as db:
        assert db.query("q").changes() == expected_changes(130)
