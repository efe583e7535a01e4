"""kill -9 while a source is read or a sink is given changes: the next run ends where an undisturbed one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES = 8
PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
import millstream as ms
place, out = sys.argv[1:]
called = Path(place, "called")
called.mkdir(exist_ok=True)
calls = []

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def deliver(number, changes):
    calls.append(number)
    lines = [json.dumps(row) for row in changes.to_pylist()]
    with Path(called, str(number)).open("w") as file:
        file.write("\\n".join(lines[:2]) + "\\n")
        if os.environ["FAULT_IN"] == "callable" and len(calls) == 2:
            file.flush()
            die()
        file.write("\\n".join(lines[2:]))

def begun():
    return set(Path(place, "out").glob("delivery=*/_temporary"))

def die_amid_a_delivery(known):
    while begun() <= known:
        time.sleep(0.001)
    die()

if os.environ["FAULT_IN"] == "file":
    threading.Thread(target=die_amid_a_delivery, args=(begun(),), daemon=True).start()
with ms.connect(place + "/db", master=os.environ.get("MILLSTREAM_TEST_MASTER", "local[2]")) as db:
    if not db.queries():
        options = f"path '{place}/in', maxFilesPerTrigger 1"
        db.execute(f"CREATE STREAM s (k INT) TIMESTAMP BY ts USING json OPTIONS ({options})")
        db.execute("REGISTER QUERY q AS SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k")
        db.execute(f"CREATE SINK sink FOR q USING json OPTIONS (path '{place}/out')")
    db.create_sink("called", "q", deliver)
    db.run()
    counts = db.stats()["streams"]["s"]
    print(json.dumps([counts, db.query("q").changes().to_pylist()]), file=open(out, "w"))
"""


def run(place: Path, fault: str = "") -> int:
    arguments = [sys.executable, "-c", PROGRAM, str(place), str(place / "answer")]
    environment = {**os.environ, "MILLSTREAM_FAULT": fault, "FAULT_IN": fault.removeprefix("amid a ")}
    return subprocess.run(arguments, env=environment, check=False).returncode


def prepared(place: Path) -> Path:
    (place / "in").mkdir(parents=True)
    for number in range(FILES):
        lines = [json.dumps({"k": row % 3, "ts": number * 10 + row}) for row in range(12)]
        (place / "in" / f"{number}.json").write_text("\n".join([*lines, "broken"]))
        os.utime(place / "in" / f"{number}.json", (1000 + number, 1000 + number))
    return place


def delivered(place: Path) -> list[str]:
    """What the files of the one sink say; the other was given the same, whatever the order of its columns."""
    lines = [line for file in place.glob("out/*/*.json") for line in file.read_text().splitlines()]
    called = [line for file in place.glob("called/*") for line in file.read_text().splitlines()]
    assert sorted(sorted(json.loads(line).items()) for line in called) == sorted(
        sorted(json.loads(line).items()) for line in lines
    )
    return sorted(lines)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = prepared(tmp_path_factory.mktemp("undisturbed") / "place")
    assert run(place) == 0
    return place


@pytest.mark.parametrize(
    "faults",
    [
        ["epoch-started:2", "epoch-run:2", "changes-written:4", "change-counts:4"],
        ["sink-written:3", "sink-written:2", "amid a file", "amid a callable"],
    ],
    ids=["sources", "sinks"],
)
def test_crashes_lose_and_repeat_nothing(undisturbed: Path, tmp_path: Path, faults: list[str]) -> None:
    """One after the other, each in the process that goes on after the last."""
    place = prepared(tmp_path / "place")
    for fault in faults:
        assert run(place, fault) == -9, fault
    assert run(place) == 0
    assert (place / "answer").read_text() == (undisturbed / "answer").read_text()
    assert delivered(place) == delivered(undisturbed)
    # So that every change is there exactly once, whoever it was given to.
    changes = json.loads((place / "answer").read_text())[1]
    assert delivered(place) == sorted(json.dumps(change, separators=(",", ":")) for change in changes)
