"""From a new process to the first answer, on Spark: a sum by group of a few rows, beside plain Structured Streaming.

Each run is a new process, timed by the clock from before it is started until it has said its answer. Rows are inserted,
as a newcomer does, or come from a file, as they do for plain Spark. Runs take turns, and the one in the middle counts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns
from bench.harness.pictures import bars as draw_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CASE = "a new process"
PLAIN, INSERTED, FROM_FILE, HERE = "plain Spark", "rows inserted", "rows from a file", "in process, rows inserted"
WANTED = 0.8  # of the time that plain Spark takes
ROWS = [(1, 5, 1), (2, 6, 2), (1, 7, 3)]
ANSWER = "[(1, 12), (2, 6)]"
QUERY = 'db.register("SELECT k, SUM(v) AS v FROM s GROUP BY k")'
SAY = "print(sorted(tuple(row.values()) for row in query.result().to_pylist()), flush=True)"

PROGRAMS = {
    PLAIN: """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
spark = spark.config("spark.sql.shuffle.partitions", "2").getOrCreate()
sums = spark.readStream.schema("k BIGINT, v BIGINT, ts BIGINT").json(place + "/rows").groupBy("k").sum("v")
writer = sums.writeStream.outputMode("complete").format("memory").queryName("answer")
writer.option("checkpointLocation", place + "/plain").trigger(availableNow=True).start().awaitTermination()
print(sorted(map(tuple, spark.table("answer").collect())), flush=True)
""",
    INSERTED: f"""
import millstream as ms
db = ms.connect()
db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts")
query = {QUERY}
db.insert("s", {ROWS})
db.advance("s", to=3)
{SAY}
""",
    FROM_FILE: f"""
import millstream as ms
db = ms.connect()
columns = "(k BIGINT, v BIGINT) TIMESTAMP BY ts BIGINT"
db.execute(f"CREATE STREAM s {{columns}} USING json OPTIONS (path '{{place}}/rows')")
query = {QUERY}
db.run(until="idle")
db.advance("s", to=3)
{SAY}
""",
}
PROGRAMS[HERE] = PROGRAMS[INSERTED].replace("ms.connect()", 'ms.connect(engine="inprocess")')


def first_answer(program: str) -> Sample:
    place = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    try:
        (place / "rows").mkdir()
        lines = (f'{{"k": {k}, "v": {v}, "ts": {ts}}}\n' for k, v, ts in ROWS)
        (place / "rows" / "a.json").write_text("".join(lines))
        begun = time.perf_counter()
        code = f"place = {str(place)!r}\n{program}"
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            taken = time.perf_counter() - begun
            process.stdout.read()
        if said != ANSWER:
            raise AssertionError(f"the answer is {said!r}, and should be {ANSWER}")
        return Sample(len(ROWS), taken, taken, len(ANSWER), more={"seconds": taken})
    finally:
        shutil.rmtree(place, ignore_errors=True)


def compared(repetitions: int) -> list[Measurement]:
    runs = {variant: partial(first_answer, program) for variant, program in PROGRAMS.items()}
    found = in_turns(runs, repetitions, median=True)
    return [Measurement(CASE, variant, len(ROWS), sample) for variant, sample in found.items()]


def trials(settings: Settings) -> list[Trial]:
    return [Trial(CASE, partial(compared, settings.repetitions))]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    plain, found = find(measurements, CASE, PLAIN), []
    for variant in (INSERTED, FROM_FILE):
        ours = find(measurements, CASE, variant)
        if plain is not None and ours is not None:
            name = f"{variant}: seconds to the first answer, to plain Spark"
            found.append(Bar(name, ours.sample.wall / plain.sample.wall, WANTED, at_most=True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.sample.wall, "seconds to the first answer")


EXPERIMENT = Experiment(
    "start_up",
    "from a new process to the first answer, beside plain Spark",
    trials,
    bars,
    draw,
    shown=("seconds",),
)
