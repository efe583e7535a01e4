"""Sinks in Spark's formats: a directory per delivery, all of them together every change once."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.support.answers import read_by_duckdb

import millstream as ms
from millstream.spark.sinks import _failed

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


def test_a_file_sink_of_a_template(session: SparkSession, tmp_path: Path) -> None:
    text = "SELECT a FROM s [RANGE 5] WHERE b = ?"
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute("CREATE STREAM s (a INT, b STRING) TIMESTAMP BY ts")
        db.register_many(text, ["x", "y"], names=["qx", "qy"], template="alerts")
        db.execute(f"CREATE SINK k FOR TEMPLATE alerts USING parquet OPTIONS (path '{tmp_path}/out')")
        db.insert("s", [(1, "x", 1), (2, "y", 3)])
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.insert("s", [(3, "z", 4), (4, None, 9)])
        expected = sorted(tuple(change.values()) for change in db.template("alerts").changes().to_pylist())
    columns = "_query STRING, _p1 STRING, _ts BIGINT, _weight BIGINT, a INT"
    written = session.read.schema(columns).parquet(*map(str, tmp_path.glob("out/delivery=*")))
    assert sorted(tuple(row) for row in written.collect()) == expected
    assert len(expected) == 3


def test_a_sink_that_cannot_be_written_is_paused(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with ms.connect(spark=session) as db:
        db.sinks.pause = 0.0
        db.execute(SETUP)
        db.execute(f"CREATE SINK k FOR q USING parquet OPTIONS (path '{tmp_path}/file')")
        db.execute(f"CREATE SINK good FOR q USING json OPTIONS (path '{tmp_path}/good')")
        db.insert("s", [(1, "x", 1), (2, "y", 3)])
        states = db.stats()["sinks"]
        assert (states["k"]["state"], states["good"]["state"]) == ("paused", "active")
        assert states["k"]["error"].startswith("delivery 1: ")
        assert "\tat " not in states["k"]["error"]
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
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"k": pa.array(part, pa.int32()), "ts": stamps}), file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first, and those of one moment anyhow
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


def test_texts_keep_what_values_are(session: SparkSession, tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 123457, UTC)
    text = 'a "q", b\nc\\d é'
    columns = "f DOUBLE, d DECIMAL(20,6), b BINARY, day DATE, at TIMESTAMP, n TIMESTAMP_NTZ, t STRING"
    row = (
        float("nan"),
        Decimal("12345678901234.123456"),
        b"\x00\xff",
        at.date(),
        at,
        at.replace(tzinfo=None),
        text,
        at,
    )
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(f"CREATE STREAM s ({columns}) TIMESTAMP BY ts TIMESTAMP; REGISTER QUERY q AS SELECT * FROM s")
        for kind, more in (("json", ""), ("csv", ", header true")):
            db.execute(f"CREATE SINK {kind} FOR q USING {kind} OPTIONS (path '{tmp_path}/{kind}'{more})")
        db.insert("s", [row, (*[None] * 7, at)])
        db.advance(to=at + timedelta(seconds=1))
    (file,) = tmp_path.glob("json/delivery=1/*.json")
    written = sorted(map(json.loads, file.read_text().splitlines()), key=lambda found: found["t"] or "")
    nothing = dict.fromkeys(("f", "d", "b", "day", "at", "n", "t"))
    stamp = "2026-01-02T03:04:05.123457"
    values = "NaN", float(row[1]), "AP8=", "2026-01-02", f"{stamp}Z", stamp, text
    told = {"_ts": f"{stamp}Z", "_weight": 1}
    assert written == [told | nothing, told | dict(zip(nothing, values, strict=True))]
    shapes = "{'_ts': 'TIMESTAMPTZ', '_weight': 'BIGINT', 'f': 'DOUBLE', 'd': 'DECIMAL(20,6)', 'b': 'VARCHAR', "
    shapes += "'day': 'DATE', 'at': 'TIMESTAMPTZ', 'n': 'TIMESTAMP', 't': 'VARCHAR'}"
    (path,) = tmp_path.glob("csv/delivery=1/*.csv")
    asked = f"SELECT epoch_us(\"at\"), n, d, b, day, t, isnan(f) FROM read_csv('{path}', header=true, columns={shapes})"
    found = read_by_duckdb(f"{asked} WHERE d IS NOT NULL")
    micros = int(at.timestamp()) * 1_000_000 + at.microsecond
    assert found == [(micros, at.replace(tzinfo=None), row[1], "AP8=", at.date(), text, True)]


def test_csv_keeps_texts_and_is_read_again(session: SparkSession, tmp_path: Path) -> None:
    texts = [" lead", "trail ", "\t", "a\tb", "\\", 'a\\"b', '"', "a,b", "null", "\u2028", "a\nb", "x\r"]
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(SETUP)
        db.execute(f"CREATE SINK k FOR q USING csv OPTIONS (path '{tmp_path}/out', header true)")
        db.insert("s", [*((n, text, 1) for n, text in enumerate(texts)), (99, "", 3)])
        path = f"{tmp_path}/out/delivery=1"
        db.execute(f"CREATE TABLE t (a INT, b STRING) USING csv OPTIONS (path '{path}', header true, multiLine true)")
        assert [text for _, text in sorted(db.execute("SELECT a, b FROM t").fetchall())] == texts
    assert read_by_duckdb(f"SELECT b FROM read_csv('{path}/*.csv', all_varchar=true) ORDER BY a::INT") == [
        (text,) for text in texts
    ]


def test_each_sink_has_a_directory_of_its_own(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the database is opened from then on."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    sink = "CREATE SINK {} FOR q USING json OPTIONS (path '{}')"
    with ms.connect("db", spark=session) as db:
        db.execute(SETUP)
        db.execute(sink.format("k", "out"))
        db.insert("s", [(1, "x", 1), (2, "y", 3)])
        for same in ("out/", tmp_path / "out", f"file:{tmp_path}/out"):
            with pytest.raises(ms.CatalogError, match="is where sink k writes"):
                db.execute(sink.format("other", same))
        with pytest.raises(ms.BindError, match=r"there is no format jsn(.|\n)*did you mean \"json\""):
            db.execute("CREATE SINK other FOR q USING jsn OPTIONS (path 'x')")
        (tmp_path / "in").mkdir()
        db.execute("CREATE STREAM f (a INT) TIMESTAMP BY a USING csv OPTIONS (path 'in')")
        with pytest.raises(ms.CatalogError, match="is where stream f is read from"):
            db.execute(sink.format("back", tmp_path / "in"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    with ms.connect("../db", spark=session) as db:
        db.insert("s", [(3, "z", 4), (4, "z", 6)])
        (tmp_path / "in" / "a.csv").write_text("1\n2\n")
        assert db.run().sources["f"].rows == 2
        assert len(list((tmp_path / "out").glob("delivery=*"))) == 2
        assert not list(Path().iterdir())
        assert "path 'out'" in db.execute("SHOW CREATE SINK k").message
        db.execute("DROP SINK k")
        with pytest.raises(ms.BindError, match="out has 2 deliveries of a sink already"):
            db.execute(sink.format("k", "../out"))


def test_options_that_spark_does_not_know(session: SparkSession, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(SETUP)
        with pytest.raises(ms.BindError, match=r'csv has no option "heder"(.*\n)*hint: did you mean "header"'):
            db.execute(f"CREATE SINK k FOR q USING csv OPTIONS (path '{tmp_path}/out', heder true)")
        with pytest.raises(ms.BindError, match=r'json has no option "maxFilesPerTriger"'):
            db.execute(f"CREATE TABLE t (a INT) USING json OPTIONS (path '{tmp_path}', maxFilesPerTriger 1)")
        db.execute(f"CREATE SINK k FOR q USING json OPTIONS (path '{tmp_path}/out', maxRecordsPerFile 5, fs.x.y 1)")


def test_a_column_that_files_name_keeps_its_name(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n1,x\n")
    with ms.connect(spark=session) as db:
        for options in ("header true", "header false"):
            db.execute(
                f"CREATE STREAM f{options[-4:]} (a INT, b STRING) TIMESTAMP BY a "
                f"USING csv OPTIONS (path '{tmp_path}/in.csv', {options})"
            )
        with pytest.raises(ms.CatalogError, match="is found by its name"):
            db.execute("ALTER STREAM ftrue RENAME COLUMN b TO c")
        db.execute("ALTER STREAM false RENAME COLUMN b TO c")


def test_a_full_disk_reads_clearly() -> None:
    error = _failed(Exception("java.io.IOException: No space left on device"), "json", "/out")
    assert str(error).startswith("the disk of /out is full")
    assert str(_failed(ConnectionRefusedError(), "json", "/out")).startswith("the Java process that runs Spark is")
