"""The plans of groups follow the data: all queries of a group move at once, and nobody who reads notices."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.queries.replanning import CHAIN, FEW_KEYS, MANY_KEYS, RETAINED, core_of, feed, leaves, move, opened, wait

import millstream as ms
from millstream.database import Database
from millstream.queries.weighing import known_of_all

SUMS = CHAIN.replace("s.b, t.b, u.a", "t.a, COUNT(*) AS n, SUM(u.a) AS total") + " GROUP BY t.a"
STREAMED = f"ISTREAM ({CHAIN})"
TEXTS = {"rows": CHAIN, "sums": SUMS, "istream": STREAMED}


def grouped(path: Path | None = None, text: str = CHAIN, count: int = 4, streams: str | None = None) -> Database:
    db = opened(path) if streams is None else opened(path, streams)
    if not db.queries():
        db.execute("SET sharing = 'on'")
        for number in range(count):
            db.register(text.format(number * 10), name=f"q{number}")
    return db


def alone(text: str = CHAIN, count: int = 4) -> Database:
    db = opened()
    db.execute("SET sharing = 'off'")
    for number in range(count):
        db.register(text.format(number * 10), name=f"q{number}")
    return db


def joined(db: Database) -> set[str]:
    """Joins that keep something."""
    return {step for step in db.engine.snapshot.states if "join" in step}


def check_same(db: Database, still: Database, names: Iterable[str] = (), since: int | None = None) -> None:
    for name in names or [query.name for query in still.queries()]:
        assert db.query(name).changes(since=since) == still.query(name).changes(since=since), name
        if since is None or db.query(name).kind == "relation":
            assert db.query(name).result() == still.query(name).result(), name


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_group_moves_with_all_its_queries(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "millstream")
    with grouped(tmp_path / "db", text) as db, alone(text) as still:
        for each in (db, still):
            feed(each, range(40), keys=8)
        edge, states = db.query("q0").edge, joined(db)
        assert core_of(db) == "tree"
        check_same(db, still)
        move(db, "q1", FEW_KEYS)
        assert core_of(db) == "stems"
        assert "and 3 others of its group: moved since epoch" in caplog.text
        assert {query.edge for query in db.queries()} == {db.query("q0").edge} != {edge}
        assert edge not in db.engine.snapshot.results
        assert edge not in db.engine.shared_plan.shown
        assert len(db.engine.snapshot.query_tables) == 1
        check_same(db, still)
        for each in (db, still):
            feed(each, range(40, 60), keys=8)
        check_same(db, still)
        said = db.query("q2").stats()["replan"]
        assert f"replan: moved since epoch {said['epoch']}: {said['reason']}" in db.query("q2").explain()
        assert "sharing: its group reads Join of 3 by SteMs" in db.query("q2").explain()
    with opened(tmp_path / "db") as db, alone(text) as still:
        assert core_of(db) == "stems"
        assert db.query("q2").stats()["replan"]["state"] == "moved"
        feed(still, range(60), keys=8)
        for each in (db, still):
            feed(each, range(60, 70), keys=8)
        check_same(db, still)
        move(db, "q3", MANY_KEYS)
        assert core_of(db) == "tree"
        assert (db.query("q0").edge, joined(db)) == (edge, states)
        for each in (db, still):
            feed(each, range(70, 80), keys=8)
        check_same(db, still)
        after = [query.changes() for query in db.queries()]
    with opened(tmp_path / "db") as db:
        assert core_of(db) == "tree"
        assert [query.changes() for query in db.queries()] == after


def test_queries_come_and_go_before_and_after(tmp_path: Path) -> None:
    with grouped(tmp_path / "db") as db, alone(count=8) as still:
        feed(db, range(40), keys=8)
        feed(still, range(40), keys=8)
        move(db, "q0", FEW_KEYS)
        edge = db.query("q0").edge
        db.register(CHAIN.format(40), name="q4")
        db.register(CHAIN.format(40).replace("s.b >", "40 <").replace("< 40", "< s.b"), name="same")
        assert {db.query("q4").edge, db.query("same").edge} == {edge}
        check_same(db, still, ["q0", "q4"])
        assert db.query("same").result() == still.query("q4").result()
        db.query("q0").drop()
        for each in (db, still):
            feed(each, range(40, 50), keys=8)
        check_same(db, still, ["q1", "q4"])
        move(db, "q4", MANY_KEYS)
        db.register(CHAIN.format(50), name="q5")
        check_same(db, still, ["q1", "q4", "q5"])
        assert len({query.edge for query in db.queries()}) == 1
    with opened(tmp_path / "db") as db, alone(count=8) as still:
        feed(still, range(50), keys=8)
        assert len({query.edge for query in db.queries()}) == 1
        check_same(db, still, ["q1", "q4", "q5"])
        for query in db.queries():
            query.drop()
        assert not db.engine.snapshot.states
        assert not db.engine.snapshot.query_tables
        db.execute("SET sharing = 'on'")
        db.register(CHAIN.format(0), name="q0")
        db.register(CHAIN.format(10), name="q1")
        check_same(db, still, ["q0", "q1"])


def test_who_comes_or_goes_while_a_group_is_on_its_way() -> None:
    with grouped() as db, alone(count=6) as still:
        for each in (db, still):
            feed(each, range(30), keys=8)
        with db.engine.lock:  # which the move waits for
            assert leaves(db, "q0", FEW_KEYS)
            db.query("q3").drop()
            db.register(CHAIN.format(40), name="q4")
            feed(db, range(30, 40), keys=8)
        wait(db, "q0")
        feed(still, range(30, 40), keys=8)
        assert core_of(db) == "stems"
        check_same(db, still, ["q0", "q1", "q2", "q4"])
        with db.engine.lock:
            assert leaves(db, "q0", MANY_KEYS)
            for query in db.queries():
                query.drop()
        db.engine.notifier.wait_until(lambda: not db._queries.replanning.groups._moving, 60)
        assert not db.engine.snapshot.states


def test_equal_queries_and_failed_ones_stay_what_they_are(tmp_path: Path) -> None:
    text = CHAIN.replace("SELECT s.b", "SELECT 7 / (s.b - {})").replace("> {}", "> {}")
    with opened(tmp_path / "db") as db:
        db.execute("SET sharing = 'on'")
        for number in range(3):
            db.register(text.format(1000 if number else 30, 10), name=f"q{number}")
        feed(db, range(40), keys=8)
        assert db.query("q0").error is not None
        before = db.query("q1").changes()
        move(db, "q1", FEW_KEYS)
        assert db.query("q1").changes() == db.query("q2").changes() == before
        assert db.query("q0").error is not None
    with opened(tmp_path / "db") as db:
        assert core_of(db, "q1") == "stems"
        assert db.query("q1").changes() == db.query("q2").changes() == before
        with pytest.raises(ms.EvaluationError):
            db.query("q0").result()


def test_readers_of_all_kinds_get_each_change_once(tmp_path: Path) -> None:
    delivered: list[pa.Table] = []
    with grouped(tmp_path / "db") as db, alone() as still:
        query, expected = db.query("q1"), still.query("q1")
        db.create_sink("k", "q1", lambda _, changes: delivered.append(changes))
        follower, followed = query.follow(timeout=60), list[pa.Table]()
        for number in range(6):
            for each in (db, still):
                feed(each, range(10 + number * 10, 20 + number * 10), keys=8)
            followed.append(next(follower))
            move(db, "q1", (FEW_KEYS, MANY_KEYS)[number % 2])
            assert query.result(at=10 + number * 10) == expected.result(at=10 + number * 10)
            assert query.changes(since=5) == expected.changes(since=5)
        assert pa.concat_tables(followed) == pa.concat_tables(delivered) == expected.changes()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_history_that_was_cut_is_not_needed_where_the_windows_are_covered(tmp_path: Path, text: str) -> None:
    with grouped(tmp_path / "db", text, streams=RETAINED) as db, alone(text) as still:
        for begin in range(0, 160, 10):
            for each in (db, still):
                feed(each, range(begin, begin + 10), keys=8)
            if begin % 40 == 0:
                move(db, "q0", (FEW_KEYS, MANY_KEYS)[begin // 40 % 2])
            first = db.query("q0").instants.first
            check_same(db, still, since=first)
        assert db.engine.retention.lost_before("s") > 100
        after = [query.changes(since=first) for query in db.queries()]
    with opened(tmp_path / "db") as db:
        assert [query.changes(since=first) for query in db.queries()] == after


def test_a_group_stays_where_history_no_longer_covers_it() -> None:
    text = CHAIN.replace("RANGE 20", "RANGE 40").replace("s.b, t.b", "7 / (s.a + 1), t.b")
    with grouped(text=text, streams=RETAINED) as db:
        for begin in range(0, 100, 10):
            feed(db, range(begin, begin + 10), keys=8)
        assert not leaves(db, "q0", FEW_KEYS)
        assert db.query("q3").stats()["replan"]["state"] == "stays"
        assert "nor can state be handed over: what fails" in db.query("q2").explain()


def test_a_group_that_came_before_its_data_gets_the_plan_for_them() -> None:
    """Its last stream has few rows: another plan is better by the statistics of all streams, whenever one looks."""
    with opened(least_rows=50) as db, alone() as still:
        db.execute("SET sharing = 'on'")
        for number in range(4):
            db.register(CHAIN.format(number * 10), name=f"q{number}")
        for begin in range(0, 100, 20):
            rows = [(n % 2, 100 * t + n, t) for t in range(begin, begin + 20) for n in range(4)]
            for each in (db, still):
                for name, given in {"u": rows[::8], "t": rows, "s": rows}.items():
                    each.insert(name, given)
            db.engine.background.do(lambda: None)
            wait(db, "q0")
            check_same(db, still)
        assert db.query("q0").stats()["replan"]["state"] == "moved"


def test_a_group_waits_for_a_stream_without_rows_until_it_is_known_to_have_none() -> None:
    with grouped() as db, alone() as still:
        (group,) = db.engine.groups
        for each in (db, still):
            feed(each, range(20), only="st")
        replanning = db._queries.replanning.groups
        assert known_of_all(db.engine, group.split.core) is None
        assert not replanning.consider(group, 0.0)
        for each in (db, still):
            each.advance("u", to=19)
        known = known_of_all(db.engine, group.split.core)
        assert known is not None
        assert (known["u"].rate, known["s"].rate) == (0, 2)
        assert replanning.consider(group, 0.0)
        wait(db, "q0")
        for each in (db, still):
            feed(each, range(20, 40))
        check_same(db, still)


PROGRAM = """
import sys
from pathlib import Path
from tests.queries.replanning import CHAIN, FEW_KEYS, MANY_KEYS, RETAINED, feed_missing, leaves, wait
from tests.queries.test_replanning_groups import grouped
with grouped(Path(sys.argv[1]), streams=RETAINED) as db:
    for batch in range(8):
        if feed_missing(db, batch):
            assert leaves(db, "q0", FEW_KEYS) or leaves(db, "q0", MANY_KEYS)
            wait(db, "q0")
"""


def run(path: Path, fault: str = "") -> int:
    environment = {**os.environ, "MILLSTREAM_FAULT": fault}
    return subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, check=False).returncode


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("backfill-finished:5", marks=pytest.mark.slow),
        "group-about-to-move:4",
        pytest.param("segment-half-written:40", marks=pytest.mark.slow),
        pytest.param("catalog-half-written:11", marks=pytest.mark.slow),
        pytest.param("catalog-renamed:11", marks=pytest.mark.slow),
        pytest.param("changes-written:30", marks=pytest.mark.slow),
        "change-counts:30",
        "plan-moved:5",
        pytest.param("before-sweep:40", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_is_killed_leaves_the_old_plan_or_the_new_one(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "db"
    assert run(path, fault) == -signal.SIGKILL
    assert run(path) == 0
    with opened(path) as db, alone() as still:
        assert {*db.engine.snapshot.results} == {db.query("q0").edge}
        assert len(db.engine.snapshot.query_tables) == 1
        first = db.query("q0").instants.first
        assert first > 20
        feed(still, range(80))
        check_same(db, still, since=first)
