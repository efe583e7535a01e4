"""The same work as plain Structured Streaming does it: one streaming query per question, the honest alternative."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

ATTRIBUTES = "abcde"
Ended = Callable[[StreamingQuery], None]


@dataclass
class Counted:
    """How many rows a streaming query gave."""

    rows: int = 0

    def add(self, batch: DataFrame, _: int) -> None:
        self.rows += batch.count()


def finish(frame: DataFrame, checkpoint: Path, mode: str = "append", ended: Ended | None = None) -> int:
    """Run a streaming frame over all that is there; gives the number of rows that came out."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    counted = Counted()
    query: StreamingQuery = (
        frame.writeStream.outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(counted.add)
        .start()
    )
    query.awaitTermination()
    if ended is not None:
        ended(query)
    return counted.rows


@cache
def schema(spark: SparkSession, directory: Path) -> StructType:
    """Asked for once, outside of what is measured."""
    return spark.read.parquet(str(directory)).schema


def stream(spark: SparkSession, directory: Path, files: int | None = None) -> DataFrame:
    reader = spark.readStream.schema(schema(spark, directory))
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.parquet(str(directory))


def selection(spark: SparkSession, directory: Path, checkpoint: Path) -> int:
    return finish(stream(spark, directory).where("a < 50 AND b >= 30").select("idx", "a"), checkpoint)


def window_join(
    spark: SparkSession,
    left: Path,
    right: Path,
    checkpoint: Path,
    files: int | None,
    seconds: int = 60,
    ended: Ended | None = None,
) -> int:
    first = stream(spark, left, files).withWatermark("ts", "0 seconds").alias("l")
    second = stream(spark, right, files).withWatermark("ts", "0 seconds").alias("r")
    span = f"INTERVAL {seconds} SECONDS"
    near = f"l.k = r.k AND r.ts BETWEEN l.ts - {span} AND l.ts + {span}"
    return finish(first.join(second, f.expr(near)).select("l.k", "l.v", "r.v"), checkpoint, ended=ended)


def sliding_average(spark: SparkSession, directory: Path, checkpoint: Path, files: int | None) -> int:
    windows = stream(spark, directory, files).withWatermark("ts", "0 seconds")
    grouped = windows.groupBy(f.window("ts", "5 minutes", "1 minute"), "k").agg(f.avg("v"), f.count("*"))
    return finish(grouped, checkpoint)


def epoch_floor(spark: SparkSession, directory: Path, checkpoint: Path) -> int:
    """One tiny file per batch, and a trivial job in each."""
    return finish(stream(spark, directory, 1), checkpoint)


def rules_join(
    spark: SparkSession, directory: Path, checkpoint: Path, files: int | None, rules: Sequence[tuple[int, ...]]
) -> int:
    """One job for all questions: the stream joined with a broadcast table of rules, counted by rule."""
    bounds = [f"{name}{side} INT" for name in ATTRIBUTES for side in (0, 1)]
    table = spark.createDataFrame([(n, *rule) for n, rule in enumerate(rules)], f"id INT, {', '.join(bounds)}")
    matches = " AND ".join(f"{name} > {name}0 AND {name} < {name}1" for name in ATTRIBUTES)
    counted: Counter[int] = Counter()

    def add(batch: DataFrame, _: int) -> None:
        joined = batch.select(*ATTRIBUTES).join(f.broadcast(table), f.expr(matches))
        counted.update({row["id"]: row["count"] for row in joined.groupBy("id").count().collect()})

    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = stream(spark, directory, files).writeStream.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).foreachBatch(add).start().awaitTermination()
    return counted.total()


def job_per_rule(spark: SparkSession, directory: Path, checkpoint: Path, rules: Sequence[tuple[int, ...]]) -> int:
    """A streaming job for each question, all of them at the same time."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    counts = [Counted() for _ in rules]
    queries = []
    for number, (rule, counted) in enumerate(zip(rules, counts, strict=True)):
        pairs = zip(ATTRIBUTES, rule[::2], rule[1::2], strict=True)
        matching = " AND ".join(f"{name} > {low} AND {name} < {high}" for name, low, high in pairs)
        writer = (
            stream(spark, directory)
            .where(matching)
            .writeStream.option("checkpointLocation", str(checkpoint / str(number)))
        )
        queries.append(writer.trigger(availableNow=True).foreachBatch(counted.add).start())
    for query in queries:
        query.awaitTermination()
    return sum(counted.rows for counted in counts)


def measured(work: Callable[[], int]) -> tuple[float, int]:
    begun = time.perf_counter()
    rows = work()
    return time.perf_counter() - begun, rows
