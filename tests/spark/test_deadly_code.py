"""Code of users that ends its process: its query is stopped alone, whatever runs with it; and a JVM that is gone."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from py4j.java_gateway import GatewayParameters
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

import millstream as ms
from millstream.spark.messages import cause_of, is_jvm_gone

pytestmark = pytest.mark.spark


def exits(values: pl.Series) -> pl.Series:
    if values.max() == 9:
        os._exit(7)
    return values


def crashes(values: pl.Series) -> pl.Series:
    if values.max() == 9:
        ctypes.string_at(0)
    return values


class Deadly:
    """An aggregate that ends its process when a value leaves the window."""

    def initialize(self) -> int:
        return 0

    def iterate(self, state: int, batch: pl.Series) -> int:
        return state + len(batch)

    def retract(self, state: int, batch: pl.Series) -> int:
        os._exit(1)

    def terminate(self, state: int) -> int:
        return state


@pytest.mark.parametrize("deadly", [exits, pytest.param(crashes, marks=pytest.mark.slow)])
def test_a_function_that_ends_its_process_stops_its_query_alone(
    session: SparkSession, deadly: Callable[[pl.Series], pl.Series]
) -> None:
    with ms.connect(spark=session) as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")
        db.create_function("deadly", deadly, returns="INT")
        good = db.register("SELECT a FROM s [RANGE 10] WHERE a > 1", name="good")
        bad = db.register("SELECT a FROM s [RANGE 10] WHERE deadly(a) > 1", name="bad")
        db.insert("s", [(1, 1), (2, 2)])
        assert db.insert("s", [(9, 3), (3, 4)]).accepted == 2
        db.insert("s", [(4, 5)])
        assert [row["a"] for row in good.result(at=4).sort_by("a").to_pylist()] == [2, 3, 9]
        with pytest.raises(ms.EvaluationError, match="ends the process that runs it"):
            bad.result()
        # One that comes late meets the same row in the past.
        with pytest.raises(ms.EvaluationError, match="ends the process that runs it"):
            db.register("SELECT deadly(a) AS b FROM s [RANGE 10]").result()


def test_an_aggregate_that_ends_its_process_when_time_passes(session: SparkSession) -> None:
    """Time passing alone is no job, unless code of users runs: that never runs in the driver's epochs."""
    with ms.connect(spark=session) as db:
        db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")
        db.create_aggregate("deadly", Deadly, returns="BIGINT")
        good = db.register("SELECT count(*) AS n FROM s [RANGE 2]", name="good")
        bad = db.register("SELECT deadly(a) AS n FROM s [RANGE 2]", name="bad")
        db.insert("s", [(1, 1)])
        db.advance("s", to=9)
        assert good.result().to_pylist() == [{"n": 0}]
        with pytest.raises(ms.EvaluationError, match="ends the process that runs it"):
            bad.result()


_KILLED = """
import pathlib, sys, threading, time
import millstream as ms
from pyspark import SparkContext

path, mark = sys.argv[1], pathlib.Path(sys.argv[2])

def slow(values):
    if values.max() == 3 and not mark.exists():
        mark.touch()
        time.sleep(600)
    return values

def kill():
    while sys.argv[3] == "amid" and not mark.exists():
        time.sleep(0.01)
    mark.touch()
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()

db = ms.connect(path)
db.execute("CREATE STREAM s (a INT) TIMESTAMP BY ts")
db.create_function("slow", slow, returns="INT")
query = db.register("SELECT slow(a) AS a FROM s [RANGE 10]", name="q")
db.insert("s", [(1, 1), (2, 2)])
killer = threading.Thread(target=kill)
killer.start()
if sys.argv[3] == "before":
    killer.join()
try:
    db.insert("s", [(3, 3)])
except ms.StateError as error:
    print(error.detail)
killer.join()
print(query.result().to_pylist())
db.close()
with ms.connect(path) as db:
    db.insert("s", [(3, 3)])
    print(db.query("q").result().to_pylist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "amid"])
def test_a_jvm_that_is_killed(tmp_path: Path, moment: str) -> None:
    """Between two epochs or in one: it is told in one sentence; nothing is lost, and a new Spark starts in the same
    process."""
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "db"), str(tmp_path / "mark"), moment]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "the Java process that runs Spark is gone",
        "[{'a': 1}]",
        "[{'a': 1}, {'a': 2}]",
    ]
    assert "Traceback" not in done.stderr


def test_a_call_that_nobody_answers(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Py4J says no more of a JVM that went in the middle of a call than of one that has no words for an error."""
    unanswered = Py4JError("An error occurred while calling o31.collectToPython")
    assert not is_jvm_gone(unanswered)
    with monkeypatch.context() as patched:
        patched.setattr(SparkContext, "_gateway", None)
        assert is_jvm_gone(unanswered)
        assert cause_of(unanswered) == "the Java process that runs Spark is gone"
        assert not is_jvm_gone(Py4JError("foo does not exist in the JVM"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        nobody = GatewayParameters(address="127.0.0.1", port=listening.getsockname()[1])
    monkeypatch.setattr(SparkContext._gateway, "gateway_parameters", nobody)
    assert is_jvm_gone(unanswered)
