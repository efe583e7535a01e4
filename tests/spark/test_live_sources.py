"""Sources that are read while they go on: silence, overload, interrupts, clocks that go back, files that disappear."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.ingest.external import Feed

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM {} (k INT) TIMESTAMP BY ts {} USING json OPTIONS (path '{}', maxFilesPerTrigger 1)"


@pytest.fixture
def db(session: SparkSession, tmp_path: Path) -> Iterator[ms.Database]:
    with ms.connect(tmp_path / "db", spark=session) as opened:
        yield opened


def put(directory: Path, name: str, rows: Sequence[tuple[int, int]], at: int | None = None) -> None:
    """A file of rows that appears as a whole; with `at`, as if it had been written at that second."""
    directory.mkdir(exist_ok=True)
    path = directory / f".{name}"
    path.write_text("".join(json.dumps({"k": k, "ts": ts}) + "\n" for k, ts in rows))
    if at is not None:
        os.utime(path, (at, at))
    path.rename(directory / f"{name}.json")


@contextmanager
def running(db: ms.Database) -> Iterator[None]:
    """`db.run(None)` in another thread meanwhile; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            db.run(None)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        db._source_loop.end()
        thread.join()
    if raised:
        raise raised[0]


def until(condition: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def counts(db: ms.Database, stream: str) -> dict[str, int]:
    return dict(db.stats()["streams"][stream])


def keys(query: ms.Query) -> list[int]:
    return sorted(row["k"] for row in query.result().to_pylist())


@pytest.mark.slow  # by the clock of day: on a busy machine more than the source is idle
def test_a_source_that_goes_quiet_lets_the_others_go_on(db: ms.Database, tmp_path: Path) -> None:
    put(tmp_path / "quiet", "0", [(1, 3)])
    (tmp_path / "busy").mkdir()
    db.execute(STREAM.format("quiet", "HEARTBEAT ASCENDING IDLE AFTER 1 SECOND", tmp_path / "quiet"))
    db.execute(STREAM.format("busy", "", tmp_path / "busy"))
    both = db.register("SELECT k FROM quiet [RANGE UNBOUNDED] UNION ALL SELECT k FROM busy [RANGE UNBOUNDED]")
    with running(db):
        # First the one that goes quiet: on a busy machine its first batch may take longer than it may be idle.
        until(lambda: counts(db, "quiet")["arrived"] == 1)
        put(tmp_path / "busy", "0", [(2, 4)])
        until(lambda: counts(db, "busy")["arrived"] == 1)
        put(tmp_path / "busy", "1", [(2, 20), (2, 21)])
        until(lambda: counts(db, "quiet")["heartbeat"] == 20)
        assert keys(both) == [1, 2, 2], "final up to 20, though nothing came"
        put(tmp_path / "quiet", "1", [(3, 15), (4, 30)])  # the first one after that is late
        put(tmp_path / "busy", "2", [(5, 40)])
        until(lambda: counts(db, "quiet")["late"] == 1 and counts(db, "quiet")["heartbeat"] == 39)
    assert counts(db, "quiet")["arrived"] == 3
    assert keys(both) == [1, 2, 2, 2, 4]


@pytest.mark.slow
def test_a_source_that_cannot_keep_up_is_shed_until_it_can(db: ms.Database, tmp_path: Path) -> None:
    def slow(column: pl.Series) -> pl.Series:
        if (column == 1).any():
            time.sleep(5)
        return column

    put(tmp_path / "in", "slow", [(1, ts) for ts in range(100)], 1000)
    put(tmp_path / "in", "shed", [(2, ts) for ts in range(100, 500)], 1001)
    db.create_function("slow", slow, returns="INT")
    db.execute("SET shedding = 'sample'; SET shedding_lag = 2")
    db.execute(STREAM.format("s", "", tmp_path / "in"))
    slowed = db.register("SELECT slow(k) AS k FROM s [RANGE 10]")
    recent = db.register("SELECT k FROM s [RANGE 10]")
    total = db.register("SELECT k, count(*) AS n FROM s GROUP BY k")
    with running(db):
        until(lambda: counts(db, "s")["arrived"] == 500)
        shed = counts(db, "s")["shed"]
        assert 0.5 < shed / 400 < 0.98, "as much as it was too slow"
        assert recent.stats()["approximate"]
        assert recent.stats()["approximate_until"] == 499 + 10
        time.sleep(2.5)  # it has caught up
        put(tmp_path / "in", "exact", [(3, ts) for ts in range(1000, 1100)], 1002)
        until(lambda: counts(db, "s")["arrived"] == 600)
    assert counts(db, "s")["shed"] == shed
    assert not recent.stats()["approximate"]
    assert total.stats()["approximate"], "what was shed is missing there for ever"
    db.advance(to=1099)
    assert {row["k"]: row["n"] for row in total.result().to_pylist()} == {1: 100, 2: 400 - shed, 3: 100}
    assert keys(recent) == keys(slowed) == [3] * 11
    put(tmp_path / "in", "slow again", [(1, 2000)], 2000)
    put(tmp_path / "in", "whole", [(2, ts) for ts in range(2001, 2101)], 2001)
    db.run()
    assert counts(db, "s")["shed"] == shed, "a backlog that is read until idle is read whole"


RUNNING = """
import os, sys, time
import millstream as ms
place, seconds = sys.argv[1], float(sys.argv[2])

def slow(column):
    if (column == 7).any() and not os.path.exists(place + "/in-the-middle"):
        open(place + "/in-the-middle", "w").close()
        time.sleep(seconds)
    return column

with ms.connect(place + "/db", master="local[2,4]") as db:
    if not db.queries():
        db.create_function("slow", slow, returns="INT")
        db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING json OPTIONS (path '{place}/in')")
        db.execute("REGISTER QUERY q AS SELECT slow(k) AS k FROM s")
        db.execute(f"CREATE SINK sink FOR q USING json OPTIONS (path '{place}/out')")
    db.run(None)
    assert db.stats()["streams"]["s"]["heartbeat"] >= 0, "the database answers after the interrupt"
    print("stopped", db.stats()["streams"]["s"]["arrived"], flush=True)
"""


def interrupted(place: Path, ready: Callable[[], bool], *, group: bool, seconds: float = 3, twice: bool = False) -> str:
    """Run until it is ready, then press Ctrl-C: in a terminal, Spark's processes get that too."""
    command = [sys.executable, "-c", RUNNING, str(place), str(seconds)]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE if twice else None}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
        try:
            until(lambda: ready() or process.poll() is not None, 300)
            for _ in range(1 + twice):
                (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
                time.sleep(1 if twice else 0)
            said, wrong = process.communicate(timeout=300)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if twice:
        assert process.returncode != 0
        assert wrong.rstrip().endswith("KeyboardInterrupt")
    else:
        assert process.returncode == 0
    return str(said)


@pytest.mark.slow
@pytest.mark.parametrize("group", [False, True], ids=["alone", "in a terminal"])
def test_an_interrupt_ends_a_local_run_and_loses_nothing(tmp_path: Path, group: bool) -> None:
    put(tmp_path / "in", "0", [(1, 1), (7, 2), (2, 3)])
    assert interrupted(tmp_path, (tmp_path / "in-the-middle").exists, group=group) == "stopped 3\n"
    put(tmp_path / "in", "1", [(3, 4), (4, 5), (5, 6)])
    out = tmp_path / "out"
    assert interrupted(tmp_path, lambda: len(list(out.glob("*/_SUCCESS"))) >= 2, group=group) == "stopped 6\n"
    delivered = [json.loads(line)["k"] for path in out.glob("*/*.json") for line in path.read_text().splitlines()]
    assert sorted(delivered) == [1, 2, 3, 4, 7], "up to the heartbeat, each once"


@pytest.mark.slow
@pytest.mark.parametrize("group", [False, True], ids=["alone", "in a terminal"])
def test_a_second_interrupt_does_not_wait_for_the_batch(tmp_path: Path, group: bool) -> None:
    put(tmp_path / "in", "0", [(1, 1), (7, 2), (2, 3)])
    middle, out = tmp_path / "in-the-middle", tmp_path / "out"
    assert interrupted(tmp_path, middle.exists, group=group, seconds=1000, twice=True) == ""
    assert interrupted(tmp_path, lambda: any(out.glob("*/_SUCCESS")), group=group) == "stopped 3\n"
    delivered = [json.loads(line)["k"] for path in out.glob("*/*.json") for line in path.read_text().splitlines()]
    assert sorted(delivered) == [1, 7], "what was not committed came again"


def test_the_checkpoint_of_another_source_is_refused(session: SparkSession, tmp_path: Path) -> None:
    checkpoints = tmp_path / "db" / "checkpoints"
    for name in ("s", "t"):
        put(tmp_path / name, "0", [(1, 1), (2, 2)])
        put(tmp_path / name, "1", [(3, 3)])
    with ms.connect(tmp_path / "db", spark=session) as db:
        for name in ("s", "t"):
            db.execute(STREAM.format(name, "", tmp_path / name))
        db.run()
        before = db.stats()["streams"]
    shutil.move(checkpoints / "s", tmp_path / "kept")
    shutil.copytree(checkpoints / "t", checkpoints / "s")
    with ms.connect(tmp_path / "db", spark=session) as db:
        with pytest.raises(ms.StateError, match=r"checkpoint of stream s was replaced[^$]*restore checkpoints/s"):
            db.run()
        assert db.stats()["streams"] == before
    shutil.rmtree(checkpoints / "s")
    shutil.move(tmp_path / "kept", checkpoints / "s")
    put(tmp_path / "s", "2", [(4, 4)])
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.run()
        assert db.stats()["streams"]["s"]["arrived"] == 4, "restored, it goes on"


class Watch:
    """A wall clock that a test moves."""

    def __init__(self, db: ms.Database) -> None:
        self.time = 0.0
        for reader in (db.inputs, db._source_loop._silences, db._source_loop._feeds):
            reader._now = lambda: self.time


def test_a_clock_that_goes_back(db: ms.Database, tmp_path: Path) -> None:
    watch = Watch(db)
    (tmp_path / "in").mkdir()
    db.execute(
        f"""CREATE STREAM s (value STRING) TIMESTAMP BY at TIMESTAMP TICK INTERVAL '1' SECOND HEARTBEAT CLOCK
        USING text OPTIONS (path '{tmp_path}/in')"""
    )
    query = db.register("SELECT value FROM s")
    heartbeats = []
    for number, moment in enumerate((1000.0, 500.0, 2000.0)):
        watch.time = moment
        (tmp_path / "in" / f"{number}.txt").write_text(f"line {number}\n")
        os.utime(tmp_path / "in" / f"{number}.txt", (1e9 - number * 1e7, 1e9 - number * 1e7))  # as files are dated
        db.run()
        heartbeats.append(counts(db, "s")["heartbeat"])
    watch.time = 2001.0
    db.inputs.tick_clocks()
    assert heartbeats == sorted(heartbeats)
    assert (counts(db, "s")["arrived"], counts(db, "s")["late"]) == (3, 0)
    found = query.result().to_pylist()
    assert [row["value"] for row in found] == ["line 0", "line 1", "line 2"]
    assert [row["_ts"].timestamp() for row in found] == [1000, 1000, 2000], "time stands still meanwhile"


def write_parquet(directory: Path, name: str, rows: Sequence[tuple[int, int]]) -> None:
    directory.mkdir(exist_ok=True)
    table = pa.table({"k": pa.array([k for k, _ in rows], pa.int32()), "ts": pa.array([ts for _, ts in rows])})
    pq.write_table(table, directory / f"{name}.parquet")


WRITERS: dict[str, Any] = {"json": put, "parquet": write_parquet}


@pytest.mark.parametrize("kind", WRITERS)
def test_files_that_were_read_may_go_and_come_again(session: SparkSession, tmp_path: Path, kind: str) -> None:
    write = WRITERS[kind]
    write(tmp_path / "in", "0", [(1, 1), (2, 2)])
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING {kind} OPTIONS (path '{tmp_path}/in')")
        db.run()
    (tmp_path / "in" / f"0.{kind}").unlink()
    for name in ("0", ".0.crc"):  # as if Spark had died before it knew, so that it gives the batch again
        (tmp_path / "db" / "checkpoints" / "s" / "commits" / name).unlink()
    with ms.connect(tmp_path / "db", spark=session) as db:
        query = db.register("SELECT k FROM s")
        write(tmp_path / "in", "1", [(3, 3)])
        db.run()
        db.advance(to=9)
        assert keys(query) == [1, 2, 3]
        assert counts(db, "s")["arrived"] == 3


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_goes_before_it_is_read_is_missed_aloud(
    db: ms.Database, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, feeds = WRITERS[kind], db._source_loop._feeds
    write(tmp_path / "in", "0", [(1, 1)])
    write(tmp_path / "in", "1", [(2, 2)])
    db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING {kind} OPTIONS (path '{tmp_path}/in')")

    def fail(feed: Feed, *_: object) -> None:
        raise ms.StateError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(feeds, "take", fail)
        with pytest.raises(ms.StateError, match="stream s: the disk is full"):
            db.run()
    shutil.move(tmp_path / "in" / f"0.{kind}", tmp_path / "kept")
    with pytest.raises(
        ms.InputError, match=rf"stream s: \S*/in/0\.{kind} cannot be read[^$]*put the file, [^$]*there again"
    ):
        db.run()
    assert counts(db, "s")["arrived"] == 0
    shutil.move(tmp_path / "kept", tmp_path / "in" / f"0.{kind}")
    db.run()
    assert counts(db, "s")["arrived"] == 2


def test_a_directory_that_cannot_be_written(session: SparkSession, disk: Path, tmp_path: Path) -> None:
    """It is not opened, nothing of it is changed, and once it can be written its sources go on where they were."""
    put(tmp_path / "in", "a", [(1, 1)])
    with ms.connect(disk / "db", spark=session) as db:
        db.execute(STREAM.format("s", "", tmp_path / "in"))
        db.run()
    put(tmp_path / "in", "b", [(2, 2)])
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(ms.StateError, match=r"cannot be a database: Read-only file system") as error:
        ms.connect(disk / "db", spark=session)
    assert "must be one that can be written" in str(error.value)
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    with ms.connect(disk / "db", spark=session) as db:
        db.run()
        assert db.stats()["streams"]["s"]["arrived"] == 2
