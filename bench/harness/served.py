"""A service in a process of its own, fed from within, for the experiments about it.

    python -m bench.harness.served <what> <seconds> <rate> <directory> <engine>

Prints its address, then a line of JSON each second with what it has taken in and its memory, until its input ends.
What is measured is the way of answers and changes out, beside epochs, which are run in this process or by Spark.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import millstream as ms
from millstream.service.limits import ServiceLimits
from millstream.service.metrics import resident_bytes
from millstream.service.server import Address, Server

KEYS, VALUES, SEED = 1000, 100, 1
HERE, SPARK = "inprocess", "spark"
EPOCHS_PER_SECOND = {HERE: 4, SPARK: 1}
INVOKED = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 1000] WHERE k = ? GROUP BY k"
FOLLOWED = "SELECT k, v FROM s WHERE k = ?"  # every element: an ISTREAM


def feed(db: ms.Database, rate: int, seconds: float, report: bool = True, engine: str = HERE) -> None:
    """Elements at a rate, some epochs a second; behind the clock where the machine cannot."""
    per_second = EPOCHS_PER_SECOND[engine]
    random, last, began = np.random.default_rng(SEED), 0, time.perf_counter()
    cpu = time.process_time()
    for epoch in range(int(seconds * per_second)):
        keys, values, instants = _batch(random, rate // per_second, epoch)
        last = int(instants[-1])
        db.insert("s", pa.table({"k": keys, "v": values, "ts": instants}))
        ahead = began + (epoch + 1) / per_second - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        if report and (epoch + 1) % per_second == 0:
            said = {
                "elements": (epoch + 1) * len(keys),
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time() - cpu,
                "bytes": resident_bytes(),
            }
            print(json.dumps(said), flush=True)
    db.advance("s", to=last + 1)


def _batch(random: np.random.Generator, size: int, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys, values and instants of an epoch's elements, 100 an instant."""
    keys, values = (random.integers(0, most, size, dtype=np.int32) for most in (KEYS, VALUES))
    return keys, values, epoch * size // 100 + np.arange(size) // 100


def elements(rate: int, seconds: float, engine: str = HERE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All that `feed` feeds."""
    random, per_second = np.random.default_rng(SEED), EPOCHS_PER_SECOND[engine]
    parts = [_batch(random, rate // per_second, epoch) for epoch in range(int(seconds * per_second))]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def prepared(what: str, path: Path | None = None, engine: str = HERE) -> ms.Database:
    db = ms.connect(path, engine=HERE) if engine == HERE else ms.connect(path)
    # What followers have seen is not asked for again: results are kept for some seconds.
    db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts RETAIN 20000")
    count, text = (1000, INVOKED) if what == "invoke" else (50, FOLLOWED)
    db.register_many(text, list(range(count)), names=[f"q{number}" for number in range(count)])
    return db


def main(what: str, seconds: float, rate: int, place: str, engine: str) -> None:
    with prepared(what, Path(place), engine) as db:
        server = Server(db, Address(port=0), version="bench", limits=ServiceLimits(requests_per_second=0))
        thread = threading.Thread(target=server.serve)
        thread.start()
        print(server.address, flush=True)
        sys.stdin.readline()  # until readers are there
        feed(db, rate, seconds, engine=engine)
        print("done", flush=True)
        sys.stdin.readline()
        server.stop()
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
