"""Epochs as Spark jobs with all their shuffles, however few rows: the answers are those of the oracle."""

from __future__ import annotations

from functools import partial

import polars as pl
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


def test_what_stands_above_joins_asks_them_on_every_shard(session: SparkSession) -> None:
    """A join that is asked by two places, one by EXISTS, one that never changes, in one database; the keys are those
    that rows are hashed by, so that all of it is spread."""
    with shuffled(session, 3) as db:
        db.execute("CREATE STREAM A (k INT, x INT) TIMESTAMP BY ts; CREATE STREAM B (k INT, y INT) TIMESTAMP BY ts")
        db.execute("CREATE STREAM S (k INT) TIMESTAMP BY ts; CREATE TABLE F (k INT) STATIC")
        db.execute("INSERT INTO F VALUES (1), (3); SET join_plan = 'tree'; SET jit = on")
        pairs = "(SELECT A.k, x, y FROM A [RANGE 9], B [RANGE 9] WHERE A.k = B.k)"
        queries = [
            f"SELECT k, x, y FROM {pairs} p WHERE EXISTS (SELECT * FROM S [RANGE 5] WHERE S.k = p.k)",
            f"SELECT p.k, x, y FROM {pairs} p, F WHERE p.k = F.k",
            f"""SELECT p.k, x FROM {pairs} p, S [RANGE 5] WHERE p.k = S.k
                UNION ALL SELECT p.k, y FROM {pairs} p, F WHERE p.k = F.k""",
        ]
        just_in_time = [db.register(query) for query in queries]
        assert all("just in time" in query.explain() for query in just_in_time)
        db.execute("SET jit = off")
        everything = [db.register(query) for query in queries]
        for low in (0, 4):
            for stream in ("A", "B"):
                db.insert(stream, [(n % 5, n, low + n // 10) for n in range(20)])
            db.insert("S", [(low % 3, low + 2)])
            db.advance(to=low + 3)
        for one, other in zip(just_in_time, everything, strict=True):
            rows = [sorted(query.result().to_pylist(), key=str) for query in (one, other)]
            assert rows[0] == rows[1]
            assert rows[0]


def late_queries(db: Database, jit: str) -> list[list[dict[str, object]]]:
    """What queries that ask for different rows of a view give, one of them registered later than the other."""
    asked = "SELECT k, x, y FROM V WHERE EXISTS (SELECT * FROM {0} [RANGE 5] o WHERE o.k = V.k)"
    db.execute("CREATE STREAM A (k INT, x INT) TIMESTAMP BY ts; CREATE STREAM B (k INT, y INT) TIMESTAMP BY ts")
    db.execute("CREATE STREAM S (k INT) TIMESTAMP BY ts; CREATE STREAM R (k INT) TIMESTAMP BY ts")
    db.execute("CREATE VIEW V AS SELECT A.k, x, y FROM A [RANGE 9], B [RANGE 9] WHERE A.k = B.k")
    db.execute(f"SET join_plan = 'tree'; SET jit = {jit}")
    queries = []
    for low, name in ((0, "S"), (4, "R"), (8, "")):
        queries += [db.register(asked.format(name))] if name else []
        for stream in ("A", "B"):
            db.insert(stream, [(n % 7, n, low + n // 10) for n in range(20)])
        db.insert("S", [(low % 3, low + 2)])
        db.insert("R", [(low % 3 + n, low + 2) for n in range(3)])
        db.advance(to=low + 3)
    return [sorted(query.changes().to_pylist(), key=str) for query in queries]


def test_queries_that_come_late_share_a_join_on_every_shard(session: SparkSession) -> None:
    with ms.connect(engine="inprocess") as db:
        everything = late_queries(db, "off")
    with shuffled(session, 3) as db:
        assert late_queries(db, "on") == everything
        assert all(everything)
        (producer,) = (step for step in db.engine.pipeline.steps if step.name.startswith("producer-"))
        assert len(producer.consumer_edges) == 2
        shards = {synopsis.partition("/")[0] for synopsis in db.engine.snapshot.states[producer.name]}
        assert len(shards) > 1


def test_rows_are_put_together_before_they_are_sent(session: SparkSession) -> None:
    """Sums and extremes of windows that slide travel as a few rows, and so does what has equal values; EXPLAIN ANALYZE
    says so."""
    texts = {
        "sums": "SELECT k, SUM(v) AS s, AVG(x) AS a, COUNT(*) AS n FROM S [RANGE 500 SLIDE 100] GROUP BY k",
        "extremes": "SELECT k + 1 AS l, MAX(v) AS most, MIN(x) AS least FROM S [TUMBLE 100] GROUP BY k + 1",
        "counted": "SELECT k + 2 AS l, COUNT(DISTINCT v) AS n, MAX(v) AS m FROM S [RANGE 500 SLIDE 100] GROUP BY k + 2",
        "all_rows": "SELECT COUNT(*) AS n, STDDEV(x) AS d FROM S [TUMBLE 100]",
    }
    t = pl.int_range(6_000, eager=True)
    rows = pl.DataFrame({"k": t % 7, "v": t * 7 % 11 + 2**61, "x": (t % 13) * 0.1, "t": t // 2})

    def play(db: Database) -> dict[str, list[str]]:
        db.execute("CREATE STREAM S (k BIGINT, v BIGINT, x DOUBLE) TIMESTAMP BY t; SET sharing = 'off'")
        for name, text in texts.items():
            db.register(text.replace("SUM(v)", "SUM(v - 2305843009213693952)"), name=name)
        for first in range(0, rows.height, 3_000):
            db.insert("S", rows[first : first + 3_000])
        return {query.name: sorted(map(repr, query.changes().to_pylist())) for query in db.queries()}

    with ms.connect(engine="inprocess") as alone, shuffled(session, 3) as db:
        assert play(db) == play(alone)
        for name in texts:
            told = str(db.execute(f"EXPLAIN ANALYZE QUERY {name}"))
            assert "6,000 rows came from other shards as " in told
            assert "tasks" in told
