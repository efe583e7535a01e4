"""What each mode is for: EAGER is the fastest to ask, of many groups too; NONE reads as little for the past as for now;
LAZY takes rows in as fast as EAGER."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find
from bench.harness.pictures import bars as draw_bars

import millstream as ms
from millstream.database import Database

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUPS, PAST, NOW = "10,000 groups, asked", "NONE, at in the past", "NONE, at now"
AGGREGATES, SELECTIONS = "64 aggregates, taking in", "1,000 selections, taking in"
EAGER_MS = 10.0  # milliseconds that were wanted
GROUPED = "SELECT k, COUNT(*) AS n, SUM(v) AS t FROM s [RANGE 50000] GROUP BY k"
PAST_QUERIES = {
    "selection": "SELECT * FROM s [RANGE 1000] WHERE v > 990",
    "aggregate": "SELECT k, COUNT(*) AS n, MAX(v) AS m FROM s [RANGE 1000] GROUP BY k",
    "join": "SELECT a.k, b.v FROM s [RANGE 1000] a, s [RANGE 1000] b WHERE a.k = b.k AND a.v < 10",
}
TEMPLATES = {
    AGGREGATES: "SELECT COUNT(*) AS n, MAX(v) AS m FROM s [RANGE 50000] WHERE k < ?",
    SELECTIONS: "SELECT k, v FROM s [RANGE 50000] WHERE k > ? AND k < ?",
}
KEYS = 1_000_000  # of which selections want ranges, a third of them on average


@contextmanager
def database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as directory, ms.connect(directory, engine="inprocess") as db:
        db.execute("CREATE STREAM s (k BIGINT, v BIGINT) TIMESTAMP BY ts")
        yield db


def feed(db: Database, first: int, count: int, keys: int) -> None:
    dice = np.random.default_rng(first)
    instants = np.arange(first, first + count)
    db.insert(
        "s", pl.DataFrame({"k": dice.integers(0, keys, count), "v": dice.integers(0, 1000, count), "ts": instants})
    )


def spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def sample(seconds: Sequence[float], rows: int) -> Sample:
    middle = sorted(seconds)[len(seconds) // 2]
    return Sample(rows, middle, middle, more={"ms": 1e3 * middle})


def of_groups(elements: int) -> list[Measurement]:
    """Asked after each of some inserts of 20 rows."""
    with database() as db:
        queries = {mode: db.register(GROUPED, name=mode, mode=mode) for mode in ("eager", "lazy", "none")}
        for first in range(0, elements, 5_000):
            feed(db, first, 5_000, 10_000)
        found: dict[str, list[float]] = {mode: [] for mode in queries}
        for number in range(40):
            feed(db, elements + 20 * number, 20, 10_000)
            for mode, query in queries.items():
                found[mode].append(spent(query.result))
        answers = [query.result() for query in queries.values()]
        assert all(answer.equals(answers[0]) for answer in answers)
    return [Measurement(GROUPS, mode, elements, sample(times, 20)) for mode, times in found.items()]


def of_the_past(elements: int) -> list[Measurement]:
    with database() as db:
        queries = {name: db.register(text, mode="none") for name, text in PAST_QUERIES.items()}
        for first in range(0, elements, 50_000):
            feed(db, first, 50_000, 100)
        found = []
        for name, query in queries.items():
            for case, at in ((NOW, None), (PAST, elements // 3)):
                query.result(at)
                seconds = [spent(partial(query.result, at)) for _ in range(9)]
                found.append(Measurement(case, name, elements, sample(seconds, 1_000)))
    return found


def of_taking(case: str, elements: int) -> list[Measurement]:
    """Each mode twice, of which the better counts."""
    selecting = case == SELECTIONS
    keys, batch = (KEYS, 20_000) if selecting else (100, 50_000)
    ranges = np.sort(np.random.default_rng(5).integers(0, KEYS, (1_000, 2)), axis=1).tolist()
    rows = [tuple(each) for each in ranges] if selecting else [(number,) for number in range(64)]
    best: dict[str, float] = {}
    for mode in ("eager", "lazy") * 2:
        with database() as db:
            db.register_many(TEMPLATES[case], rows, mode=mode)
            feed(db, 0, batch, keys)
            firsts = range(batch, elements, batch)
            seconds = sum(spent(partial(feed, db, first, batch, keys)) for first in firsts)
        best[mode] = min(seconds, best.get(mode, seconds))
    taken = batch * len(firsts)
    return [
        Measurement(case, mode, elements, Sample(taken, seconds, seconds, more={"ms": 1e3 * seconds}))
        for mode, seconds in best.items()
    ]


def trials(settings: Settings) -> list[Trial]:
    scale = 4 if settings.quick else 1
    return [
        Trial(GROUPS, partial(of_groups, 300_000 // scale)),
        Trial(PAST, partial(of_the_past, 2_000_000 // scale)),
        *(Trial(case, partial(of_taking, case, 800_000 // scale)) for case in TEMPLATES),
    ]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    eager = find(measurements, GROUPS, "eager")
    if eager is not None:
        found.append(Bar(f"{GROUPS}, EAGER: ms", eager.sample.more["ms"], EAGER_MS, at_most=True))
    for name in PAST_QUERIES:
        past, now = find(measurements, PAST, name), find(measurements, NOW, name)
        if past is not None and now is not None:
            found.append(Bar(f"{PAST}: times that of now, {name}", past.sample.cpu / now.sample.cpu, 2.0, at_most=True))
    for case in TEMPLATES:
        eager, lazy = find(measurements, case, "eager"), find(measurements, case, "lazy")
        if eager is not None and lazy is not None:
            found.append(Bar(f"{case}: LAZY's rate, of EAGER's", lazy.rate / eager.rate, 1.0))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    asked = [m for m in measurements if m.case not in TEMPLATES]
    draw_bars(figure, asked, lambda m: m.sample.more["ms"], "ms of CPU time for an answer")


EXPERIMENT = Experiment("asking", "answers by mode, of many groups and of the past", trials, bars, draw, shown=("ms",))
