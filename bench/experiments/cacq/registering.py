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
from itertools import pairwise
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
SINGLE, FLOWING, LAZY = "one by one, nothing has come", "one by one, data flows", "one by one, data flows, LAZY"
COMBINED, JOINS = "one by one, OR, NOT, BETWEEN, IN", "one by one, joins"
AMONG, BULK = "one by one, among many", "in bulk"
REGISTER, DROP, REOPEN = "register", "drop", "reopen"
WANTED = 500.0  # of each tenth of the calls, with the epochs between them
WANTED_IN_BULK = {REGISTER: 50_000.0, DROP: 50_000.0, REOPEN: 20_000.0}  # 100,000 queries in 2 and in 5 seconds
EVERY = 100  # registrations between two epochs, where data flows


def comparison(chance: random.Random, name: str) -> str:
    return f"{name} {chance.choice(OPERATORS)} {chance.randint(0, 1000)}"


def texts(count: int) -> list[str]:
    """As in figure 6, with constants that about half of the values satisfy."""
    chance, found = random.Random(6), []
    for _ in range(count):
        asked = chance.sample("abcde", chance.randint(1, 5))
        found.append(f"SELECT * FROM s [RANGE 100] WHERE {' AND '.join(comparison(chance, name) for name in asked)}")
    return found


def combined_texts(count: int) -> list[str]:
    """Two to five conditions, most of which are no plain comparisons."""
    chance = random.Random(7)
    conditions = (" AND ".join(_combined(chance) for _ in range(chance.randint(2, 5))) for _ in range(count))
    return [f"SELECT * FROM s [RANGE 100] WHERE {condition}" for condition in conditions]


def _combined(chance: random.Random) -> str:
    kind, name, low = chance.randrange(6), chance.choice("abcde"), chance.randint(0, 500)
    if kind == 0:
        return f"{name} BETWEEN {low} AND {low + chance.randint(0, 500)}"
    if kind == 1:
        return f"({comparison(chance, name)} OR {comparison(chance, chance.choice('abcde'))})"
    if kind == 2:
        return f"NOT ({comparison(chance, name)})"
    if kind == 3:
        return f"{name} IN ({', '.join(str(low + number) for number in range(chance.randint(1, 4)))})"
    return comparison(chance, name)


def join_texts(count: int) -> list[str]:
    chance, found = random.Random(8), []
    for _ in range(count):
        asked = [f"x.{name}" for name in chance.sample("bcde", chance.randint(1, 3))] + ["y.b"]
        conditions = " AND ".join(comparison(chance, name) for name in asked)
        found.append(f"SELECT x.a, y.b FROM s [RANGE 100] x, s [RANGE 50] y WHERE x.a = y.a AND {conditions}")
    return found


def trials(settings: Settings) -> list[Trial]:
    single, bulk = (1_000, 10_000) if settings.quick else (10_000, 100_000)
    return [
        Trial(SINGLE, partial(one_by_one, SINGLE, texts(single), flowing=False)),
        Trial(FLOWING, partial(one_by_one, FLOWING, texts(single), flowing=True)),
        Trial(LAZY, partial(one_by_one, LAZY, texts(single), flowing=True, mode="LAZY")),
        Trial(COMBINED, partial(one_by_one, COMBINED, combined_texts(single // 4), flowing=False)),
        Trial(JOINS, partial(one_by_one, JOINS, join_texts(single // 4), flowing=False)),
        Trial(AMONG, partial(among_many, bulk)),
        Trial(BULK, partial(in_bulk, bulk)),
    ]


@contextmanager
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as place:
        yield Path(place) / "db"


def one_by_one(case: str, asked: Sequence[str], *, flowing: bool, mode: str = "EAGER") -> list[Measurement]:
    with directory() as place, ms.connect(place, engine="inprocess") as db:
        db.execute(STREAM)
        return _come_and_gone(case, db, asked, flowing, mode)


def among_many(count: int) -> list[Measurement]:
    """A thousand, among many that came in bulk."""
    with directory() as place, ms.connect(place, engine="inprocess") as db:
        db.execute(f"{STREAM}; SET max_queries = {2 * count}")
        db.register_many(TEMPLATE, _constants(count), [f"m{number}" for number in range(count)])
        return _come_and_gone(AMONG, db, texts(1_000), True, "EAGER")


def _come_and_gone(case: str, db: ms.Database, asked: Sequence[str], flowing: bool, mode: str) -> list[Measurement]:
    chance, count = random.Random(1), len(asked)

    def flow(number: int) -> None:
        if flowing and number % EVERY == 0:
            db.insert("s", [(*(chance.randint(0, 1000) for _ in range(5)), number + 1) for _ in range(20)])

    flow(0)
    calls = [partial(db.register, text, f"q{number}", mode) for number, text in enumerate(asked)]
    registered = _measured(case, REGISTER, calls, flow)
    drops = [partial(db.drop_query, f"q{number}") for number in range(count)]
    return [registered, _measured(case, DROP, drops, lambda number: flow(count + number))]


def _measured(
    case: str, variant: str, calls: Sequence[Callable[[], object]], between: Callable[[int], None]
) -> Measurement:
    """All calls, and what is done between them; with the rates of the first and the last tenth, and of the slowest."""
    marks, tenth = [], max(1, len(calls) // 10)
    cpu, wall = time.process_time(), time.perf_counter()
    for number, call in enumerate(calls):
        if number % tenth == 0:
            marks.append(time.process_time())
        between(number)
        call()
    marks.append(time.process_time())
    taken = time.process_time() - cpu, time.perf_counter() - wall
    rates = [tenth / (until - since) for since, until in pairwise(marks)]
    more = {"first_tenth": rates[0], "last_tenth": rates[-1], "slowest_tenth": min(rates)}
    return Measurement(case, variant, len(calls), Sample(len(calls), *taken, more=more))


def _constants(count: int) -> list[tuple[int, int]]:
    chance = random.Random(2)
    return [(chance.randint(0, 1000), chance.randint(0, 1000)) for _ in range(count)]


def in_bulk(count: int) -> list[Measurement]:
    rows = _constants(count)
    with directory() as place:
        with ms.connect(place, engine="inprocess") as db:
            db.execute(f"{STREAM}; SET max_queries = {2 * count}")
            registered = _once(REGISTER, count, lambda: db.register_many(TEMPLATE, rows, template="t"))
        reopened = _once(REOPEN, count, lambda: ms.connect(place, engine="inprocess").close())
        with ms.connect(place, engine="inprocess") as db:
            dropped = _once(DROP, count, lambda: db.template("t").drop())
    return [registered, reopened, dropped]


def _once(variant: str, count: int, work: Callable[[], object]) -> Measurement:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Measurement(BULK, variant, count, Sample(count, time.process_time() - cpu, time.perf_counter() - wall))


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return [
        Bar(f"{m.variant} {m.case}: a second", m.rate, WANTED_IN_BULK[m.variant])
        if m.case == BULK
        else Bar(f"{m.variant} {m.case}: a second", m.sample.more["slowest_tenth"], WANTED)
        for m in measurements
    ]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.rate, "queries a second of CPU time")


EXPERIMENT = Experiment("registering", "queries that come and go", trials, bars, draw)
