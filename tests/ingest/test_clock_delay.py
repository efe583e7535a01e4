"""HEARTBEAT CLOCK DELAY d: rows carry timestamps, and the heartbeat is the wall clock less d and one tick."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import millstream as ms
from millstream.database import Database

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
CREATE = """CREATE STREAM s (v INT) TIMESTAMP BY ts TIMESTAMP TICK INTERVAL '1' SECOND HEARTBEAT CLOCK DELAY 10 SECONDS
    RETAIN FOREVER"""


def at(second: int) -> dt.datetime:
    return START + dt.timedelta(seconds=second)


def clock_at(db: Database, second: int) -> None:
    db.inputs._now = lambda: at(second).timestamp()


def final(db: Database) -> object:
    db.inputs.tick_clocks()
    return db.query("q").final


def test_lateness_and_finality_go_by_the_clock(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        clock_at(db, 100)
        db.execute(CREATE)
        db.register("SELECT ISTREAM(v) FROM s", name="q")
        # Up to 89 is late; what lies ahead of the clock raises nothing.
        found = db.insert("s", [(1, at(89)), (2, at(90)), (3, at(500)), (4, at(95))])
        assert (found.accepted, found.late) == (3, 1)
        assert final(db) == at(89)
        clock_at(db, 106)
        assert final(db) == at(95)
        assert db.query("q").result().column("v").to_pylist() == [2, 4]
        # The clock may go back; heartbeats do not.
        clock_at(db, 50)
        assert final(db) == at(95)
        assert db.insert("s", [(5, at(95))]).late == 1
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        clock_at(db, 1_000)
        assert db.insert("s", [(6, at(990)), (7, at(989))]).late == 1
        late = db.execute("SELECT v FROM s._late").table
        assert late is not None
        assert late.column("v").to_pylist() == [1, 5, 7]
        clock_at(db, 2_000)
        assert final(db) == at(1_989)
        assert db.query("q").result().column("v").to_pylist() == [2, 4, 3, 6]


def test_it_must_be_known_how_long_a_tick_is() -> None:
    with ms.connect(engine="inprocess") as db, pytest.raises(ms.BindError, match="how long a tick is"):
        db.execute("CREATE STREAM s (v INT) TIMESTAMP BY ts HEARTBEAT CLOCK DELAY 10")
