"""A feeder that is killed at a point of its work, and what its database then says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from tests.support import feeder

import millstream as ms

# Reached by sinks, late queries, plans that follow the data, and merges that are too much for an epoch only.
OF_OTHERS = (
    "sink-written",
    "backfill-slice-run",
    "backfill-saved",
    "backfill-finished",
    "plan-moved",
    "merges-written",
)


def feed(path: Path, fault: str = "") -> int:
    environment = {**os.environ, "MILLSTREAM_FAULT": fault}
    command = [sys.executable, str(Path(feeder.__file__)), str(path)]
    return subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL).returncode


def answers(path: Path) -> dict[str, pa.Table]:
    with ms.connect(path, engine="inprocess") as db:
        return {query.name: query.changes() for query in db.queries()}
