"""Following over HTTP: events that are resumed, shared, and made only when their reader takes them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from tests.support.events import Reader
from tests.support.serving import LIMIT, served, until

import millstream as ms
from millstream.query import Bookmark
from millstream.query.reader import ChangeReader
from millstream.service import gate

STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        yield db


def test_events_and_coming_back(db: ms.Database) -> None:
    query = db.register("SELECT k, SUM(v) AS total FROM s [RANGE 7] GROUP BY k", name="q")
    with served(db) as url:
        seen: list[Any] = []
        last: str | None = None
        for start in range(0, 400, 20):
            db.insert("s", [(ts % 3, ts, ts) for ts in range(start, start + 20)])
            # A connection for each event: as lost ones, from the place of the last event.
            with Reader(url, "/v1/queries/q/follow", last) as reader:
                kind, event = next(iter(reader))
                assert kind == "message"
                assert reader.response.getheader("content-type", "").startswith("text/event-stream")
                seen += event["rows"]
                last = reader.last
        assert seen == query.changes().to_pylist()
        assert last == str(query.final)
        with Reader(url, "/v1/queries/q/follow?since=300&timeout=0.05") as reader:
            (_, event), (kind, why) = iter(reader)
            assert event["rows"] == query.changes(since=300).to_pylist()
            assert (kind, why) == ("end", {"reason": "nothing came"})


def test_a_restart_of_the_service(tmp_path: Path) -> None:
    seen: list[int] = []
    last: str | None = None
    for start in range(0, 30, 10):
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            if not start:
                db.execute(STREAM.replace("BY ts", "BY ts TIMESTAMP"))
                db.register("SELECT v FROM s [RANGE 1 SECOND]", name="q")
            with served(db) as url:
                moments = [f"2026-01-31T10:00:{second:02}Z" for second in range(start, start + 10)]
                rows = [{"k": 1, "v": v, "ts": moment} for v, moment in enumerate(moments, start)]
                with ms.connect(url) as remote:
                    remote.insert("s", rows)
                    remote.advance(to=moments[-1])
                with Reader(url, "/v1/queries/q/follow", last) as reader:
                    _, event = next(iter(reader))
                    seen += [row["v"] for row in event["rows"] if row["_weight"] > 0]
                    last = reader.last
                    assert last == moments[-1].replace("Z", ".000000Z")
    assert seen == list(range(30))


def test_many_readers_while_rows_come(db: ms.Database) -> None:
    queries = db.register_many("SELECT v FROM s WHERE k = ?", list(range(5)))
    queries += [db.register("SELECT k, SUM(v) AS total FROM s [RANGE 7] GROUP BY k")]
    with served(db) as url:
        stop = threading.Event()
        seen: list[tuple[str, list[Any]]] = []
        failures: list[BaseException] = []

        def read(name: str, rows: list[Any], breaks: int) -> None:
            last: str | None = None
            try:
                while not stop.is_set():
                    with Reader(url, f"/v1/queries/{name}/follow?timeout=0.5", last) as reader:
                        for number, (kind, event) in enumerate(reader):
                            if kind == "message":
                                rows += event["rows"]
                                last = reader.last
                            if number == breaks:
                                break
            except BaseException as error:  # of a thread: shown below
                failures.append(error)

        readers = []
        for number in range(18):
            rows: list[Any] = []
            seen.append((queries[number % 6].name, rows))
            readers.append(threading.Thread(target=read, args=(*seen[-1], number)))
        for reader in readers:
            reader.start()
        for start in range(0, 1000, 20):
            db.insert("s", [(ts % 5, ts, ts) for ts in range(start, start + 20)])
        db.advance("s", to=1100)
        expected = {query.name: query.changes().to_pylist() for query in queries}
        until(lambda: failures or all(len(rows) >= len(expected[name]) for name, rows in seen))
        stop.set()
        for reader in readers:
            reader.join(LIMIT)
        assert not failures
        assert all(rows == expected[name] for name, rows in seen)


def test_a_reader_that_does_not_read_holds_nothing(db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    query = db.register("SELECT ISTREAM(k, v, v + 1 AS w, v + 2 AS x) FROM s [NOW]", name="q")
    pieces = 0
    original = ChangeReader.next_changes

    def counted(reader: ChangeReader, place: Bookmark, most: int) -> Any:
        nonlocal pieces
        pieces += most > 1
        return original(reader, place, most)

    monkeypatch.setattr(ChangeReader, "next_changes", counted)
    with served(db) as url:
        address = urlsplit(url)
        with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=LIMIT) as slow:
            slow.sendall(b"GET /v1/queries/q/follow HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert slow.recv(15) == b"HTTP/1.1 200 OK"
            # Some 20 MB as events, in pieces of 4,096 rows. What lies in the buffers of the connection is a part of it.
            rows = np.arange(200_000)
            db.insert("s", pa.table({"k": rows % 7, "v": rows, "ts": rows}))
            db.advance("s", to=200_000)
            until(lambda: _stands_still(lambda: pieces))
            assert 0 < pieces < 45
            read = b""
            while b'"_ts":199999,' not in read:
                part = slow.recv(1 << 20)
                assert part
                read = read[-100:] + part
            assert pieces >= 49
        assert query.changes().num_rows == 200_000


def _stands_still(value: Callable[[], Any]) -> bool:
    before = value()
    time.sleep(0.5)
    return bool(before) and value() == before


def test_what_goes_wrong_meanwhile(db: ms.Database) -> None:
    db.register("SELECT 1 / k AS x FROM s [NOW]", name="fails")
    db.register("SELECT k FROM s", name="goes")
    with served(db) as url:
        with Reader(url, "/v1/queries/fails/follow") as failing, Reader(url, "/v1/queries/goes/follow") as going:
            db.insert("s", [(1, 0, 1), (0, 0, 2), (0, 0, 5)])
            events = list(failing)
            assert events[-1][0] == "error"
            assert events[-1][1]["error"]["class"] == "EvaluationError"
            db.query("goes").drop()
            assert list(going)[-1] == ("end", {"reason": 'query "goes" was dropped'})
        for path, status in (
            ("/v1/queries/goes/follow", 404),
            ("/v1/queries/fails/follow", 422),
            ("/v1/queries/fails/follow?since=x", 400),
            ("/v1/queries/fails/follow?timeout=-1", 422),
        ):
            with Reader(url, path) as refused:
                assert refused.response.status == status


def test_a_reader_that_waits_long_is_not_taken_for_a_slow_body(
    db: ms.Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gate, "_PATIENCE", 0.2)
    db.register("SELECT v FROM s", name="waiting")
    with served(db) as url, Reader(url, "/v1/queries/waiting/follow?timeout=1") as reader:
        assert [kind for kind, _ in reader] == ["end"]
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]
