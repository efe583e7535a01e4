"""Eight threads that insert, register, drop, ask and follow at once, and a kill -9 in the middle: the answers are those
of an undisturbed run, and what the process holds is flat.

MILLSTREAM_SOAK_MINUTES says how long, for each of the engines.
"""

from __future__ import annotations

import os
import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.serving import LIMIT
from tests.support.supervised import Supervised, supervised

import millstream as ms

pytestmark = pytest.mark.slow
SECONDS = 60 * float(os.environ.get("MILLSTREAM_SOAK_MINUTES", "5"))
STREAMS = 3
QUERIES = {
    "sums_{}": "SELECT k, sum(v) AS total, count(*) AS n FROM s{} [RANGE 50] GROUP BY k",
    "last_{}": "SELECT k, v FROM s{} [PARTITION BY k ROWS 2]",
    "pairs_{}": "SELECT a.k, b.v FROM s{0} [RANGE 3] AS a, s{0} [ROWS 20] AS b WHERE a.k = b.k AND a.v > b.v",
}


def _rows(stream: int, batch: int) -> list[tuple[int, int, int]]:
    dice = random.Random(1000 * stream + batch)
    return [(dice.randrange(10), dice.randrange(1000), 5 * batch + number // 4) for number in range(20)]


def _declare(db: ms.Database | ms.RemoteDatabase) -> None:
    for number in range(STREAMS):
        db.execute(f"CREATE STREAM s{number} (k INT, v INT) TIMESTAMP BY ts RETAIN 2000")
        for name, text in QUERIES.items():
            db.register(text.format(number, number), name.format(number))


@dataclass(frozen=True)
class _Reading:
    """What the service's process holds."""

    mebibytes: float
    threads: int
    descriptors: int


def _reading(pid: int) -> _Reading:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    said = {name: value.split()[0] for name, _, value in (line.partition(":\t") for line in lines) if value.strip()}
    opened = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return _Reading(int(said["VmRSS"]) / 1024, int(said["Threads"]), opened)


class _Soak:
    def __init__(self, service: Supervised) -> None:
        self.service = service
        self.is_over = threading.Event()
        self.batches = [0] * STREAMS
        self.counts: Counter[str] = Counter()
        self.sums: Counter[tuple[int, int, int]] = Counter()  # of the follower
        self.failures: list[BaseException] = []

    def start(self) -> list[threading.Thread]:
        works: list[Callable[[], None]] = [lambda n=n: self.insert(n) for n in range(STREAMS)]  # type: ignore[misc]
        works += [lambda: self.register("a"), lambda: self.register("b"), self.ask, self.ask, self.follow]
        threads = [threading.Thread(target=self.guarded, args=[work]) for work in works]
        for thread in threads:
            thread.start()
        return threads

    def guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # of a thread: shown in the end
            self.failures.append(error)
            self.is_over.set()

    def insert(self, stream: int) -> None:
        with ms.connect(self.service.address) as db:
            while not self.is_over.is_set():
                db.insert(f"s{stream}", _rows(stream, self.batches[stream]))  # sent again by itself
                self.batches[stream] += 1
                self.is_over.wait(0.02)

    def _through(self, work: Callable[[ms.RemoteDatabase], None], what: str) -> None:
        """Again and again, whatever becomes of the service."""
        while not self.is_over.is_set():
            try:
                with ms.connect(self.service.address) as db:
                    while not self.is_over.is_set():
                        work(db)
                        self.counts[what] += 1
            except (ms.ServiceError, ms.LimitError, ms.ClosedError):
                self.is_over.wait(0.5)

    def register(self, who: str) -> None:
        dice = random.Random(who)

        def work(db: ms.RemoteDatabase) -> None:
            number, mode = dice.randrange(STREAMS), dice.choice(["eager", "lazy", "none"])
            name, threshold = f"{who}_{dice.randrange(5)}", dice.randrange(1000)
            if name in {query.name for query in db.queries()}:
                db.query(name).drop()
            db.register(f"SELECT k, v FROM s{number} [RANGE 20] WHERE v > {threshold}", name, mode)
            if dice.random() < 0.7:
                db.query(name).result()
                db.query(name).drop()

        self._through(work, "registered")

    def ask(self) -> None:
        dice = random.Random(7)

        def work(db: ms.RemoteDatabase) -> None:
            db.query(dice.choice([*QUERIES]).format(dice.randrange(STREAMS))).result()
            db.execute(f"SELECT count(*) AS n FROM s{dice.randrange(STREAMS)} [RANGE 100]")

        self._through(work, "asked")

    def follow(self) -> None:
        def work(db: ms.RemoteDatabase) -> None:
            for changes in db.query("sums_0").follow():  # comes back by itself, also after the kill
                for row in changes.to_pylist():
                    self.sums[row["k"], row["total"], row["n"]] += row["_weight"]
                if self.is_over.is_set():
                    return

        self._through(work, "followed")

    def check(self, db: ms.RemoteDatabase) -> None:
        """All that there is now is what an undisturbed database has of the same rows."""
        with ms.connect(engine="inprocess") as other:
            _declare(other)
            for stream in range(STREAMS):
                for batch in range(self.batches[stream]):
                    other.insert(f"s{stream}", _rows(stream, batch))
            for number in range(STREAMS):
                at = 5 * self.batches[number] - 2
                for name in QUERIES:
                    own, right = (each.query(name.format(number)) for each in (db, other))
                    assert _bag(own.result(at=at)) == _bag(right.result(at=at)), name
                arrived = 20 * self.batches[number]
                assert db.stats()["streams"][f"s{number}"]["arrived"] == arrived


def _bag(table: object) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())  # type: ignore[attr-defined]


def _is_flat(readings: list[_Reading], what: str, slack: float) -> bool:
    """The last third against the middle one: at first pools and caches fill up."""
    third = len(readings) // 3
    middle, last = (
        sorted(getattr(each, what) for each in part) for part in (readings[third : 2 * third], readings[-third:])
    )
    return bool(last[len(last) // 2] <= 1.2 * middle[len(middle) // 2] + slack)


@pytest.mark.parametrize("options", [["--in-process"], pytest.param([], marks=pytest.mark.spark)])
def test_eight_threads_and_a_kill(tmp_path: Path, options: list[str]) -> None:
    readings: list[_Reading] = []
    with supervised(tmp_path / "db", "--rate", "0", *options) as service:
        with ms.connect(service.address) as db:
            _declare(db)
        soak = _Soak(service)
        threads = soak.start()
        soak.is_over.wait(SECONDS / 4)
        service.kill()
        ends = time.monotonic() + SECONDS * 3 / 4
        while time.monotonic() < ends and not soak.is_over.wait(max(SECONDS / 200, 0.1)):
            readings.append(_reading(service.process.pid))
        soak.is_over.set()
        for producer in threads[:STREAMS]:
            producer.join(LIMIT)
        with ms.connect(service.address) as db:
            for number in range(STREAMS):  # so that who follows has something to come to an end by
                db.insert(f"s{number}", _rows(number, soak.batches[number]))
                soak.batches[number] += 1
            for thread in threads:
                thread.join(LIMIT)
            assert soak.failures == [], "".join(traceback.format_exception(soak.failures[0])) + service.said()[-3000:]
            assert service.starts == 2, service.said()[-3000:]
            soak.check(db)
        assert "Traceback" not in service.said(), service.said()[-3000:]
    assert set(soak.counts) >= {"registered", "asked"}
    for what, slack in (("mebibytes", 50.0), ("threads", 3.0), ("descriptors", 20.0)):
        assert _is_flat(readings, what, slack), (what, readings[len(readings) // 3], readings[-1])
