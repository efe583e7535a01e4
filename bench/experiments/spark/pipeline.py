"""The whole pipeline beside plain Spark Structured Streaming: the same files, the same session, in turns."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import plain_spark
from bench.harness.beside_spark import MILLSTREAM, SPARK, compare
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find
from bench.harness.pictures import times_wanted
from bench.workloads.files import random_rows, source, wide_rows, write_files

import millstream as ms
from millstream.spark.session import embedded_session

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

SELECTION = "selection"
JOIN_AT_ONCE, JOIN_BY_FILE = "join, one trigger", "join, a file per trigger"
AVERAGE, FLOOR = "sliding average", "tiny epochs"


def on_millstream(spark: SparkSession, place: Path, statements: str, cql: str) -> tuple[float, int]:
    """A new database, fed until its sources are idle: the seconds that took, and how many rows came out."""
    shutil.rmtree(place, ignore_errors=True)
    with ms.connect(place, spark=spark) as db:
        db.execute(statements)
        query = db.register(cql)

        def fed() -> int:
            db.run(until="idle")
            return int(query.stats()["rows"])

        return plain_spark.measured(fed)


def trials(settings: Settings) -> list[Trial]:
    scale = 10 if settings.quick else 1
    spark = embedded_session().session
    root = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    wide = write_files(root / "wide", wide_rows(4_000_000 // scale), 8)
    left = write_files(root / "left", random_rows(500_000 // scale, 50_000, 1), 10)
    right = write_files(root / "right", random_rows(500_000 // scale, 50_000, 2), 10)
    values = write_files(root / "values", random_rows(2_000_000 // scale, 100, 3), 10)
    tiny = write_files(root / "tiny", random_rows(400, 20, 4), 20)
    checkpoint, place = root / "checkpoint", root / "db"
    narrow, plain = "k BIGINT, v BIGINT, ts TIMESTAMP", plain_spark

    def streams(files: int | None) -> str:
        clauses = [source(name, narrow, at, files).format("ts") for name, at in (("l", left), ("r", right))]
        return "".join(clauses)

    select = "SELECT idx, a FROM s WHERE a < 50 AND b >= 30"
    join = "SELECT ISTREAM(l.k, l.v, r.v) FROM l [RANGE 60 SECONDS], r [RANGE 60 SECONDS] WHERE l.k = r.k"
    average = "SELECT k, AVG(v), COUNT(*) FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY k"
    # Two shuffles: by the join's key, then by the group's.
    pairs = "SELECT a.v FROM s [RANGE 1 SECOND] a, s [RANGE 1 SECOND] b WHERE a.k = b.k"
    floor = f"SELECT v, COUNT(*) FROM ({pairs}) w GROUP BY v"
    ours = partial(on_millstream, spark, place)
    indexed = source("s", "idx BIGINT, a INT, b INT, c INT, d INT, e INT", wide).format("idx")
    cases: list[tuple[str, int, Callable[[], tuple[float, int]], Callable[[], int]]] = [
        (
            SELECTION,
            4_000_000 // scale,
            lambda: ours(indexed, select),
            lambda: plain.selection(spark, wide, checkpoint),
        ),
        (
            JOIN_AT_ONCE,
            1_000_000 // scale,
            lambda: ours(streams(None), join),
            lambda: plain.window_join(spark, left, right, checkpoint, None),
        ),
        (
            JOIN_BY_FILE,
            1_000_000 // scale,
            lambda: ours(streams(1), join),
            lambda: plain.window_join(spark, left, right, checkpoint, 1),
        ),
        (
            AVERAGE,
            2_000_000 // scale,
            lambda: ours(source("s", narrow, values).format("ts"), average),
            lambda: plain.sliding_average(spark, values, checkpoint, None),
        ),
        (
            FLOOR,
            20,
            lambda: ours(source("s", narrow, tiny, 1).format("ts"), floor),
            lambda: plain.epoch_floor(spark, tiny, checkpoint),
        ),
    ]
    whole = [Trial(name, partial(compare, name, size, ours, theirs, settings)) for name, size, ours, theirs in cases]
    return [*whole, *slopes(settings, spark, root, {SELECTION: select, JOIN_AT_ONCE: join, AVERAGE: average})]


def slopes(settings: Settings, spark: SparkSession, root: Path, texts: dict[str, str]) -> list[Trial]:
    """The same with a million elements and with eight, each in one trigger: what every further one takes."""
    million = 1_000_000 // (10 if settings.quick else 1)
    checkpoint, ours, found = root / "checkpoint", partial(on_millstream, spark, root / "db"), []
    narrow = "k BIGINT, v BIGINT, ts TIMESTAMP"
    for count in (million, 8 * million):
        wide = write_files(root / f"wide {count}", wide_rows(count), 8)
        left, right = (
            write_files(root / f"{seed} {count}", random_rows(count // 2, 50_000, seed), 10) for seed in (1, 2)
        )
        values = write_files(root / f"values {count}", random_rows(count, 100, 3), 10)
        indexed = source("s", "idx BIGINT, a INT, b INT, c INT, d INT, e INT", wide).format("idx")
        streams = "".join(source(name, narrow, at).format("ts") for name, at in (("l", left), ("r", right)))
        sides: dict[str, tuple[str, Callable[[], int]]] = {
            SELECTION: (indexed, partial(plain_spark.selection, spark, wide, checkpoint)),
            JOIN_AT_ONCE: (streams, partial(plain_spark.window_join, spark, left, right, checkpoint, None)),
            AVERAGE: (
                source("s", narrow, values).format("ts"),
                partial(plain_spark.sliding_average, spark, values, checkpoint, None),
            ),
        }
        found += [
            Trial(
                f"{slope(name)}, {count:,}",
                partial(compare, slope(name), count, partial(ours, said, texts[name]), theirs, settings),
            )
            for name, (said, theirs) in sides.items()
        ]
    return found


def slope(case: str) -> str:
    return f"{case}, slope"


# Times plain Spark.
WANTED = {SELECTION: 1.0, JOIN_AT_ONCE: 8.0, JOIN_BY_FILE: 5.0, AVERAGE: 3.0, FLOOR: 1 / 3}
WANTED |= {slope(SELECTION): 1.0, slope(JOIN_AT_ONCE): 15.0, slope(AVERAGE): 5.0}


def ratios(measurements: Sequence[Measurement]) -> dict[str, float]:
    """How many times as fast as plain Spark; of slopes, between the least size and the largest."""
    found = {}
    for case in WANTED:
        sizes = sorted({m.size for m in measurements if m.case == case})
        if len(sizes) > 1:
            seconds = [
                [m.sample.wall for m in measurements if (m.case, m.variant) == (case, variant)]
                for variant in (SPARK, MILLSTREAM)
            ]
            spread = [max(max(taken) - min(taken), 1e-3) for taken in seconds]
            found[case] = spread[0] / spread[1]
            continue
        ours, theirs = find(measurements, case, MILLSTREAM), find(measurements, case, SPARK)
        if ours and theirs:
            found[case] = theirs.sample.wall / ours.sample.wall
    return found


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return [Bar(f"{case}: times plain Spark", ratio, WANTED[case]) for case, ratio in ratios(measurements).items()]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    times_wanted(figure.subplots(), ratios(measurements), WANTED)


EXPERIMENT = Experiment("pipeline", "the whole pipeline and plain Spark on the same files", trials, bars, draw)
