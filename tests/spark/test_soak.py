"""Half an hour of steady work: what processes hold, keep open and leave on disk does not grow.

MILLSTREAM_SOAK_MINUTES makes it shorter or longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import millstream as ms
from millstream.database import Database

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MINUTES = float(os.environ.get("MILLSTREAM_SOAK_MINUTES", "30"))
WARM_UP = 0.3  # of the time: pools, caches and the JVM's heap fill up


@dataclass(frozen=True)
class Reading:
    """MiB held by this process and by those below it, files open in all of them, files of the database."""

    driver: float
    below: float
    handles: int
    files: int


def processes_below(root: int) -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        children = [pid for pid, its in parents.items() if its == parent]
        found += children
        waiting += children
    return found


def resident(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def handles(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def read(path: Path) -> Reading:
    below = processes_below(os.getpid())
    files = sum(1 for found in path.rglob("*") if found.is_file())
    opened = handles(os.getpid()) + sum(map(handles, below))
    return Reading(resident(os.getpid()), sum(map(resident, below)), opened, files)


def declare(db: Database) -> None:
    db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY t RETAIN 2000; CREATE TABLE d (k INT, n STRING)")
    db.execute("INSERT INTO d VALUES (1, 'one'), (2, 'two')")
    db.register("SELECT k, COUNT(*) AS n, AVG(v) AS mean FROM s [RANGE 500] GROUP BY k", name="means")
    db.register("SELECT ISTREAM(a.v, d.n) FROM s [RANGE 50] a, d WHERE a.k = d.k", name="named")
    db.register(
        "SELECT a.k FROM s [RANGE 100] a WHERE NOT EXISTS (SELECT * FROM s [ROWS 20] b WHERE b.k = a.k)", name="x"
    )


def work(db: Database, path: Path) -> list[Reading]:
    readings, begun, batch = [], time.monotonic(), 0
    while (spent := time.monotonic() - begun) < MINUTES * 60:
        db.insert("s", [(number % 50, number, batch * 10 + number // 20) for number in range(200)])
        db.query("means").result()
        batch += 1
        if spent > WARM_UP * MINUTES * 60 and batch % 20 == 0:
            readings.append(read(path))
    return readings


def growth(values: Sequence[float]) -> float:
    """The last third against the first: what is flat moves up and down, but not on and on."""
    third = max(1, len(values) // 3)
    first, last = sorted(values[:third]), sorted(values[-third:])
    return last[len(last) // 2] / max(first[len(first) // 2], 1)


def test_nothing_grows(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with ms.connect(path) as db:
        declare(db)
        readings = work(db, path)
        used = set(db.engine.snapshot.names())
        assert db.engine.store.remove_orphans(used) == 0, "segments that nobody names"  # type: ignore[attr-defined]
    assert len(readings) > 5
    grown = {name: growth([getattr(r, name) for r in readings]) for name in ("driver", "below", "handles", "files")}
    assert max(grown.values()) < 1.15, (grown, readings[0], readings[-1])
