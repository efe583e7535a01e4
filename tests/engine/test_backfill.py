"""Late queries whose past is worked through in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import millstream as ms
from millstream.database import Database
from millstream.engine.history.backfill import Backfills
from millstream.engine.history.replay import HistoryRun, Replay
from millstream.engine.history.rounds import Rounds

SUMS = "SELECT k, SUM(v) AS total FROM s [RANGE 15] GROUP BY k"
QUERIES = {
    "sums": SUMS,
    "pairs": "SELECT ISTREAM(a.k, a.v, b.v) FROM s [RANGE 3] a, s [ROWS 5] b WHERE a.k = b.k",
    "large": "SELECT k, total FROM (SELECT k, SUM(v) AS total FROM s [RANGE 15] GROUP BY k) w WHERE total > 9",
}


def opened(path: Path | None = None, slice_rows: int = 40) -> Database:
    db = ms.connect(path, engine="inprocess")
    db.engine.backfills.first_slice = db.engine.backfills.most_left = slice_rows
    if "s" not in db.catalog:
        db.execute("SET background_rows = 0; CREATE STREAM s (k INT, v INT) TIMESTAMP BY t")
    return db


def feed(db: Database, batches: range) -> None:
    for batch in batches:
        db.insert("s", [(t % 4, t % 7, t) for t in range(batch * 10, batch * 10 + 10)])


def answers(db: Database) -> dict[str, pa.Table]:
    return {query.name: query.changes() for query in db.queries()}


def expected(batches: int, queries: dict[str, str] = QUERIES) -> dict[str, pa.Table]:
    with opened() as db:
        for name, text in queries.items():
            db.register(text, name=name)
        feed(db, range(batches))
        return answers(db)


class Gate:
    """Backfills that stop before each slice until they are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived, self._open = threading.Event(), threading.Event()
        usual: Callable[..., Any] = Rounds.run_slice

        def gated(*arguments: Any) -> Any:
            self.arrived.set()
            assert self._open.wait(60)
            return usual(*arguments)

        monkeypatch.setattr(Rounds, "run_slice", gated)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.open()


def test_rows_come_in_while_the_past_is_worked_through(gate: Gate, tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        feed(db, range(20))
        queries = [db.register(text, name=name) for name, text in QUERIES.items()]
        assert gate.arrived.wait(60)
        assert all(query.is_filling and query.final is None for query in queries)
        assert not queries[0].wait(0.01)
        feed(db, range(20, 60))  # merges files that the backfill is about to read
        told = queries[0].stats()["backfill"]
        assert told == {"fraction": 0, "reached": None, "until": 598, "rows": 0, "of_rows": 600}
        gate.open()
        assert answers(db) == expected(60)
        feed(db, range(60, 70))
        assert answers(db) == expected(70)
        assert "backfill" not in queries[0].stats()
        assert not db.engine.snapshot.backfills


def test_whoever_asks_waits(gate: Gate) -> None:
    with opened() as db:
        feed(db, range(20))
        query = db.register(SUMS, name="sums")
        found: list[pa.Table] = []
        readers = [
            threading.Thread(target=lambda: found.append(query.changes())),
            threading.Thread(target=lambda: found.append(next(query.follow()))),
        ]
        assert gate.arrived.wait(60)
        for reader in readers:
            reader.start()
        assert not found
        assert list(query.follow(timeout=0.01)) == []
        gate.open()
        for reader in readers:
            reader.join(60)
        assert found == [expected(20, {"sums": SUMS})["sums"]] * 2


def test_dropping_cancels(gate: Gate, tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        feed(db, range(20))
        query, other = db.register(SUMS), db.register("SELECT COUNT(*) AS n FROM s [RANGE 3]", name="other")
        assert gate.arrived.wait(60)
        told: list[Exception] = []

        def ask() -> None:
            with pytest.raises(ms.ClosedError) as raised:
                query.result()
            told.append(raised.value)

        waiting = threading.Thread(target=ask)
        waiting.start()
        query.drop()
        waiting.join(60)
        assert len(told) == 1
        gate.open()
        assert other.wait(60)
        other.drop()
        assert not db.engine.snapshot.backfills
        assert db.register(SUMS, name="sums").wait(60)
        assert answers(db) == expected(20, {"sums": SUMS})


def test_closing_does_not_wait_and_opening_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = opened(tmp_path / "db")
    feed(db, range(20))
    begun = threading.Event()
    usual = Replay.take

    def slow(*arguments: Any) -> None:
        begun.set()
        usual(*arguments)

    monkeypatch.setattr(Replay, "take", slow)
    monkeypatch.setattr(Backfills, "_publish", lambda *_: pytest.fail("closed long ago"))
    monkeypatch.setattr(Replay, "rows_left", lambda *_: 1_000)  # it never comes to an end
    monkeypatch.setattr("millstream.engine.history.rounds.SHRINKING", 2)
    for name, text in QUERIES.items():
        db.register(text, name=name)
    assert begun.wait(60)
    db.close()
    monkeypatch.undo()
    with opened(tmp_path / "db") as db:
        feed(db, range(20, 25))
        assert answers(db) == expected(25)
    files = {path.name for path in (tmp_path / "db" / "segments").iterdir()}
    with opened(tmp_path / "db") as db:
        assert {name.partition("@")[0] for name in db.engine.snapshot.names() if "@" in name} == files


def test_a_query_that_fails_fails_alone() -> None:
    with opened() as db:
        feed(db, range(20))
        bad = db.register("SELECT 1 / (v - 3) AS x FROM s [NOW]", name="bad")
        good = db.register(SUMS, name="sums")
        asks: tuple[Callable[[], object], ...] = (bad.result, bad.changes, lambda: next(bad.follow()))
        for ask in asks:
            with pytest.raises(ms.EvaluationError, match="division by zero"):
                ask()
        assert good.changes() == expected(20, {"sums": SUMS})["sums"]
        bad.drop()
        feed(db, range(20, 22))
        assert answers(db) == expected(22, {"sums": SUMS})


def test_damage_is_told_to_whoever_asks(tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        feed(db, range(20))
        db.engine.sources.statistics()  # which looks at the newest
        first = db.engine.snapshot.history["s"][0].name.partition("#")[0]
        file = tmp_path / "db" / first
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        db.engine.commits.store.pool.clear()  # small files stay in memory
        query = db.register(SUMS)
        with pytest.raises(ms.StateError, match="is damaged"):
            query.result()


def test_small_histories_are_worked_through_at_once() -> None:
    with opened() as db:
        db.execute("SET background_rows = 1000")
        feed(db, range(20))
        assert not db.register(SUMS, name="sums").is_filling
        feed(db, range(20, 110))
        db.execute("SET background_rows = 0")
        with pytest.raises(ms.BindError, match="at least 0"):
            db.execute("SET background_rows = -1")


def test_a_sink_is_served_when_the_past_is_there(gate: Gate) -> None:
    with opened() as db:
        feed(db, range(20))
        db.register(SUMS, name="sums")
        assert gate.arrived.wait(60)
        delivered: list[pa.Table] = []
        come = threading.Event()

        def deliver(_: int, changes: pa.Table) -> None:
            delivered.append(changes)
            come.set()

        db.create_sink("sink", "sums", deliver)
        feed(db, range(20, 21))
        assert not delivered
        gate.open()
        assert come.wait(60)
        feed(db, range(21, 23))
        assert pa.concat_tables(delivered) == expected(23, {"sums": SUMS})["sums"]


def test_tables_and_pending_changes_are_part_of_the_past() -> None:
    def play(db: Database, query: Callable[[], object]) -> Any:
        db.execute("CREATE TABLE d (k INT, name STRING); INSERT INTO d VALUES (0, 'zero'), (1, 'one')")
        feed(db, range(20))
        db.execute("DELETE FROM d WHERE k = 1")
        db.execute("INSERT INTO d VALUES (2, 'two') AT 300")
        query()
        feed(db, range(20, 40))
        (found,) = db.queries()
        return found.changes().to_pylist()

    text = "SELECT DISTINCT d.name, s.v FROM s [RANGE 8], d WHERE s.k = d.k"
    with opened() as late, opened() as early:
        early.execute("CREATE TABLE d (k INT, name STRING)")
        early.register(text)
        early.execute("INSERT INTO d VALUES (0, 'zero'), (1, 'one')")
        feed(early, range(20))
        early.execute("DELETE FROM d WHERE k = 1; INSERT INTO d VALUES (2, 'two') AT 300")
        feed(early, range(20, 40))
        assert play(late, lambda: late.register(text)) == early.queries()[0].changes().to_pylist()


def test_rows_beyond_the_heartbeat_are_taken_beside_the_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a few are left to be worked through while epochs wait, and each row is taken once."""
    texts = {
        "sums": "SELECT k, SUM(v) AS total FROM e [RANGE 15] GROUP BY k",
        "pairs": "SELECT a.v, b.v FROM e [RANGE 3] a, s [RANGE 5] b WHERE a.k = b.k",
    }

    def feed_ahead(db: Database, batches: range) -> None:
        for batch in batches:
            rows = [(t % 4, t % 7, t) for t in range(batch * 10, batch * 10 + 10)]
            db.insert("e", [*reversed(rows[:5]), *rows[5:]])
            db.insert("s", rows)

    def advance(db: Database) -> None:
        for instant in (90, 300, 400):
            db.advance("e", to=instant)

    with opened() as late, opened() as early:
        for db in (late, early):
            db.execute("CREATE STREAM e (k INT, v INT) TIMESTAMP BY t HEARTBEAT EXPLICIT")
        for name, text in texts.items():
            early.register(text, name=name)
        feed_ahead(early, range(40))
        advance(early)
        feed_ahead(late, range(20))
        late.advance("e", to=60)
        under_lock: list[int] = []
        usual = Backfills._publish

        def publish(self: Backfills, job: Any) -> None:
            under_lock.append(self._replay.rows_left(job.run, late.engine.snapshot))
            usual(self, job)

        monkeypatch.setattr(Backfills, "_publish", publish)
        queries = [late.register(text, name=name) for name, text in texts.items()]
        assert all(query.wait(60) for query in queries)
        assert under_lock
        assert max(under_lock) <= 40
        feed_ahead(late, range(20, 40))
        advance(late)
        assert answers(late) == answers(early)


def test_matches_of_a_group_are_found_beside_the_epochs(gate: Gate, tmp_path: Path) -> None:
    template = "SELECT a.v, b.v FROM s [RANGE 4] a, s [RANGE 2] b WHERE a.k = b.k AND a.v > ?"
    with opened() as early:
        early.register_many(template, [(1,), (5,), (3,)], ["one", "five", "three"])
        feed(early, range(40))
        expected = grouped(early)
    with opened(tmp_path / "db") as db:
        first = db.register_many(template, [(1,)], ["one"], mode="lazy")
        feed(db, range(20))
        db.register_many(template, [(5,), (3,)], ["five", "three"], mode="lazy")
        assert gate.arrived.wait(60)
        assert db.query("five").is_filling
        assert not first[0].is_filling
        feed(db, range(20, 30))
        gate.open()
        assert db.query("five").wait(60)
        feed(db, range(30, 40))
        assert grouped(db) == expected
    with opened(tmp_path / "db") as db:
        assert grouped(db) == expected


def grouped(db: Database) -> dict[str, Any]:
    return {query.name: (query.result().to_pylist(), query.changes().to_pylist()) for query in db.queries()}


TEMPLATE = "SELECT COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 15] WHERE k = ? AND v > ?"
FIRST, SECOND = [(k, 2) for k in range(4)], [(k, 4) for k in range(4)]


def test_queries_of_a_group_come_to_others_that_are_there(gate: Gate, tmp_path: Path) -> None:
    with opened() as early:
        early.register_many(TEMPLATE, FIRST)
        early.register_many(TEMPLATE, SECOND)
        feed(early, range(40))
        expected = grouped(early)
    with opened(tmp_path / "db") as db:
        first = db.register_many(TEMPLATE, FIRST)
        feed(db, range(20))
        assert not any(query.is_filling for query in first)
        second = db.register_many(TEMPLATE, SECOND)
        gone = db.register_many(TEMPLATE, [(1, 1)], names=["gone"])[0]
        assert gate.arrived.wait(60)
        assert all(query.is_filling for query in second)
        assert second[0].stats()["backfill"]["of_rows"] == 200
        assert first[0].result().num_rows == 1  # those that are there do not wait
        feed(db, range(20, 30))
        gone.drop()
        gate.open()
        assert all(query.wait(60) for query in second)
        feed(db, range(30, 40))
        assert grouped(db) == expected
    with opened(tmp_path / "db") as db:
        assert grouped(db) == expected


def test_the_one_of_a_group_that_fails_is_found() -> None:
    with opened() as db:
        feed(db, range(20))
        queries = db.register_many(
            "SELECT SUM(100 / (v - ?)) AS x FROM s [NOW] WHERE k = ?", [(n, 1) for n in (3, 9, 8)]
        )
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            queries[0].result()
        assert queries[1].result().num_rows == queries[2].result().num_rows == 1


def test_queries_of_a_group_wait_again_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patching:
        patching.setattr(Backfills, "start", lambda _: None)
        with opened(tmp_path / "db") as db:
            feed(db, range(20))
            db.register_many(TEMPLATE, FIRST, names=["a", "b", "c", "d"])
    with opened(tmp_path / "db") as db, opened() as early:
        early.register_many(TEMPLATE, FIRST, names=["a", "b", "c", "d"])
        feed(early, range(21))
        feed(db, range(20, 21))
        assert grouped(db) == grouped(early)


def test_a_history_that_is_too_short_is_noticed() -> None:
    with opened() as db:
        db.execute("CREATE STREAM r (k INT) TIMESTAMP BY t RETAIN 80; SET background_rows = 1000")
        total = "SELECT k, COUNT(*) AS n FROM r [RANGE 500] GROUP BY k"
        first = db.register(total, name="first")
        for start in range(0, 400, 10):
            db.insert("r", [(1, t) for t in range(start, start + 10)])
        told = db.execute(f"REGISTER QUERY late AS {total}")
        assert "the history of r begins at 318 (RETAIN)" in told.message
        assert "it is answerable from 818 on" in told.message
        late = db.query("late")
        assert late.notices == late.stats()["notices"]
        assert not first.notices
        for text in ("SELECT k FROM r [RANGE 70]", "SELECT k FROM r [ROWS 5]", "SELECT ISTREAM(k) FROM r"):
            assert not db.register(text).notices
        assert db.register("SELECT COUNT(*) AS n FROM r").notices[0].endswith("its answers lack what came before")
        # The state of the first query is not taken for that of the late one, which has seen less.
        assert first.result().to_pydict() == {"k": [1], "n": [399]}
        with pytest.raises(ms.TimeError, match="no longer kept"):
            late.result()
        db.insert("r", [(1, t) for t in range(400, 820)])
        assert first.result().to_pydict()["n"] == late.result().to_pydict()["n"] == [501]


def test_notices_of_groups_outlive_the_process(tmp_path: Path) -> None:
    template = "SELECT COUNT(*) AS n FROM r [RANGE 500] WHERE k = ?"
    with opened(tmp_path / "db") as db:
        db.execute("CREATE STREAM r (k INT) TIMESTAMP BY t RETAIN 80; SET background_rows = 1000")
        early = db.register_many(template, [(1,)], ["early"])[0]
        for start in range(0, 400, 10):
            db.insert("r", [(1, t) for t in range(start, start + 10)])
        late = db.register_many(template, [(1,), (2,)], ["late", "later"])
        assert not early.notices
        alone = template.replace("?", "1")
        late += [db.register(alone, name=mode, mode=mode) for mode in ("lazy", "none")]
        assert all("begins at 318 (RETAIN)" in query.notices[0] for query in late)
        # Though others have matches from before: what is registered does not matter.
        assert db.register(alone.replace("500", "300"), name="shares", mode="lazy").instants.first == 618
        told = {query.name: query.notices for query in db.queries()}
    with opened(tmp_path / "db") as db:
        assert {query.name: query.notices for query in db.queries()} == told
        assert db.query("later").stats()["notices"] == told["later"]
        for name in ("late", "later"):
            db.query(name).drop()
    with opened(tmp_path / "db") as db:
        assert not db.query("early").notices


PROGRAM = """
import os, sys
import millstream as ms
from tests.engine.test_backfill import QUERIES, feed, opened
from pathlib import Path
with opened(Path(sys.argv[1])) as db:
    db.engine.backfills.saved_every = float(os.environ.get("SAVED_EVERY", 10))
    for name, text in QUERIES.items():
        arrived = db.stats()["streams"]["s"]["arrived"] // 10
        feed(db, range(arrived, 20))
        if name not in {query.name for query in db.queries()}:
            db.register(text, name=name)
    for batch in range(db.stats()["streams"]["s"]["arrived"] // 10, 30):
        feed(db, range(batch, batch + 1))
    for query in db.queries():
        query.wait()
"""


def run(path: Path, fault: str = "") -> int:
    environment = {**os.environ, "MILLSTREAM_FAULT": fault}
    return subprocess.run([sys.executable, "-c", PROGRAM, str(path)], env=environment, check=False).returncode


@pytest.mark.parametrize("fault", ["backfill-slice-run:3", "backfill-finished", "changes-written:20"])
def test_a_backfill_that_was_killed_is_repeated(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "db"
    assert run(path, fault) == -signal.SIGKILL
    assert run(path) == 0
    with opened(path) as db:
        assert answers(db) == expected(30)


def test_files_are_read_by_the_slice(tmp_path: Path) -> None:
    """A large file is read in pieces, and the pieces are all of it."""
    with opened(tmp_path / "db", slice_rows=10_000) as db:
        t = pl.int_range(300_000, eager=True)
        db.insert("s", pl.DataFrame({"k": (t % 4).cast(pl.Int32), "v": (t % 7).cast(pl.Int32), "t": t // 3}))
        query = db.register("SELECT k, COUNT(*) AS n FROM s GROUP BY k", name="n")
        assert query.result(at=99_998).to_pydict() == {"k": [0, 1, 2, 3], "n": [75_000, 74_999, 74_999, 74_999]}


def resuming(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """After how many rows runs go on."""
    rows: list[int] = []
    usual: Callable[..., Any] = HistoryRun.go_on

    def going_on(run: HistoryRun, saved: Any) -> None:
        usual(run, saved)
        rows.append(run.rows)

    monkeypatch.setattr(HistoryRun, "go_on", going_on)
    return rows


@pytest.mark.parametrize("fault", ["backfill-saved:2", "backfill-slice-run:4", "backfill-finished"])
def test_a_backfill_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("SAVED_EVERY", "0")
    assert run(tmp_path / "db", fault) == -signal.SIGKILL
    monkeypatch.setattr(Backfills, "start", lambda _: None)
    with opened(tmp_path / "db") as db:
        (saved,) = db.engine.snapshot.runs.values()
        assert saved.rows
        files = {name.partition("@")[0] for name in saved.names()}
        assert files <= {path.name for path in (tmp_path / "db" / "segments").iterdir()}
    monkeypatch.undo()
    rows = resuming(monkeypatch)
    with opened(tmp_path / "db") as db:
        for query in db.queries():
            query.wait()
        assert rows == [saved.rows]  # what the earlier process has read is not read again
        feed(db, range(db.stats()["streams"]["s"]["arrived"] // 10, 30))
        queries = {name: text for name, text in QUERIES.items() if name in {query.name for query in db.queries()}}
        assert answers(db) == expected(30, queries)
        assert not db.engine.snapshot.runs
    files = {path.name for path in (tmp_path / "db" / "segments").iterdir()}
    with opened(tmp_path / "db") as db:
        assert {name.partition("@")[0] for name in db.engine.snapshot.names() if "@" in name} == files


def close_after(monkeypatch: pytest.MonkeyPatch, slices: int) -> threading.Event:
    """Backfills take so many slices, and then wait for the end."""
    taken: list[int] = []
    arrived = threading.Event()
    usual: Callable[..., Any] = Rounds.run_slice

    def limited(rounds: Rounds, *arguments: Any) -> None:
        taken.append(1)
        if len(taken) > slices:
            arrived.set()
            while not rounds.is_over():
                arrived.wait(0.01)
            return
        usual(rounds, *arguments)

    monkeypatch.setattr(Rounds, "run_slice", limited)
    return arrived


def test_a_backfill_goes_on_where_it_was_when_the_database_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patching:
        arrived = close_after(patching, 1)
        with opened(tmp_path / "db") as db:
            feed(db, range(20))
            for name, text in QUERIES.items():
                db.register(text, name=name)
            assert arrived.wait(60)
    rows = resuming(monkeypatch)
    with opened(tmp_path / "db") as db:
        db.query("pairs").drop()  # the others go on
        assert db.query("sums").wait(60)
        assert rows == [40]
        feed(db, range(20, 25))
        rest = {name: text for name, text in QUERIES.items() if name != "pairs"}
        assert answers(db) == expected(25, rest)
        assert not db.engine.snapshot.runs


@pytest.mark.parametrize("dropped", [False, True])
def test_queries_of_a_group_go_on_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropped: bool
) -> None:
    names = ["a", "b", "c", "d"]
    with monkeypatch.context() as patching:
        arrived = close_after(patching, 1)
        with opened(tmp_path / "db") as db:
            feed(db, range(20))
            db.register_many(TEMPLATE, FIRST, names=names)
            assert arrived.wait(60)
    with monkeypatch.context() as patching:
        patching.setattr(Backfills, "start", lambda _: None)
        with opened(tmp_path / "db") as db:
            assert db.engine.snapshot.runs
            if dropped:
                db.query("b").drop()
    rows = resuming(monkeypatch)
    with opened(tmp_path / "db") as db, opened() as early:
        assert db.query("a").wait(60)
        assert rows == ([] if dropped else [40 + len(names)])  # of the others it is worked through again
        early.register_many(TEMPLATE, FIRST, names=names)
        if dropped:
            early.query("b").drop()
        feed(early, range(21))
        feed(db, range(20, 21))
        assert grouped(db) == grouped(early)
        assert not db.engine.snapshot.runs
