"""The past of late queries as Spark jobs in the background."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.database import Database

pytestmark = pytest.mark.spark

QUERIES = {
    "sums": "SELECT k, SUM(v) AS total FROM s [RANGE 50] GROUP BY k",
    "pairs": "SELECT ISTREAM(a.k, a.v, b.v) FROM s [RANGE 3] a, s [ROWS 5] b WHERE a.k = b.k",
}


def feed(db: Database, first: int, last: int) -> None:
    t = pl.int_range(first, last, eager=True)
    db.insert("s", pl.DataFrame({"k": (t % 4).cast(pl.Int32), "v": (t % 7).cast(pl.Int32), "t": t}))


def expected(rows: int) -> dict[str, list[dict[str, object]]]:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY t")
        for name, text in QUERIES.items():
            db.register(text, name=name)
        feed(db, 0, rows)
        return {query.name: query.changes().to_pylist() for query in db.queries()}


@pytest.mark.parametrize("run_by", ["spark", "driver and spark", "driver"])
def test_slices_run_beside_the_epochs(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_by: str
) -> None:
    """As jobs, in the driver, or in the driver until there are jobs."""
    if run_by == "driver and spark":
        monkeypatch.setattr("millstream.spark.runner._BEGUN", 600)
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY t; SET background_rows = 1000")
        if run_by == "spark":
            db.execute("SET small_epochs = 'spark'")
        db.engine.backfills.first_slice = db.engine.backfills.most_left = 300
        feed(db, 0, 1_500)
        epoch = db.engine.snapshot.epoch
        queries = [db.register(text, name=name) for name, text in QUERIES.items()]
        dropped = db.register("SELECT COUNT(*) AS n FROM s [RANGE 7]", name="dropped")
        assert dropped.is_filling
        dropped.drop()
        feed(db, 1_500, 1_600)
        assert db.engine.snapshot.epoch > epoch
        found = {query.name: query.changes().to_pylist() for query in queries}
        assert found == expected(1_600)
        feed(db, 1_600, 1_700)
        assert {query.name: query.changes().to_pylist() for query in queries} == expected(1_700)


def test_closing_cancels_the_job(session: SparkSession, tmp_path: Path) -> None:
    db = ms.connect(tmp_path / "db", spark=session)
    db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY t; SET background_rows = 1000; SET small_epochs = 'spark'")
    db.engine.backfills.first_slice = db.engine.backfills.most_left = 10
    feed(db, 0, 2_000)
    for name, text in QUERIES.items():
        db.register(text, name=name)
    db.close()
    with ms.connect(tmp_path / "db", spark=session) as db:
        assert {query.name: query.changes().to_pylist() for query in db.queries()} == expected(2_000)
