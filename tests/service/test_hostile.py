"""Whatever is sent, or not read: a refusal that says why, and a service that goes on."""

from __future__ import annotations

import http.client
import json
import random
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from tests.support.serving import LIMIT, served, until

import millstream as ms
from millstream.service.limits import ServiceLimits

SETUP = "CREATE STREAM s (k INT, v STRING) TIMESTAMP BY ts; REGISTER QUERY q AS SELECT k FROM s [RANGE 5]"
ARROW = "application/vnd.apache.arrow.stream"


class Caller:
    """Sends what no client would."""

    def __init__(self, url: str) -> None:
        self.netloc = urlsplit(url).netloc

    def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(self.netloc, timeout=LIMIT)
        try:
            connection.request(method, path, body, {"content-type": kind}, encode_chunked=not isinstance(body, bytes))
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else {}
        finally:
            connection.close()


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[ms.Database, Caller]]:
    with ms.connect(engine="inprocess") as db:
        db.execute(SETUP)
        with served(db, limits=ServiceLimits(request_bytes=4 << 20)) as url:
            yield db, Caller(url)


@pytest.mark.parametrize("number", [-1, (1 << 31) + 1, 1 << 63, 1 << 64, 10**30, -(10**30)])
def test_numbers_that_are_too_large(service: tuple[ms.Database, Caller], number: int) -> None:
    """Wherever a request has a number, one beyond what can be counted is refused, or is as good as any."""
    _, call = service
    asked: list[tuple[str, str, object]] = [
        ("POST", "/v1/results", {"limit": number}),
        ("POST", "/v1/results", {"at": number}),
        ("POST", "/v1/advance", {"to": number}),
        ("POST", "/v1/streams/s/rows", [[number, "a", 1]]),
        ("POST", "/v1/streams/s/rows", [[1, "a", number]]),
        ("PUT", "/v1/settings/max_lag", {"value": number}),
        ("PUT", "/v1/settings/max_join_rows", {"value": number}),
        ("POST", "/v1/execute", {"text": f"SELECT k + {number} FROM s [RANGE 5]"}),
        ("DELETE", f"/v1/work/{number}", None),
    ]
    for name in ("at", "limit", "offset"):
        asked += [("GET", f"/v1/queries/q/result?{name}={number}", None), ("GET", f"/v1/queries?{name}={number}", None)]
    asked += [("GET", f"/v1/queries/q/{what}={number}", None) for what in ("changes?limit", "changes?since")]
    for method, path, body in asked:
        if path == "/v1/advance" and 0 < number < 1 << 62:
            continue  # that is an instant, from which on all that the others send would be late
        status, said = call(method, path, None if body is None else json.dumps(body).encode())
        assert status < 500, (method, path, body, said)
    assert call("PUT", "/v1/settings/max_lag", b'{"value": 0}')[0] == 200
    assert call("PUT", "/v1/settings/max_join_rows", b'{"value": 50000000}')[0] == 200


UNUSABLE = ['"\\ud800"', '"a\\u0000b"', '"' + "x" * 129 + '"', '".."', '"_mine"', '"a\\nb"']


@pytest.mark.parametrize("name", UNUSABLE)
def test_names_that_cannot_be_used(service: tuple[ms.Database, Caller], name: str) -> None:
    db, call = service
    before = [query.name for query in db.queries()]
    cql = json.dumps("SELECT k FROM s [RANGE 3]")
    status, said = call("POST", "/v1/queries", f'{{"cql": {cql}, "name": {name}}}'.encode())
    assert (status, "error" in said) in ((400, True), (422, True)), said
    template = json.dumps("SELECT k FROM s WHERE k = ?")
    body = f'{{"template": {template}, "rows": [[1]], "names": [{name}]}}'
    status, said = call("POST", "/v1/queries/many", body.encode())
    assert (status, "error" in said) in ((400, True), (422, True)), said
    assert [query.name for query in db.queries()] == before
    assert call("GET", "/v1/queries/q")[0] == 200


@pytest.mark.parametrize(
    "text", ["\"SELECT '\\ud800' AS x FROM s\"", '"CREATE TABLE `\\ud800` (a INT)"', '"SELECT \\u0000"']
)
def test_statements_that_are_no_text(service: tuple[ms.Database, Caller], text: str) -> None:
    _, call = service
    status, said = call("POST", "/v1/execute", f'{{"text": {text}}}'.encode())
    assert status in (400, 422), said
    assert said["error"]["message"]
    assert call("GET", "/v1/queries/q")[0] == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        *("/v1/queries/..", "/v1/queries/../../etc/passwd/result", "/v1/queries/%2e%2e%2fq%00/result"),
        *("/v1/queries/%ff%fe/result", "/v1/queries/%ed%a0%80", "/v1/streams/%2e%2e/rows", "/v1/streams/s%00/rows"),
        *(f"/v1/queries/{'x' * 5000}/changes", "/v1/sinks/%00/resume", "/v1/queries/q/result?at=%00"),
        *("/v1/queries/q/changes?since=9999999999999999999999", "/v1/queries/q/follow?since=%ed%a0%80"),
    ],
)
def test_paths_that_lead_nowhere(service: tuple[ms.Database, Caller], method: str, path: str) -> None:
    _, call = service
    status, _ = call(method, path, b"[]" if method == "POST" else None)
    assert 400 <= status < 500, status
    assert call("GET", "/v1/queries/q")[0] == 200


def _arrow(values: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, values.schema) as writer:
        writer.write_table(values)
    return bytes(sink.getvalue())


RIGHT = _arrow(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["x", "y"], "ts": [1, 2]}))
BROKEN_TEXT = _arrow(pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([b"\xff"]).view(pa.string()), "ts": [1]}))
# Arrow itself ends the process that casts such a decimal.
FAR_SCALE = pa.array([1, None], pa.decimal128(5, 0)).view(pa.decimal128(5, 16_777_218))
DECIMALS = _arrow(pa.table({"k": FAR_SCALE, "v": ["x", "y"], "ts": [1, 2]}))
CODED = _arrow(pa.table({"k": FAR_SCALE.dictionary_encode(), "v": ["x", "y"], "ts": [1, 2]}))
NESTED = b"[" * 2_000_000
HOSTILE: dict[str, tuple[bytes, str]] = {
    "deep": (NESTED, "application/json"),
    "deep value": (b'[{"k": ' + b"[" * 100_000 + b"]" * 100_000 + b', "v": "x", "ts": 1}]', "application/json"),
    "deep line": (NESTED, "application/x-ndjson"),
    "half of a pair": (b'[{"k": 1, "v": "\\ud800", "ts": 1}]', "application/json"),
    "half of a pair in a name": (b'[{"k": 1, "\\ud800": "x", "ts": 1}]', "application/json"),
    "digits": (b'[{"k": ' + b"9" * 100_000 + b', "v": "x", "ts": 1}]', "application/json"),
    "exponent": (b'[{"k": 1e999999999, "v": "x", "ts": 1}]', "application/json"),
    "not UTF-8": (b'[{"k": 1, "v": "\xff", "ts": 1}]', "application/json"),
    "empty": (b"", "application/json"),
    "unknown kind": (b"k: 1", "application/yaml"),
    "kind that is none": (b"[]", "\xff/;;;"),
    "form": (b"k=1&v=x", "application/x-www-form-urlencoded"),
    "no Arrow": (b"nonsense", ARROW),
    "half an Arrow stream": (RIGHT[: len(RIGHT) // 2], ARROW),
    "Arrow file of nothing": (b"ARROW1\x00\x00", ARROW),
    "Arrow of 2 GB metadata": (struct.pack("<Ii", 0xFFFFFFFF, 2**31 - 1) + b"x", ARROW),
    "Arrow with broken text": (BROKEN_TEXT, ARROW),
    "Arrow decimals that are none": (DECIMALS, ARROW),
    "Arrow dictionary of such": (CODED, ARROW),
    "CSV of zeros": (b"\x00" * 1000, "text/csv"),
    "CSV of many columns": (b"," * 100_000, "text/csv"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_rows_that_are_none(service: tuple[ms.Database, Caller], name: str) -> None:
    db, call = service
    body, kind = HOSTILE[name]
    arrived = db.stats()["streams"]["s"]["arrived"]
    status, said = call("POST", "/v1/streams/s/rows", body, kind)
    assert status == 400, said
    assert said["error"]["message"]
    assert db.stats()["streams"]["s"]["arrived"] == arrived
    for path in ("/v1/execute", "/v1/queries", "/v1/queries/many", "/v1/advance", "/v1/run"):
        status, said = call("POST", path, body, kind)
        assert 400 <= status < 500, (path, said)
    assert call("GET", "/v1/queries/q")[0] == 200


def test_arrow_with_any_byte_changed(service: tuple[ms.Database, Caller]) -> None:
    """It is taken or refused, and no process ends of it."""
    _, call = service
    dice = random.Random(7)
    for _ in range(150):
        body = bytearray(RIGHT)
        for _ in range(dice.randint(1, 4)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        status, said = call("POST", "/v1/streams/s/rows", bytes(body), ARROW)
        assert status in (200, 400), said
    assert call("GET", "/v1/queries/q")[0] == 200


def test_bodies_without_end(service: tuple[ms.Database, Caller]) -> None:
    _, call = service
    status, said = call("POST", "/v1/streams/s/rows", (b"[" * 65536 for _ in range(200)))
    assert (status, said["error"]["class"]) == (413, "LimitError")
    assert call("GET", "/v1/queries/q")[0] == 200


def test_a_caller_that_goes_amid_its_body(
    service: tuple[ms.Database, Caller], caplog: pytest.LogCaptureFixture
) -> None:
    _, call = service
    host, _, port = call.netloc.partition(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT) as connection:
        head = "POST /v1/streams/s/rows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\nContent-Length: 50"
        connection.sendall(f"{head}\r\n\r\nk".encode())
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    assert call("GET", "/v1/queries/q")[0] == 200
    assert not [record for record in caplog.records if record.exc_info]


def test_a_follower_that_does_not_read_is_told_where_it_was_left() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("SET max_follower_bytes = '1 MB'; CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts RETAIN 100")
        db.register("SELECT ISTREAM(k, v, v + 1 AS w, v + 2 AS x) FROM s [NOW]", name="q")
        with served(db) as url:
            address = urlsplit(url)
            with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=LIMIT) as slow:
                slow.sendall(b"GET /v1/queries/q/follow HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert slow.recv(15) == b"HTTP/1.1 200 OK"
                for start in range(0, 400_000, 50_000):
                    rows = np.arange(start, start + 50_000)
                    db.insert("s", pa.table({"k": rows % 7, "v": rows, "ts": rows}))
                read = b""
                while b"event: error" not in read or not read.endswith(b"\n\n\r\n0\r\n\r\n"):
                    part = slow.recv(1 << 20)
                    assert part, read[-1000:]
                    read = read[-4000:] + part
            line = next(line for line in read.split(b"event: error\n")[1].splitlines() if line.startswith(b"data: "))
            said = json.loads(line.removeprefix(b"data: "))["error"]
            assert "are no longer kept" in said["message"], said
            assert "max_follower_bytes" in said["detail"]
            until(lambda: Caller(url)("GET", "/v1/stats")[0] == 200)
            db.insert("s", [(1, 1, 400_000)])
            assert Caller(url)("GET", "/v1/queries/q/changes?since=399998")[0] == 200


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(SETUP)
        db.insert("s", [(1, "x", 1), (2, "y", 2)])
    return tmp_path / "db"


def full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "what",
    ["millstream.state.manifest.write_new", "millstream.state.manifest.write_whole", "millstream.state.files.os.link"],
)
def test_a_full_disk_when_a_database_is_opened(
    tmp_path: Path, closed: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    before = {path: path.read_bytes() for path in closed.rglob("*") if path.is_file() and path.name != "LOCK"}
    monkeypatch.setattr(what, full)
    if what.endswith(("write_new", "link")):
        with pytest.raises(ms.StateError, match="No space left on device"):
            ms.connect(closed, engine="inprocess")
    with pytest.raises(ms.StateError, match="No space left on device"):
        ms.connect(tmp_path / "new", engine="inprocess")
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in before} == before
    with ms.connect(closed, engine="inprocess") as db:
        assert db.query("q").result().to_pylist() == [{"k": 1}]
    with ms.connect(tmp_path / "new", engine="inprocess") as db:
        assert db.queries() == []


def fill(disk: Path) -> None:
    with (disk / "filling").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 1000)


def test_a_disk_that_is_full_or_cannot_be_written(closed: Path, disk: Path) -> None:
    """A real one, of 256 KB."""
    shutil.copytree(closed, disk / "db")
    fill(disk)
    for name in ("db", "new"):
        with pytest.raises(ms.StateError, match="No space left on device"):
            ms.connect(disk / name, engine="inprocess")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for name in ("db", "other"):
        with pytest.raises(ms.StateError, match="Read-only file system"):
            ms.connect(disk / name, engine="inprocess")
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    (disk / "filling").unlink()
    for name in ("db", "new"):
        with ms.connect(disk / name, engine="inprocess") as db:
            assert [query.result().to_pylist() for query in db.queries()] == ([[{"k": 1}]] if name == "db" else [])
