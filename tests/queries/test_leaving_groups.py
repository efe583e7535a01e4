"""Queries of which too few are left in their group go on by plans of their own, with the same answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.queries.coming_and_going import STREAMS, TEXTS, answers, feed
from tests.queries.leaving_groups import grouped, leave, leave_one, left_alone

import millstream as ms
from millstream.queries import sharing_choice
from millstream.queries.templates import GroupTemplate

RETAINED = STREAMS.replace("TIMESTAMP BY ts", "TIMESTAMP BY ts RETAIN 12")


# Where the process is killed: on the way, and in the commit by which a query leaves.
FAULTS = [
    pytest.param("segment-half-written:56", marks=pytest.mark.slow),
    pytest.param("backfill-finished:1", marks=pytest.mark.slow),
    "plan-moved:1",
    pytest.param("catalog-renamed:8", marks=pytest.mark.slow),
    pytest.param("manifest-half-written:9", marks=pytest.mark.slow),
    "manifest-counts:9",
]


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing_choice, "ENOUGH_TO_SHARE", 2)


def alone(db: ms.Database, text: str) -> list[Any]:
    """What a query with a plan of its own says."""
    db.execute("SET sharing = 'off'")
    return answers(db.register(text))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("text", TEXTS)
def test_the_last_one_leaves_with_the_same_answers(text: str, shards: int, tmp_path: Path) -> None:
    with grouped(tmp_path, text, f"SET shards = {shards}; {STREAMS}") as db:
        query = left_alone(db)
        followed = [row for table in query.follow(timeout=0.01) for row in table.to_pylist()]
        leave(db)
        assert query.number is None
        assert query.template is None
        assert "replan: moved since epoch" in query.explain()
        assert "no other query is left in its group" in query.stats()["replan"]["reason"]
        assert not [*db.engine.groups]
        assert db.engine.snapshot.results.keys() == {query.edge}
        assert db.query("q3") is query
        feed(db, 30, 40)
        known = answers(query)
        since = followed[-1]["_ts"] if followed else None
        after = [row for table in query.follow(since, timeout=0.01) for row in table.to_pylist()]
        assert sorted(map(str, followed + after)) == known[-1]
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert answers(db.query("q3")) == known
        assert "moved since epoch" in db.query("q3").explain()
        feed(db, 40, 45)
        assert alone(db, db.query("q3").cql) == answers(db.query("q3"))


@pytest.mark.parametrize("text", [TEXTS[0], TEXTS[1], TEXTS[3].replace("RANGE 9", "RANGE 4")])
def test_what_history_no_longer_has_is_taken_along(text: str, tmp_path: Path) -> None:
    text = text.replace("RANGE 20", "RANGE 5")
    with grouped(tmp_path / "cut", text, RETAINED) as db, grouped(tmp_path / "whole", text) as whole:
        for each in (db, whole):
            feed(each, 30, 60)
        query = left_alone(db)
        assert db.engine.retention.lost_before("s") > 20
        leave(db)
        assert query.number is None
        for each in (db, whole):
            feed(each, 60, 70)
        expected = whole.query("q3")
        for at in range(query.instants.first, 70, 3):
            found, wanted = query.result(at).to_pylist(), expected.result(at).to_pylist()
            assert sorted(map(str, found)) == sorted(map(str, wanted))
        found, wanted = (each.changes(query.instants.first).to_pylist() for each in (query, expected))
        assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_it_stays_where_history_no_longer_covers_its_window(tmp_path: Path) -> None:
    with grouped(tmp_path, TEXTS[0], RETAINED) as db:
        feed(db, 30, 60)
        query = left_alone(db)
        assert not leave_one(db)
        assert query.number is not None
        assert "(RETAIN), and its windows reach further back" in query.explain()


def test_few_queries_of_a_join_of_all_rows_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT s.u, s.v, t.w FROM s [RANGE 9] LEFT JOIN t [RANGE 9] ON s.u = t.u WHERE s.v = {c}"
    with grouped(None, text) as db:
        queries = [*db.queries()]
        assert len({query.edge for query in queries}) == 1
        assert leave_one(db) is False  # together they want most of it
        for query in queries[1:3]:
            query.drop()
        left = [query for query in db.queries() if query.number is not None]
        assert len(left) == 2
        db._queries.replanning.margin = 1.2
        leave(db)
        assert all(query.number is None for query in left)
        assert "the plan that it shares costs" in left[0].stats()["replan"]["reason"]
        feed(db, 30, 40)
        known = [answers(query) for query in left]
        assert [alone(db, query.cql) for query in left] == known


def test_equal_queries_leave_one_after_the_other(tmp_path: Path) -> None:
    with grouped(tmp_path, TEXTS[0]) as db:
        twins = [db.register(TEXTS[0].format(c=3), name=f"twin{n}") for n in range(3)]
        left_alone(db)
        leave(db)
        assert {query.edge for query in twins} == {db.query("q3").edge}
        assert not [*db.engine.groups]
        feed(db, 30, 40)
        known = answers(twins[0])
        assert all(answers(query) == known for query in db.queries())


def test_who_has_left_comes_back_with_others_once_as_much_has_come(tmp_path: Path) -> None:
    with grouped(tmp_path, TEXTS[3]) as db:
        query = left_alone(db)
        leave(db)
        for c in (7, 8):
            db.register(TEXTS[3].format(c=c), name=f"more{c}")
        feed(db, 30, 32)
        replanning = db._queries.replanning
        assert [replanning.gather(group) for group in db.engine.groups] == [0]
        feed(db, 32, 80)
        assert [replanning.gather(group) for group in db.engine.groups] == [1]
        assert query.edge == db.query("more8").edge
        known = answers(query)
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert answers(db.query("q3")) == known


def test_those_stay_that_are_to_share(tmp_path: Path) -> None:
    with grouped(tmp_path, TEXTS[0], f"{STREAMS}; SET sharing = 'on'") as db:
        query = left_alone(db)
        assert not leave_one(db)
        assert isinstance(query.template, GroupTemplate)


def test_epochs_have_it_leave(tmp_path: Path) -> None:
    with grouped(tmp_path, TEXTS[0]) as db:
        query = left_alone(db)
        db._queries.replanning.least_rows = 1
        for ts in range(30, 60):
            feed(db, ts, ts + 1)
        db.engine.notifier.wait_until(lambda: query.number is None, 60)
        assert query.number is None


def test_a_drop_calls_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with grouped(tmp_path, TEXTS[0]) as db:
        left_alone(db)
        monkeypatch.setattr(type(db.engine.backfills), "_wake", lambda _: None)
        assert leave_one(db)
        assert "moving since epoch" in db.query("q3").explain()
        db.query("q3").drop()
        assert not db.engine.snapshot.results
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert not [*db.queries()]


def test_a_commit_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with grouped(tmp_path, TEXTS[0]) as db:
        query, journal, failed = left_alone(db), db.engine.commits.journal, list[bool]()
        usual = journal.commit

        def full(*given: Any) -> None:
            if query.number is None and not failed:
                failed.append(True)
                raise OSError(28, "no space left on device")
            usual(*given)

        monkeypatch.setattr(journal, "commit", full)
        leave(db)
        db.engine.notifier.wait_until(lambda: bool(failed), 60)
        feed(db, 30, 40)
        known = answers(query)
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert [query.name for query in db.queries()] == ["q3"]
        assert answers(db.query("q3")) == known
        assert alone(db, db.query("q3").cql) == known


PROGRAM = """
import sys
from pathlib import Path
from tests.queries.leaving_groups import come_and_leave
come_and_leave(Path(sys.argv[1]))
"""


def run(path: Path, fault: str = "") -> int:
    environment = {**os.environ, "MILLSTREAM_FAULT": fault}
    return subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, check=False).returncode


@pytest.mark.parametrize("fault", FAULTS)
def test_a_process_that_is_killed_leaves_it_in_the_group_or_alone(fault: str, tmp_path: Path) -> None:
    assert run(tmp_path / "db", fault) == -signal.SIGKILL
    assert run(tmp_path / "db") == 0
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert sorted(query.name for query in db.queries()) == ["q3", "stays"]
        assert db.query("q3").number is None
        assert not [*db.engine.groups]
        assert db.engine.snapshot.results.keys() == {query.edge for query in db.queries()}
        known = answers(db.query("q3"))
        assert alone(db, db.query("q3").cql) == known
