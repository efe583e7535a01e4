"""kill -9 at every step of the commit protocol: what comes after equals a run that was never stopped."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.state.crashes import OF_OTHERS, answers, feed

from millstream.state.faults import POINTS


@pytest.mark.parametrize("point", [point for point in POINTS if point not in OF_OTHERS])
def test_nothing_is_lost_or_twice(tmp_path: Path, undisturbed: dict[str, pa.Table], point: str) -> None:
    path = tmp_path / "db"
    times = 2 if point.startswith(("catalog", "files-merged")) else 6
    assert feed(path, f"{point}:{times}") == -signal.SIGKILL
    assert feed(path) == 0
    assert answers(path) == undisturbed
