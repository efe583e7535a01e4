"""A service in a process of its own, fed from within, for the experiments about it.

    python -m bench.served <what> <seconds> <rate>

Prints its address, then a line of JSON each second with what it has taken in and its memory, until its input ends.
The database is in this process (`inprocess`): what is measured is the way of answers and changes out, beside epochs.
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
from millstream.service.limits import Limits
from millstream.service.metrics import resident_bytes
from millstream.service.server import Address, Server

KEYS, VALUES, SEED = 1000, 100, 1
EPOCHS_PER_SECOND = 4
INVOKED = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 1000] WHERE k = ? GROUP BY k"
FOLLOWED = "SELECT k, v FROM s WHERE k = ?"  # every element: an ISTREAM


def feed(db: ms.Database, rate: int, seconds: float, report: bool = True) -> None:
    """Elements at a rate, an epoch a quarter of a second; behind the clock where the machine cannot."""
    random, last, began = np.random.default_rng(SEED), 0, time.perf_counter()
    cpu = time.process_time()
    for epoch in range(int(seconds * EPOCHS_PER_SECOND)):
        keys, values, instants = _batch(random, rate, epoch)
        last = int(instants[-1])
        db.insert("s", pa.table({"k": keys, "v": values, "ts": instants}))
        ahead = began + (epoch + 1) / EPOCHS_PER_SECOND - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        if report and (epoch + 1) % EPOCHS_PER_SECOND == 0:
            said = {
                "elements": (epoch + 1) * len(keys),
                "seconds": time.perf_counter() - began,
                "cpu": time.process_time() - cpu,
                "bytes": resident_bytes(),
            }
            print(json.dumps(said), flush=True)
    db.advance("s", to=last + 1)


def _batch(random: np.random.Generator, rate: int, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys, values and instants of an epoch's elements, 100 an instant."""
    size = rate // EPOCHS_PER_SECOND
    keys, values = (random.integers(0, most, size, dtype=np.int32) for most in (KEYS, VALUES))
    return keys, values, epoch * size // 100 + np.arange(size) // 100


def elements(rate: int, seconds: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All that `feed` feeds."""
    random = np.random.default_rng(SEED)
    parts = [_batch(random, rate, epoch) for epoch in range(int(seconds * EPOCHS_PER_SECOND))]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def prepared(what: str, path: Path | None = None) -> ms.Database:
    db = ms.connect(path, engine="inprocess")
    # What followers have seen is not asked for again: results are kept for some seconds.
    db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts RETAIN 20000")
    count, text = (1000, INVOKED) if what == "invoke" else (50, FOLLOWED)
    db.register_many(text, list(range(count)), names=[f"q{number}" for number in range(count)])
    return db


def main(what: str, seconds: float, rate: int, place: str) -> None:
    with prepared(what, Path(place)) as db:
        server = Server(db, Address(port=0), version="bench", limits=Limits(requests_per_second=0))
        thread = threading.Thread(target=server.serve)
        thread.start()
        print(server.address, flush=True)
        sys.stdin.readline()  # until readers are there
        feed(db, rate, seconds)
        print("done", flush=True)
        sys.stdin.readline()
        server.stop()
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
