"""The live plan over epochs that are Spark jobs on three shards: what is counted is the same as in process."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.database import Database
from millstream.spark.runner import SparkRunner

pytestmark = pytest.mark.spark

QUERIES = (
    "SELECT a, COUNT(*) AS n FROM s [RANGE 10] WHERE b > 1 GROUP BY a",
    "SELECT s.a, r.c FROM s [RANGE 10], r [RANGE 20] WHERE s.a = r.a",
    "SELECT s.a, r.c FROM s [RANGE 10], r [RANGE 50] WHERE s.a = r.a",
)
COUNTED = ("label", "kind", "pattern", "structure", "rows_in", "rows_out", "queries")


def filled(db: Database) -> dict[str, dict[str, Any]]:
    for name, column in (("s", "b"), ("r", "c")):
        db.execute(f"CREATE STREAM {name} (a BIGINT, {column} BIGINT, ts BIGINT) TIMESTAMP BY ts")
    for text in QUERIES:
        db.register(text)
    for first in (0, 40):
        for name in "sr":
            db.insert(name, [(n % 7, n % 4, n) for n in range(first, first + 40)])
    return {node["id"]: {name: node[name] for name in COUNTED} for node in db.inspection.plan()["nodes"]}


def test_the_same_numbers_on_three_shards(session: SparkSession) -> None:
    with ms.connect(spark=session) as db:
        db.execute("SET shards = 3")
        runner = db.engine.runner
        assert isinstance(runner, SparkRunner)
        runner.small_epoch = 0
        on_spark = filled(db)
        (join, *_) = (node for node in db.inspection.plan()["nodes"] if node["kind"] == "join")
        assert join["seconds"] > 0
        assert sum(node["state_bytes"] for node in db.inspection.plan()["nodes"]) > 0
        said = str(db.execute("EXPLAIN ANALYZE QUERY q2"))
    with ms.connect(engine="inprocess") as db:
        assert filled(db) == on_spark
    assert "share of the work" in said
    assert "state: SteM of s [RANGE 10]: by value, kept for q3 too" in said
