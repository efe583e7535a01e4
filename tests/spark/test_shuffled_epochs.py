"""Epochs as Spark jobs with all their shuffles, however few rows: the answers are those of the oracle."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession
from tests.properties.cases import in_large_batches
from tests.properties.driver import check_case
from tests.properties.generate import seeded_case
from tests.properties.queries import LINEAR, RELATIONAL, Profile

import millstream as ms
from millstream.database import Database
from millstream.spark.runner import SparkRunner

pytestmark = pytest.mark.spark

FAST = [(0, RELATIONAL), (2, RELATIONAL)]
SLOW = [*((seed, LINEAR) for seed in range(4)), *((seed, RELATIONAL) for seed in range(3, 15))]
CASES = [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


def shuffled(session: SparkSession, shards: int) -> Database:
    db = ms.connect(spark=session)
    db.execute(f"SET shards = {shards}")
    runner = db.engine.runner
    assert isinstance(runner, SparkRunner)
    runner.small_epoch = 0
    return db


@pytest.mark.parametrize(("seed", "profile"), CASES, ids=lambda of: getattr(of, "name", of))
def test_shuffled_epochs_answer_as_the_oracle(session: SparkSession, seed: int, profile: Profile) -> None:
    case = in_large_batches(seeded_case(2000 + seed, profile))
    check_case(case, partial(shuffled, session, 2 + seed % 2))


def test_a_step_that_fails_on_one_shard_has_failed(session: SparkSession) -> None:
    with shuffled(session, 3) as db:
        db.execute("CREATE STREAM S (k INT, a INT) TIMESTAMP BY ts")
        failing = db.register("SELECT x, COUNT(*) AS n FROM (SELECT k, 10 / SUM(a) AS x FROM S GROUP BY k) GROUP BY x")
        other = db.register("SELECT k, SUM(a) AS n FROM S GROUP BY k")
        db.insert("S", [(k, 0 if k == 7 else 1, k) for k in range(20)])
        db.advance(to=30)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            failing.result()
        assert other.result().num_rows == 20
