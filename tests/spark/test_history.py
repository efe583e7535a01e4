"""History as Spark and DuckDB read it: the rows that were accepted, whatever way they came and wherever they lie."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.support.answers import read_by_duckdb

import millstream as ms

pytestmark = pytest.mark.spark

FILES, STEP = 20, 50  # an element per tick; as many files as are merged and as are not


def write(directory: Path, number: int) -> None:
    ticks = range(number * STEP, (number + 1) * STEP)
    directory.mkdir(exist_ok=True)
    table = pa.table({"k": pa.array([t % 3 for t in ticks], pa.int32()), "ts": pa.array(ticks, pa.int64())})
    path = directory / f"{number:03d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (number, number))  # Spark reads files in this order


def test_history_of_files_and_of_rows_is_read_by_others(session: SparkSession, tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "db"
    for number in range(FILES):
        write(source, number)
    with ms.connect(path, spark=session) as db:
        db.execute(
            f"CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts RETAIN 4000 "
            f"USING parquet OPTIONS ('path' '{source}', 'maxFilesPerTrigger' '2')"
        )
        db.run(until="idle")
        kept = db.engine.snapshot.history["s"]
    # Some are merged, some still as they came.
    assert {file.as_it_came is None for file in kept} == {True, False}
    expected = [(t % 3, t) for t in range(FILES * STEP)]
    history = path / "history" / "s"
    found = session.read.option("mergeSchema", "true").parquet(str(history)).select("k", "ts", "_period").collect()
    assert sorted((row.k, row.ts) for row in found if row._period <= row.ts) == sorted(expected)
    text = f"read_parquet('{history}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
    assert sorted(read_by_duckdb(f"SELECT k, ts FROM {text}")) == sorted(expected)
    assert read_by_duckdb(f"SELECT DISTINCT _period FROM {text} ORDER BY 1") == [(0,), (500,)]


def test_what_a_failed_attempt_left_is_gone_at_rest(session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "db"
    with ms.connect(path, spark=session) as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY t")
        db.insert("s", pa.table({"k": range(20_000), "t": range(20_000)}))
        (file,) = (path / "history" / "s").glob("*/*.parquet")
        file.with_name("e2-f1-attempt.parquet").write_bytes(file.read_bytes())
    assert session.read.parquet(str(path / "history" / "s")).count() == 20_000
