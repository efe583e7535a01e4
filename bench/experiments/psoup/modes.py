"""PSoup's invocations: how long a query takes to answer in modes EAGER, LAZY and NONE, and what each mode stores.

One element per tick and stream, so that a window of n ticks has n elements; attributes are uniform. The whole history
is there before queries are asked, all of them over the same elements. Databases are directories, as users have them.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, with_more
from bench.harness.pictures import grid

import millstream as ms
from millstream.database import Database
from millstream.language.bind_parameters import with_constants

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODES = ("EAGER", "LAZY", "NONE")
VALUES, KEYS = 1_000, 1 << 24  # of attributes, and of what streams are joined by
BATCH = 50_000
PREDICATES = (1, 2, 4, 8)
STORED = 64  # queries whose storage is measured
TIMED = 3  # invocations of each query; the fastest counts
Text = Callable[[int, int], str]  # of a window and a number

EQUALITY, INTERVALS, JOINS, INEQUALITY = "equality", "intervals", "joins", "joins by inequality"
PREDICATE_CASE, AGGREGATE, STORAGE = "interval predicates", "COUNT, SUM, MAX", "storage of 64 queries"


def interval(attribute: str, number: int, width: int) -> str:
    low = (number * 331) % (VALUES - width)
    return f"{attribute} > {low} AND {attribute} < {low + width}"


def equality(window: int, number: int) -> str:
    return f"SELECT k, a0 FROM R [RANGE {window - 1}] WHERE a0 = {(number * 37) % VALUES}"


def intervals(window: int, number: int) -> str:
    return f"SELECT k, a0 FROM R [RANGE {window - 1}] WHERE {interval('a0', number, 10 + number * 7 % 40)}"


def joined(window: int, number: int) -> str:
    return f"SELECT R.k, S.k FROM R [RANGE {window - 1}], S [RANGE {window - 1}] WHERE R.j = S.j AND R.a0 <> {number}"


def joined_by_inequality(window: int, number: int) -> str:
    both = f"R [RANGE {window - 1}], S [RANGE {window - 1}]"
    return f"SELECT R.k, S.k FROM {both} WHERE R.a0 < S.a0 AND R.a1 < 60 AND S.a1 > {940 - number}"


def aggregated(window: int, number: int) -> str:
    return f"SELECT COUNT(*), SUM(a0), MAX(a1) FROM R [RANGE {window - 1}] WHERE a2 <> {number}"


def predicates(count: int, number: int, window: int) -> str:
    conditions = " AND ".join(interval(f"a{n}", number + n, 400) for n in range(count))
    return f"SELECT k FROM R [RANGE {window - 1}] WHERE {conditions}"


@contextmanager
def database(streams: str = "R") -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as directory, ms.connect(directory, engine="inprocess") as db:
        columns = ", ".join(f"a{n} INT" for n in range(8))
        db.execute("; ".join(f"CREATE STREAM {s} (k BIGINT, j INT, {columns}) TIMESTAMP BY ts" for s in streams))
        yield db


def feed(db: Database, elements: int, streams: str = "R") -> None:
    random = np.random.default_rng(1)
    for low, name in itertools.product(range(0, elements, BATCH), streams):
        ts = np.arange(low, min(low + BATCH, elements))
        attributes = {f"a{n}": random.integers(0, VALUES, ts.size).astype(np.int32) for n in range(8)}
        keys = random.integers(0, KEYS, ts.size).astype(np.int32)
        db.insert(name, pl.DataFrame({"k": ts, "j": keys, **attributes, "ts": ts}))
    db.advance(to=elements - 1)


def asked(queries: Sequence[ms.Query]) -> Sample:
    """The mean over the queries of the fastest of a few invocations."""
    cpu = wall = 0.0
    rows = 0
    for query in queries:
        times = []
        for _ in range(TIMED):
            begun = time.process_time(), time.perf_counter()
            rows_out = query.result().num_rows
            times.append((time.process_time() - begun[0], time.perf_counter() - begun[1]))
        rows += rows_out
        cpu, wall = cpu + min(times)[0], wall + min(each for _, each in times)
    return with_more(Sample(len(queries), cpu, wall, rows), ms=1e3 * cpu / len(queries))


def responses(case: str, text: Text, sizes: Sequence[int], streams: str, count: int, history: int) -> list[Measurement]:
    """Each query in three modes, whose answers must be the same."""
    measured = []
    with database(streams) as db:
        queries = {
            (size, mode): [db.register(text(size, number), mode=mode) for number in range(count)]
            for size in sorted(sizes, reverse=True)  # so that shorter windows find the matches of longer ones
            for mode in MODES
        }
        feed(db, history, streams)
        for size in sizes:
            answers = [queries[size, mode][-1].result() for mode in MODES]
            assert all(answer.equals(answers[0]) for answer in answers), text(size, count - 1)
            measured += [Measurement(case, mode, size, asked(queries[size, mode])) for mode in MODES]
    return measured


def storage(elements: int) -> list[Measurement]:
    """History, results and state of many queries with interval predicates over one window, in each mode; as a group,
    and with a plan for each."""
    measured = []
    template = "SELECT * FROM R [RANGE 100000] WHERE a0 > ? AND a0 < ? AND a1 > ?"
    rows = [((n * 331) % 500, (n * 331) % 500 + 400, n * 7 % 500) for n in range(STORED)]
    for mode, alone in (*((mode, False) for mode in MODES), *((mode, True) for mode in MODES[:2])):
        with database() as db:
            if alone:
                db.execute("SET sharing = 'off'")
                for row in rows:
                    db.register(with_constants(template, row), mode=mode)
            else:
                db.register_many(template, rows, mode=mode)
            begun = time.process_time(), time.perf_counter()
            feed(db, elements)
            sample = Sample(elements, time.process_time() - begun[0], time.perf_counter() - begun[1])
            snapshot, size = db.engine.snapshot, db.engine.store.size
            results = sum(size(name) for names in snapshot.results.values() for name in names)
            state = sum(db.engine.reports.state_bytes().values())
            history = sum(file.bytes for files in snapshot.history.values() for file in files)
            total = (history + results + state) / 2**20
            more = with_more(sample, MiB=total, results_MiB=results / 2**20)
            measured.append(Measurement(STORAGE, f"{mode}, a plan each" if alone else mode, elements, more))
    return measured


def trials(settings: Settings) -> list[Trial]:
    sizes = (1_000, 10_000) if settings.quick else (1_000, 10_000, 100_000, 1_000_000)
    joins = sizes[:2] if settings.quick else (1_000, 10_000, 100_000, 300_000)
    few = (500,) if settings.quick else (500, 1_000, 2_000, 4_000)
    count = 2 if settings.quick else 4

    def over_windows(case: str, text: Text, windows: Sequence[int], streams: str) -> Trial:
        run = partial(responses, case, text, windows, streams, count, max(windows))
        return Trial(case, run)

    def over_predicates() -> list[Measurement]:
        window = sizes[-2]
        text = partial(predicates, window=window)
        return responses(PREDICATE_CASE, text, PREDICATES[:2] if settings.quick else PREDICATES, "R", count, window)

    return [
        over_windows(EQUALITY, equality, sizes, "R"),
        over_windows(INTERVALS, intervals, sizes, "R"),
        over_windows(JOINS, joined, joins, "RS"),
        over_windows(INEQUALITY, joined_by_inequality, few, "RS"),
        over_windows(AGGREGATE, aggregated, sizes, "R"),
        Trial(PREDICATE_CASE, over_predicates),
        Trial(STORAGE, lambda: storage(20_000 if settings.quick else 200_000)),
    ]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for case in (EQUALITY, JOINS):
        none = find(measurements, case, "NONE")
        for mode in ("EAGER", "LAZY"):
            kept = find(measurements, case, mode)
            if none and kept:
                found.append(Bar(f"{case}, {mode} to NONE, times as fast", none.nanoseconds / kept.nanoseconds, 50.0))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    cases = [case for case in dict.fromkeys(m.case for m in measurements) if case != STORAGE]
    panels = [(f"{case}: ms per query", [m for m in measurements if m.case == case], _milliseconds) for case in cases]
    grid(figure, panels)


def _milliseconds(measurement: Measurement) -> float:
    return measurement.sample.more["ms"]


EXPERIMENT = Experiment(
    "modes", "answers by mode: EAGER, LAZY, NONE", trials, bars, draw, shown=("ms", "MiB", "results_MiB")
)
