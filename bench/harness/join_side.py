"""One side of the comparison of memory, in a process of its own: a windowed join by Millstream or by plain Spark.

    python -m bench.harness.join_side millstream|spark WINDOW DIRECTORY

Joins the streams of DIRECTORY/left and DIRECTORY/right, a file per trigger, within WINDOW seconds. It first joins those
of DIRECTORY/small, so that all that is loaded but once is there, says `ready`, and waits for a line; then it says what
it saw as a line of JSON, waits for another one, and ends by saying how many rows there were.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import plain_spark
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import millstream as ms
from millstream.spark.session import embedded_session

COLUMNS = "k BIGINT, v BIGINT, ts TIMESTAMP"


Rows = Callable[[], int]


def on_millstream(spark: SparkSession, window: int, root: Path, place: Path) -> tuple[dict[str, Any], Rows]:
    db = ms.connect(place, spark=spark)
    for name in ("left", "right"):
        db.execute(
            f"CREATE STREAM {name[0]} ({COLUMNS}) TIMESTAMP BY ts USING parquet "
            f"OPTIONS ('path' '{root / name}', 'maxFilesPerTrigger' '1')"
        )
    within = f"[RANGE {window} SECONDS]"
    query = db.register(f"SELECT ISTREAM(l.k, l.v, r.v) FROM l {within}, r {within} WHERE l.k = r.k")
    begun = time.perf_counter()
    db.run(until="idle")
    seconds = time.perf_counter() - begun
    stats = db.stats()
    pools = [pool["peak"] for pool in stats["memory"]["pools"]]
    seen = {"state": sum(stats["state_bytes"].values()), "pools": sum(pools), "seconds": seconds}

    def rows() -> int:
        db.advance(to="2000-01-01")  # so that the last instant is final, too
        return int(query.stats()["rows"])

    return seen, rows


def on_spark(spark: SparkSession, window: int, root: Path, place: Path) -> tuple[dict[str, Any], Rows]:
    state = [0]

    def ended(query: StreamingQuery) -> None:
        operators = [operator for progress in query.recentProgress for operator in progress["stateOperators"]]
        state.extend(operator["memoryUsedBytes"] for operator in operators)

    begun = time.perf_counter()
    rows = plain_spark.window_join(spark, root / "left", root / "right", place, 1, window, ended)
    # At the end, as with Millstream: the most that it ever has is about twice that.
    return {"state": state[-1], "seconds": time.perf_counter() - begun}, lambda: rows


def heap_in_use(spark: SparkSession) -> int:
    """Bytes of the JVM's heap that are left when the garbage is gone."""
    jvm: Any = spark.sparkContext._jvm
    jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def main(side: str, window: str, directory: str) -> None:
    spark, root = embedded_session().session, Path(directory)
    work = {"millstream": on_millstream, "spark": on_spark}[side]
    work(spark, int(window), root / "small", root / f"{side}-small")
    before = heap_in_use(spark)
    print("ready", flush=True)
    sys.stdin.readline()
    seen, rows = work(spark, int(window), root, root / side)
    print(json.dumps({**seen, "heap": heap_in_use(spark) - before}), flush=True)
    sys.stdin.readline()
    print(rows(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
