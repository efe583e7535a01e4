"""Whoever reads asks the engine's background thread where something must be committed first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.database import Database
from millstream.engine.commits import Commits
from millstream.errors import ClosedError, EvaluationError

Read = Callable[[Database], object]
READS: dict[str, Read] = {
    "result": lambda db: db.query("big").result(),
    "changes": lambda db: db.query("big").changes(),
    "final": lambda db: db.query("big").final,
    "error": lambda db: db.query("big").error,
    "stats": lambda db: db.query("big").stats(),
    "wait": lambda db: db.query("big").wait(60),
    "follow": lambda db: next(db.query("big").follow()),
    "results": lambda db: db.results([db.query("big"), db.query("small")]),
    "template": lambda db: (db.template("many").result(), db.template("many").changes(), db.template("many").stats()),
    "template, followed": lambda db: next(db.template("many").follow()),
    "of the clock": lambda db: db.query("now").result(),
    "select": lambda db: db.execute("SELECT count(*) AS n FROM t [RANGE UNBOUNDED]"),
    "show": lambda db: db.execute("SHOW QUERIES"),
    "explain": lambda db: db.execute("EXPLAIN ANALYZE SELECT v FROM s [RANGE 10] WHERE v > 3"),
}


@pytest.fixture(params=["memory", "directory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "db" if request.param == "directory" else None
    with ms.connect(path, engine="inprocess") as found:
        found.execute("SET sharing = 'on'")
        found.execute("CREATE STREAM s (v BIGINT, ts BIGINT) TIMESTAMP BY ts")
        found.execute("CREATE STREAM t (v BIGINT) TIMESTAMP BY ts TIMESTAMP HEARTBEAT CLOCK")
        found.insert("s", [(value, value) for value in range(10)])
        found.execute("ADVANCE s TO 20")
        found.insert("t", [(1,)])
        for name, least in (("big", 7), ("small", 2)):
            found.register(f"SELECT v FROM s [RANGE 100] WHERE v > {least}", name=name)
        found.register_many("SELECT v FROM s [RANGE 100] WHERE v < ?", [3, 5], template="many")
        found.register("SELECT v FROM t [RANGE UNBOUNDED] WHERE v > 0", name="now")
        yield found


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_read_never_commits(db: Database, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, committed_by = Commits.commit, list[int]()

    def noted(self: Commits, snapshot: Any) -> None:
        committed_by.append(threading.get_ident())
        commit(self, snapshot)

    monkeypatch.setattr(Commits, "commit", noted)
    read(db)
    assert threading.get_ident() not in committed_by


def test_what_was_asked_for_is_committed_when_the_answer_comes(db: Database) -> None:
    assert db.engine.groups.tables.has_waiting(db.engine.groups[db.query("big").edge])
    assert db.query("big").result().to_pylist() == [{"v": 8}, {"v": 9}]
    assert not db.engine.groups.tables.has_waiting(db.engine.groups[db.query("big").edge])


def test_readers_in_many_threads_get_the_same_answer(db: Database) -> None:
    found: list[list[dict[str, Any]]] = []
    readers = [
        threading.Thread(target=lambda: found.append(db.query("big").result().to_pylist()), name=f"reader {n}")
        for n in range(8)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert found == [[{"v": 8}, {"v": 9}]] * 8


def test_whoever_holds_the_lock_does_not_wait_for_the_thread(db: Database) -> None:
    with db.engine.lock:
        assert db.query("big").result().num_rows == 2


def test_what_fails_in_the_thread_reaches_who_asked(db: Database) -> None:
    def fail() -> None:
        raise EvaluationError("no")

    with pytest.raises(EvaluationError, match="no"):
        db.engine.background.do(fail)
    db.close()
    with pytest.raises(ClosedError):
        db.engine.background.do(lambda: None)
