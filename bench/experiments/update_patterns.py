"""The update-pattern paper's Queries 1 to 5 under the three strategies, its Figures 9 to 17.

A contestant is a strategy and a way to keep the answer: `upa/10` keeps it in 10 expiry groups, `upa/value` and
`negative/value` as counts by value, `direct/scan` in one list that is scanned. Each is warmed up by a window's worth of
records, and then measured over at least another one, from the same position every time. Before that, all of them must
agree on the answer at three instants.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.answers import Answer, ByValue, ExpiryGrouped, Scanned
from bench.drive import Position, drive
from bench.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns, with_more
from bench.network import Generator, Step, Traffic, steps
from bench.pictures import grid
from bench.profiles import write_profile
from bench.queries import QUERIES, Plan, lower
from bench.zeek import read_traffic

from millstream.plan.physical import Options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = 10_000  # time units, and so about as many elements on each link
WINDOWS = (2_000, 20_000, 200_000)
MEASURED = 200_000  # time units, or a window's worth if that is more
PROFILED = ("Q1 frequent", "Q2 sources")


@dataclass(frozen=True)
class Contestant:
    strategy: str
    keeping: str  # the number of expiry groups, or "value", or "scan"

    @property
    def name(self) -> str:
        return f"{self.strategy}/{self.keeping}"

    def plan(self, cql: str) -> Plan | None:
        groups = int(self.keeping) if self.keeping.isdigit() else 10
        return lower(cql, Options(strategy=self.strategy, expiry_groups=groups))

    def answer(self, width: int, window: int) -> Answer:
        if self.keeping == "value":
            return ByValue(width)
        if self.keeping == "scan":
            return Scanned(width)
        return ExpiryGrouped(width, max(1, window // int(self.keeping)))


CONTESTANTS = tuple(
    Contestant(*name.split("/"))
    for name in ("upa/10", "upa/50", "upa/value", "direct/10", "direct/scan", "negative/value")
)


def trials(settings: Settings) -> list[Trial]:
    windows: tuple[int, ...] = WINDOWS[:1] if settings.quick else WINDOWS
    measured = 3 * BATCH if settings.quick else MEASURED
    if settings.trace is not None:
        units = _traffic(settings.trace, 0).units
        windows = tuple(window for window in windows if 2 * window <= units)
        measured = min(measured, units - max(*windows, 2 * BATCH))
    return [
        Trial(f"{case}, window {window:,}", partial(_trial, settings, case, window, measured))
        for window in windows
        for case in QUERIES
    ]


@lru_cache(maxsize=1)
def _traffic(trace: Path | None, units: int) -> Traffic:
    return Generator().traffic(units) if trace is None else read_traffic(trace)


def _trial(settings: Settings, case: str, window: int, measured: int) -> list[Measurement]:
    warm = max(-(-window // BATCH) * BATCH, 2 * BATCH)
    measured = max(measured, window) if settings.trace is None else measured
    longest = WINDOWS[0] if settings.quick else WINDOWS[-1]
    traffic = _traffic(settings.trace, max(warm, longest) + max(measured, longest))
    cql = QUERIES[case].format(window=window, frequent=traffic.frequent, rare=traffic.rare)
    plans = {contestant: contestant.plan(cql) for contestant in CONTESTANTS}
    runs = {
        contestant: _Run(plan, contestant.answer(plan.width, window))
        for contestant, plan in plans.items()
        if plan is not None
    }
    if any(contestant.strategy == "direct" for contestant in runs):
        # No negation: rows have ends, and nobody would look them up by value.
        runs.pop(Contestant("upa", "value"))
    links = max((run.plan.sources for run in runs.values()), key=len)
    for first, past in ((0, warm // BATCH // 2 * BATCH), (warm // BATCH // 2 * BATCH, warm)):
        some = steps(traffic, links, first, past, BATCH)
        runs = {contestant: run for contestant, run in runs.items() if run.warm_up(some)}
        _check_agreement(case, runs)
    some = steps(traffic, links, warm, warm + measured, BATCH)
    measures = {contestant.name: partial(run.measure, some) for contestant, run in runs.items()}
    best = in_turns(measures, settings.repetitions)
    _check_agreement(case, runs)
    if case in PROFILED and window == WINDOWS[-1]:
        for name in ("upa/10", "negative/value"):
            path = settings.out / f"profile {case} {name.split('/')[0]}.txt".replace(" ", "_")
            write_profile(path, f"{case}, window {window:,}, {name}", measures[name])
    return [Measurement(case, name, window, sample) for name, sample in best.items()]


class _Run:
    """A contestant under way."""

    def __init__(self, plan: Plan, answer: Answer) -> None:
        self.plan = plan
        self.position = Position(answer)
        self.last = self.position

    def warm_up(self, some: Sequence[Step]) -> bool:
        """Whether the answer can be kept so at all: expiry groups take no rows that have no end."""
        try:
            self.position, _ = drive(self.plan, self.position, some)
        except ValueError:
            return False
        self.last = self.position
        return True

    def measure(self, some: Sequence[Step]) -> Sample:
        self.last, sample = drive(self.plan, self.position, some)
        begun = time.process_time()
        self.last.answer.read()
        return with_more(sample, read_ms=1e3 * (time.process_time() - begun))


def _check_agreement(case: str, runs: dict[Contestant, _Run]) -> None:
    digests = {contestant.name: run.last.digest() for contestant, run in runs.items()}
    if len(set(digests.values())) != 1:
        raise AssertionError(f"{case}: strategies disagree: {digests}")


def own(measurements: Sequence[Measurement], case: str, size: int) -> Measurement | None:
    """UPA as it would run: expiry groups where rows have ends, counts by value where not."""
    return find(measurements, case, "upa/10", size) or find(measurements, case, "upa/value", size)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    largest = max(m.size for m in measurements)
    found = []
    for case, target in (("Q1 frequent", 2.0), ("Q2 sources", 5.0)):
        upa, negative = own(measurements, case, largest), find(measurements, case, "negative/value", largest)
        if upa and negative:
            found.append(Bar(f"{case}, window {largest:,}: upa over negative", upa.rate / negative.rate, target))
    worst: tuple[float, str] | None = None
    for case, size in dict.fromkeys((m.case, m.size) for m in measurements):
        upa = own(measurements, case, size)
        rivals = [m for m in measurements if (m.case, m.size) == (case, size) and not m.variant.startswith("upa")]
        if upa and rivals:
            ratio = upa.rate / max(m.rate for m in rivals)
            worst = min(worst or (ratio, ""), (ratio, f"{case}, window {size:,}"))
    if worst:
        found.append(Bar(f"upa over the best other strategy, at its worst ({worst[1]})", worst[0], 0.8))
    case = "Q2 sources"
    upa, negative = own(measurements, case, largest), find(measurements, case, "negative/value", largest)
    if upa and negative:
        smaller = negative.sample.rows_held / max(upa.sample.rows_held, 1)
        found.append(Bar(f"{case}, window {largest:,}: rows of state, negative over upa", smaller, 20.0))
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
