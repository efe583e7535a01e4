"""Sinks in Spark's formats: a directory per delivery, all of them together every change once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark

SETUP = "CREATE STREAM s (a INT, b STRING) TIMESTAMP BY ts; REGISTER QUERY q AS SELECT a, b FROM s [RANGE 5]"


def test_file_sinks_hold_every_change_once(session: SparkSession, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(SETUP)
        for kind in ("parquet", "csv", "json"):
            db.execute(f"CREATE SINK {kind} FOR q USING {kind} OPTIONS (path '{tmp_path}/{kind}')")
        db.execute("CREATE SINK shown FOR q USING console")
        db.insert("s", [(1, "x", 1), (2, "y", 3)])
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.insert("s", [(3, "z", 4), (4, None, 9)])
        expected = sorted(tuple(change.values()) for change in db.query("q").changes().to_pylist())
        deliveries = db.stats()["sinks"]["parquet"]["deliveries"]
        assert db.stats()["sinks"]["shown"]["deliveries"] == deliveries
    columns = "_ts BIGINT, _weight BIGINT, a INT, b STRING"
    for kind in ("parquet", "csv", "json"):
        written = session.read.schema(columns).format(kind).load([str(p) for p in tmp_path.glob(f"{kind}/delivery=*")])
        assert sorted(tuple(row) for row in written.collect()) == expected
        assert len(list(tmp_path.glob(f"{kind}/delivery=*"))) == deliveries == 2


def test_a_sink_that_cannot_be_written_is_paused(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with ms.connect(spark=session) as db:
        db.sinks.pause = 0.0
        db.execute(SETUP)
        db.execute(f"CREATE SINK k FOR q USING parquet OPTIONS (path '{tmp_path}/file')")
        db.execute(f"CREATE SINK good FOR q USING json OPTIONS (path '{tmp_path}/good')")
        db.insert("s", [(1, "x", 1), (2, "y", 3)])
        sinks = db.stats()["sinks"]
        assert (sinks["k"]["state"], sinks["good"]["state"]) == ("paused", "active")
        assert sinks["k"]["error"].startswith("delivery 1: ")
        assert "\tat " not in sinks["k"]["error"]
        assert len(list(tmp_path.glob("good/delivery=1/*.json"))) == 1
        (tmp_path / "file").unlink()
        db.resume_sink("k")
        assert len(list(tmp_path.glob("file/delivery=1/*.parquet"))) == 1
        with pytest.raises(ms.BindError, match="a csv sink needs the option path"):
            db.execute("CREATE SINK c FOR q USING csv")


def test_thirty_days_of_files_in_one_run_are_delivered_whole(session: SparkSession, tmp_path: Path) -> None:
    """Though RETAIN is 7 days, and time jumps from nothing to 2026 and over a gap of 8 days."""
    beginning, hours = datetime(2026, 1, 1, tzinfo=UTC), [h for h in range(720) if not 200 <= h < 392]
    (tmp_path / "in").mkdir()
    for number in range(6):
        part = [hour for hour in hours if hour // 120 == number]
        stamps = pa.array([beginning + timedelta(hours=hour) for hour in part], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"k": pa.array(part, pa.int32()), "ts": stamps}), tmp_path / "in" / f"{number}.parquet")
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(
            f"""CREATE STREAM s (k INT) TIMESTAMP BY ts TIMESTAMP
                USING parquet OPTIONS (path '{tmp_path}/in', maxFilesPerTrigger '1');
            REGISTER QUERY q AS SELECT ISTREAM(k) FROM s [RANGE 30 MINUTES];
            CREATE SINK k FOR q USING parquet OPTIONS (path '{tmp_path}/out')"""
        )
        db.run()
        assert db.stats()["sinks"]["k"]["state"] == "active"
        assert len(db.query("q").result()) == 168
    written = [row for path in sorted(tmp_path.glob("out/delivery=*/*.parquet")) for row in pq.read_table(path)["k"]]
    assert sorted(value.as_py() for value in written) == hours[:-1]
