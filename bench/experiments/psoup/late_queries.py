"""Late queries and clients that come and go: epochs beside a backfill, many followers, and asking now.

Everything is measured while rows come in. Epochs are compared with and without a backfill in turns within one run, at a
rate that leaves more than half of the machine idle. Followers check what they get: the same changes as `q.changes`,
each once. Memory is that of this process, when a third of the rows was in and when all were.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import polars as pl
import pyarrow as pa
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns, with_more
from bench.harness.pictures import bars as draw_bars
from bench.harness.resident import resident

import millstream as ms
from millstream.engine import needs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts"
LIVE = "SELECT k, COUNT(*) AS n FROM s [TUMBLE 5000] GROUP BY k"
LATE = "SELECT k, SUM(v) AS total, MAX(v) AS most FROM s [RANGE 20000] GROUP BY k"
IN_PROCESS, ON_SPARK = "epochs beside a backfill, in process", "epochs beside a backfill, on Spark"
ALONE, BESIDE = "alone", "beside a backfill"
SELECTIVE, WHAT_MATTERS, ALL_FILES = "a selective late query", "the files that matter", "all files"
FOLLOWED, ASKED = "50 followers of 50 queries", "asked, of 1,000 queries"
KEYS, RATE = 1_000, 100_000


def trials(settings: Settings) -> list[Trial]:
    scale = 10 if settings.quick else 1
    return [
        Trial(IN_PROCESS, partial(backfilled, IN_PROCESS, "inprocess", 1_000_000 // scale, 4 if settings.quick else 8)),
        Trial(ON_SPARK, partial(backfilled, ON_SPARK, "spark", 1_000_000 // scale, 4 if settings.quick else 8)),
        Trial(SELECTIVE, partial(selective, 2_000_000 // scale, min(settings.repetitions, 2))),
        Trial(FOLLOWED, partial(followed, 4_000_000 // scale)),
        Trial(ASKED, partial(asked, 2_000_000 // scale)),
    ]


def rows(first: int, count: int) -> pl.DataFrame:
    """An element per tick."""
    t = pl.int_range(first, first + count, eager=True)
    scattered = pl.Series((t.to_numpy() * 2_654_435_761 % (1 << 32)) >> 12)
    return pl.DataFrame(
        {"k": (scattered % KEYS).cast(pl.Int32), "v": (scattered // KEYS % 100).cast(pl.Int32), "ts": t}
    )


@contextmanager
def opened(engine: str) -> Iterator[ms.Database]:
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as place, ms.connect(place, engine=engine) as db:
        db.execute(STREAM)
        yield db


# Epochs with and without a backfill


def backfilled(case: str, engine: str, history: int, epochs: int) -> list[Measurement]:
    """Epochs take at most half of the time, and then half of the machine, since they run on one core."""
    times: dict[str, list[float]] = {ALONE: [], BESIDE: []}
    with opened(engine) as db:
        db.register(LIVE, name="live")
        for first in range(0, history, 500_000):
            db.insert("s", rows(first, min(500_000, history - first)))
        next_row, batch = history, 50_000
        for _ in range(3):  # warm
            next_row += epoch(db, next_row, batch)[0]
        shares = []
        for _ in range(3):
            for variant in times:
                late = db.register(LATE, name="late") if variant == BESIDE else None
                for _ in range(epochs):
                    if late is not None and not late.is_filling:
                        late.drop()
                        late = db.register(LATE, name="late")
                    taken, seconds = epoch(db, next_row, batch)
                    next_row += taken
                    times[variant].append(seconds)
                    time.sleep(max(0.05, 1.2 * seconds))
                if late is not None:
                    shares.append((late.backfill or {"fraction": 1.0})["fraction"])
                    late.drop()
    found = []
    for variant, seconds_taken in times.items():
        median = statistics.median(seconds_taken)
        more = {"epoch_ms": 1e3 * median, "backfilled": 0.0 if variant == ALONE else statistics.median(shares)}
        found.append(Measurement(case, variant, batch, Sample(batch, median, median, more=more)))
    return found


def epoch(db: ms.Database, first: int, count: int) -> tuple[int, float]:
    batch, begun = rows(first, count), time.perf_counter()
    db.insert("s", batch)
    return count, time.perf_counter() - begun


# Files that are not read


def selective(count: int, repetitions: int) -> list[Measurement]:
    """One of 50 days of history, each with a file of its own; and the same with all files read."""
    with opened("inprocess") as db:
        db.execute(f"CREATE STREAM d (day INT, v INT) TIMESTAMP BY ts RETAIN {count}; SET background_rows = {count}")
        day = count // 50
        for first in range(0, count, day):
            t = pl.int_range(first, first + day, eager=True)
            db.insert("d", pl.DataFrame({"day": (t // day).cast(pl.Int32), "v": (t % 100).cast(pl.Int32), "ts": t}))

        def run(of_a_step: Callable[..., needs.Needs]) -> Sample:
            begun, cpu = time.perf_counter(), time.process_time()
            with patch.object(needs, "_needs_of_step", of_a_step):
                query = db.register("SELECT v, COUNT(*) AS n FROM d [RANGE 1000] WHERE day = 7 GROUP BY v", name="late")
                query.wait()
            taken = time.perf_counter() - begun
            rows_out = query.result(at=8 * day).num_rows
            query.drop()
            return Sample(count, time.process_time() - cpu, taken, rows_out)

        runs = {WHAT_MATTERS: partial(run, needs._needs_of_step), ALL_FILES: partial(run, lambda *_: needs.EVERYTHING)}
        best = in_turns(runs, repetitions)
    return [
        Measurement(SELECTIVE, variant, count, with_more(sample, seconds=sample.wall))
        for variant, sample in best.items()
    ]


# Followers


class Follower(threading.Thread):
    """Reads the changes of a query, and comes back with the last instant that it saw after every tenth table."""

    def __init__(self, query: ms.Query) -> None:
        super().__init__(daemon=True)
        self.query = query
        self.seen: list[pa.Table] = []
        self.rows = 0
        self.last: int | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while True:
                for number, table in enumerate(self.query.follow(since=self.last)):
                    self.seen.append(table)
                    self.rows += table.num_rows
                    self.last = table["_ts"][-1].as_py()
                    if number == 10:
                        break
                else:
                    return
        except ms.ClosedError:
            return
        except BaseException as error:  # shown by whoever waits
            self.error = error


def followed(count: int) -> list[Measurement]:
    with opened("inprocess") as db:
        queries = db.register_many("SELECT k, v FROM s WHERE k = ?", list(range(25)))
        queries += [
            db.register(f"SELECT COUNT(*) AS n, SUM(v) AS total FROM s [TUMBLE 10000] WHERE k = {k}") for k in range(25)
        ]
        followers = [Follower(query) for query in queries]
        for follower in followers:
            follower.start()
        batch, begun, resident_then = RATE // 4, time.perf_counter(), 0
        for first in range(0, count, batch):
            db.insert("s", rows(first, batch))
            if resident_then == 0 and first >= count // 3:
                resident_then = resident(os.getpid())
            time.sleep(max(0.0, begun + (first + batch) / RATE - time.perf_counter()))
        wall = time.perf_counter() - begun
        resident_now = resident(os.getpid())
        db.advance(to=count + 20_000)
        expected = [query.changes() for query in queries]
        behind = time.perf_counter()
        while any(follower.rows < table.num_rows for follower, table in zip(followers, expected, strict=True)):
            if time.perf_counter() > behind + 120 or any(follower.error for follower in followers):
                break
            time.sleep(0.02)
        behind = time.perf_counter() - behind
    for follower, table in zip(followers, expected, strict=True):
        if follower.error is not None:
            raise follower.error
        if pa.concat_tables(follower.seen) != table:
            raise AssertionError(f"{follower.query.name}: {follower.rows} changes followed, of {table.num_rows}")
    more = {
        "rate": count / wall,
        "behind_s": behind,
        "grown": resident_now / resident_then,
        "tables": sum(len(follower.seen) for follower in followers),
    }
    return [Measurement(FOLLOWED, "all", count, Sample(count, wall, wall, sum(f.rows for f in followers), more=more))]


# Asking


def asked(count: int) -> list[Measurement]:
    """1,000 queries, half with windows and half aggregates, asked one after the other while rows come in."""
    with opened("inprocess") as db:
        queries = db.register_many("SELECT k, v FROM s [RANGE 20000] WHERE k = ?", list(range(500)))
        queries += db.register_many(
            "SELECT COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 20000] WHERE k = ?", list(range(500))
        )
        stop, failed = threading.Event(), list[BaseException]()

        def feed() -> None:
            try:
                begun, batch = time.perf_counter(), RATE // 10
                for first in range(0, count, batch):
                    db.insert("s", rows(first, batch))
                    time.sleep(max(0.0, begun + (first + batch) / RATE - time.perf_counter()))
            except BaseException as error:  # shown below
                failed.append(error)
            finally:
                stop.set()

        feeding = threading.Thread(target=feed)
        feeding.start()
        times: dict[str, list[float]] = {"windows": [], "aggregates": []}
        dice = np.random.default_rng(1)
        while not stop.is_set():
            number = int(dice.integers(len(queries)))
            begun = time.perf_counter()
            queries[number].result()
            times["windows" if number < 500 else "aggregates"].append(time.perf_counter() - begun)
            time.sleep(0.002)
        feeding.join()
    if failed:
        raise failed[0]
    found = []
    for variant, taken in times.items():
        later = taken[len(taken) // 3 :]  # windows are full
        more = {"median_ms": 1e3 * statistics.median(later), "p95_ms": 1e3 * float(np.quantile(later, 0.95))}
        median = statistics.median(later)
        found.append(Measurement(ASKED, variant, len(taken), Sample(1, median, median, more=more)))
    return found


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for case in (IN_PROCESS, ON_SPARK):
        alone, beside = find(measurements, case, ALONE), find(measurements, case, BESIDE)
        if alone and beside:
            found.append(Bar(f"{case}: times alone", beside.sample.wall / alone.sample.wall, 1.2, at_most=True))
    matters, every = find(measurements, SELECTIVE, WHAT_MATTERS), find(measurements, SELECTIVE, ALL_FILES)
    if matters and every:
        found.append(Bar(f"{SELECTIVE}: times as fast as with all files", every.sample.wall / matters.sample.wall, 5.0))
    if followers := find(measurements, FOLLOWED, "all"):
        found.append(Bar(f"{FOLLOWED}: elements per second", followers.sample.more["rate"], 0.97 * RATE))
        found.append(
            Bar(f"{FOLLOWED}: memory at the end, of a third in", followers.sample.more["grown"], 1.3, at_most=True)
        )
    return found + [
        Bar(f"{ASKED}: median ms, {variant}", median.sample.more["median_ms"], 5.0, at_most=True)
        for variant in ("windows", "aggregates")
        if (median := find(measurements, ASKED, variant))
    ]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    values: dict[str, Callable[[Measurement], float]] = {
        IN_PROCESS: lambda m: m.sample.more["epoch_ms"],
        ON_SPARK: lambda m: m.sample.more["epoch_ms"],
        ASKED: lambda m: m.sample.more["median_ms"],
    }
    shown = [m for m in measurements if m.case in values]
    draw_bars(figure, shown, lambda m: values[m.case](m), "ms")


EXPERIMENT = Experiment(
    "late_queries",
    "late queries, followers, and asking while rows come in",
    trials,
    bars,
    draw,
    shown=("epoch_ms", "seconds", "backfilled", "rate", "behind_s", "grown", "median_ms", "p95_ms"),
)
