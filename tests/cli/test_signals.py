"""Commands that last end cleanly when they are told to, within ten seconds, and nothing is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.serving import LIMIT, until
from typer.testing import CliRunner

import millstream as ms
from millstream.cli import app

COMMAND = [sys.executable, "-c", "from millstream.cli import app; app()"]
STREAM = "CREATE STREAM s (k INT) TIMESTAMP BY ts"


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve(tmp_path: Path, number: signal.Signals) -> None:
    process = start("serve", str(tmp_path / "db"), "--in-process", "--port", "0")
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://\S+(?=,)", said)
        assert found is not None, process.communicate(timeout=LIMIT)
        assert "for this machine only, since there are no tokens" in said
        with ms.connect(found[0]) as db:
            db.execute(STREAM)
            query = db.register("SELECT k FROM s", name="q")
            db.insert("s", [(1, 1), (2, 2)])
            ended: list[int] = []

            def follow() -> None:
                ended.extend(table.num_rows for table in query.follow())

            reader = threading.Thread(target=follow)
            reader.start()
            deadline = time.monotonic() + LIMIT
            while not ended and time.monotonic() < deadline:
                time.sleep(0.01)
            assert ended == [1]
            process.send_signal(number)
            assert process.wait(LIMIT) == 0, process.communicate()
            db.close()
            reader.join(LIMIT)
            assert not reader.is_alive()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.query("q").result().num_rows == 1


@pytest.mark.parametrize(("until", "code"), [("forever", 0), ("3600", 130)])
def test_run(tmp_path: Path, until: str, code: int) -> None:
    file = tmp_path / "app.cql"
    file.write_text(f"{STREAM}; REGISTER QUERY q AS SELECT k FROM s; INSERT INTO s VALUES (1, 1), (2, 2)")
    process = start("run", str(file), "--db", str(tmp_path / "db"), "--in-process", "--until", until)
    try:
        # Its statements are done when the database, which it has open, has committed both rows.
        committed, deadline = tmp_path / "db" / "manifest", time.monotonic() + LIMIT
        while not _is_in(committed, rb'"arrived": ?2'):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=LIMIT)
        assert process.returncode == code, errors
        assert errors == ""
        assert ("q (stream): 1 row" in output) == (code == 0)
    finally:
        process.kill()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.query("q").result().num_rows == 1


STUCK = """
import sys, time
from pathlib import Path
import millstream as ms
from millstream.cli import app, running, serving, stopping

stopping.WITHIN = float(sys.argv[2])

def stuck(column):
    if (column == 7).any():
        Path(sys.argv[1], "stuck").touch()
        time.sleep(1000)
    return column

def database(place, in_process):
    db = ms.connect(place, engine="inprocess")
    db.create_function("stuck", stuck, returns="INT")
    return db

running.database = serving.database = database
app(sys.argv[3:])
"""


def start_stuck(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STUCK, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("seconds", "signals", "said"),
    [
        ("0.5", 1, "not stopped within 0.5 seconds: what was not committed comes again\n"),
        ("1000", 2, "stopped at once\n"),
    ],
)
def test_a_stop_that_takes_too_long(tmp_path: Path, seconds: str, signals: int, said: str) -> None:
    file = tmp_path / "app.cql"
    file.write_text(
        f"{STREAM}; REGISTER QUERY q AS SELECT stuck(k) AS k FROM s; INSERT INTO s VALUES (1, 1), (2, 2);"
        "INSERT INTO s VALUES (7, 3), (8, 4)"
    )
    process = start_stuck(tmp_path, seconds, "run", str(file), "--db", str(tmp_path / "db"))
    try:
        until(lambda: (tmp_path / "stuck").exists() or process.poll() is not None)
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)  # two that come at once are heard as one
        output, errors = process.communicate(timeout=LIMIT)
        assert (process.returncode, output, errors) == (3, "", said)
    finally:
        process.kill()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.query("q").result()["k"].to_pylist() == [1]
        assert db.stats()["streams"]["s"]["arrived"] == 2


def test_a_service_whose_stop_takes_too_long(tmp_path: Path) -> None:
    process = start_stuck(tmp_path, 0.5, "serve", tmp_path / "db", "--port", "0")
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+(?=,)", process.stdout.readline())
        assert found is not None, process.communicate(timeout=LIMIT)
        with ms.connect(found[0]) as db:
            db.execute(
                f"{STREAM}; REGISTER QUERY q AS SELECT stuck(k) AS k FROM s; INSERT INTO s VALUES (1, 1), (2, 2)"
            )
            refused: list[ms.Error] = []

            def insert() -> None:
                try:
                    db.insert("s", [(7, 3), (8, 4)])
                except ms.Error as error:
                    refused.append(error)

            writer = threading.Thread(target=insert)
            writer.start()
            until((tmp_path / "stuck").exists)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=LIMIT)
            assert (process.returncode, errors.count("not stopped within 0.5 seconds")) == (3, 1)
            writer.join(LIMIT)
            assert [type(error) for error in refused] == [ms.ServiceError]
    finally:
        process.kill()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.query("q").result()["k"].to_pylist() == [1]


def _is_in(directory: Path, pattern: bytes) -> bool:
    """Whether a manifest, or the log of changes to it, says so."""
    try:
        return any(re.search(pattern, file.read_bytes()) for file in directory.glob("*"))
    except FileNotFoundError:  # replaced by a newer one meanwhile
        return False


def test_what_cannot_be_served() -> None:
    refused = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0", "--in-process"])
    assert refused.exit_code == 1
    assert "without tokens the service is for this machine only" in refused.output
