"""An epoch of many rows is one task or the driver's, and threads share it: the answers are those of one alone."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.database import Database
from millstream.spark import session as sessions
from millstream.spark.runner import SparkRunner

pytestmark = pytest.mark.spark

TEXTS = {
    "pairs": "SELECT ISTREAM(l.k, l.v, r.v AS w) FROM L [RANGE 20] l, R [RANGE 10] r WHERE l.k = r.k AND l.v > r.v",
    "average": "SELECT k % 7 AS g, AVG(v) AS a, COUNT(*) AS n FROM L [RANGE 50 SLIDE 10] GROUP BY k % 7",
    "top": "SELECT k, v FROM R [TUMBLE 100] WHERE v % 5 = 0 ORDER BY v DESC, k LIMIT 3",
    "some": "SELECT k FROM L WHERE v < 3",
}


def files(place: Path) -> dict[str, Path]:
    """Two streams as files, in order within each file and late by files."""
    found = {}
    for seed, name in enumerate("LR", start=3):
        t = pl.int_range(70_000, eager=True)
        rows = pl.DataFrame({"k": t * seed % 1_009, "v": t * seed % 97, "ts": t // 100})
        found[name] = place / name
        found[name].mkdir()
        for number in range(5):
            rows.slice(number * 14_000, 14_000).write_parquet(found[name] / f"{number}.parquet")
    return found


def answers(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(pl.DataFrame(db.query(name).changes()).rows(), key=repr) for name in TEXTS}


@pytest.mark.parametrize("where", ["spark", "driver"])
def test_threads_give_the_answers_of_one(session: SparkSession, tmp_path: Path, where: str) -> None:
    places = files(tmp_path)
    columns = "(k BIGINT, v BIGINT, ts BIGINT) TIMESTAMP BY ts"
    with ms.connect(engine="inprocess") as alone:
        for name in places:
            alone.execute(f"CREATE STREAM {name} {columns}")
        for name, text in TEXTS.items():
            alone.register(text, name=name)
        for name, place in places.items():
            alone.insert(name, pl.read_parquet(sorted(place.glob("*"))))
        expected = answers(alone)
    with ms.connect(tmp_path / "db", spark=session) as db:
        for name, place in places.items():
            db.execute(f"CREATE STREAM {name} {columns} USING parquet OPTIONS ('path' '{place}')")
        db.execute(f"SET shards = 3; SET small_epochs = '{where}'")
        for name, text in TEXTS.items():
            db.register(text, name=name)
        db.run(until="idle")
        assert answers(db) == expected
        runner = db.engine.runner
        assert isinstance(runner, SparkRunner)
        if where == "spark":
            assert db.stats()["epochs_run"] == {"one task": 2}
            assert [job.threads for job in runner.jobs()] == [2, 2]
        else:
            assert db.stats()["epochs_run"] == {"driver": 2}
            assert [len(copies) for copies in runner._copies.values()] == [2, 2]
    with ms.connect(tmp_path / "db", spark=session) as db:
        assert answers(db) == expected


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[2]", 2), ("local[3,5]", 3), ("local-cluster[2,1,1024]", None), ("spark://h:7077", None)],
)
def test_cores_of_a_spark_of_this_process(master: str, cores: int | None) -> None:
    assert sessions._local_cores(master) == cores
