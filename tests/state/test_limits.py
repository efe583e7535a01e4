"""Full disks and small memory: an error or a slower answer, never a wrong one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import millstream as ms
from millstream.database import Database
from millstream.state.pool import pool_for


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system can only be mounted by root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def declare(db: Database) -> None:
    db.execute("CREATE STREAM s (k INT, v STRING) TIMESTAMP BY t")
    db.register("SELECT k, COUNT(*) AS n FROM s [RANGE 1000] GROUP BY k", name="counts")
    db.register("SELECT v FROM s [RANGE 1000] WHERE k = 1", name="texts")


def rows(batch: int) -> list[tuple[int, str, int]]:
    return [(number % 5, os.urandom(20).hex(), batch * 10 + number // 40) for number in range(400)]


def answers(db: Database) -> dict[str, pa.Table]:
    return {query.name: query.changes() for query in db.queries()}


def fill(db: Database, committed: dict[str, pa.Table]) -> None:
    for batch in range(1000):
        db.insert("s", rows(batch))
        committed.update(answers(db))


def test_a_full_disk_is_an_error_and_the_last_commit_stands(small_disk: Path) -> None:
    path = small_disk / "db"
    with ms.connect(path, engine="inprocess") as db:
        declare(db)
        committed: dict[str, pa.Table] = {}
        with pytest.raises(ms.StateError, match="could not be written: No space left on device"):
            fill(db, committed)
        assert committed["counts"].num_rows > 0
        assert answers(db) == committed
    with ms.connect(path, engine="inprocess") as db:
        assert answers(db) == committed


def test_answers_do_not_depend_on_the_memory_budget(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as small, ms.connect(engine="inprocess") as ample:
        small.execute("SET memory_budget = '30 KB'")
        for db in (small, ample):
            declare(db)
        for batch in range(12):
            arriving = rows(batch)
            for db in (small, ample):
                db.insert("s", arriving)
        assert answers(small) == answers(ample)
        assert pool_for(str(tmp_path / "db")).bytes <= 30 << 10
        assert all(size > 0 for size in small.stats()["state_bytes"].values())


def test_explain_analyze_shows_what_operators_did(tmp_path: Path) -> None:
    with ms.connect(engine="inprocess") as db:
        declare(db)
        db.insert("s", rows(0))
        text = str(db.execute("EXPLAIN ANALYZE QUERY counts"))
        assert "operator" in text
        assert "aggregate-" in text
        assert "400" in text
        adhoc = str(db.execute("EXPLAIN ANALYZE SELECT COUNT(*) FROM s [RANGE 5]"))
        assert "timewindow-" in adhoc
