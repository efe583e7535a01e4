"""Millstream watches itself: the system streams, as a user reads them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream as ms
from millstream.database import Database
from millstream.system.recorder import Recorder
from millstream.system.streams import EPOCHS, SYSTEM_STREAMS

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"
COUNTS = "SELECT a, COUNT(*) AS n FROM s [RANGE 10] GROUP BY a"


@pytest.fixture
def db() -> Iterator[Database]:
    with ms.connect(engine="inprocess") as opened:
        opened.execute("CREATE STREAM s (a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        yield opened


def rows(db: Database, text: str) -> list[dict[str, Any]]:
    table = db.execute(text).table
    assert table is not None
    return [{name: value for name, value in row.items() if name != "_ts"} for row in table.to_pylist()]


def eventually(is_so: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.02)


def test_every_epoch_is_told_with_its_phases(db: Database) -> None:
    db.register(COUNTS)
    first = db.stats()["epoch"]
    for t in range(3):
        db.insert("s", [(1, t), (2, t)])
    told = rows(db, "SELECT * FROM sys.epochs")
    assert [(row["epoch"], row["rows"], row["late"], row["failures"]) for row in told] == [
        (first + 1 + t, 2, 0, 0) for t in range(3)
    ]
    for row in told:
        phases = [row[f"{phase}_ms"] for phase in ("wait", "admit", "prepare", "run", "commit", "finish")]
        assert min(phases) >= 0
        assert sum(phases) == pytest.approx(row["total_ms"])
        assert row["operators"] > 0


def test_operators_and_streams_of_an_epoch(db: Database) -> None:
    db.register(COUNTS)
    db.insert("s", [(1, 0), (2, 5), (2, 3)])
    operators = rows(db, "SELECT kind, SUM(rows) AS n FROM sys.operators GROUP BY kind")
    assert {"kind": "TimeWindow", "n": 2} in operators
    (stream,) = rows(db, "SELECT stream, rows, arrived, late, heartbeat, lag_ms FROM sys.streams")
    assert stream == {"stream": "s", "rows": 3, "arrived": 3, "late": 1, "heartbeat": 4, "lag_ms": None}


def test_the_lag_is_behind_the_wall_clock(db: Database) -> None:
    db.execute("CREATE STREAM t (a BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    db.execute("INSERT INTO t VALUES (1, TIMESTAMP '2020-01-01 00:00:00')")
    (stream,) = rows(db, "SELECT stream, lag_ms FROM sys.streams")
    assert stream["stream"] == "t"
    assert stream["lag_ms"] > 1e9


def test_queries_come_fail_and_go(db: Database) -> None:
    db.register(COUNTS, name="counts")
    db.register("SELECT 1 / a AS x FROM s [RANGE 10]", name="fails", mode="lazy")
    db.insert("s", [(0, 0), (1, 5)])
    db.drop_query("counts")
    told = rows(db, "SELECT query, state, mode, error FROM sys.queries")
    assert [(row["query"], row["state"], row["mode"]) for row in told if row["state"] != "failed"] == [
        ("counts", "running", "eager"),
        ("fails", "running", "lazy"),
        ("counts", "dropped", "eager"),
    ]
    (failed,) = (row for row in told if row["state"] == "failed")
    assert failed["query"] == "fails"
    assert "zero" in failed["error"]
    assert len(rows(db, "SELECT * FROM sys.queries WHERE state = 'failed'")) == 1, "it fails once"


def test_an_alert_on_a_slow_epoch_is_a_standing_query(db: Database) -> None:
    alert = db.register("SELECT ISTREAM(epoch, total_ms) FROM sys.epochs [RANGE 1 HOUR] WHERE total_ms > 0")
    delivered: list[int] = []
    db.create_sink("alerts", alert, lambda number, changes: delivered.extend(changes["epoch"].to_pylist()))
    for t in range(3):
        db.insert("s", [(1, t)])
    eventually(lambda: len(delivered) == 3)
    assert delivered == [row["epoch"] for row in rows(db, "SELECT epoch FROM sys.epochs")]


def test_what_is_told_is_not_told_again(db: Database) -> None:
    for stream in SYSTEM_STREAMS:
        query = db.register(f"SELECT * FROM {stream.name}", name=stream.name.replace(".", "_"))
        db.create_sink(f"to_{query.name}", query, lambda number, changes: None)
    db.insert("s", [(1, 1)])
    told = [len(rows(db, f"SELECT * FROM {stream.name}")) for stream in SYSTEM_STREAMS]
    epoch = db.stats()["epoch"]
    time.sleep(0.5)
    assert db.stats()["epoch"] <= epoch + 2, "the epochs that tell of one are not told of"
    assert [len(rows(db, f"SELECT * FROM {stream.name}")) for stream in SYSTEM_STREAMS] == told


def test_eddies_tell_their_tickets(db: Database) -> None:
    for n in range(50):
        db.register(f"SELECT * FROM s WHERE a > {n} AND ts < {100 - n} AND a <> {n + 5}")
    for name in "rt":
        db.execute(f"CREATE STREAM {name} (a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    db.execute("SET join_plan = 'eddy'")
    db.register("SELECT s.a FROM s [RANGE 9], r [RANGE 9], t [RANGE 9] WHERE s.a = r.a AND s.a = t.a")
    for source in "srt":
        db.insert(source, [(n % 40, n) for n in range(200)])
    assert len(db.system._recorders["sys.routing"]), "who comes later sees how shares have moved"
    told = rows(db, "SELECT * FROM sys.routing")
    assert {row["module"] for row in told if row["source"] == 0} == {"SteM 1: r [RANGE 9]", "SteM 2: t [RANGE 9]"}
    assert [row for row in told if row["source"] is None], "grouped filters have tickets too"
    assert all(0 < row["share"] <= 1 and row["tickets"] > 0 for row in told)


def test_deliveries_and_failing_sinks_are_told(db: Database) -> None:
    query = db.register("SELECT ISTREAM(a) FROM s [NOW]", name="q")
    db.create_sink("good", query, lambda number, changes: None)

    def refuse(number: int, changes: object) -> None:
        raise ValueError("no room")

    db.sinks.pause = 0
    db.create_sink("bad", query, refuse)
    db.insert("s", [(7, 1), (8, 2)])
    told = rows(db, "SELECT sink, query, state, delivery, rows, error FROM sys.sinks")
    assert {"sink": "good", "query": "q", "state": "active", "delivery": 1, "rows": 1, "error": ""} in told
    (bad,) = (row for row in told if row["sink"] == "bad")
    assert bad["state"] == "paused"
    assert "no room" in bad["error"]


def test_nothing_is_written_while_nobody_reads(db: Database) -> None:
    for t in range(5):
        db.insert("s", [(1, t)])
    assert not [source for source in db.engine.snapshot.history if source.startswith("sys.")]
    assert len(rows(db, "SELECT * FROM sys.epochs")) == 5


def test_who_reads_other_queries_does_not_feed_them(db: Database) -> None:
    query = db.register(COUNTS)
    assert not rows(db, "SELECT * FROM sys.epochs")
    db.insert("s", [(1, 1)])
    assert rows(db, "SELECT * FROM sys.epochs")
    time.sleep(0.5)  # what was asked for in the background has been done
    epoch = db.stats()["epoch"]
    for _ in range(5):
        query.result()
    assert db.stats()["epoch"] <= epoch + 1


def test_the_clock_of_tables_and_the_listings_are_left_alone(db: Database) -> None:
    db.execute("CREATE TABLE owners (a BIGINT)")
    db.insert("s", [(1, 5)])
    before = db.stats()
    assert rows(db, "SELECT * FROM sys.epochs")
    db.execute("INSERT INTO owners VALUES (1)")
    after = db.stats()
    assert after["clock"] == before["clock"]
    assert after["streams"].keys() == {"s"}
    shown = db.execute("SHOW STREAMS").table
    assert shown is not None
    assert shown["name"].to_pylist() == ["s"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO sys.epochs VALUES (1)",
        "DROP STREAM sys.epochs",
        "ADVANCE sys.epochs TO 5",
        "CREATE STREAM sys.epochs (a BIGINT, ts BIGINT) TIMESTAMP BY ts",
    ],
)
def test_nobody_else_writes_them(db: Database, statement: str) -> None:
    with pytest.raises(ms.Error):
        db.execute(statement)
    with pytest.raises(ms.Error):
        db.insert("sys.epochs", [(1,)])
    db.insert("s", [(1, 1)])
    assert len(rows(db, "SELECT * FROM sys.epochs")) == 1


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_in_every_mode(db: Database, mode: str) -> None:
    query = db.register("SELECT epoch, rows FROM sys.epochs [RANGE 1 HOUR] WHERE rows > 0", mode=mode)
    for t in range(3):
        db.insert("s", [(1, t)] * (t + 1))
    assert sorted(query.result()["rows"].to_pylist()) == [1, 2, 3]


def test_a_standing_query_goes_on_after_a_restart(tmp_path: Path) -> None:
    def opened() -> Database:
        database = ms.connect(tmp_path / "db", engine="inprocess")
        assert isinstance(database, Database)
        return database

    with opened() as db:
        db.execute("CREATE STREAM s (a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        db.register("SELECT epoch FROM sys.epochs [RANGE 1 HOUR]", name="epochs")
        db.insert("s", [(1, 1)])
        assert db.query("epochs").result().num_rows == 1
    with opened() as db:
        assert db.query("epochs").result().num_rows == 1
        db.insert("s", [(1, 2)])
        assert db.query("epochs").result().num_rows == 2


def test_a_wall_clock_that_goes_back_does_not_take_time_back(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 2_000_000_000.0
    monkeypatch.setattr(db.system, "_now", lambda: now)
    db.insert("s", [(1, 1)])
    query = db.register("SELECT epoch FROM sys.epochs [RANGE 1 HOUR]")
    assert query.result().num_rows == 1
    now -= 1_000
    db.insert("s", [(1, 2)])
    assert query.result().num_rows == 2
    assert db.stats()["streams"]["s"]["late"] == 0
    now += 1_000 + 3_601
    db.insert("s", [(1, 3)])
    assert query.result().num_rows == 1, "an hour has passed"


def test_what_waits_is_bounded() -> None:
    recorder = Recorder(EPOCHS, limit=10)
    for at in range(100):
        recorder.note(at, 3, lambda: [[0] * (len(EPOCHS.columns) - 1)] * 3)
    assert len(recorder) == 9
    frame = recorder.taken(since=98)
    assert frame is not None
    assert frame.height == 6
    assert len(recorder) == 0
    assert recorder.taken(0) is None


def test_epochs_and_readers_of_many_threads(db: Database) -> None:
    query = db.register("SELECT COUNT(*) AS n FROM sys.epochs [RANGE UNBOUNDED]")
    db.execute("SET replan = 'off'")
    failures: list[BaseException] = []

    def work(what: Callable[[int], object]) -> None:
        try:
            for n in range(20):
                what(n)
        except BaseException as error:
            failures.append(error)

    names = ["u", "v"]
    for name in names:
        db.execute(f"CREATE STREAM {name} (a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    inserting = [
        threading.Thread(target=work, args=(lambda n, name=name: db.insert(name, [(n, n)]),)) for name in names
    ]
    reading = [threading.Thread(target=work, args=(lambda n: query.result(),)) for _ in range(2)]
    for thread in (*inserting, *reading):
        thread.start()
    for thread in (*inserting, *reading):
        thread.join()
    assert not failures
    assert query.result()["n"].to_pylist() == [40]


def test_the_documented_columns_are_those_of_the_streams() -> None:
    text = DOCS.read_text()
    for stream in SYSTEM_STREAMS:
        found = re.search(rf"^\| `{re.escape(stream.name)}` \|(.*?)\|", text, re.MULTILINE)
        assert found, f"{stream.name} is not documented"
        documented = [column.strip(" `") for column in found[1].split(",")]
        assert documented == [f"{field.name} {field.type}" for field in stream.columns]
