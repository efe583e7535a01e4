"""Threads that create, alter, replace, drop, insert and ask at once: nothing is lost, and nobody sees half of it."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millstream as ms

ROUNDS = 12
SETUP = """
CREATE STREAM s (a INT, b INT DEFAULT 0) TIMESTAMP BY ts;
CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 0);
CREATE VIEW v AS SELECT a FROM s [RANGE 1000000];
REGISTER QUERY on_v AS SELECT count(*) AS n FROM v;
REGISTER QUERY on_s AS SELECT * FROM s [RANGE 1000000];
REGISTER QUERY on_t AS SELECT * FROM t
"""
# What one may be told when another was faster.
TOLD = ("there is no ", "is no longer there", "already", "in use", "was dropped")


class Acting:
    """What each thread does, with what it has counted."""

    def __init__(self, db: ms.Database) -> None:
        self.db, self.inserted, self.lock, self.at = db, 0, threading.Lock(), 0
        self.faults: list[BaseException] = []

    def run(self, seed: int) -> None:
        rng = random.Random(seed)
        actions: list[Callable[[int], None]] = [
            *[self.rows] * 4,
            *[self.dictionaries] * 2,
            *(self.table_rows, self.altered, self.renamed, self.replaced, self.view, self.come_and_gone, self.asked),
        ]
        for number in range(ROUNDS * len(actions) // 2):
            try:
                rng.choice(actions)(seed * 1000 + number)
            except ms.Error as error:
                if not any(told in str(error) for told in TOLD):
                    self.faults.append(error)
            except BaseException as error:  # a traceback that a user would see
                self.faults.append(error)

    def _next(self) -> int:
        with self.lock:
            self.at += 1
            return self.at

    def _counted(self, done: Any) -> None:
        with self.lock:
            self.inserted += done.accepted + done.late

    def rows(self, number: int) -> None:
        result = self.db.execute(f"INSERT INTO s (a, ts) VALUES ({number}, {self._next()})")
        self._counted(result.insert)

    def dictionaries(self, number: int) -> None:
        self._counted(self.db.insert("s", [{"a": number, "ts": self._next()}, {"a": number, "ts": self._next()}]))

    def table_rows(self, number: int) -> None:
        self.db.execute(f"INSERT INTO t (id) VALUES ({number % 20}) ON CONFLICT DO UPDATE SET n = {number}")

    def altered(self, number: int) -> None:
        self.db.execute(f"ALTER STREAM s ADD COLUMN IF NOT EXISTS c{number % 6} INT DEFAULT {number % 6}")
        self.db.execute(f"ALTER TABLE t ADD COLUMN IF NOT EXISTS c{number % 6} INT DEFAULT {number % 6}")

    def renamed(self, number: int) -> None:
        self.db.execute("ALTER TABLE t RENAME TO u")
        self.db.execute("ALTER TABLE u RENAME TO t")

    def replaced(self, number: int) -> None:
        text = f"SELECT * FROM s [RANGE 1000000] WHERE a > {number}"
        self.db.execute(f"REGISTER OR REPLACE QUERY q{number % 3} AS {text}")

    def view(self, number: int) -> None:
        self.db.execute(f"CREATE OR REPLACE VIEW v AS SELECT a FROM s [RANGE {1000000 + number}]")

    def come_and_gone(self, number: int) -> None:
        name = f"own{number}"
        self.db.execute(f"CREATE TABLE {name} (a INT); REGISTER QUERY {name} AS SELECT * FROM {name}")
        self.db.execute(f"INSERT INTO {name} VALUES (1)")
        self.db.execute(f"DROP TABLE {name} CASCADE")

    def asked(self, number: int) -> None:
        assert self.db.query("on_s").result().column_names == ["a", "b"]
        assert len(self.db.execute("SELECT count(*) AS n FROM s").fetchall()) == 1


def state(db: ms.Database) -> dict[str, Any]:
    """All that is declared, and all answers."""
    found: dict[str, Any] = {query.name: sorted(map(str, query.result().to_pylist())) for query in db.queries()}
    found["columns"] = {name: [f.name for f in each.columns] for name, each in sorted(db.catalog.items())}
    return found


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "db"
    with ms.connect(path, engine="inprocess") as db:
        db.execute(SETUP)
        acting = Acting(db)
        threads = [threading.Thread(target=acting.run, args=(seed * 10 + n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not acting.faults, acting.faults
        assert acting.inserted > ROUNDS
        late = db.stats()["streams"]["s"]["late"]
        db.execute(f"ADVANCE TO {acting.at + 1}")
        assert db.query("on_s").result().num_rows + late == acting.inserted
        assert db.query("on_v").result().to_pylist() == [{"n": acting.inserted - late}]
        check_as_said(db)
        before = state(db)
    with ms.connect(path, engine="inprocess") as db:
        assert state(db) == before
        check_as_said(db)


def check_as_said(db: ms.Database) -> None:
    """Every query has the answer of its text."""
    for query in db.queries():
        again = db.register(query.cql, name="again")
        assert sorted(map(str, again.result().to_pylist())) == sorted(map(str, query.result().to_pylist())), query.cql
        again.drop()


_OTHER = """
import sys, millstream as ms
try:
    ms.connect(sys.argv[1], engine="inprocess")
except ms.Error as error:
    print(str(error).splitlines()[0])
"""


def test_a_second_process_in_the_middle(tmp_path: Path) -> None:
    """It is refused while another has the database, and has what was committed once that is gone."""
    path = tmp_path / "db"
    with ms.connect(path, engine="inprocess") as db:
        db.execute(SETUP)
        acting = Acting(db)
        thread = threading.Thread(target=acting.run, args=(7,))
        thread.start()
        said = subprocess.run([sys.executable, "-c", _OTHER, str(path)], capture_output=True, text=True, check=True)
        copy = tmp_path / "copy"
        db.backup(copy)
        thread.join()
        assert not acting.faults, acting.faults
        assert "is open" in said.stdout or "is used" in said.stdout, said
    with ms.connect(copy, engine="inprocess") as db:  # a copy of some commit in between
        check_as_said(db)
