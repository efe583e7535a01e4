"""Queries 1 and 2 in steps of several sizes, UPA against negative tuples: what vectorisation does to the paper's gaps.

A step costs something however few elements it has, and more with more operators in the plan. Small steps measure that;
large ones measure the work per element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bench.harness.contest import NEGATIVE, UPA, Course, contest
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial
from bench.harness.pictures import grid
from bench.workloads.traffic import traffic_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CASES = ("Q1 frequent", "Q2 sources")
BATCHES = (2_000, 10_000, 50_000)
WINDOW = 200_000


def trials(settings: Settings) -> list[Trial]:
    window = WINDOW // 10 if settings.quick else WINDOW
    batches = BATCHES[:2] if settings.quick else BATCHES
    courses = [Course(case, window, batch, window) for case in CASES for batch in batches]
    return [Trial(f"{c.case}, steps of {c.batch:,}", partial(_measure, settings, c)) for c in courses]


def _measure(settings: Settings, course: Course) -> list[Measurement]:
    traffic = traffic_of(None, 2 * course.window)
    measured = contest(course, traffic, settings.repetitions, contestants=(UPA, NEGATIVE))
    return [replace(measurement, size=course.batch) for measurement in measured]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    panels = [
        (f"{case}: ns per element", [m for m in measurements if m.case == case], lambda m: m.nanoseconds)
        for case in CASES
    ]
    grid(figure, panels, columns=2)


EXPERIMENT = Experiment("batch_sizes", f"elements per step, window {WINDOW:,}", trials, bars, draw)
