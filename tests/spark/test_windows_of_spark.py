"""Windows in the words of Spark and Flink have the elements that Spark itself puts into them, at their bounds too."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
# At the bounds of windows of 10 minutes that slide by 5, a microsecond before and after them, and between.
SECONDS = [0, 299.999999, 300, 300.000001, 599.999999, 600, 600.000001, 750, 1200, 1200, 3599.999999, 3600]
FORMS = {
    "tumble": ("window(ts, '10 minutes')", "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' MINUTE)"),
    "hop": (
        "window(ts, '10 minutes', '5 minutes')",
        "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)",
    ),
}
ROWS = [("ab"[n % 2], START + dt.timedelta(seconds=second)) for n, second in enumerate(SECONDS)]


@pytest.mark.parametrize("form", FORMS)
def test_each_window_is_that_of_spark(session: SparkSession, form: str) -> None:
    of_spark, of_flink = FORMS[form]
    session.createDataFrame(
        pa.table({"k": [k for k, _ in ROWS], "ts": [ts for _, ts in ROWS]})
    ).createOrReplaceTempView("s")
    text = f"SELECT k, window.start, window.end, count(*) AS n FROM s GROUP BY k, {of_spark}"
    right = sorted(tuple(row) for row in session.sql(text).toArrow().to_pandas().itertuples(index=False, name=None))
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k STRING, ts TIMESTAMP) TIMESTAMP BY ts")
        spark = db.register(f"SELECT ISTREAM(k, window.start, window.end, count(*) AS n) FROM s GROUP BY k, {of_spark}")
        listed = "k, window_start, window_end, count(*) AS n"
        flink = db.register(f"SELECT ISTREAM({listed}) FROM TABLE({of_flink}) GROUP BY k, window_start, window_end")
        db.insert("s", ROWS)
        db.advance("s", to=START + dt.timedelta(days=1))
        for query in (spark, flink):
            found = query.result().drop(["_ts"]).to_pandas().itertuples(index=False, name=None)
            assert sorted(map(tuple, found)) == right
        assert spark.schema.names == ["k", "start", "end", "n"]


def test_windows_that_spark_lays_out_otherwise_are_refused() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k STRING, ts TIMESTAMP) TIMESTAMP BY ts")
        for form in (
            "k, window(ts, '10 minutes', '4 minutes')",
            "k, window(ts, '10 minutes', '5 minutes', '1 minute')",
        ):
            with pytest.raises(ms.Error, match=r"multiple of the slide|perhaps a slide"):
                db.register(f"SELECT k FROM s GROUP BY {form}")
