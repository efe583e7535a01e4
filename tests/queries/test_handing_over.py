"""A plan takes over the state of the one that runs, where history no longer has all of a window."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.queries.replanning import FEW_KEYS, MANY_KEYS, RETAINED, STREAMS, feed, feed_missing, joins, leaves, opened

from millstream.database import Database

LONG = "SELECT s.b, t.b, u.b FROM s [RANGE 60], t [RANGE 60], u [RANGE 60] WHERE s.a = t.a AND t.b = u.b"
TEXTS = {
    "rows": LONG,
    "unbounded": LONG.replace("s [RANGE 60]", "s [RANGE UNBOUNDED]"),
    "rows counted": LONG.replace("s [RANGE 60]", "s [ROWS 50]"),
    "sums": LONG.replace("s.b, t.b, u.b", "s.a, COUNT(*) AS n, SUM(u.b) AS total, MAX(t.b) AS most") + " GROUP BY s.a",
    "distinct": LONG.replace("SELECT s.b, t.b, u.b", "SELECT DISTINCT s.a, u.b"),
    "istream": f"ISTREAM ({LONG})",
    "dstream": f"DSTREAM ({LONG.replace('s.b, t.b, u.b', 's.a, COUNT(*) AS n')} GROUP BY s.a)",
    "except": f"(SELECT a FROM t [RANGE 60]) EXCEPT ({LONG.replace('s.b, t.b, u.b', 's.a')})",
    "left": f"SELECT x.a, y.n FROM t [RANGE 50] x LEFT JOIN "
    f"({LONG.replace('s.b, t.b, u.b', 's.a, COUNT(*) AS n')} GROUP BY s.a) y ON x.a = y.a",
    "self": LONG.replace("u [RANGE 60]", "s [RANGE 45] AS u"),
}


def fed(db: Database, begin: int) -> None:
    feed(db, range(begin, begin + 10), keys=8, rows=1)


def check_same(db: Database, still: Database, last: int, name: str = "q") -> None:
    query, expected = db.query(name), still.query(name)
    first = query.instants.first
    if query.kind == "relation":
        for at in range(max(first, last - 9), last, 4):
            found, right = query.result(at=at), expected.result(at=at)
            assert sorted(found.to_pylist(), key=str) == sorted(right.to_pylist(), key=str)
    found, right = query.changes(since=first), expected.changes(since=first)
    assert sorted(found.to_pylist(), key=str) == sorted(right.to_pylist(), key=str)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_plan_takes_over_what_the_other_one_holds(tmp_path: Path, text: str, mode: str) -> None:
    with opened(tmp_path / "db", RETAINED) as db, opened() as still:
        db.register(text, name="q", mode=mode)
        still.register(text, name="q")
        moved = 0
        for begin in range(0, 120, 10):
            for each in (db, still):
                fed(each, begin)
            before = db.query("q").materialization.edges
            if begin >= 70 and leaves(db, "q", (FEW_KEYS, MANY_KEYS)[moved % 2]):
                assert not db._queries.replanning.is_moving(db.query("q"))
                gone = {*before} - {*db.query("q").materialization.edges}
                assert gone
                assert not gone & db.engine.snapshot.results.keys()
                moved += 1
            check_same(db, still, begin + 9)
        assert db.engine.retention.lost_before("s") > 70
        assert bool(moved) != ((mode, text) in STAYING)
        after = db.query("q").changes(since=100)
    with opened(tmp_path / "db") as db:
        assert db.query("q").changes(since=100) == after


STAYING = {
    ("lazy", TEXTS["unbounded"]),  # in another order matches are laid out otherwise
    ("lazy", TEXTS["self"]),
    ("eager", TEXTS["distinct"]),  # which would be run elsewhere
    ("eager", TEXTS["left"]),
}


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize(
    "text", [LONG, TEXTS["sums"].replace(", MAX(t.b) AS most", ""), TEXTS["istream"]], ids=["rows", "sums", "istream"]
)
def test_a_group_takes_over_what_it_holds(tmp_path: Path, text: str, mode: str) -> None:
    # Joined by no equality, so that the group keeps a tree: groups of chains have one way only.
    within = "t.b <= u.b AND u.b <= t.b"
    texts = [text.replace("t.b = u.b", f"{within} AND s.b > {number * 10}") for number in range(3)]
    with opened(tmp_path / "db", RETAINED) as db, opened() as still:
        db.execute("SET sharing = 'on'")
        for number, each in enumerate(texts):
            db.register(each, name=("q", "q1", "q2")[number], mode=mode)
            still.register(each, name=("q", "q1", "q2")[number])
        moved = 0
        for begin in range(0, 120, 10):
            for each_db in (db, still):
                fed(each_db, begin)
            if begin >= 70 and leaves(db, "q", (FEW_KEYS, MANY_KEYS)[moved % 2]):
                assert not db._queries.replanning.is_moving(db.query("q"))
                assert len(db.engine.snapshot.query_tables) == 1
                moved += 1
            for name in ("q", "q1", "q2"):
                check_same(db, still, begin + 9, name)
        assert moved > 3
        after = db.query("q1").changes(since=100)
    with opened(tmp_path / "db") as db:
        assert db.query("q1").changes(since=100) == after


def test_streams_that_are_at_different_instants_are_waited_for() -> None:
    with opened(streams=RETAINED) as db, opened() as still:
        for each in (db, still):
            each.register(LONG, name="q")
            for begin in range(0, 100, 10):
                fed(each, begin)
            feed(each, range(100, 105), keys=8, only="st")
        query, before = db.query("q"), joins(db, "q")
        assert not leaves(db, "q", FEW_KEYS)
        assert "its streams are at different instants" in query.explain()
        for each in (db, still):
            feed(each, range(100, 104), keys=8, only="u")
        assert joins(db, "q") == before
        for each in (db, still):
            feed(each, range(104, 105), keys=8, only="u")
        assert joins(db, "q") != before
        assert query.stats()["replan"]["state"] == "moved"
        for each in (db, still):
            fed(each, 105)
        check_same(db, still, 114)


def test_rows_without_values_and_rows_to_come_are_handed_over_too() -> None:
    streams = STREAMS.replace(";", " RETAIN 30 HEARTBEAT EXPLICIT;")
    with opened(streams=streams) as db, opened(streams=streams.replace("RETAIN 30 ", "")) as still:
        for each in (db, still):
            each.register(LONG, name="q")
            for t in range(0, 120, 3):
                for name in "stu":
                    each.insert(name, [(None if t % 5 else t % 3, t % 2, t), (t % 3, None if t % 7 else 1, t + 5)])
                for name in "stu":
                    each.advance(name, to=t)
                if t > 90 and each is db:
                    leaves(db, "q", (FEW_KEYS, MANY_KEYS)[t % 2])
        assert db.query("q").stats()["replan"]["state"] == "moved"
        check_same(db, still, 117)


def test_followers_and_sinks_keep_their_places() -> None:
    delivered: list[pa.Table] = []
    with opened(streams=RETAINED) as db, opened() as still:
        query, expected = db.register(LONG, name="q"), still.register(LONG, name="q")
        db.create_sink("k", "q", lambda _, changes: delivered.append(changes))
        follower, followed = query.follow(timeout=60), list[pa.Table]()
        for number in range(12):
            for each in (db, still):
                fed(each, number * 10)
            followed.append(next(follower))
            if number > 6:
                assert leaves(db, "q", (MANY_KEYS, FEW_KEYS)[number % 2])
        rows = [sorted(pa.concat_tables(each).to_pylist(), key=str) for each in (followed, delivered)]
        assert rows[0] == rows[1] == sorted(expected.changes().to_pylist(), key=str)


PROGRAM = """
import sys
from pathlib import Path
from tests.queries.replanning import FEW_KEYS, MANY_KEYS, RETAINED, feed_missing, leaves, opened
from tests.queries.test_handing_over import LONG
with opened(Path(sys.argv[1]), RETAINED) as db:
    if not db.queries():
        db.register(LONG, name="q")
    for batch in range(12):
        if feed_missing(db, batch) and batch > 6:
            assert leaves(db, "q", FEW_KEYS) or leaves(db, "q", MANY_KEYS)
"""


def run(path: Path, fault: str = "") -> int:
    environment = {**os.environ, "MILLSTREAM_FAULT": fault}
    return subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, check=False).returncode


@pytest.mark.parametrize(
    "fault",
    [
        "state-handed-over:2",
        "plan-moved:2",
        pytest.param("manifest-written:44", marks=pytest.mark.slow),
        pytest.param("manifest-counts:44", marks=pytest.mark.slow),
        pytest.param("before-sweep:44", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_is_killed_leaves_the_old_plan_or_the_new_one(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "db"
    assert run(path, fault) == -signal.SIGKILL
    assert run(path) == 0
    with opened(path) as db, opened() as still:
        assert db.engine.snapshot.results.keys() <= {db.query("q").edge}
        still.register(LONG, name="q")
        for batch in range(12):
            feed_missing(still, batch)
        check_same(db, still, 119)
