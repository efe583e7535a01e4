"""The service beside a database in the process: what HTTP adds to an answer, and many followers while rows come in.

The database runs in a process of its own, without Spark and then with it, and is fed there; this process asks and
follows. Both share the machine, so that a ratio says more than a number.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial
from bench.harness.followers import Reader, follow, missing_and_extra
from bench.harness.pictures import bars as draw_bars
from bench.harness.served import HERE, SPARK, elements, feed, prepared

import millstream as ms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INVOKE, FOLLOW = "answer of one of 1,000 queries", "followers while rows come in"
LOCAL, HTTP, ON_SPARK = "in the process", "over HTTP", "over HTTP, on Spark"
QUERIES, FOLLOWERS = 50, 200


def trials(settings: Settings) -> list[Trial]:
    seconds, rate = (4.0, 20_000) if settings.quick else (20.0, 20_000)
    count = 20 if settings.quick else FOLLOWERS
    long, fast = (5.0, 20_000) if settings.quick else (60.0, 100_000)
    return [
        Trial("answers", lambda: [_local(seconds, rate), _remote(seconds, rate), _remote(seconds, rate, SPARK)]),
        Trial("followers", lambda: [_followed(long, fast, count, engine) for engine in (HERE, SPARK)]),
    ]


def _local(seconds: float, rate: int) -> Measurement:
    """Answers asked for by another thread of the process that takes rows in."""
    with tempfile.TemporaryDirectory() as place, prepared("invoke", Path(place) / "db") as db:
        feeding = threading.Thread(target=feed, args=(db, rate, seconds, False))
        before = sys.getswitchinterval()
        sys.setswitchinterval(0.0005)  # as the service has it
        feeding.start()
        sample = _asked([db.query(f"q{number}") for number in range(0, 1000, 37)], feeding.is_alive)
        sys.setswitchinterval(before)
    return Measurement(INVOKE, LOCAL, 1000, sample)


def _remote(seconds: float, rate: int, engine: str = HERE) -> Measurement:
    with _service("invoke", seconds, rate, engine) as service, ms.connect(service.url) as db:
        queries = [db.query(f"q{number}") for number in range(0, 1000, 37)]
        service.begin()
        sample = _asked(queries, lambda: not service.is_done)
    return Measurement(INVOKE, HTTP if engine == HERE else ON_SPARK, 1000, sample)


def _asked(queries: Sequence[Any], goes_on: Callable[[], bool]) -> Sample:
    """One answer after the other, with a pause between them, while rows come in."""
    took: list[float] = []
    for query in queries:
        query.result()
    began, cpu = time.perf_counter(), time.process_time()
    while goes_on():
        at = time.perf_counter()
        queries[len(took) % len(queries)].result()
        took.append((time.perf_counter() - at) * 1000)
        time.sleep(0.005)
    spent, wall = time.process_time() - cpu, time.perf_counter() - began
    quantiles = {f"p{share}_ms": float(np.percentile(took, share)) for share in (50, 90, 99)}
    return Sample(len(took), max(spent, 1e-9), wall, more=quantiles)


def _followed(seconds: float, rate: int, count: int, engine: str) -> Measurement:
    readers = [Reader(f"q{number % QUERIES}") for number in range(count)]
    with _service("follow", seconds, rate, engine) as service:
        asyncio.run(_read(service, readers))
        said = list(service.said)
    keys, values, instants = elements(rate, seconds, engine)
    wrong = [missing_and_extra(reader, keys, values, instants) for reader in readers]
    # After the first third: results are kept for a third of the whole, and all that grows has grown by then.
    memory = [each["bytes"] for each in said[len(said) // 3 :]]
    reached = said[-1]["elements"] / said[-1]["seconds"]
    more = {
        "elements_per_s": reached,
        "events": float(sum(reader.events for reader in readers)),
        "missing": float(sum(missing for missing, _ in wrong)),
        "twice": float(sum(extra for _, extra in wrong) + sum(reader.out_of_order for reader in readers)),
        "mb": memory[-1] / (1 << 20),
        "growth": float(np.median(memory[-5:]) / np.median(memory[:5])),
    }
    sample = Sample(len(keys), said[-1]["cpu"], said[-1]["seconds"], more=more)
    variant = f"{count} on {QUERIES} queries{'' if engine == HERE else ', on Spark'}"
    return Measurement(FOLLOW, variant, count, sample)


async def _read(service: Service, readers: Sequence[Reader]) -> None:
    ready = asyncio.Semaphore(0)
    following = [asyncio.create_task(follow(service.url, reader, ready)) for reader in readers]
    for _ in following:
        await ready.acquire()
    service.begin()
    while not service.is_done:
        await asyncio.sleep(0.1)
    events, still = -1, 0
    while still < 20:  # until nothing comes any more
        now = sum(reader.events for reader in readers)
        still = still + 1 if now == events else 0
        events = now
        await asyncio.sleep(0.1)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


class Service:
    """A service in another process, and what it says of itself."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.said: list[dict[str, float]] = []
        self.is_done = False
        self.url = self._line()
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def begin(self) -> None:
        self._listener.start()
        self._tell()

    def end(self) -> None:
        self._tell()
        self._process.wait(60)

    def _listen(self) -> None:
        while (line := self._line()) and line != "done":
            self.said.append(json.loads(line))
        self.is_done = True

    def _line(self) -> str:
        return "" if self._process.stdout is None else self._process.stdout.readline().strip()

    def _tell(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write("\n")
            self._process.stdin.flush()


@contextmanager
def _service(what: str, seconds: float, rate: int, engine: str) -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "bench.harness.served", what, str(seconds), str(rate), f"{place}/db", engine]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                service = Service(process)
                yield service
                service.end()
            finally:
                process.kill()


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = []
    for m in measurements:
        if m.variant in (HTTP, ON_SPARK):
            found.append(Bar(f"median of an answer {m.variant}, ms", m.sample.more["p50_ms"], 15.0, at_most=True))
        elif m.case == FOLLOW:
            more = m.sample.more
            found += [
                Bar(f"{m.variant}: elements/s", more["elements_per_s"], 99_000),
                Bar(f"{m.variant}: changes that were missed", more["missing"], 0, at_most=True),
                Bar(f"{m.variant}: changes that came twice", more["twice"], 0, at_most=True),
                Bar(f"{m.variant}: memory at the end, of that after a third", more["growth"], 1.1, at_most=True),
            ]
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    asked = [m for m in measurements if m.case == INVOKE]
    draw_bars(figure, asked, lambda m: m.sample.more["p50_ms"], "ms, median")


EXPERIMENT = Experiment(
    "service",
    "answers and followers over HTTP",
    trials,
    bars,
    draw,
    shown=("p50_ms", "p90_ms", "p99_ms", "elements_per_s", "events", "missing", "twice", "mb", "growth"),
)
