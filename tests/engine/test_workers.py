"""Processes that work for others within a limit of memory."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from millstream.engine.epochs.workers import WorkerProcess


class _Arrow:
    """Has the process that reads it make something of Arrow's."""

    def __reduce__(self) -> tuple[object, ...]:
        return eval, ("__import__('pyarrow').array(range(1000))",)


def _taken(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmData:")).split()[1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="says what a process takes on Linux only")
def test_what_arrow_holds_in_reserve_does_not_count() -> None:
    worker = WorkerProcess(3 << 30)
    try:
        worker.ask(pickle.dumps(None))
        before = _taken(worker.pid)
        worker.ask(pickle.dumps(_Arrow()))
        assert _taken(worker.pid) - before < 64 << 20
    finally:
        worker.close()
