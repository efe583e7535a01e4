"""How many rows a source is ahead, where it tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.listener import StreamingQueryProgress
from tests.support.serving import served, until

import millstream as ms
from millstream.spark.source_lag import rows_behind

# As Spark's guide to Kafka shows it, with the parts that are looked at.
KAFKA: dict[str, Any] = {
    "id": "7a0b1f6e-0b6c-4a41-8b34-d2b0b3c2a001",
    "runId": "7a0b1f6e-0b6c-4a41-8b34-d2b0b3c2a002",
    "name": None,
    "timestamp": "2026-01-31T10:00:00.000Z",
    "batchId": 41,
    "batchDuration": 5,
    "numInputRows": 10,
    "inputRowsPerSecond": 1.0,
    "processedRowsPerSecond": 1.0,
    "durationMs": {"triggerExecution": 5},
    "stateOperators": [],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[orders]]",
            "startOffset": {"orders": {"0": 110, "1": 70}},
            "endOffset": {"orders": {"0": 120, "1": 75}},
            "latestOffset": {"orders": {"0": 150, "1": 75, "2": 4}},
            "numInputRows": 10,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": 1.0,
            "metrics": {
                "avgOffsetsBehindLatest": "11.3",
                "maxOffsetsBehindLatest": "30",
                "minOffsetsBehindLatest": "0",
            },
        }
    ],
    "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
}


def test_kafka() -> None:
    """Its offsets are counted by topic and partition; one that is new has all of its rows to come."""
    assert rows_behind(json.loads(StreamingQueryProgress.fromJson(KAFKA).json)) == 34
    assert rows_behind(KAFKA) == 34


@pytest.mark.parametrize(
    ("end", "latest", "rows"),
    [
        (7, 12, 5),
        ({"at": 7}, {"at": 12}, 5),
        ({"a": {"index": 3, "closed": True}}, {"a": {"index": 5, "closed": False}}, 2),
        ({"at": 12}, {"at": 7}, 0),  # what it has was removed
        ({"logOffset": 3}, None, None),  # files
        (None, None, None),
        ('{"at": 7}', '{"at": 12}', 5),
        ("a word", "another", None),
        ({"at": "x"}, {"at": "y"}, None),
    ],
)
def test_other_offsets(end: object, latest: object, rows: int | None) -> None:
    assert rows_behind({"sources": [{"endOffset": end, "latestOffset": latest}]}) == rows
    assert rows_behind(None) is rows_behind({}) is None


class Holding(DataSource):
    """Has ten rows, and gives as many of them as a file says."""

    @classmethod
    def name(cls) -> str:
        return "holding"

    def schema(self) -> str:
        return "k INT, ts BIGINT"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        given = self.options["given"]

        class Reader(DataSourceStreamReader):
            def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
                return {"at": 0}

            def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802 - Spark's name
                return {"at": int(Path(given).read_text())}

            def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
                return {"at": 10}

            def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
                return [InputPartition((start["at"], end["at"]))]

            def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
                return ((k, k) for k in range(*partition.value))

        return Reader()


@pytest.mark.slow
@pytest.mark.spark
def test_a_source_that_tells(session: SparkSession, tmp_path: Path) -> None:
    session.dataSource.register(Holding)
    given, files = tmp_path / "given", tmp_path / "files"
    given.write_text("4")
    files.mkdir()
    (files / "a.json").write_text('{"k": 1, "ts": 1}\n')
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(f"CREATE STREAM told (k INT) TIMESTAMP BY ts USING holding OPTIONS (given '{given}')")
        db.execute(f"CREATE STREAM silent (k INT) TIMESTAMP BY ts USING json OPTIONS (path '{files}')")
        db.execute("SET max_lag_rows = 5 FOR told")

        def behind(stream: str) -> object:
            return db.stats()["streams"][stream]["rows_behind"]

        assert behind("told") is None, "nothing is read before run"
        with served(db) as url:

            def said(path: str) -> str:
                with closing(HTTPConnection(urlsplit(url).netloc, timeout=300)) as connection:
                    connection.request("GET", path)
                    return connection.getresponse().read().decode()

            until(lambda: behind("told") == 6)
            until(lambda: db.stats()["streams"]["silent"]["arrived"] == 1)
            assert behind("silent") is None
            assert 'millstream_source_rows_behind{stream="told"} 6.0' in said("/metrics")
            assert 'millstream_source_rows_behind{stream="silent"}' not in said("/metrics")
            until(lambda: json.loads(said("/healthz"))["status"] == "degraded")
            (reason,) = json.loads(said("/healthz"))["reasons"]
            assert reason == {
                "what": "streams lag",
                "count": 1,
                "names": ["told"],
                "details": ["6 rows behind its source"],
            }
            given.write_text("10")
            until(lambda: behind("told") == 0)
            until(lambda: json.loads(said("/healthz")) == {"status": "ok"})
        assert behind("told") is None
        db.advance(to=20)
        counted = db.execute("SELECT count(*) AS n FROM told [RANGE UNBOUNDED]").table
        assert counted is not None
        assert counted.to_pylist() == [{"n": 10}]
