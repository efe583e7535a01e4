"""kill -9 at every step of the commit protocol: what comes after equals a run that was never stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.engine import feeder

import millstream as ms
from millstream.state.faults import POINTS

OF_OTHERS = ("sink-written", "backfill-slice-run", "backfill-finished")  # reached by sinks and late queries only


def feed(path: Path, fault: str = "") -> int:
    environment = {**os.environ, "MILLSTREAM_FAULT": fault}
    command = [sys.executable, str(Path(feeder.__file__)), str(path)]
    return subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL).returncode


def answers(path: Path) -> dict[str, pa.Table]:
    with ms.connect(path, engine="inprocess") as db:
        return {query.name: query.changes() for query in db.queries()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    path = tmp_path_factory.mktemp("undisturbed") / "db"
    assert feed(path) == 0
    return answers(path)


@pytest.mark.parametrize("point", [point for point in POINTS if point not in OF_OTHERS])
def test_nothing_is_lost_or_twice(tmp_path: Path, undisturbed: dict[str, pa.Table], point: str) -> None:
    path = tmp_path / "db"
    times = 2 if point.startswith("catalog") else 6
    assert feed(path, f"{point}:{times}") == -signal.SIGKILL
    assert feed(path) == 0
    assert answers(path) == undisturbed
