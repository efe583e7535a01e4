"""Plain Spark micro-batches, as fast as they come: how long until what is in a new file was answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Question = Callable[[DataFrame], tuple[DataFrame, str]]  # the answer as a streaming frame, and its output mode


class MicroBatches:
    """Streaming queries over the files of a directory, a file in each batch; triggers follow one another."""

    def __init__(self, spark: SparkSession, root: Path, columns: str, questions: Sequence[Question]) -> None:
        self._source, self._written = root / "rows", 0
        self._source.mkdir(parents=True)
        self._answered, self._changed = [0] * len(questions), threading.Condition()
        stream = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(self._source))
        self._queries: list[StreamingQuery] = []
        for number, question in enumerate(questions):
            answer, mode = question(stream)
            writer = answer.writeStream.outputMode(mode).option("checkpointLocation", str(root / f"checkpoint{number}"))
            self._queries.append(writer.foreachBatch(self._taking(number)).start())

    def _taking(self, number: int) -> Callable[[DataFrame, int], None]:
        def take(batch: DataFrame, batch_number: int) -> None:
            batch.collect()
            with self._changed:
                self._answered[number] = batch_number + 1
                self._changed.notify_all()

        return take

    def answer(self, rows: pl.DataFrame) -> float:
        """Seconds from the rows, as a file that is written, to the answers of all queries."""
        unseen = self._source / f"_{self._written}"
        rows.write_parquet(unseen)
        begun = time.perf_counter()
        unseen.rename(self._source / f"{self._written:08d}.parquet")
        self._written += 1
        with self._changed:
            while min(self._answered) < self._written:
                self._changed.wait(timeout=5)
                for error in (query.exception() for query in self._queries if not query.isActive):
                    raise error or RuntimeError("a streaming query has stopped")
        return time.perf_counter() - begun

    def stop(self) -> None:
        for query in self._queries:
            query.stop()
