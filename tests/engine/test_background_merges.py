"""Merges beside the epochs: whenever they are done, and wherever they end, answers are those of the elements."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.database import Database
from millstream.engine import background_merges, merges
from millstream.engine.epochs import merging
from millstream.engine.epochs.merging import Merge
from millstream.errors import StateError
from millstream.state.store import DirectoryStore

SUMS = "SELECT k, COUNT(*) AS n, SUM(v) AS t, MAX(v) AS m FROM s [RANGE 30] GROUP BY k"
QUERIES = {
    "eager": ("eager", SUMS),
    "lazy": ("lazy", SUMS),
    "none": ("none", SUMS),
    "selection": ("lazy", "SELECT k, v FROM s [RANGE 10] WHERE v > 20"),
    "pairs": ("eager", "SELECT a.k, a.v, b.v AS w FROM s [RANGE 3] a, s [RANGE 5] b WHERE a.k = b.k"),
}
Row = tuple[int, int, int]


@pytest.fixture(autouse=True)
def all_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merges, "IN_AN_EPOCH", 0)


class Gate:
    """Merges that wait before they are done until they are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.arrived, self._open = threading.Event(), threading.Event()
        self.made = Counter[str]()
        usual: Callable[..., Any] = merging.perform

        def gated(merge: Merge, *others: Any) -> Any:
            self.arrived.set()
            assert self._open.wait(60)
            self.made[merge.name] += 1
            return usual(merge, *others)

        monkeypatch.setattr(background_merges, "perform", gated)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.open()


def opened(path: Path | None, retain: str = "") -> Database:
    db = ms.connect(path, engine="inprocess")
    if "s" not in db.catalog:
        db.execute(f"CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts {retain}")
    return db


def batch(number: int) -> list[Row]:
    dice = random.Random(number)
    return [(dice.randrange(5), dice.randrange(100), number * 4 + n // 2) for n in range(8)]


def feed(db: Database, batches: range) -> None:
    for number in batches:
        db.insert("s", batch(number))


def settled(db: Database) -> None:
    db.engine.merges.background.wait()


def elements(batches: int) -> list[Row]:
    return [row for number in range(batches) for row in batch(number)]


def first_of(db: Database) -> int:
    """The first instant that may be asked for."""
    return db.query("eager").instants.first


def sums_at(rows: list[Row], at: int) -> list[tuple[int, ...]]:
    alive: dict[int, list[int]] = {}
    for k, v, ts in rows:
        if at - 30 <= ts <= at:
            alive.setdefault(k, []).append(v)
    return sorted((k, len(values), sum(values), max(values)) for k, values in alive.items())


def selected_at(rows: list[Row], at: int) -> list[tuple[int, ...]]:
    return sorted((k, v) for k, v, ts in rows if at - 10 <= ts <= at and v > 20)


def pairs_at(rows: list[Row], at: int) -> list[tuple[int, ...]]:
    left = [(k, v) for k, v, ts in rows if at - 3 <= ts <= at]
    right = [(k, v) for k, v, ts in rows if at - 5 <= ts <= at]
    return sorted((k, v, w) for k, v in left for other, w in right if k == other)


EXPECTED = {"selection": selected_at, "pairs": pairs_at}


def check(db: Database, rows: list[Row], instants: list[int]) -> None:
    for query in db.queries():
        for at in instants:
            found = sorted(tuple(row.values()) for row in query.result(at).to_pylist())
            assert found == EXPECTED.get(query.name, sums_at)(rows, at), (query.name, at)


def files_of(path: Path) -> set[str]:
    return {file.name for folder in ("segments", "history") for file in (path / folder).rglob("*.*") if file.is_file()}


def needed_files(db: Database) -> set[str]:
    assert isinstance(db.engine.store, DirectoryStore)
    return {path.name for path in db.engine.store.paths(db.engine.snapshot.names())}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("in_memory", [True, False])
def test_answers_are_those_of_the_elements_whenever_merges_end(tmp_path: Path, seed: int, in_memory: bool) -> None:
    dice = random.Random(seed)
    with opened(None if in_memory else tmp_path / "db") as db:
        for name, (mode, text) in QUERIES.items():
            db.register(text, name=name, mode=mode)
        for number in range(60):
            feed(db, range(number, number + 1))
            if dice.random() < 0.2:
                settled(db)
            if dice.random() < 0.2:
                check(db, elements(number + 1), [dice.randrange(number * 4 + 1)])
        settled(db)
        check(db, elements(60), [3, 100, 171, 238])
        assert max(len(names) for names in db.engine.snapshot.results.values()) < 20
    if not in_memory:
        with opened(tmp_path / "db") as db:
            check(db, elements(60), [3, 100, 171, 238])


def test_what_is_little_is_merged_by_the_epoch_itself(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    monkeypatch.setattr(merges, "IN_AN_EPOCH", 1 << 18)
    with opened(None) as db:
        query = db.register(SUMS)
        feed(db, range(40))
        assert len(db.engine.snapshot.results[query.edge]) < 12
        assert not gate.arrived.is_set()


def test_epochs_go_on_while_results_are_merged(gate: Gate, tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        query = db.register(SUMS, name="eager")
        feed(db, range(10))
        assert gate.arrived.wait(60)
        feed(db, range(10, 40))
        assert len(db.engine.snapshot.results[query.edge]) == 40
        check(db, elements(40), [20, 158])
        gate.open()
        settled(db)
        feed(db, range(40, 42))
        settled(db)
        assert len(db.engine.snapshot.results[query.edge]) < 10
        check(db, elements(42), [20, 158])


def test_queries_that_are_dropped_meanwhile_leave_nothing(gate: Gate, tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.register(SUMS, name="eager")
        db.register(QUERIES["pairs"][1], name="pairs")
        feed(db, range(10))
        assert gate.arrived.wait(60)
        db.query("eager").drop()
        gate.open()
        settled(db)
        feed(db, range(10, 12))
        settled(db)
        check(db, elements(12), [20, 46])
        db.query("pairs").drop()
        db.register(SUMS, name="eager")  # whose edge has the same name
        feed(db, range(12, 30))
        settled(db)
        check(db, elements(30), [20, 46, 118])
    assert files_of(tmp_path / "db") == needed_files(db)


@pytest.mark.parametrize(("before", "after"), [("RETAIN 40", "FOREVER"), ("RETAIN FOREVER", "40"), ("RETAIN 60", "40")])
def test_retain_may_change_meanwhile(gate: Gate, before: str, after: str) -> None:
    with opened(None, before) as db:
        for name in ("eager", "lazy", "none"):
            db.register(SUMS, name=name, mode=name)
        feed(db, range(30))
        assert gate.arrived.wait(60)
        first = first_of(db)
        db.execute(f"ALTER STREAM s SET RETAIN {after}")
        gate.open()
        settled(db)
        for number in range(30, 36):
            feed(db, range(number, number + 1))
            settled(db)
        if after == "FOREVER":  # what could be asked for then can be asked for still
            assert first_of(db) <= first
        instants = [first_of(db), 130, 142]
        check(db, elements(36), instants)


def test_a_table_that_is_altered_meanwhile_is_not_merged_as_it_was(gate: Gate, tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        feed(db, range(10))
        assert gate.arrived.wait(60)
        db.execute("ALTER STREAM s ADD COLUMN w BIGINT DEFAULT 7")
        gate.open()
        settled(db)
        db.insert("s", [(1, 1, 2, 400)])
        db.advance("s", to=400)
        found = db.execute("SELECT COUNT(*) AS n, SUM(w) AS w FROM s").arrow().to_pylist()
        assert found == [{"n": 81, "w": 7 * 80 + 2}]


def test_to_close_waits_for_what_is_under_way(gate: Gate, tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.register(SUMS, name="eager")
    feed(db, range(10))
    assert gate.arrived.wait(60)
    closing = threading.Thread(target=db.close)
    closing.start()
    while not db.engine.merges.background._is_closed:
        time.sleep(0.001)
    gate.open()
    closing.join(60)
    assert not closing.is_alive()
    assert gate.made.total() == 1  # and the others that waited are left
    assert files_of(tmp_path / "db") == needed_files(db)
    with opened(tmp_path / "db") as again:
        check(again, elements(10), [7, 38])


def test_a_backup_of_a_moment_in_which_files_are_merged(gate: Gate, tmp_path: Path) -> None:
    with opened(tmp_path / "db") as db:
        db.register(SUMS, name="eager")
        feed(db, range(10))
        assert gate.arrived.wait(60)
        db.backup(tmp_path / "copy", progress=lambda done, of: gate.open())
        settled(db)
        feed(db, range(10, 20))
    with opened(tmp_path / "copy") as copy:
        check(copy, elements(10), [7, 38])


def test_merges_that_fail_are_told_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    usual: Callable[..., Any] = merging.perform

    def failing(*_: Any) -> None:
        raise StateError("no space left on device")

    with opened(tmp_path / "db") as db:
        query = db.register(SUMS, name="eager")
        monkeypatch.setattr(background_merges, "perform", failing)
        for number in range(20):
            feed(db, range(number, number + 1))
            settled(db)
        assert len(db.engine.snapshot.results[query.edge]) == 20
        assert [record.getMessage() for record in caplog.records] == [
            "small files were not merged: no space left on device"
        ]
        monkeypatch.setattr(background_merges, "perform", usual)
        feed(db, range(20, 22))
        settled(db)
        feed(db, range(22, 23))
        settled(db)
        assert len(db.engine.snapshot.results[query.edge]) < 10
        check(db, elements(23), [20, 90])
    assert files_of(tmp_path / "db") == needed_files(db)


# Processes that end in the middle, or are overtaken

FEEDER = """
import sys
from pathlib import Path
from millstream.engine import merges
from tests.engine.test_background_merges import BATCHES, declare, feed, opened, settled

merges.IN_AN_EPOCH = 0
with opened(Path(sys.argv[1])) as db:
    declare(db)
    for number in range(db.stats()["streams"]["s"]["arrived"] // 8, BATCHES):
        feed(db, range(number, number + 1))
        settled(db)
"""
BATCHES = 20


def declare(db: Database) -> None:
    for name, (mode, text) in QUERIES.items():
        if name not in {query.name for query in db.queries()}:
            db.register(text, name=name, mode=mode)


def fed(path: Path, fault: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", FEEDER, str(path)],
        env={**os.environ, "MILLSTREAM_FAULT": fault},
        stderr=subprocess.PIPE,
    )


# The commits in which merges end are among those of epochs: at which of them processes end is by the way.
@pytest.mark.parametrize(
    "fault",
    ["files-merged:1", "files-merged:4", "merges-written:1", "merges-written:2"]
    + [f"{point}:{times}" for point in ("manifest-linked", "change-counts", "before-sweep") for times in (17, 20)],
)
def test_a_process_that_is_killed_loses_nothing(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "db"
    killed = fed(path, fault)
    killed.communicate()
    assert killed.returncode in (-signal.SIGKILL, *([] if "merge" in fault else [0]))  # not all points come so often
    with opened(path) as db:
        declare(db)
        there = db.stats()["streams"]["s"]["arrived"] // 8
        if there:
            check(db, elements(there), [there * 4 - 2])
    again = fed(path)
    _, said = again.communicate()
    assert again.returncode == 0, said
    with opened(path) as db:
        check(db, elements(BATCHES), [3, 30, 70, BATCHES * 4 - 2])
    assert files_of(path) == needed_files(db)


@pytest.mark.parametrize("point", ["files-merged", "merges-written"])
def test_a_process_that_was_overtaken_while_it_merged_commits_nothing(tmp_path: Path, point: str) -> None:
    path = tmp_path / "db"
    first = fed(path, f"{point}:1:stop")
    _, status = os.waitpid(first.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    (path / "LOCK").unlink()  # as if it did not hold, which is so on some file systems
    again = fed(path)
    _, said = again.communicate(timeout=120)
    assert again.returncode == 0, said
    os.kill(first.pid, signal.SIGCONT)
    _, said = first.communicate(timeout=120)
    assert first.returncode != 0
    assert b"was taken over" in said
    with opened(path) as db:
        check(db, elements(BATCHES), [3, 30, 70, BATCHES * 4 - 2])
