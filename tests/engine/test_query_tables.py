"""Queries that come and go one by one: kept by notes until a commit comes, and all there after kill -9."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import millstream as ms
from millstream.database import Database
from millstream.engine.groups.tables import QueryTables
from millstream.kernel.sharing.parameters import QUERY, SHAPE
from millstream.state.store import MemoryStore

STREAM = "CREATE STREAM s (a BIGINT, b BIGINT, c BIGINT, ts BIGINT) TIMESTAMP BY ts"
OPERATORS = ("<", "<=", "=", "<>", ">=", ">")


def texts(count: int) -> dict[str, str]:
    """Conditions of many shapes over one FROM list, as in CACQ's experiments."""
    chance, found = random.Random(7), {}
    for number in range(count):
        asked = chance.sample("abc", chance.randint(1, 3))
        parts = (f"{column} {chance.choice(OPERATORS)} {chance.randint(0, 9)}" for column in asked)
        found[f"q{number}"] = f"SELECT a, b, c FROM s [RANGE 1000] WHERE {' AND '.join(parts)}"
    return found


def rows(batch: int) -> list[tuple[int, ...]]:
    chance = random.Random(batch)
    return [(*(chance.randint(0, 9) for _ in range(3)), batch) for _ in range(20)]


def expected(text: str, batches: range) -> list[tuple[int, ...]]:
    """By Python's own comparisons."""
    condition = text.partition(" WHERE ")[2].replace("<>", "!=").replace(" = ", " == ").replace("AND", "and")
    found = [row[:3] for batch in batches for row in rows(batch)]
    return sorted(row for row in found if eval(condition, dict(zip("abc", row, strict=True))))


def answer(db: Database, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in db.query(name).result().to_pylist())


CHILD = """
import os, signal, sys
import millstream as ms
from tests.engine.test_query_tables import STREAM, rows, texts

db = ms.connect(sys.argv[1], engine="inprocess")
db.execute(STREAM)
db.insert("s", rows(1))
asked = texts(60)
for number, (name, text) in enumerate(asked.items()):
    db.register(text, name=name)
    if number == 30:
        db.insert("s", rows(2))
for number in range(0, 60, 3):
    db.drop_query(f"q{number}")
db.register(asked["q1"], name="q0")
db.drop_query("q1")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_all_are_there_after_kill_9(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "db")], timeout=300, check=False)
    assert died.returncode == -signal.SIGKILL
    asked = texts(60)
    alive = {f"q{n}": asked[f"q{n}"] for n in range(60) if n % 3 and n != 1} | {"q0": asked["q1"]}
    for _ in range(2):  # the second time by what was committed
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            db.execute("ADVANCE TO 10")
            assert {query.name for query in db.queries()} == alive.keys()
            assert {name: answer(db, name) for name in alive} == {
                name: expected(text, range(1, 3)) for name, text in alive.items()
            }


@pytest.mark.parametrize("kept", ["memory", "directory"])
def test_coming_and_going_between_epochs(tmp_path: Path, kept: str) -> None:
    asked, chance, alive = texts(80), random.Random(3), dict[str, str]()
    with ms.connect(tmp_path / "db" if kept == "directory" else None, engine="inprocess") as db:
        db.execute(STREAM)
        for batch, first in enumerate(range(0, 80, 10)):
            for number in range(first, first + 10):
                alive[f"q{number}"] = asked[f"q{number}"]
                db.register(asked[f"q{number}"], name=f"q{number}")
            for name in chance.sample(sorted(alive), 4):
                db.drop_query(name)
                del alive[name]
            db.insert("s", rows(batch))
        db.execute("ADVANCE TO 100")
        found = {name: answer(db, name) for name in alive}
        assert found == {name: expected(text, range(8)) for name, text in alive.items()}


def test_queries_of_many_shapes_are_in_few_segments_however_often_they_come() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        db.execute("SET sharing = 'on'")
        for batch, (name, text) in enumerate(texts(100).items()):
            db.register(text, name=name)
            db.insert("s", rows(batch))
        tables = db.engine.snapshot.query_tables.values()
        assert not any(table.waiting for table in tables)
        admitted = [db.engine.store.read(segment) for table in tables for segment in table.admitted]
        equal = [db.engine.store.read(segment) for table in tables for segment in table.equal]
        assert sum(segment.height for segment in (*admitted, *equal)) == 100
        assert len(admitted) < 40  # a few for each group and number of parameters, by their sizes


def test_who_goes_before_a_commit_is_never_written() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        db.execute("SET sharing = 'on'")
        for name, text in texts(10).items():
            db.register(text, name=name)
        for number in range(2, 10):
            db.drop_query(f"q{number}")
        db.insert("s", rows(1))
        tables: QueryTables = db.engine.query_tables
        kept = [table for group in db.engine.groups for table in tables.rows(group).values()]
        assert pl.concat([table.select(QUERY, SHAPE) for table in kept]).height == 2


def test_what_is_written_on_the_way_is_removed() -> None:
    """Small segments become one in the commit that writes them: nothing is left that no snapshot names."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        db.execute("SET sharing = 'on'")
        for number in range(30):  # each with a commit of its own, before anything is admitted
            db.register(f"SELECT a FROM s [RANGE 9] WHERE a > {number}")
            db.execute(f"SET max_queries = {1_000 + number}")
        store = db.engine.store
        assert isinstance(store, MemoryStore)
        assert {name for name in store._frames if name.startswith("queries")} <= {*db.engine.snapshot.names()}
