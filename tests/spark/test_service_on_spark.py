"""A service whose database runs on Spark: sources are read, queries come and go, and readers miss nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.support.serving import LIMIT, served, until

import millstream as ms

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts USING json OPTIONS (path '{}')"


def put(directory: Path, start: int, stop: int) -> None:
    directory.mkdir(exist_ok=True)
    hidden = directory / f".{start}"
    hidden.write_text("".join(json.dumps({"k": ts % 3, "v": ts, "ts": ts}) + "\n" for ts in range(start, stop)))
    hidden.rename(directory / f"{start}.json")


def test_sources_queries_and_readers(session: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 0, 50)
    seen: list[dict[str, Any]] = []
    with ms.connect(tmp_path / "db", spark=session) as local, served(local) as url, ms.connect(url) as db:
        db.execute(f"{STREAM.format(tmp_path / 'in')}; CREATE STREAM t (k INT) TIMESTAMP BY ts")
        db.register("SELECT k, SUM(v) AS total FROM s [RANGE 7] GROUP BY k", name="q")
        db.register_many("SELECT v FROM s [RANGE 1000] WHERE k = ?", [0, 1, 2], names=["a", "b", "c"])
        use(db, tmp_path / "in", 50, seen, expected=99)
    with ms.connect(tmp_path / "db", spark=session) as local, served(local) as url, ms.connect(url) as db:
        use(db, tmp_path / "in", 150, seen, expected=149)


def use(db: Any, directory: Path, start: int, seen: list[dict[str, Any]], expected: int) -> None:
    """A file comes while a reader waits, after what it has seen; a query comes late, and goes."""
    final = start + 48

    def read() -> None:
        for table in db.query("q").follow(since=seen[-1]["_ts"] if seen else None):
            seen.extend(table.to_pylist())
            if seen[-1]["_ts"] >= final:
                return

    reader = threading.Thread(target=read)
    reader.start()
    put(directory, start, start + 50)
    until(lambda: db.query("q").final == final)
    late = db.register("SELECT COUNT(*) AS n FROM s [RANGE 1000] WHERE v >= 0", name="late")
    assert late.result().to_pylist() == [{"n": expected}]
    assert sum(db.query(name).result().num_rows for name in "abc") == expected
    db.execute("DROP QUERY late")
    assert db.insert("t", [(1, start)]).accepted == 1
    with pytest.raises(ms.Error, match="nothing"):
        db.execute("SELECT nothing FROM s")
    reader.join(LIMIT)
    assert not reader.is_alive()
    assert db.query("q").changes().to_pylist() == seen


@pytest.mark.slow
def test_the_command_stops_in_time(tmp_path: Path) -> None:
    put(tmp_path / "in", 0, 50)
    command = [sys.executable, "-c", "from millstream.cli import app; app()", "serve", str(tmp_path / "db"), "--port=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+(?=,)", process.stdout.readline())
        assert found is not None, process.communicate(timeout=LIMIT)
        with ms.connect(found[0]) as db:
            db.execute(STREAM.format(tmp_path / "in"))
            query = db.register("SELECT v FROM s", name="q")
            until(lambda: query.final == 48)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=LIMIT)
        assert (process.returncode, errors) == (0, "")
    finally:
        process.kill()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.query("q").result().num_rows == 49
