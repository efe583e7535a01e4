"""Coming and going of many queries, as users do it: one call each, of mixed shapes, in a directory.

The queries are those of CACQ's figure 6 as texts: up to five comparisons on five attributes, with any operators, so
that hardly two of them have the same shape. The rates of the first and of the last tenth tell whether a call costs more
when there are many. In bulk they come as rows of one template.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial
from bench.harness.pictures import bars as draw_bars

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAM = "CREATE STREAM s (a INT, b INT, c INT, d INT, e INT) TIMESTAMP BY ts"
OPERATORS = ("<", "<=", "=", "<>", ">=", ">")
TEMPLATE = "SELECT * FROM s [RANGE 100] WHERE a > ? AND b < ?"
SINGLE, FLOWING, BULK = "one by one, nothing has come", "one by one, data flows", "in bulk"
REGISTER, DROP, REOPEN = "register", "drop", "reopen"
WANTED = {(SINGLE, REGISTER): 500.0, (FLOWING, REGISTER): 500.0, (SINGLE, DROP): 500.0, (FLOWING, DROP): 500.0}
WANTED_IN_BULK = {REGISTER: 50_000.0, REOPEN: 20_000.0}  # 100,000 queries in 2 and in 5 seconds
EVERY = 100  # registrations between two epochs, where data flows


def texts(count: int) -> list[str]:
    """As in figure 6, with constants that about half of the values satisfy."""
    chance, found = random.Random(6), []
    for _ in range(count):
        asked = chance.sample("abcde", chance.randint(1, 5))
        parts = (f"{name} {chance.choice(OPERATORS)} {chance.randint(0, 1000)}" for name in asked)
        found.append(f"SELECT * FROM s [RANGE 100] WHERE {' AND '.join(parts)}")
    return found


def trials(settings: Settings) -> list[Trial]:
    single, bulk = (1_000, 10_000) if settings.quick else (10_000, 100_000)
    return [
        Trial(SINGLE, partial(one_by_one, SINGLE, single, flowing=False)),
        Trial(FLOWING, partial(one_by_one, FLOWING, single, flowing=True)),
        Trial(BULK, partial(in_bulk, bulk)),
    ]


@contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as place:
        yield Path(place) / "db"


def one_by_one(case: str, count: int, *, flowing: bool) -> list[Measurement]:
    chance = random.Random(1)

    def flow(number: int) -> None:
        if flowing and number % EVERY == 0:
            values = [(*(chance.randint(0, 1000) for _ in range(5)), number + 1) for _ in range(20)]
            db.insert("s", values)

    with directory() as place, ms.connect(place, engine="inprocess") as db:
        db.execute(STREAM)
        flow(0)
        asked = texts(count)
        calls = [partial(db.register, text, name=f"q{number}") for number, text in enumerate(asked)]
        registered = _measured(case, REGISTER, calls, flow)
        drops = [partial(db.drop_query, f"q{number}") for number in range(count)]
        dropped = _measured(case, DROP, drops, lambda number: flow(count + number))
        return [registered, dropped]


def _measured(
    case: str, variant: str, calls: Sequence[Callable[[], object]], between: Callable[[int], None]
) -> Measurement:
    """All calls, and what is done between them; with the rates of the first and the last tenth."""
    marks, tenth = [], max(1, len(calls) // 10)
    cpu, wall = time.process_time(), time.perf_counter()
    for number, call in enumerate(calls):
        if number % tenth == 0:
            marks.append(time.process_time())
        between(number)
        call()
    marks.append(time.process_time())
    taken = time.process_time() - cpu, time.perf_counter() - wall
    more = {"first_tenth": tenth / (marks[1] - marks[0]), "last_tenth": tenth / (marks[-1] - marks[-2])}
    return Measurement(case, variant, len(calls), Sample(len(calls), *taken, more=more))


def in_bulk(count: int) -> list[Measurement]:
    chance = random.Random(2)
    rows = [(chance.randint(0, 1000), chance.randint(0, 1000)) for _ in range(count)]
    with directory() as place:
        with ms.connect(place, engine="inprocess") as db:
            db.execute(STREAM)
            db.execute(f"SET max_queries = {2 * count}")
            registered = _once(REGISTER, count, lambda: db.register_many(TEMPLATE, rows))
        reopened = _once(REOPEN, count, lambda: ms.connect(place, engine="inprocess").close())
    return [registered, reopened]


def _once(variant: str, count: int, work: Callable[[], object]) -> Measurement:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Measurement(BULK, variant, count, Sample(count, time.process_time() - cpu, time.perf_counter() - wall))


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for m in measurements:
        if (m.case, m.variant) in WANTED:
            slowest = min(m.rate, m.sample.more["first_tenth"], m.sample.more["last_tenth"])
            found.append(Bar(f"{m.variant} {m.case}: a second", slowest, WANTED[m.case, m.variant]))
        elif m.case == BULK:
            found.append(Bar(f"{m.variant} {m.case}: a second", m.rate, WANTED_IN_BULK[m.variant]))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.rate, "queries a second of CPU time")


EXPERIMENT = Experiment("registering", "queries that come and go", trials, bars, draw)
