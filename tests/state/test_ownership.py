"""Who owns a directory: what may be opened, what closing waits for, and what an owner that was overtaken may not do."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from tests.state.crashes import OF_OTHERS, answers, feed
from tests.support import feeder
from tests.support.feeds import AnySource

import millstream as ms
from millstream.state.faults import POINTS

STREAM = "CREATE STREAM s (a INT) TIMESTAMP BY t"


def opened(path: Path) -> ms.Database:
    return ms.connect(path, engine="inprocess")


def fed(path: Path) -> None:
    with opened(path) as db:
        db.execute(f"{STREAM}; REGISTER QUERY q AS SELECT a, COUNT(*) AS n FROM s [RANGE 5] GROUP BY a")
        db.insert("s", [(1, 1), (2, 2)])
        db.insert("s", pl.DataFrame({"a": [0] * 20_000, "t": range(2, 20_002)}))  # which is a file of history


def contents(directory: Path) -> dict[str, str]:
    found = (path for path in directory.rglob("*") if path.is_file() and path.name != "LOCK")
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def ids(path: Path) -> Counter[int]:
    """What a fresh process finds."""
    script = (
        "import sys, millstream as ms\n"
        "with ms.connect(sys.argv[1], engine='inprocess') as db:\n"
        "    print(*db.engine.sources.history('s')['c0'].to_list())"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    return Counter(map(int, done.stdout.split()))


# What may be opened


@pytest.mark.parametrize("missing", ["manifest/manifest-*", "manifest/*", "manifest"])
def test_a_directory_without_a_manifest_is_left_as_it_is(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "db"
    fed(path)
    for gone in sorted(path.glob(missing)):
        gone.rename(tmp_path / gone.name)
    before = contents(path)
    with pytest.raises(ms.StateError, match="has no manifest"):
        opened(path)
    assert contents(path) == before


@pytest.mark.parametrize("kind", ["manifest/catalog-*", "segments/*", "history/s/*/*"])
def test_half_a_copy_is_refused_and_what_is_missing_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "db"
    fed(path)
    gone = next(iter(path.glob(kind)))
    gone.unlink()
    before = contents(path)
    with pytest.raises(ms.StateError, match="is missing") as raised:
        opened(path)
    assert gone.name in str(raised.value)
    assert contents(path) == before


def test_a_segment_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "db"
    fed(path)
    segment = max((path / "segments").iterdir(), key=lambda file: file.stat().st_size)
    os.truncate(segment, segment.stat().st_size // 2)
    with pytest.raises(ms.StateError, match="is not all there"):
        opened(path)


@pytest.mark.parametrize("file", ["notes.txt", "history/2024.parquet", "segments/mine.seg", "manifest/mine.json"])
def test_files_of_others_are_never_touched(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"mine")
    with pytest.raises(ms.StateError, match=r"no database|no manifest"):
        opened(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == [tmp_path / file]


def test_files_of_others_in_a_database_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "db"
    fed(path)
    mine = [path / "history" / "s" / "mine.parquet", path / "segments" / "mine.seg", path / "manifest" / "mine.txt"]
    for file in mine:
        file.write_bytes(b"mine")
    with opened(path) as db:
        db.insert("s", [(3, 3)])
    assert all(file.read_bytes() == b"mine" for file in mine)


def test_what_cannot_be_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere" / "at" / "all")
    with pytest.raises(ms.StateError, match="cannot be a database"):
        opened(tmp_path / "file")
    fed(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with opened(tmp_path / "link") as db:
        assert len(db.queries()) == 1


def test_a_process_may_go_to_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(Path("db")) as db:
        db.execute(STREAM)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        db.insert("s", [(1, 1)])
    assert ids(tmp_path / "db") == Counter([1])


# After the end


def test_everything_is_refused_after_close(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.execute(STREAM)
    query = db.register("SELECT a FROM s", name="q")
    follower = query.follow()
    db.close()
    db.close()
    before = contents(tmp_path / "db")
    attempts: list[Callable[[], object]] = [
        lambda: db.drop_query("q"),
        lambda: db.insert("s", [(1, 1)]),
        lambda: db.advance(to=4),
        lambda: db.execute("SELECT a FROM s"),
        lambda: db.register("SELECT a FROM s"),
        lambda: db.register_many("SELECT a FROM s WHERE a > ?", [1]),
        lambda: db.run(),
        lambda: db.stats(),
        lambda: db.queries(),
        lambda: db.create_sink("k", "q", print),
        lambda: db.create_function("f", lambda column: column, "int"),
        lambda: db.engine.commit(db.engine.snapshot),
        lambda: query.result(),
        lambda: query.changes(),
        lambda: query.drop(),
        lambda: query.wait(),
        lambda: query.stats(),
        lambda: query.explain(),
        lambda: query.final,
        lambda: query.follow(),
    ]
    for attempt in attempts:
        with pytest.raises(ms.ClosedError, match="the database is closed"):
            attempt()
    assert list(follower) == []
    assert contents(tmp_path / "db") == before


def test_close_waits_for_a_delivery_and_for_whoever_closes_first(tmp_path: Path) -> None:
    path = tmp_path / "db"
    db = opened(path)
    db.execute(STREAM)
    db.register("SELECT a FROM s", name="q")
    begun, go_on, delivered = threading.Event(), threading.Event(), []

    def deliver(number: int, changes: object) -> None:
        begun.set()
        go_on.wait()
        delivered.append(number)

    db.create_sink("k", "q", deliver)
    inserting = threading.Thread(target=lambda: db.insert("s", [(1, 1), (2, 2)]))
    inserting.start()
    begun.wait()
    closing = [threading.Thread(target=db.close) for _ in range(3)]
    for thread in closing:
        thread.start()
    while not db.is_closed:
        time.sleep(0.005)
    with pytest.raises(ms.StateError, match="is open already"):
        opened(path)
    with pytest.raises(ms.ClosedError):
        db.insert("s", [(3, 3)])
    assert all(thread.is_alive() for thread in closing)
    go_on.set()
    for thread in (inserting, *closing):
        thread.join()
    assert delivered == [1]
    with opened(path) as again:
        assert again.sinks.shown()[0]["deliveries"] == 1
        assert again.engine.sources.history("s").height == 2


def test_a_delivery_may_close_the_database(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    db.execute(STREAM)
    db.register("SELECT a FROM s", name="q")
    db.create_sink("k", "q", lambda number, changes: db.close())
    assert db.insert("s", [(1, 1), (2, 2)]).accepted == 2
    with pytest.raises(ms.ClosedError):
        db.insert("s", [(3, 3)])
    with opened(tmp_path / "db") as again:
        assert again.sinks.shown()[0]["deliveries"] == 1


def test_rows_that_were_accepted_while_others_close_are_there(tmp_path: Path) -> None:
    """Several threads insert, others close and open again: what was accepted is there, once each."""
    path, accepted, numbers, lock = tmp_path / "db", [], count(), threading.Lock()
    current = [opened(path)]
    current[0].execute(STREAM)
    over = threading.Event()

    def insert() -> None:
        while not over.is_set():
            with lock:
                number = next(numbers)
            try:
                current[0].insert("s", [(number, 1)])
                accepted.append(number)
            except ms.ClosedError:
                time.sleep(0.005)

    threads = [threading.Thread(target=insert) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        enough = len(accepted) + 3
        while len(accepted) < enough:
            time.sleep(0.005)
        current[0].close()
        current[0] = opened(path)
    over.set()
    for thread in threads:
        thread.join()
    current[0].close()
    found = ids(path)
    assert found == Counter(accepted)


def test_a_database_that_nobody_closes_is_closed_when_the_interpreter_ends(tmp_path: Path) -> None:
    script = (
        "import sys, threading, millstream as ms\n"
        "db = ms.connect(sys.argv[1], engine='inprocess')\n"
        f"db.execute('{STREAM}')\n"
        "db.register('SELECT a FROM s', name='q')\n"
        "begun = threading.Event()\n"
        "db.create_sink('k', 'q', lambda number, changes: (begun.set(), __import__('time').sleep(0.3)))\n"
        "threading.Thread(target=lambda: db.insert('s', [(1, 1), (2, 2)]), daemon=True).start()\n"
        "begun.wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "db")], capture_output=True, text=True, check=True
    )
    assert not done.stderr, done.stderr
    with opened(tmp_path / "db") as db:
        assert db.sinks.shown()[0]["deliveries"] == 1


def test_an_interrupt_does_not_cut_a_commit_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C right when the commit counts: rows are committed, and nothing of them is removed."""
    with opened(tmp_path / "db") as db:
        db.execute(STREAM)

        def interrupt(point: str) -> None:
            if point == "changes-written":
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr("millstream.state.notes.reach", interrupt)
        # Processes that a shell starts in the background ignore it from the start.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                db.insert("s", [(1, 1)])
        finally:
            signal.signal(signal.SIGINT, before)
        monkeypatch.undo()
        db.insert("s", [(2, 2)])
    assert ids(tmp_path / "db") == Counter([1, 2])


# Forked processes


def in_child(work: object) -> int:
    """The exit code of a forked process that does something; it is killed if that takes long."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            code = 0 if work() else 2  # type: ignore[operator]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Using fork:RuntimeWarning")
def test_a_forked_process_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with opened(path) as db:
        db.execute(STREAM)
        query = db.register("SELECT a FROM s", name="q")
        db.insert("s", [(1, 1), (2, 2)])

        def refused() -> bool:
            attempts = (
                lambda: db.insert("s", [(3, 3)]),
                lambda: query.result(),
                lambda: db.execute("SELECT a FROM s"),
                lambda: db.drop_query("q"),
            )
            for attempt in attempts:
                with contextlib.suppress(ms.ClosedError):
                    attempt()
                    return False
            with contextlib.suppress(ms.SetupError):
                opened(tmp_path / "other")
                return False
            db.close()
            return True

        before = contents(path)
        assert in_child(refused) == 0
        process = multiprocessing.get_context("fork").Process(target=db.close)
        process.start()
        process.join()
        assert process.exitcode == 0
        assert contents(path) == before
        with pytest.raises(ms.StateError, match="is open already"):
            opened(path)  # the lock is still held
        db.insert("s", [(4, 4)])
    assert ids(path) == Counter([1, 2, 4])


# An owner that was overtaken


def overtake(path: Path) -> None:
    """As where the lock does not hold: on a network file system that has lost it."""
    (path / "LOCK").unlink()


def test_an_owner_that_was_overtaken_commits_nothing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    old = opened(path)
    old.execute(f"{STREAM}; SET sharing = 'on'")
    old.register("SELECT a FROM s WHERE a > 1")
    old.insert("s", [(1, 1)])
    overtake(path)
    new = opened(path)
    for number in range(2, 6):
        new.insert("s", [(number, number)])
    before = contents(path)
    for attempt in (
        lambda: old.insert("s", [(9, 9)]),
        lambda: old.register("SELECT a FROM s WHERE a > 7"),
        lambda: old.execute("CREATE STREAM u (a INT) TIMESTAMP BY t"),
    ):
        with pytest.raises(ms.StateError, match="was taken over"):
            attempt()
    old.close()
    after = contents(path)
    # What an owner appends to a file of its own lies behind all that counts.
    assert {name: after.get(name) for name in before if "/tail-" not in name} == {
        name: content for name, content in before.items() if "/tail-" not in name
    }
    new.insert("s", [(6, 6)])
    new.close()
    assert ids(path) == Counter(range(1, 7))


NUMBERED = ("manifest-written", "manifest-linked", "manifest-counts")  # the steps that decide


@pytest.mark.parametrize(
    "point",
    [p if p in NUMBERED else pytest.param(p, marks=pytest.mark.slow) for p in POINTS if p not in OF_OTHERS],
)
def test_another_process_takes_over_at_any_step(tmp_path: Path, undisturbed: dict[str, object], point: str) -> None:
    """The feeder is stopped at a step; another one feeds the rest; then the first one wakes up, and must fail."""
    path = tmp_path / "db"
    times = 2 if point.startswith("catalog") else 6
    environment = {**os.environ, "MILLSTREAM_FAULT": f"{point}:{times}:stop"}
    command = [sys.executable, str(Path(feeder.__file__)), str(path)]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert os.WIFSTOPPED(os.waitpid(first.pid, os.WUNTRACED)[1])
    overtake(path)
    assert feed(path) == 0
    first.send_signal(signal.SIGCONT)
    said = first.communicate()[1]
    assert first.returncode != 0
    assert "StateError" in said
    assert answers(path) == undisturbed


WORKER = """
import sys, pathlib, millstream as ms
path, name, count = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
done, db = 0, None
for attempt in range(1000):
    try:
        (path / "LOCK").unlink(missing_ok=True)
        db = ms.connect(path, engine="inprocess")
        while done < count:
            number, done = int(name) * 1000 + done, done + 1
            db.insert("s", [(number, 1)])
            print(number, flush=True)
        break
    except ms.StateError:  # taken over, or the other one tidies up what this one is just writing to
        if db is not None:
            db.close()
"""


def test_processes_that_take_a_database_from_each_other_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with opened(path) as db:
        db.execute(STREAM)
    command = [sys.executable, "-c", WORKER, str(path)]
    workers = [
        subprocess.Popen([*command, str(name), "40"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in (1, 2)
    ]
    said = [worker.communicate() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    accepted = Counter(int(number) for out, _ in said for number in out.split())
    found = ids(path)
    assert all(found[number] == 1 for number in accepted)
    assert max(found.values()) == 1


def test_an_owner_that_was_overtaken_leaves_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "db"
    old = opened(path)
    old._executor.objects._external = old._source_loop._external = AnySource()  # type: ignore[assignment]
    overtake(path)
    new = opened(path)
    kept = path / "checkpoints" / "u" / "metadata"
    kept.parent.mkdir(parents=True)
    kept.write_text("of the new owner's source")
    for attempt in (
        lambda: old.execute("CREATE STREAM u (a INT) TIMESTAMP BY t USING csv OPTIONS (path 'x')"),
        lambda: old._source_loop.forget("u"),
    ):
        with pytest.raises(ms.StateError, match="was taken over"):
            attempt()
    assert kept.exists()
    old.close()
    new.close()
