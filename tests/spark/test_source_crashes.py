"""kill -9 while a source is read: the run that follows ends where an undisturbed one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import json, os, sys
import millstream as ms
place, out = sys.argv[1:]
with ms.connect(place + "/db", master=os.environ.get("MILLSTREAM_TEST_MASTER", "local[2]")) as db:
    if not db.queries():
        options = f"path '{place}/in', maxFilesPerTrigger 1"
        db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING json OPTIONS ({options})")
        db.execute("REGISTER QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k")
        db.execute(f"CREATE SINK sink FOR q USING json OPTIONS (path '{place}/out')")
    db.run()
    counts = db.stats()["streams"]["s"]
    print(json.dumps([counts, db.query("q").changes().to_pylist()]), file=open(out, "w"))
"""


def run(place: Path, fault: str = "") -> int:
    arguments = [sys.executable, "-c", PROGRAM, str(place), str(place / "answer")]
    return subprocess.run(arguments, env={**os.environ, "MILLSTREAM_FAULT": fault}, check=False).returncode


def prepared(place: Path) -> Path:
    (place / "in").mkdir(parents=True)
    for number in range(3):
        lines = [json.dumps({"k": row % 3, "ts": number * 10 + row}) for row in range(12)]
        (place / "in" / f"{number}.json").write_text("\n".join([*lines, "broken"]))
        os.utime(place / "in" / f"{number}.json", (1000 + number, 1000 + number))
    return place


def delivered(place: Path) -> list[str]:
    return sorted(line for file in place.glob("out/*/*.json") for line in file.read_text().splitlines())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = prepared(tmp_path_factory.mktemp("undisturbed") / "place")
    assert run(place) == 0
    return place


@pytest.mark.parametrize(
    "fault", ["epoch-started:2", "epoch-run:2", "manifest-written:8", "manifest-linked:8", "sink-written:2"]
)
def test_a_crash_loses_and_repeats_nothing(undisturbed: Path, tmp_path: Path, fault: str) -> None:
    place = prepared(tmp_path / "place")
    assert run(place, fault) == -9
    assert run(place) == 0
    assert (place / "answer").read_text() == (undisturbed / "answer").read_text()
    assert delivered(place) == delivered(undisturbed)
