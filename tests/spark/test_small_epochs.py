"""Epochs that cost less than a job are the driver's: whoever runs them, the answers are those of the oracle."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession
from tests.properties.driver import check_case
from tests.properties.generate import seeded_case
from tests.properties.queries import LINEAR, RELATIONAL, Profile

import millstream as ms
from millstream.database import Database
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.stages import Stage, StagePlan, StageStep
from millstream.engine.epochs.task import EpochTask
from millstream.kernel.pipeline import Pipeline
from millstream.kernel.relational.linear import Filter
from millstream.kernel.scalar.expressions import TRUE
from millstream.spark import costs
from millstream.spark.costs import EpochCosts
from millstream.state.store import MemoryStore

pytestmark = pytest.mark.spark

CASES = [
    (0, RELATIONAL),
    (1, LINEAR),
    *(pytest.param(seed, profile, marks=pytest.mark.slow) for seed in range(2, 12) for profile in (RELATIONAL, LINEAR)),
]
STREAM = "CREATE STREAM S (k INT, v INT) TIMESTAMP BY ts"
QUERY = "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM S [RANGE 10] GROUP BY k"


def by_chance(session: SparkSession, seed: int, directory: Path) -> Database:
    """A database of which each epoch is run by the driver, or as a job, or by whoever is thought to be faster."""
    dice = random.Random(seed)
    db = ms.connect(directory / f"db-{dice.random()}", spark=session)
    db.execute(f"SET shards = {dice.choice((1, 2, 3))}; SET small_epochs = 'driver'")

    def toss(report: object) -> None:
        db.engine.limits.small_epochs = dice.choice(("driver", "driver", "spark", "auto"))

    db.engine.on_epoch.append(toss)
    return db


@pytest.mark.parametrize(("seed", "profile"), CASES, ids=lambda of: getattr(of, "name", of))
def test_whoever_runs_epochs_the_answers_are_the_oracles(
    session: SparkSession, tmp_path: Path, seed: int, profile: Profile
) -> None:
    check_case(seeded_case(7100 + seed, profile), partial(by_chance, session, seed, tmp_path))


def test_little_is_done_by_the_driver_and_much_by_a_job(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_MOST", 0.05)  # instead of so many more rows
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(STREAM)
        query = db.register(QUERY)
        for at in range(3):
            db.insert("S", [(at % 2, at, at)])
        assert db.stats()["epochs_run"] == {"driver": 3}
        db.insert("S", pl.DataFrame({"k": [1] * 900_000, "v": [*range(900_000)], "ts": [10] * 900_000}))
        assert db.stats()["epochs_run"] == {"driver": 3, "one task": 1}
        db.advance(to=10)
        assert query.result().to_pylist() == [{"k": 0, "n": 2, "most": 2}, {"k": 1, "n": 900_001, "most": 899_999}]


def test_a_setting_says_who_runs_epochs(session: SparkSession, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(f"{STREAM}; SET small_epochs = 'spark'")
        query = db.register(QUERY)
        db.insert("S", [(1, 2, 0)])
        assert db.stats()["epochs_run"] == {"one task": 1}
        db.execute("SET small_epochs = 'driver'")
        db.insert("S", [(1, 3, 1)])
        assert db.stats()["epochs_run"] == {"one task": 1, "driver": 1}
        with pytest.raises(ms.BindError, match="small_epochs is one of"):
            db.execute("SET small_epochs = 'elsewhere'")
        db.advance(to=1)
        assert query.result().to_pylist() == [{"k": 1, "n": 2, "most": 3}]
    with ms.connect(tmp_path / "db", spark=session) as db:
        assert db.settings.small_epochs == "driver"


def test_users_code_stays_out_of_the_driver(session: SparkSession, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(STREAM)
        db.create_function("who", lambda values: pl.Series([os.getpid()] * len(values)), returns="bigint")
        query = db.register("SELECT ISTREAM(who(v) AS process) FROM S")
        db.insert("S", [(1, 2, 0)])
        db.advance(to=1)
        assert query.result()["process"].to_pylist() != [os.getpid()]
        assert db.stats()["epochs_run"] == {"one task": 2}


def test_a_plan_that_turns_out_slow_is_left_to_jobs_until_it_is_fast() -> None:
    learnt, plan, store = EpochCosts(), StagePlan(2, (Stage(),), {}), MemoryStore()
    task = arriving(20)
    assert learnt.is_for_the_driver(plan, task, store, cores=2)
    estimate = learnt.here(plan, task, store)
    for _ in range(20):
        learnt.learn(plan, task, store, seconds=15 * estimate, started=None)
    assert learnt.here(plan, task, store) == pytest.approx(15 * estimate, rel=0.1)
    for _ in range(20):
        learnt.learn(plan, task, store, seconds=estimate / 2, started=0.0)
    assert learnt.here(plan, task, store) == pytest.approx(estimate / 2, rel=0.1)
    assert learnt.start == pytest.approx(0, abs=0.01)  # and a job that starts at once is worth more


def test_where_a_job_has_no_more_cores_than_the_driver_has_threads_it_gains_nothing() -> None:
    """So many rows that a job on two cores would be done first, and then so many that nobody should wait for them."""
    learnt, store, task = EpochCosts(), MemoryStore(), arriving(1_000_000)
    step = StageStep("s", Filter((), TRUE), (), (), on_first_shard=False)
    plan = StagePlan(2, (Stage((step,) * 4),), {})
    assert not learnt.is_for_the_driver(plan, task, store, cores=2)
    assert learnt.is_for_the_driver(plan, task, store, cores=2, threads=2)
    assert not learnt.is_for_the_driver(plan, task, store, cores=4, threads=2)
    assert not learnt.is_for_the_driver(plan, arriving(10_000_000), store, cores=2, threads=2)


def arriving(rows: int) -> EpochTask:
    return EpochTask(1, Pipeline(()), frozenset(), {"s": (Part("rows", "some", rows, ()),)}, {})
