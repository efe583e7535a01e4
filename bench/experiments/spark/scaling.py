"""One epoch on 1 to 16 shards: what each stage costs on its slowest shard, and what goes between them.

The kernel alone, in one process and one after the other, so that a shard's processor time is its own however many cores
there are and whoever else uses them. Stage 0 is shared by as many tasks as there are files; of the others the slowest
shard is waited for. What a job and its shuffles cost on top is known (`spark/runner.py`), and added to say what so many
cores would take.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find
from bench.workloads.files import random_rows, wide_rows
from bench.workloads.rules import COLUMNS, TEMPLATE, rules

import millstream as ms
from millstream.engine.epochs import task as tasks
from millstream.spark.envelopes import seal
from millstream.spark.runner import EXCHANGED_BYTE, EXCHANGED_ROW, SHUFFLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARDS = (1, 2, 4, 8, 16)
QUERIES, AVERAGE, EVERY, JOIN = "1,000 queries", "sliding average", "average at every instant", "window join"
NARROW = "k BIGINT, v BIGINT, ts TIMESTAMP"


def trials(settings: Settings) -> list[Trial]:
    count = 1_000_000 // (10 if settings.quick else 1)
    works: dict[str, Callable[[int], Measurement]] = {
        QUERIES: partial(run, QUERIES, count, _register_many, {"s": (COLUMNS, "idx", wide_rows(count))}),
        AVERAGE: partial(
            run,
            AVERAGE,
            count,
            _registering("SELECT k, AVG(v) AS a, COUNT(*) AS n FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY k"),
            {"s": (NARROW, "ts", random_rows(count, 100, 3))},
        ),
        EVERY: partial(
            run,
            EVERY,
            count,
            _registering("SELECT k, AVG(v) AS a FROM s [RANGE 5 MINUTES] GROUP BY k"),
            {"s": (NARROW, "ts", random_rows(count, 100, 3))},
        ),
        JOIN: partial(
            run,
            JOIN,
            count,
            _registering("SELECT ISTREAM(l.k, r.v) FROM l [RANGE 60 SECONDS], r [RANGE 60 SECONDS] WHERE l.k = r.k"),
            {name: (NARROW, "ts", random_rows(count // 2, 50_000, seed)) for seed, name in enumerate("lr")},
        ),
    }
    return [Trial(name, partial(_on_all, work)) for name, work in works.items()]


def _on_all(work: Callable[[int], Measurement]) -> list[Measurement]:
    return [work(shards) for shards in SHARDS]


def _register_many(db: ms.Database) -> None:
    db.register_many(TEMPLATE.format(50_000), rules(1_000))


def _registering(text: str) -> Callable[[ms.Database], None]:
    def register(db: ms.Database) -> None:
        db.register(text)

    return register


class Stages:
    """The processor time of each stage and shard, and what they were sent."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[int, int], float] = defaultdict(float)
        self.bytes = self.sent = self.rows = 0

    def first(self) -> float:
        return sum(spent for (stage, _), spent in self.seconds.items() if stage == 0)

    def slowest(self) -> float:
        """Of each further stage the shard that took longest."""
        found: dict[int, float] = defaultdict(float)
        for (stage, _), spent in self.seconds.items():
            if stage:
                found[stage] = max(found[stage], spent)
        return sum(found.values())

    def total(self) -> float:
        return sum(self.seconds.values())


@contextmanager
def watched() -> Iterator[Stages]:
    stages = Stages()
    usual: Callable[..., Any] = tasks.run_stage
    taking: Callable[..., Any] = tasks.take_in

    def run_stage(plan: Any, number: int, shard: int, *rest: Any) -> Any:
        begun = time.process_time()
        sent, outcome = usual(plan, number, shard, *rest)
        stages.seconds[number, shard] += time.process_time() - begun
        for _, load in outcome.loads.values():
            stages.rows += load.exchanged.rows
            stages.sent += load.exchanged.sent
        if plan.shards > 1:
            stages.bytes += sum(len(sealed.content) for envelope in sent for sealed in seal(envelope))
        return sent, outcome

    def take_in(plan: Any, work: Any, task: int, *rest: Any) -> Any:
        begun = time.process_time()
        found = taking(plan, work, task, *rest)
        stages.seconds[0, task] += time.process_time() - begun
        return found

    with patch.object(tasks, "run_stage", run_stage), patch.object(tasks, "take_in", take_in):
        yield stages


def run(
    case: str,
    count: int,
    register: Callable[[ms.Database], None],
    streams: dict[str, tuple[str, str, pl.DataFrame]],
    shards: int,
) -> Measurement:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET shards = {shards}")
        for name, (columns, timestamp, _) in streams.items():
            db.execute(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY {timestamp}")
        register(db)
        with watched() as stages:
            for name, (_, _, rows) in streams.items():
                db.insert(name, rows)
    cores, moved = shards, stages.sent * EXCHANGED_ROW + stages.bytes * EXCHANGED_BYTE
    start = SHUFFLES if shards > 1 and stages.bytes else 0.0
    expected = start + (stages.first() + moved) / cores + (stages.slowest() if shards > 1 else 0.0)
    more = {
        "first": stages.first(),
        "slowest": stages.slowest(),
        "bytes": stages.bytes / count,
        "sent": stages.sent / max(stages.rows, 1),
        "expected": expected if shards > 1 else stages.total(),
    }
    return Measurement(case, f"{shards} shards", shards, Sample(count, stages.total(), stages.total(), more=more))


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    """What sixteen shards cost in all, to one; and what a row of the sliding average is on the wire."""
    found = []
    for case in (QUERIES, AVERAGE, EVERY, JOIN):
        one, many = find(measurements, case, "1 shards"), find(measurements, case, f"{SHARDS[-1]} shards")
        if one and many:
            name = f"{case}: processor time on {SHARDS[-1]} shards, to one"
            found.append(Bar(name, many.sample.cpu / one.sample.cpu, 2.0, at_most=True))
    average = find(measurements, AVERAGE, f"{SHARDS[-1]} shards")
    if average:
        found.append(
            Bar(f"{AVERAGE}: bytes between shards for each row", average.sample.more["bytes"], 1.0, at_most=True)
        )
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    axes = figure.subplots()
    for case in dict.fromkeys(m.case for m in measurements):
        points = sorted(
            (m.size, m.sample.elements / m.sample.more["expected"] / 1e6) for m in measurements if m.case == case
        )
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=case)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("shards, a core each")
    axes.set_ylabel("M elements/s, expected")
    axes.legend()


EXPERIMENT = Experiment(
    "scaling",
    "an epoch of a million elements on 1 to 16 shards",
    trials,
    bars,
    draw,
    shown=("first", "slowest", "bytes", "sent", "expected"),
)
