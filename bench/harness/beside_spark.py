"""Runs in turns with plain Spark, by the clock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.harness import plain_spark
from bench.harness.experiment import Measurement, Sample, Settings

MILLSTREAM, SPARK = "millstream", "plain Spark"


def compare(
    case: str, size: int, ours: Callable[[], tuple[float, int]], theirs: Callable[[], int], settings: Settings
) -> list[Measurement]:
    """The best of some runs of each, by the clock, since both use all cores; what is declared once is not counted."""
    best: dict[str, Sample] = {}
    works: dict[str, Callable[[], tuple[float, int]]] = {MILLSTREAM: ours, SPARK: partial(plain_spark.measured, theirs)}
    for _ in range(1 if settings.quick else 5):
        for variant, work in works.items():
            seconds, rows = work()
            if variant not in best or seconds < best[variant].wall:
                best[variant] = Sample(size, seconds, seconds, rows)
    return [Measurement(case, variant, size, sample) for variant, sample in best.items()]
