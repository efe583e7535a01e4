"""The memory of a windowed join, beside plain Spark: each in processes of its own, with the same heap for the JVM.

What processes have in memory depends on how much heap the JVM may leave uncollected, so it is bounded to the same 1 GiB
for both; what is loaded before the join begins is shown apart. The state is what each side says that it holds at the
end, and the heap what is left in it after a collection.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from bench.harness.beside_spark import MILLSTREAM, SPARK
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find
from bench.harness.pictures import tidy
from bench.harness.resident import peak_of, resident
from bench.workloads.files import random_rows, write_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIB = 1 << 20
SIDES = {MILLSTREAM: "millstream", SPARK: "spark"}
WINDOWS = (60, 240)  # seconds, of 1,000 rows each on either side
HEAP = "--driver-memory 1g pyspark-shell"
PEAK, GROWN, STATE = "peak_MiB", "grown_MiB", "state_MiB"


def trials(settings: Settings) -> list[Trial]:
    scale = 10 if settings.quick else 1
    root = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    for name, seed in (("left", 1), ("right", 2)):
        write_files(root / name, rows(500_000 // scale, 50_000, seed), 10)
        write_files(root / "small" / name, rows(2_000, 1_000, seed), 2)
    return [Trial(case(window), partial(compare, window, root, 1_000_000 // scale)) for window in WINDOWS]


def rows(count: int, keys: int, seed: int) -> pl.DataFrame:
    """After the instant 0, which plain Spark takes for late."""
    return random_rows(count, keys, seed).with_columns(pl.col("ts") + pl.duration(seconds=1))


def case(window: int) -> str:
    return f"join, {window} s"


def compare(window: int, root: Path, size: int) -> list[Measurement]:
    samples = {variant: run(side, window, root, size) for variant, side in SIDES.items()}
    if len({sample.rows_out for sample in samples.values()}) != 1:
        raise AssertionError(f"the sides disagree about how many rows there are: {samples}")
    return [Measurement(case(window), variant, size, sample) for variant, sample in samples.items()]


def run(side: str, window: int, root: Path, size: int) -> Sample:
    for place in (side, f"{side}-small"):
        shutil.rmtree(root / place, ignore_errors=True)
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": HEAP}
    command = [sys.executable, "-m", "bench.harness.join_side", side, str(window), str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the side has neither input nor output")
        said = process.stdout.readline().strip()
        if said != "ready":
            raise AssertionError(f"{' '.join(command)} said {said!r}")
        begun = resident(process.pid)
        with peak_of(process.pid) as peak:
            process.stdin.write("go\n")
            process.stdin.flush()
            seen = json.loads(process.stdout.readline())
        process.stdin.write("end\n")
        process.stdin.flush()
        rows_out = int(process.stdout.readline())
        more = {
            PEAK: peak.bytes / MIB,
            GROWN: (peak.bytes - begun) / MIB,
            STATE: seen["state"] / MIB,
            "heap_MiB": seen["heap"] / MIB,
            "pools_MiB": seen.get("pools", 0) / MIB,
        }
        return Sample(size, seen["seconds"], seen["seconds"], rows_out, more=more)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for window in WINDOWS:
        ours, theirs = find(measurements, case(window), MILLSTREAM), find(measurements, case(window), SPARK)
        if ours and theirs:
            for what in (STATE, PEAK, GROWN):
                ratio = ours.sample.more[what] / theirs.sample.more[what]
                name = what.removesuffix("_MiB")
                found.append(Bar(f"{case(window)}: {name} of plain Spark's", ratio, 1.0, at_most=True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    """State and peak of both sides."""
    for axes, what in zip(figure.subplots(1, 2), (STATE, PEAK), strict=True):
        for offset, variant in enumerate(SIDES):
            found = [m for m in measurements if m.variant == variant]
            places = [place + 0.4 * offset for place in range(len(found))]
            axes.bar(places, [m.sample.more[what] for m in found], width=0.4, label=variant)
            axes.set_xticks([place + 0.2 for place in range(len(found))], [m.case for m in found])
        axes.set_ylabel(what.replace("_", ", "))
        axes.legend(frameon=False)
        tidy(axes)


EXPERIMENT = Experiment(
    "join_memory",
    "the memory of a windowed join, and of plain Spark's",
    trials,
    bars,
    draw,
    shown=(STATE, PEAK, GROWN, "heap_MiB", "pools_MiB"),
)
