"""Inserts of many threads: taken in together, and answered as if they had come one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.database import Database
from millstream.engine.engine import Engine
from millstream.errors import InputError, StateError

STREAM = "CREATE STREAM s (thread BIGINT, number BIGINT) TIMESTAMP BY ts HEARTBEAT DELAY 1000"


def asked(db: Database, text: str) -> list[dict[str, Any]]:
    table = db.execute(text).table
    assert table is not None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def together(db: Database, inserts: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
    """All of them wait before the first one is taken in; in their order."""
    gathering = db.inputs._gathering
    with ThreadPoolExecutor(len(inserts)) as threads:
        held, full = threading.Event(), threading.Event()

        def hold() -> None:
            with db.engine.lock:
                held.set()
                full.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        found = []
        for number, insert in enumerate(inserts, start=1):
            found.append(threads.submit(insert))
            while len(gathering._waiting) < number:
                time.sleep(0.001)
        full.set()
        holder.join()
    return found


def test_those_that_wait_are_one_epoch_and_a_wrong_one_fails_alone(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        query, before = db.register("SELECT thread, COUNT(*) AS n FROM s GROUP BY thread"), db.engine.snapshot.epoch
        rows: list[list[tuple[int, int, int | None]]] = [[(n, number, n) for number in range(n)] for n in range(1, 9)]
        rows[3] = [(4, 0, 4), (4, 1, None)]
        outcomes = together(db, [partial(db.insert, "s", taken) for taken in rows])
        assert db.engine.snapshot.epoch == before + 1
        with pytest.raises(InputError, match='row 2: timestamp "ts" is NULL'):
            outcomes.pop(3).result()
        assert [outcome.result().accepted for outcome in outcomes] == [1, 2, 3, 5, 6, 7, 8]
        db.advance(to=100)
        assert query.result().to_pylist() == [{"thread": n, "n": n} for n in (1, 2, 3, 5, 6, 7, 8)]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert asked(db, "SELECT COUNT(*) AS n FROM s") == [{"n": 32}]


def test_rows_are_late_for_those_that_came_before_them() -> None:
    """As if each insert had been alone: also when late ones entered their table."""
    batches = [[(0, 0, 10)], [(1, 0, 5), (1, 1, 20)], [(2, 0, 19), (2, 1, 30)], [(3, 0, 31)], [(4, 0, 2)]]
    found = []
    for at_once in (True, False):
        with ms.connect(engine="inprocess") as db:
            db.execute("CREATE STREAM s (thread BIGINT, number BIGINT) TIMESTAMP BY ts")
            db.register("SELECT * FROM s._late", name="late")
            inserts = [partial(db.insert, "s", rows) for rows in batches]
            said = [f.result() for f in together(db, inserts)] if at_once else [insert() for insert in inserts]
            db.advance(to=100)
            late = db.query("late").changes().to_pylist()
            found.append(([(each.accepted, each.late) for each in said], late, asked(db, "SELECT * FROM s")))
    assert found[0] == found[1]
    assert [late for _, late in found[0][0]] == [0, 1, 1, 0, 1]


def test_where_an_epoch_fails_each_is_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch, sizes = Engine.epoch, list[int]()

    def failing(engine: Engine, arrived: Any, *others: Any, **named: Any) -> None:
        sizes.append(sum(part.rows for part in arrived["s"]))
        if sizes[-1] > 2:
            raise StateError("the disk is full")
        epoch(engine, arrived, *others, **named)

    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        monkeypatch.setattr(Engine, "epoch", failing)
        counts = (1, 3, 2)
        outcomes = together(db, [partial(db.insert, "s", [(n, k, 5) for k in range(n)]) for n in counts])
        assert sizes == [6, 1, 3, 2]
        assert [type(outcome.exception()) for outcome in outcomes] == [type(None), StateError, type(None)]
        assert str(outcomes[1].exception()) == "the disk is full"
        monkeypatch.undo()
        db.advance(to=100)
        assert asked(db, "SELECT COUNT(*) AS n FROM s") == [{"n": 3}]


def test_who_is_interrupted_leaves_no_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch, calls = Engine.epoch, list[int]()

    def interrupted(engine: Engine, *given: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        epoch(engine, *given, **named)

    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        monkeypatch.setattr(Engine, "epoch", interrupted)
        outcomes = together(db, [partial(db.insert, "s", [(n, 0, 5)]) for n in range(4)])
        assert isinstance(outcomes[0].exception(), KeyboardInterrupt)
        assert [outcome.result().accepted for outcome in outcomes[1:]] == [1, 1, 1]
        assert len(calls) == 2
        assert db.insert("s", [(9, 0, 5)]).accepted == 1


def test_keys_count_once_among_those_that_wait() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        keyed = [("a", 1), ("b", 2), ("a", 1), ("c#1", 3), ("c#2", 4), ("b", 9), ("a", 1)]
        before = db.engine.snapshot.epoch
        outcomes = together(db, [partial(db.insert, "s", [(n, 0, 5)] * n, key=key) for key, n in keyed])
        assert isinstance(outcomes.pop(5).exception(), ms.ConstraintError)
        assert [outcome.result().accepted for outcome in outcomes] == [1, 2, 1, 3, 4, 1]
        assert db.engine.snapshot.epoch <= before + 4
        assert db.insert("s", [(2, 0, 5)] * 2, key="b").accepted == 2
        db.advance(to=100)
        assert asked(db, "SELECT COUNT(*) AS n FROM s") == [{"n": 10}]


def test_streams_and_threads_lose_nothing() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; {STREAM.replace('STREAM s', 'STREAM r')}")

        def insert(thread: int) -> int:
            name = "sr"[thread % 2]
            return sum(db.insert(name, [(thread, number, number)] * 2).accepted for number in range(25))

        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(insert, range(6))) == [50] * 6
        db.advance(to=100)
        for name, own in (("s", [0, 2, 4]), ("r", [1, 3, 5])):
            said = f"SELECT thread, COUNT(*) AS n, COUNT(DISTINCT number) AS d FROM {name} GROUP BY thread"
            assert asked(db, said) == [{"thread": n, "n": 50, "d": 25} for n in own]
