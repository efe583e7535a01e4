"""What Spark's file source notes in its checkpoint is what its batches hold; what looks unfamiliar is no answer."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

from millstream.spark.file_log import files_of_batch
from millstream.spark.session import PLAIN_RENAMES, own_session

pytestmark = pytest.mark.spark


def read(session: SparkSession, source: Path, checkpoint: Path) -> dict[int, list[str]]:
    """The files of every batch as the batch itself says them."""
    found: dict[int, list[str]] = {}

    def take(frame: DataFrame, number: int) -> None:
        found[number] = sorted(row.path for row in frame.select("path").collect())

    schema = "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
    stream = session.readStream.format("binaryFile").schema(schema).option("maxFilesPerTrigger", 2)
    query = stream.load(str(source)).writeStream.foreachBatch(take).trigger(availableNow=True)
    query.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return found


def test_the_log_says_what_the_batches_hold(session: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "a source", tmp_path / "checkpoint"
    source.mkdir()
    said: dict[int, list[str]] = {}
    own = own_session(session)  # notes batches in another way, in the same files
    for reader, files in ((session, range(23)), (own, range(23, 30)), (session, range(30, 32))):
        for number in files:  # in more than ten batches: Spark writes its log together by then
            pl.DataFrame({"a": [number]}).write_parquet(source / f"{number} é%.parquet")
        said |= read(reader, source, checkpoint)
    assert own.conf.get("spark.sql.streaming.checkpointFileManagerClass") == PLAIN_RENAMES
    assert len(said) == 17
    for number, paths in said.items():
        noted = files_of_batch(checkpoint, number) or []
        assert [path.partition(":")[2].lstrip("/") for path in sorted(noted)] == [
            path.partition(":")[2].lstrip("/") for path in paths
        ]


@pytest.mark.parametrize("damage", ["v2\n{}", "v1\nnot json", "v1\n{}", ""])
def test_what_looks_unfamiliar_is_no_answer(tmp_path: Path, damage: str) -> None:
    (tmp_path / "offsets").mkdir()
    assert files_of_batch(tmp_path, 0) is None
    (tmp_path / "offsets" / "0").write_text(damage)
    assert files_of_batch(tmp_path, 0) is None
