"""What holds in process holds on Spark: what fails and what is told, backups under way, full disks, other Pythons."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.kernel.relational import linear
from millstream.plan.lowering import lower
from millstream.plan.tags import STEP_TAGS
from millstream.spark import session as sessions

pytestmark = pytest.mark.spark

SETUP = """
    SET max_value_bytes = 1024;
    CREATE STREAM A (x INT, v INT, s STRING) TIMESTAMP BY ts;
    CREATE STREAM B (x INT, v INT) TIMESTAMP BY ts;
"""
QUERIES = [
    "SELECT x, v FROM A [RANGE 5]",
    "SELECT 10 / v AS w FROM A [RANGE 5]",
    "SELECT x FROM A [RANGE 5] WHERE 10 / v > 1 AND v <> 0",
    "SELECT x FROM A [RANGE 5] WHERE v <> 0 AND 10 / v > 1",
    "SELECT x FROM (SELECT x, 10 / v AS w FROM A [RANGE 5])",
    "SELECT A.x FROM A [RANGE 5] JOIN B [RANGE 5] ON A.x = B.x AND 10 / (A.v - B.v) > 0",
    "SELECT 10 / COALESCE(B.v, A.v) AS w FROM A [RANGE 5] LEFT JOIN B [RANGE 5] ON A.x = B.x",
    "SELECT 10 / v AS w FROM A [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM B [RANGE 5] WHERE B.x = A.x)",
    "SELECT x, 10 / sum(v) AS w FROM A [RANGE 5] GROUP BY x",
    "SELECT x, 10 / sum(v) AS w FROM A [RANGE 5] GROUP BY x HAVING sum(v) <> 0",
    "SELECT CAST(s AS INT) AS n FROM A [RANGE 5]",
    "SELECT length(repeat(s, 2000000000)) AS n FROM A [RANGE 5]",
    "SELECT length(repeat(s, 1024)) AS n FROM A [RANGE 5]",
    "SELECT joined(s) AS n FROM A [RANGE 5]",
    "SELECT length(longer(s)) AS n FROM A [RANGE 5] WHERE x > 1",
    "SELECT raising(x) AS n FROM A [RANGE 5]",
]


class Joined:
    """An aggregate whose value is too large as soon as there are two rows."""

    def initialize(self) -> str:
        return ""

    def iterate(self, state: str, batch: pl.Series) -> str:
        return state + "y" * 600 * len(batch)

    def terminate(self, state: str) -> str:
        return state


def longer(values: pl.Series) -> pl.Series:
    return values.str.pad_end(2000)


def raising(values: pl.Series) -> pl.Series:
    if values.max() == 3:
        raise KeyError("three")
    return values


def answers(db: ms.Database) -> dict[str, Any]:
    """What each query says after each insert, and one that comes late."""
    db.execute(SETUP)
    db.create_aggregate("joined", Joined, returns="STRING")
    for body in (longer, raising):
        db.create_function(body.__name__, body, returns="STRING" if body is longer else "INT")
    queries = {text: db.register(text) for text in QUERIES}
    found: dict[str, Any] = {}
    for number, (a, b) in enumerate(
        (([(1, 1, "1", 1)], [(1, 1, 1)]), ([(2, 0, "x", 2), (3, 2, "3", 2)], [(2, 5, 2)]), ([(4, 4, "4", 9)], []))
    ):
        db.insert("A", a)
        db.insert("B", b)
        db.advance(to=a[-1][-1])
        found |= {f"{number} {text}": said(query) for text, query in queries.items()}
    found |= {f"late {text}": said(db.register(text)) for text in (QUERIES[1], QUERIES[2], QUERIES[11], QUERIES[15])}
    with pytest.raises(ms.InputError, match="SET max_value_bytes"):
        db.insert("A", [(5, 5, "s" * 1025, 20)])
    return found


def said(query: ms.Query) -> Any:
    try:
        return sorted(map(str, query.result().to_pylist()))
    except ms.EvaluationError as error:
        return error.primary


def test_what_fails_in_process_fails_on_spark_and_nothing_else(session: SparkSession) -> None:
    with ms.connect(engine="inprocess") as here, ms.connect(spark=session) as there:
        expected = answers(here)
        assert answers(there) == expected
    failed = {text for text in QUERIES if isinstance(expected[f"2 {text}"], str)}
    assert failed == {QUERIES[place] for place in (1, 5, 8, 10, 11, 13, 14, 15)}


class Faulty(linear.Project):
    """An operator with a fault of its own, or on a machine with one."""

    def step(self, inputs: Any, state: Any, progress: Any) -> Any:
        values = [value for batch in inputs for value in batch.get_column("c0").to_list()]
        if 2 in values:
            raise OverflowError("a fault")
        if 3 in values:
            raise OSError(5, "a bad disk")
        return super().step(inputs, state, progress)


def test_an_operator_with_a_fault_stops_its_query_alone(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with ms.connect(spark=session) as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")
        good = db.register("SELECT a + 1 AS b FROM s [RANGE 9]")
        with monkeypatch.context() as patched:
            patched.setattr(linear, "Project", Faulty)
            patched.setattr(lower, "STEP_TAGS", {**STEP_TAGS, Faulty: "faulty"})
            bad = db.register("SELECT a + 2 AS b FROM s [RANGE 9]")
            worse = db.register("SELECT a + 3 AS b FROM s [RANGE 9] WHERE a <> 2")
        db.insert("s", [(1, 1)])
        db.insert("s", [(2, 2)])
        assert bad.error is not None
        assert "OverflowError: a fault" in str(bad.error)
        assert "Faulty" in bad.error.primary
        # What the machine does fails the epoch, and no query.
        with pytest.raises((ms.StateError, OSError), match="a bad disk"):
            db.insert("s", [(3, 3)])
        assert worse.error is None
        assert db.stats()["streams"]["s"]["arrived"] == 2
        worse.drop()
        db.insert("s", [(3, 3)])
        db.advance("s", to=3)
        assert sorted(row["b"] for row in good.result().to_pylist()) == [2, 3, 4]


def test_a_backup_while_a_source_and_a_sink_run(session: SparkSession, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()

    def file(number: int) -> None:
        (tmp_path / "new").write_text(json.dumps({"k": number % 3, "v": number, "ts": number}))
        (tmp_path / "new").rename(source / f"{number:03}.json")

    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(
            f"CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts USING json OPTIONS (path '{source}', maxFilesPerTrigger 2)"
        )
        query = db.register("SELECT k, v FROM s [RANGE 5]", name="q")
        db.execute(f"CREATE SINK k FOR q USING parquet OPTIONS (path '{out}')")
        file(0)
        running = threading.Thread(target=db.run, args=(None,))
        running.start()
        number, made = 1, None
        while made is None or number < 12:
            if number < db.stats()["streams"]["s"]["arrived"] + 4:  # so that there is always something to come
                file(number)
                number += 1
            if made is None and db.stats()["sinks"]["k"]["deliveries"] >= 1:
                made = db.backup(tmp_path / "copy")
            time.sleep(0.05)
        db._source_loop.end()
        running.join()
        db.run()
        expected = query.changes()
        assert db.stats()["streams"]["s"]["arrived"] == number
    with ms.connect(tmp_path / "copy", spark=session) as copy:
        told = copy.stats()
        assert 0 < told["streams"]["s"]["arrived"] < number
        assert told["sinks"]["k"]["state"] == "paused"
        for path in out.glob("delivery=*"):
            if int(path.name.partition("=")[2]) > told["sinks"]["k"]["deliveries"]:
                shutil.rmtree(path)
        copy.resume_sink("k")
        copy.run()
        assert copy.stats()["streams"]["s"]["arrived"] == number
        assert copy.stats()["streams"]["s"]["late"] == 0
        assert copy.query("q").changes() == expected
        assert copy.stats()["sinks"]["k"]["state"] == "active"
    given: Counter[tuple[object, ...]] = Counter()
    for path in out.glob("delivery=*/*.parquet"):
        given.update(tuple(row.values()) for row in pq.ParquetFile(path).read().to_pylist())
    assert given == Counter(tuple(row.values()) for row in expected.to_pylist())


def test_a_sink_whose_disk_is_full(session: SparkSession, disk: Path) -> None:
    with ms.connect(spark=session) as db:
        db.sinks.pause = 0.0
        db.execute("CREATE STREAM s (v STRING) TIMESTAMP BY ts; REGISTER QUERY q AS SELECT v FROM s")
        db.execute(f"CREATE SINK full FOR q USING json OPTIONS (path '{disk}/out')")
        db.execute(f"CREATE SINK fine FOR q USING json OPTIONS (path '{disk.parent}/fine')")
        db.insert("s", [(f"{number:05}" * 100, 1) for number in range(1000)])
        db.advance(to=1)
        told = db.stats()["sinks"]
        assert told["fine"]["state"] == "active"
        assert told["full"]["state"] == "paused"
        assert f"the disk of {disk}/out is full" in told["full"]["error"]
        assert "No space left on device" in told["full"]["error"]
        assert told["full"]["rows"] >= 1000
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        db.resume_sink("full")
        assert db.stats()["sinks"]["full"]["state"] == "active"
        lines = [line for path in disk.glob("out/delivery=1/*.json") for line in path.read_text().splitlines()]
        assert len(lines) == 1000


def test_a_session_whose_workers_run_another_python(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python"
    forgetful = (
        "import sys, runpy; sys.modules['millstream'] = None; runpy.run_module(sys.argv.pop(1), run_name='__main__')"
    )
    other.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -c "{forgetful}" "$@"\n')
    other.chmod(0o755)
    monkeypatch.setattr(session.sparkContext, "pythonExec", str(other))
    sessions._checked.discard(session.sparkContext)
    with pytest.raises(ms.SetupError, match="Python workers cannot run Millstream") as refused:
        ms.connect(tmp_path / "db", spark=session)
    assert str(other) in str(refused.value)
    assert "millstream" in str(refused.value.detail)
    assert f"PYSPARK_PYTHON={sys.executable}" in str(refused.value.hint)
    monkeypatch.undo()
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")
