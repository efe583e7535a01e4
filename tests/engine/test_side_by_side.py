"""Shards that are run by threads of one process: answers and files are the same as one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from tests.cql.runner import load, run
from tests.cql.subjects import EngineSubject
from tests.properties.driver import check_case
from tests.properties.generate import seeded_case
from tests.properties.queries import LINEAR, RELATIONAL, Profile

import millstream as ms
from millstream.database import Database
from millstream.engine.epochs import runner
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.side_by_side import run_side_by_side
from millstream.engine.epochs.stages import StagePlan
from millstream.engine.epochs.task import EpochWork, ShardOutcome
from millstream.errors import StateError
from millstream.kernel.relational.linear import Filter
from millstream.kernel.step_limits import StepLimits
from millstream.kernel.stepping import noted_by
from millstream.state.store import DirectoryStore, MemoryStore, Store

FILES = sorted((Path(__file__).parent.parent / "cql").rglob("*.cql"))
CASES = [*((seed, LINEAR) for seed in range(6)), *((seed, RELATIONAL) for seed in range(18))]


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whatever runs in this process runs in two threads; gives the epochs that did."""
    copies: dict[StagePlan, Sequence[StagePlan]] = {}
    seen: list[int] = []

    def in_threads(plan: StagePlan, work: EpochWork, tasks: int, store: Store) -> list[ShardOutcome]:
        if plan not in copies:
            copies[plan] = [deepcopy(plan) for _ in range(2)]
        seen.append(work.epoch)
        return run_side_by_side(copies[plan], work, store)

    monkeypatch.setattr(runner, "run_here", in_threads)
    return seen


def on_shards(shards: int, place: Path | None = None) -> Database:
    db = ms.connect(engine="inprocess") if place is None else ms.connect(place, engine="inprocess")
    db.execute(f"SET shards = {shards}")
    return db


@pytest.mark.parametrize("path", FILES[::6], ids=lambda path: path.stem)
def test_a_file_in_threads(path: Path, threads: list[int]) -> None:
    with EngineSubject("upa", 3) as opened:
        run(load(path), opened)


@pytest.mark.parametrize(("seed", "profile"), CASES, ids=[f"{profile.name}-{seed}" for seed, profile in CASES])
def test_a_case_in_threads(seed: int, profile: Profile, threads: list[int]) -> None:
    check_case(seeded_case(9100 + seed, profile), partial(on_shards, 2 + seed % 2))


def test_all_of_it_is_there_when_the_database_is_opened_again(tmp_path: Path, threads: list[int]) -> None:
    t = pl.int_range(40_000, eager=True)
    rows = pl.DataFrame({"k": t % 97, "v": t * 7 % 11, "ts": t // 100})
    text = "SELECT a.k, COUNT(*) AS n, SUM(b.v) AS s FROM S [RANGE 3] a, S [RANGE 2] b WHERE a.k = b.k GROUP BY a.k"

    def answers(db: Database) -> list[tuple[object, ...]]:
        return sorted(pl.DataFrame(db.query("q").result()).rows())

    with on_shards(3, tmp_path / "db") as db, ms.connect(engine="inprocess") as alone:
        for each in (db, alone):
            each.execute("CREATE STREAM S (k BIGINT, v BIGINT) TIMESTAMP BY ts")
            each.register(text, name="q")
            for first in range(0, rows.height, 10_000):
                each.insert("S", rows[first : first + 10_000])
        expected = answers(alone)
        assert answers(db) == expected
        assert expected
        assert threads
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert answers(db) == expected
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.insert("S", [(1, 1, 401)])
        assert db.query("q").result().num_rows


def parts_of(rows: Sequence[int]) -> EpochWork:
    parts = tuple(("S", Part("rows", f"p{place}", count, ())) for place, count in enumerate(rows))
    return EpochWork(1, parts, {}, (), {}, {}, {}, {}, frozenset(), {}, "", True, StepLimits(), "")


@pytest.mark.parametrize("rows", [[5] * 8, [100, 1, 1, 1], [1, 1, 1, 100], [0, 0, 3, 0], [0], [], [7, 0]])
@pytest.mark.parametrize("tasks", [1, 2, 3, 9])
def test_each_part_is_one_tasks_and_order_is_kept(rows: list[int], tasks: int) -> None:
    work = parts_of(rows)
    shares = [[place for place, _ in work.share(task, tasks)] for task in range(tasks)]
    assert [place for share in shares for place in share] == list(range(len(rows)))


def test_equal_parts_are_shared_equally() -> None:
    shares = [[place for place, _ in parts_of([10] * 8).share(task, 4)] for task in range(4)]
    assert shares == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_an_error_of_the_machine_leaves_no_file(
    tmp_path: Path, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread fails while others write: the epoch is as if it had not been, and the next one is."""
    step, broken = Filter.step, threading.Event()

    def failing(self: Filter, *given: object) -> object:
        if broken.is_set():
            raise StateError("the disk is full")
        return step(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Filter, "step", failing)
    with on_shards(2, tmp_path / "db") as db:
        db.execute("CREATE STREAM S (k BIGINT) TIMESTAMP BY ts")
        query = db.register("SELECT COUNT(*) AS n FROM S WHERE k > 3")
        db.insert("S", [(n, n) for n in range(10)])
        broken.set()
        with pytest.raises(StateError, match="the disk is full"):
            db.insert("S", [(n, n) for n in range(10, 20)])
        broken.clear()
        db.insert("S", [(n, n) for n in range(10, 20)])
        db.advance(to=30)
        assert query.result()["n"].to_pylist() == [16]


@pytest.mark.parametrize("make", [lambda place: MemoryStore(), DirectoryStore], ids=["memory", "directory"])
def test_threads_of_a_task_write_into_its_file(make: Callable[[Path], Store], tmp_path: Path) -> None:
    store = make(tmp_path)
    if isinstance(store, DirectoryStore):
        store.prepare()
    frames = [pl.DataFrame({"v": range(n, n + 20_000)}) for n in range(12)]
    names: dict[int, tuple[str, str]] = {}
    with store.file("e1") as writer:
        in_task = store.in_other_threads()

        def write(number: int) -> None:
            with in_task():
                segment = writer.write_packed(frames[number]) if number % 2 else writer.write(frames[number])
                names[number] = segment, store.write_history("s", 0, "e1", frames[number])

        writers = [threading.Thread(target=write, args=(number,)) for number in range(len(frames))]
        for thread in writers:
            thread.start()
        for thread in writers:
            thread.join()
    for number, (segment, history) in names.items():
        assert store.read(segment).equals(frames[number])
        assert store.read_history(history).equals(frames[number])
    files = {segment.partition("@")[0] for segment, _ in names.values()}
    assert len(files) == (1 if isinstance(store, DirectoryStore) else len(frames))
    store.close()


def test_each_thread_notes_the_steps_that_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a process that ends has said of every thread what it was at."""
    noted: dict[int, list[str]] = {}

    @contextmanager
    def noting() -> Iterator[None]:
        found = noted.setdefault(len(noted), [])
        with noted_by(found.append):
            yield

    def in_threads(plan: StagePlan, work: EpochWork, tasks: int, store: Store) -> list[ShardOutcome]:
        return run_side_by_side([deepcopy(plan) for _ in range(2)], work, store, noting)

    monkeypatch.setattr(runner, "run_here", in_threads)
    with on_shards(2) as db:
        db.execute("CREATE STREAM S (k BIGINT) TIMESTAMP BY ts")
        db.register("SELECT k, COUNT(*) AS n FROM S [RANGE 3] GROUP BY k")
        db.insert("S", pl.DataFrame({"k": [*range(100)], "ts": [*range(100)]}))
    aggregates = [[name for name in found if name.startswith("aggregate")] for found in noted.values()]
    assert sum(map(len, aggregates)) == 2
    assert max(map(len, aggregates)) == 1
