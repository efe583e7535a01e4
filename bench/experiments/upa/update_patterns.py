"""The update-pattern paper's Queries 1 to 5 under the three strategies: its Figures 9 to 17."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from bench.harness.contest import NEGATIVE, UPA, UPA_BY_VALUE, Course, contest
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find
from bench.harness.pictures import grid
from bench.workloads.queries import QUERIES
from bench.workloads.traffic import traffic_of

from millstream.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = 10_000  # time units, and so about as many elements on each link
WINDOWS = (2_000, 20_000, 200_000)
MEASURED = 200_000  # time units
PROFILED = ("Q1 frequent", "Q2 sources")


def trials(settings: Settings) -> list[Trial]:
    windows = WINDOWS[:1] if settings.quick else WINDOWS
    measured = 3 * BATCH if settings.quick else max(MEASURED, windows[-1])
    courses = [Course(case, window, BATCH, measured) for window in windows for case in QUERIES]
    if settings.trace is not None:
        units = traffic_of(settings.trace, 0).units
        courses = [_shortened(course, units) for course in courses if course.warm + course.window <= units]
        if not courses:
            raise InputError(f"{settings.trace} has records for {units:,} time units only, too few for any window")
    units = max(course.warm + course.measured for course in courses)
    return [Trial(f"{c.case}, window {c.window:,}", partial(_measure, settings, c, units)) for c in courses]


def _shortened(course: Course, units: int) -> Course:
    """As much of it as a trace has records for."""
    return Course(course.case, course.window, course.batch, min(course.measured, units - course.warm))


def _measure(settings: Settings, course: Course, units: int) -> list[Measurement]:
    is_profiled = course.case in PROFILED and course.window == WINDOWS[-1]
    traffic = traffic_of(settings.trace, units)
    return contest(course, traffic, settings.repetitions, profiles=settings.out if is_profiled else None)


def own(measurements: Sequence[Measurement], case: str, size: int) -> Measurement | None:
    """UPA as it would run: expiry groups where rows have ends, counts by value where not."""
    return find(measurements, case, UPA.name, size) or find(measurements, case, UPA_BY_VALUE.name, size)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    largest = max(m.size for m in measurements)
    found = []
    for case, target in (("Q1 frequent", 2.0), ("Q2 sources", 5.0)):
        upa, negative = own(measurements, case, largest), find(measurements, case, NEGATIVE.name, largest)
        if upa and negative:
            found.append(Bar(f"{case}, window {largest:,}: upa over negative", upa.rate / negative.rate, target))
            if case == "Q2 sources":
                smaller = negative.sample.rows_held / max(upa.sample.rows_held, 1)
                found.append(Bar(f"{case}, window {largest:,}: state of negative over upa's", smaller, 20.0))
    worst: tuple[float, str] | None = None
    for case, size in dict.fromkeys((m.case, m.size) for m in measurements):
        upa = own(measurements, case, size)
        rivals = [m for m in measurements if (m.case, m.size) == (case, size) and not m.variant.startswith("upa")]
        if upa and rivals:
            ratio = upa.rate / max(m.rate for m in rivals)
            worst = min(worst or (ratio, ""), (ratio, f"{case}, window {size:,}"))
    if worst:
        found.append(Bar(f"upa over the best other strategy, at its worst ({worst[1]})", worst[0], 0.8))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    """Time per 1,000 elements for every query, and the space of Query 2."""
    cases = dict.fromkeys(m.case for m in measurements)
    by_case = {case: [m for m in measurements if m.case == case] for case in cases}
    panels = [(f"{case}: ms per 1,000 elements", some, lambda m: m.milliseconds) for case, some in by_case.items()]
    panels += [
        (f"{case}: rows of state", some, lambda m: m.sample.rows_held)
        for case, some in by_case.items()
        if case.startswith("Q2")
    ]
    grid(figure, panels)


EXPERIMENT = Experiment(
    "update_patterns", "Queries 1-5 of the update-pattern paper", trials, bars, draw, shown=("answer_rows", "read_ms")
)
