"""Sinks: each change once, in deliveries that stay the same however often they are tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms

SETUP = "CREATE STREAM s (a INT) TIMESTAMP BY ts; REGISTER QUERY q AS SELECT a FROM s [RANGE 5]"


class Collected:
    """A sink that keeps what it gets, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.deliveries: list[tuple[int, list[dict[str, Any]]]] = []
        self.failures = failures

    def __call__(self, number: int, changes: pa.Table) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("nobody listens")
        self.deliveries.append((number, changes.to_pylist()))

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.deliveries]

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [change for _, changes in self.deliveries for change in changes]


@pytest.fixture
def db() -> ms.Database:
    database = ms.connect(engine="inprocess")
    database.sinks.pause = 0.0
    database.execute(SETUP)
    return database


def test_a_sink_gets_every_change_once(db: ms.Database) -> None:
    db.insert("s", [(1, 1), (2, 3)])
    sink = Collected()
    db.create_sink("k", "q", sink)
    assert sink.changes == [{"_ts": 1, "_weight": 1, "a": 1}]
    db.insert("s", [(3, 4)])
    db.execute("INSERT INTO s VALUES (4, 4); ADVANCE s TO 20")
    assert sink.numbers == [1, 2, 3]
    assert sink.changes == db.query("q").changes().to_pylist()
    db.advance(to=30)
    assert sink.numbers == [1, 2, 3], "nothing changed"
    (shown,) = db.execute("SHOW SINKS").table.to_pylist()  # type: ignore[union-attr]
    assert (shown["query"], shown["state"], shown["deliveries"], shown["until"]) == ("q", "active", "3", "30")


def test_a_failing_sink_is_retried_then_paused_and_holds_up_nobody(db: ms.Database) -> None:
    failing, good = Collected(failures=2), Collected()
    db.create_sink("failing", "q", failing)
    db.create_sink("good", "q", good)
    db.insert("s", [(1, 1), (2, 2)])
    assert failing.changes == good.changes != []
    failing.failures = 3
    db.insert("s", [(3, 3)])
    db.insert("s", [(4, 4)])
    assert db.stats()["sinks"]["failing"]["state"] == "paused"
    assert "delivery 2: ConnectionError('nobody listens')" in db.stats()["sinks"]["failing"]["error"]
    assert good.numbers == [1, 2, 3]
    db.resume_sink("failing")
    assert failing.deliveries == good.deliveries


def test_a_sink_may_put_rows_in(db: ms.Database) -> None:
    db.execute("CREATE STREAM t (a INT) TIMESTAMP BY ts; REGISTER QUERY r AS SELECT a FROM t")
    got = Collected()
    db.create_sink("through", "q", lambda number, rows: db.insert("t", [(r["a"], r["_ts"]) for r in rows.to_pylist()]))
    db.create_sink("end", "r", got)
    db.insert("s", [(1, 1), (2, 2), (3, 3)])
    assert [change["a"] for change in got.changes] == [1]


def test_sinks_are_dropped_before_their_queries(db: ms.Database) -> None:
    db.create_sink("k", "q", Collected())
    with pytest.raises(ms.CatalogError, match=r"in use\ndetail: by the sink k"):
        db.execute("DROP QUERY q")
    db.register("SELECT a FROM s", name="other")
    with pytest.raises(ms.CatalogError, match='there is a sink "k"'):
        db.create_sink("k", "other", Collected())
    with pytest.raises(ms.NameError, match=r'no sink called "kk"[^$]*did you mean "k"'):
        db.execute("DROP SINK kk")
    db.execute("DROP SINK k; DROP QUERY q")
    assert db.execute("SHOW SINKS").table.num_rows == 0  # type: ignore[union-attr]
    with pytest.raises(ms.NotSupportedError, match="runs without it"):
        db.execute("CREATE SINK k FOR other USING parquet OPTIONS (path '/tmp')")


def test_a_callable_is_attached_again_after_a_restart(tmp_path: Path) -> None:
    first, second = Collected(), Collected()
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(SETUP)
        db.create_sink("k", "q", first)
        db.insert("s", [(1, 1), (2, 2)])
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.insert("s", [(3, 3)])
        assert db.stats()["sinks"]["k"]["state"] == "detached"
        db.create_sink("k", "q", second)
        assert [*first.changes, *second.changes] == db.query("q").changes().to_pylist()
        assert (first.numbers, second.numbers) == ([1], [2])


CRASHING = """
import json, sys
import millstream as ms
directory, rows = sys.argv[1], json.loads(sys.argv[2])
db = ms.connect(directory + "/db", engine="inprocess")
if not db.queries():
    db.execute({setup!r})
def deliver(number, changes):
    with open(f"{{directory}}/{{number}}", "w") as file:
        json.dump(changes.to_pylist(), file)
db.create_sink("k", "q", deliver)
db.insert("s", rows)
db.close()
"""


def test_a_crash_between_delivery_and_commit_repeats_the_same_delivery(tmp_path: Path) -> None:
    def run(rows: list[tuple[int, int]], fault: str = "") -> int:
        program = CRASHING.format(setup=SETUP)
        environment = {**os.environ, "MILLSTREAM_FAULT": fault}
        arguments = [sys.executable, "-c", program, str(tmp_path), json.dumps(rows)]
        return subprocess.run(arguments, env=environment, check=False).returncode

    assert run([(1, 1), (2, 2)]) == 0
    assert run([(3, 5)], fault="sink-written") == -9
    written = (tmp_path / "2").read_text()
    (tmp_path / "2").write_text("lost")
    assert run([(4, 9)]) == 0
    assert (tmp_path / "2").read_text() == written
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        delivered = [change for n in (1, 2, 3) for change in json.loads((tmp_path / str(n)).read_text())]
        assert delivered == db.query("q").changes().to_pylist()


def test_paused_sinks_miss_nothing_and_new_ones_begin_with_what_holds() -> None:
    with ms.connect(engine="inprocess") as db:
        db.sinks.pause = 0.0
        db.execute(
            """CREATE STREAM s (a INT) TIMESTAMP BY ts RETAIN 10;
            REGISTER QUERY q AS SELECT a FROM s [NOW] WHERE a > 0; REGISTER QUERY r AS SELECT a FROM s [RANGE 3]"""
        )
        quiet, failing, late = Collected(), Collected(failures=3), Collected()
        db.create_sink("quiet", "q", quiet)
        db.create_sink("failing", "r", failing)
        for tick in range(0, 100, 2):
            db.insert("s", [(tick // 2, tick)])
        db.insert("s", [(1, 100), (0, 103)])
        assert [change["_ts"] for change in quiet.changes][-2:] == [100, 101]
        shown = db.stats()["sinks"]["failing"]
        assert (shown["state"], shown["since"]) == ("paused", 0)
        assert min(shown["rows"], shown["bytes"]) >= 50
        db.resume_sink("failing")
        entered = [change["a"] for change in failing.changes if change["_weight"] > 0]
        assert entered == [*range(50), 1]
        assert db.stats()["sinks"]["failing"]["rows"] == 0
        db.create_sink("late", "r", late)
        assert late.changes == db.query("r").changes().to_pylist()
