"""Processes that work for others within a limit of memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import millstream as ms
from millstream.engine.epochs.workers import WorkerProcess, Workers
from millstream.engine.works import Work


class _Arrow:
    """Has the process that reads it make something of Arrow's."""

    def __reduce__(self) -> tuple[object, ...]:
        return eval, ("__import__('pyarrow').array(range(1000))",)


class _Leak:
    """Has the process that reads it keep memory for good."""

    def __reduce__(self) -> tuple[object, ...]:
        return eval, ("__import__('builtins').__dict__.setdefault('kept', []).append(bytearray(60 << 20))",)


on_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux only says what a process takes")


@on_linux
def test_what_arrow_holds_in_reserve_does_not_count() -> None:
    worker = WorkerProcess(3 << 30)
    try:
        worker.ask(pickle.dumps(None))
        before = worker.kept
        worker.ask(pickle.dumps(_Arrow()))
        assert worker.kept - before < 64 << 20
    finally:
        worker.close()


@on_linux
def test_one_that_keeps_too_much_is_replaced(tmp_path: Path) -> None:
    workers, work = Workers(tmp_path, 1, 200 << 20), Work(1, "asks")
    try:
        used = []
        for question in (None, None, _Leak(), None):
            with workers._taken(work) as worker:
                used.append(worker.pid)
                assert worker.ask(pickle.dumps(question)) is not None
        first, second, third, fourth = used
        assert first == second == third != fourth
    finally:
        workers.close()


@on_linux
def test_small_segments_leave_no_maps_behind(tmp_path: Path) -> None:
    """A process that asks again and again while rows come holds no files that are gone."""
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 20")
        db.compute_apart(1, 1 << 30)
        for instant in range(40):
            db.insert("s", [(instant, instant)] * 20)
            with db.engine.works.begun("asks", guarded=True) as work, work.entered():
                db.execute("SELECT count(*) AS n FROM s [RANGE 10]")
        assert db.engine.evaluation.workers is not None
        (worker,) = db.engine.evaluation.workers._all
        assert worker.tasks == 40
        mapped = [line for line in Path(f"/proc/{worker.pid}/maps").read_text().splitlines() if str(tmp_path) in line]
        assert mapped == []
