"""Contestants, each a strategy and a way to keep the answer, over the same traffic.

`upa/10` keeps the answer in 10 expiry groups, `upa grouped/10` the inputs of joins too, `upa/value` and
`negative/value` as counts by value, `direct/scan` in one list that is scanned. Each is warmed up by a window's worth of
records and then measured over some more, from the same position every time. All of them must agree on the answer while
the window fills, once it is full, and at the end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from bench.harness.answers import Answer, ByValue, ExpiryGrouped, Scanned
from bench.harness.drive import Position, drive
from bench.harness.experiment import Measurement, Sample, in_turns, with_more
from bench.harness.profiles import write_profile
from bench.workloads.network import Step, Traffic, steps
from bench.workloads.queries import QUERIES, Plan, lower

from millstream.plan.cost import Statistics
from millstream.plan.lowering.options import Options


@dataclass(frozen=True)
class Contestant:
    strategy: str
    keeping: str  # the number of expiry groups, or "value", or "scan"
    is_grouped: bool = False  # whether joins keep their inputs in as many groups

    @property
    def name(self) -> str:
        return f"{self.strategy}{' grouped' if self.is_grouped else ''}/{self.keeping}"

    def plan(self, cql: str, statistics: Statistics) -> Plan | None:
        """None where the strategy cannot run the query, or would run it as another contestant does."""
        options = Options(strategy=self.strategy, expiry_groups=int(self.keeping) if self.is_grouped else 0)
        plan = lower(cql, options, statistics)
        return None if plan is not None and self.is_grouped and not plan.has_joins else plan

    def answer(self, width: int, window: int) -> Answer:
        if self.keeping == "value":
            return ByValue(width)
        if self.keeping == "scan":
            return Scanned(width)
        return ExpiryGrouped(width, max(1, window // int(self.keeping)))


UPA, NEGATIVE = Contestant("upa", "10"), Contestant("negative", "value")
UPA_BY_VALUE = Contestant("upa", "value")
CONTESTANTS = (
    UPA,
    Contestant("upa", "50"),
    Contestant("upa", "10", is_grouped=True),
    Contestant("upa", "50", is_grouped=True),
    UPA_BY_VALUE,
    Contestant("direct", "10"),
    Contestant("direct", "scan"),
    NEGATIVE,
)


@dataclass(frozen=True)
class Course:
    """What is run: a query over windows of so many time units, in steps of `batch`, the last `measured` units timed."""

    case: str
    window: int
    batch: int
    measured: int

    @property
    def warm(self) -> int:
        """Time units before the measured ones: a full window, in two parts."""
        return max(-(-self.window // self.batch), 2) * self.batch

    def steps(self, traffic: Traffic, links: Sequence[str]) -> list[list[Step]]:
        """Two parts to warm up, and one to measure."""
        half = self.warm // self.batch // 2 * self.batch
        bounds = (0, half, self.warm, self.warm + self.measured)
        return [steps(traffic, links, low, high, self.batch) for low, high in pairwise(bounds)]

    def cql(self, traffic: Traffic) -> str:
        return QUERIES[self.case].format(window=self.window, frequent=traffic.frequent, rare=traffic.rare)


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


def contest(
    course: Course,
    traffic: Traffic,
    repetitions: int,
    contestants: Sequence[Contestant] = CONTESTANTS,
    profiles: Path | None = None,
) -> list[Measurement]:
    """The best run of every contestant that can run the query; with profiles of the strategies in a directory."""
    cql = course.cql(traffic)
    plans = {contestant: contestant.plan(cql, traffic.statistics) for contestant in contestants}
    runs = {c: _Run(plan, c.answer(plan.width, course.window)) for c, plan in plans.items() if plan is not None}
    if any(contestant.strategy == "direct" for contestant in runs):
        runs.pop(UPA_BY_VALUE, None)  # no negation: rows have ends, and nobody would look them up by value
    links = next(iter(runs.values())).plan.sources
    *warming, measured = course.steps(traffic, links)
    for some in warming:
        runs = {contestant: run for contestant, run in runs.items() if run.warm_up(some)}
        _check_agreement(course, runs)
    measures = {contestant.name: partial(run.measure, measured) for contestant, run in runs.items()}
    best = in_turns(measures, repetitions)
    _check_agreement(course, runs)
    if profiles is not None:
        for contestant in (UPA, NEGATIVE):
            path = profiles / f"profile_{course.case}_{contestant.strategy}.txt".replace(" ", "_")
            title = f"{course.case}, window {course.window:,}, {contestant.name}"
            write_profile(path, title, measures[contestant.name])
    return [Measurement(course.case, name, course.window, sample) for name, sample in best.items()]


def _check_agreement(course: Course, runs: dict[Contestant, _Run]) -> None:
    digests = {contestant.name: run.last.digest() for contestant, run in runs.items()}
    if len(set(digests.values())) != 1:
        raise AssertionError(f"{course.case}: strategies disagree: {digests}")
