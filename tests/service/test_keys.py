"""Rows that are sent again after a lost connection count once, whatever happened to the service meanwhile."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.serving import served
from tests.support.supervised import supervised

import millstream as ms

STREAM = "CREATE STREAM s (k INT) TIMESTAMP BY ts"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ms.connect(engine="inprocess") as db, served(db) as address:
        db.execute(STREAM)
        yield address


def _post(address: str, path: str, content: object, key: str) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc)
    headers = {"content-type": "application/json", "Idempotency-Key": key}
    try:
        connection.request("POST", path, json.dumps(content), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_the_header(address: str) -> None:
    rows = [[1, 1], [2, 2]]
    assert _post(address, "/v1/streams/s/rows", rows, "a") == (200, {"accepted": 2, "late": 0})
    assert _post(address, "/v1/streams/s/rows", rows, "a") == (200, {"accepted": 2, "late": 0})
    status, said = _post(address, "/v1/streams/s/rows", [[1, 3]], "a")
    assert status == 409, said
    assert _post(address, "/v1/streams/s/rows", rows, "")[0] == 400
    assert _post(address, "/v1/streams/s/rows", rows, "x" * 201)[0] in (400, 422)
    with ms.connect(address) as db, pytest.raises(ms.ConstraintError, match="other rows"):
        db.insert("s", [(7, 7)], key="a")


def test_it_is_for_rows_only(address: str) -> None:
    status, said = _post(address, "/v1/execute", {"text": "INSERT INTO s VALUES (1, 9)"}, "b")
    assert (status, "is for rows" in json.dumps(said)) == (400, True)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["before-sweep:{}", "epoch-run:{}", "changes-written:{}"])
def test_killed_before_the_answer(tmp_path: Path, fault: str) -> None:
    """Committed or not: the client sends it again by itself, and each row is there once."""
    mark = tmp_path / "killed"
    kill = {"MILLSTREAM_FAULT": fault.format(12), "MILLSTREAM_FAULT_MARK": str(mark)}
    with supervised(tmp_path / "db", "--in-process", **kill) as service, ms.connect(service.address) as db:
        db.execute(STREAM)

        def feed(first: int) -> None:
            for k in range(first, first + 10):
                assert db.insert("s", [(k, 1)]).accepted == 1

        threads = [threading.Thread(target=feed, args=[10 * n]) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert mark.exists()
        assert service.starts == 2
        db.advance(to=5)
        counted = db.execute("SELECT k FROM s [RANGE UNBOUNDED] ORDER BY k").table
        assert counted is not None
        assert counted["k"].to_pylist() == [*range(30)]
