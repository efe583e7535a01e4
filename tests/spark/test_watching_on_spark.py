"""Queries that share windows of all sizes, pairs of joins and cells, and those that watch the database, on Spark."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark

SIZED = "SELECT a, COUNT(*) AS n FROM s [RANGE ?] WHERE b > ? GROUP BY a"
PAIRS = "SELECT s.a, t.b FROM s [RANGE 5], t [RANGE 5] WHERE s.a = t.a AND s.b > {0}"
THREE = (
    "SELECT s.a, t.b, u.b AS c FROM s [RANGE 5], t [RANGE 5], u [RANGE 5] WHERE s.a = t.a AND t.a = u.a AND s.b > {0}"
)
SUMS = "SELECT a, SUM(b) AS n, MIN(b) AS m FROM s [RANGE {0}] WHERE b > {0} GROUP BY a"


def answers(db: ms.Database) -> tuple[list[list[str]], list[dict[str, object]]]:
    """Of all queries at two instants, and what the database says of its own epochs."""
    dice = random.Random(3)
    for name in "stu":
        db.execute(f"CREATE STREAM {name} (a BIGINT, b BIGINT, ts BIGINT) TIMESTAMP BY ts")
    queries = [db.register(text.format(n)) for text in (SUMS, PAIRS, THREE) for n in range(5, 15)]
    queries += db.register_many(SIZED, [(n % 5 + 1, n) for n in range(20)], template="sized")
    queries.append(db.register("SELECT s.a FROM s [ROWS 20] FULL JOIN t [ROWS 10] ON s.a = t.a AND t.b > 3"))
    epochs = db.register("SELECT COUNT(*) AS n, SUM(rows) AS r FROM sys.epochs [RANGE 1 HOUR]")
    for first in (0, 4, 8):
        for name in "stu":
            db.insert(name, [(dice.randint(0, 6), dice.randint(0, 20), first + n // 5) for n in range(20)])
    queries += [db.register(PAIRS.format(n)) for n in (3, 4)]
    for name in "stu":
        db.insert(name, [(dice.randint(0, 6), dice.randint(0, 20), 12 + n // 5) for n in range(20)])
    db.advance(to=15)
    found = [sorted(map(repr, query.result(at=at).to_pylist())) for query in queries for at in (9, 15)]
    return found, epochs.result().to_pylist()


def test_the_same_on_spark_as_in_process(session: SparkSession, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "spark", spark=session) as db:
        db.execute("SET shards = 3")
        on_spark = answers(db)
    with ms.connect(tmp_path / "here", engine="inprocess") as db:
        here = answers(db)
    assert on_spark == here
    assert here[1] == [{"n": 13, "r": 240}]
    assert all(here[0][:40])
