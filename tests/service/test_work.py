"""What is under way ends when it should: by its caller, by others, by time; and whatever dies, dies alone."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pyarrow as pa
import pytest
from tests.support.serving import LIMIT, served, until

import millstream as ms
from millstream.service.callers import Budget
from millstream.service.limits import ServiceLimits
from millstream.service.tokens import Role, Tokens

ROWS = 60_000
LONG = "SELECT count(*) AS n FROM big [RANGE UNBOUNDED] AS a, big [RANGE UNBOUNDED] AS b WHERE a.k + b.k = -1"
LIMITS = "SET max_join_pairs = 1000000000000000; SET max_join_rows = 1000000000"


class Service:
    def __init__(self, db: ms.Database, url: str, tokens: dict[str, str]) -> None:
        self.db, self.url, self._tokens = db, url, tokens

    def connect(self, token: str) -> Any:
        return ms.connect(self.url, token=self._tokens[token])

    def __call__(self, method: str, path: str, body: Any = None, token: str = "admin") -> tuple[int, Any]:
        connection = self.open()
        try:
            self.send(connection, method, path, body, token)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def open(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=LIMIT)

    def send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, token: str = "admin"
    ) -> None:
        headers = {"authorization": f"Bearer {self._tokens[token]}", "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)

    def work(self, text: str = "SELECT count", token: str = "admin") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self("GET", "/v1/work", token=token)[1]["work"]
        return [each for each in found if text in each["what"]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("work") / "db"
    tokens = Tokens(path / "tokens.json")
    path.mkdir()
    with ms.connect(path, engine="inprocess") as db:
        db.execute(f"CREATE STREAM big (k INT) TIMESTAMP BY ts; CREATE STREAM s (k INT) TIMESTAMP BY ts; {LIMITS}")
        db.create_function("die", _dying(), returns="INT")
        db.insert("big", pa.table({"k": pa.array(range(ROWS), pa.int32()), "ts": [1] * ROWS}))
        db.advance(to=2)
        secrets = {role.name.lower(): tokens.add(role.name.lower(), role) for role in Role}
        secrets["small"] = tokens.add("small", Role.READ, Budget(concurrent=1, rows=100, bytes=1000))
        secrets["brief"] = tokens.add("brief", Role.READ, Budget(seconds=1))
        secrets["other"] = tokens.add("other", Role.READ)
        with served(db, tokens, ServiceLimits(seconds=LIMIT, workers=1, worker_memory=256 << 20)) as url:
            yield Service(db, url, secrets)


def _dying() -> Callable[[pl.Series], pl.Series]:
    def die(values: pl.Series) -> pl.Series:
        """Ends its process where it gets rows, and not where it is only planned with."""
        if len(values):
            os.abort()
        return values

    return die


def _asked(service: Service, token: str = "read") -> tuple[threading.Thread, list[tuple[int, Any]]]:
    """A question that takes long, under way in another thread."""
    said: list[tuple[int, Any]] = []
    thread = threading.Thread(
        target=lambda: said.append(service("POST", "/v1/execute", {"text": LONG}, token)), daemon=True
    )
    thread.start()
    until(lambda: service.work())
    return thread, said


def test_work_is_listed_and_ended(service: Service) -> None:
    thread, said = _asked(service)
    (found,) = service.work()
    assert (found["caller"], found["what"]) == ("token read", LONG)
    assert service.work(token="read")[0]["id"] == found["id"]
    assert service.work(token="other") == []
    assert service("DELETE", f"/v1/work/{found['id']}", token="other")[0] == 404
    assert service("DELETE", f"/v1/work/{found['id']}", token="read")[0] == 200
    thread.join(LIMIT)
    assert said[0][0] == 503
    assert said[0][1]["error"]["class"] == "CancelledError"
    assert service("DELETE", f"/v1/work/{found['id']}")[0] == 404
    assert service.work() == []
    assert service("POST", "/v1/execute", {"text": "SELECT count(*) AS n FROM big [RANGE UNBOUNDED]"}, "read")[0] == 200


def test_a_database_in_the_same_process_ends_it_too(service: Service) -> None:
    thread, said = _asked(service)
    (found,) = (work for work in service.db.work() if work.what == LONG)
    service.db.cancel(found.id)
    thread.join(LIMIT)
    assert said[0][0] == 503
    with pytest.raises(ms.NameError, match="no work"):
        service.db.cancel(found.id)


def test_a_caller_that_goes_takes_its_work_along(service: Service) -> None:
    connection = service.open()
    service.send(connection, "POST", "/v1/execute", {"text": LONG}, "read")
    until(lambda: service.work())
    connection.close()
    until(lambda: not service.work())


def test_work_that_takes_longer_than_its_token_may(service: Service) -> None:
    status, said = service("POST", "/v1/execute", {"text": LONG}, "brief")
    assert status == 503, said
    assert "within 1 seconds" in said["error"]["message"]
    until(lambda: not service.work())


def test_budgets_of_a_token(service: Service) -> None:
    status, said = service("POST", "/v1/execute", {"text": "SELECT k FROM big [RANGE UNBOUNDED]"}, "small")
    assert (status, said["error"]["class"]) == (413, "TooLargeError")
    status, said = service("POST", "/v1/execute", {"text": "SELECT k FROM big [RANGE UNBOUNDED] WHERE k < 9"}, "small")
    assert (status, len(said["rows"])) == (200, 9)
    thread, _ = _asked(service, "other")
    first = service.open()
    service.send(first, "POST", "/v1/execute", {"text": "SELECT 1 AS one FROM big [NOW]"}, "small")
    until(lambda: service.work("SELECT 1"))
    status, said = service("GET", "/v1/queries", token="small")
    assert (status, said["error"]["class"]) == (503, "LimitError")
    assert "pieces of work" in said["error"]["message"]
    service("DELETE", f"/v1/work/{service.work()[0]['id']}")
    assert first.getresponse().status in (200, 503)
    first.close()
    thread.join(LIMIT)


def test_inserts_do_not_wait_for_those_who_ask(service: Service) -> None:
    asked = [_asked(service, "read") for _ in range(1)]
    waiting = [service.open() for _ in range(6)]
    for connection in waiting:
        service.send(connection, "POST", "/v1/execute", {"text": LONG}, "read")
    until(lambda: len(service.work()) == 7)
    before = service.db.stats()["streams"]["s"]["arrived"]
    for number in range(10):
        assert service("POST", "/v1/streams/s/rows", [[1, number + 1]], "write")[0] == 200
    assert service.work()  # some are still at it, or wait for their turn
    assert service.db.stats()["streams"]["s"]["arrived"] == before + 10
    for connection in waiting:
        connection.close()
    until(lambda: len(service.work()) <= 1)
    for work in service.work():
        service("DELETE", f"/v1/work/{work['id']}")
    asked[0][0].join(LIMIT)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT die(k) AS x FROM big [RANGE UNBOUNDED]",
        "EXPLAIN ANALYZE SELECT die(k) AS x FROM big [RANGE UNBOUNDED]",
        "SELECT a.k AS x, b.k AS y, a.k + b.k AS z FROM big [RANGE UNBOUNDED] AS a, big [RANGE UNBOUNDED] AS b",
    ],
    ids=["crash", "explain", "memory"],
)
def test_what_dies_dies_alone(service: Service, text: str) -> None:
    status, said = service("POST", "/v1/execute", {"text": text}, "read")
    assert status == 422, said
    assert "ended the process" in said["error"]["message"]
    status, said = service("POST", "/v1/execute", {"text": "SELECT count(*) AS n FROM big [RANGE UNBOUNDED]"}, "read")
    assert (status, said["rows"]) == (200, [{"n": ROWS}])


def test_queries_that_keep_nothing(service: Service) -> None:
    text = "SELECT k, count(*) AS n FROM big [RANGE 5] WHERE k < 3 GROUP BY k"
    with service.connect("write") as db:
        none = db.register(text, "none", mode="none")
        dying = db.register(
            "SELECT a.k AS x, b.k AS y FROM big [RANGE 5] AS a, big [RANGE 5] AS b", "dying", mode="none"
        )
        assert (none.mode, dying.mode) == ("none", "none")
        expected = service.db.execute(text).arrow().to_pylist()
        assert none.result().to_pylist() == expected
        with pytest.raises(ms.EvaluationError, match="ended the process"):
            dying.result()
        many = db.register_many("SELECT k FROM big [RANGE 5] WHERE k = ?", [1, 2, 3], mode="none", template="unkept")
        assert [row["k"] for row in many.result().to_pylist()] == [1, 2, 3]
        db.execute("DROP TEMPLATE unkept; DROP QUERY none; DROP QUERY dying")


def test_answers_are_those_of_the_database_itself(service: Service) -> None:
    for text in (
        "SELECT k FROM big [ROWS 3]",
        "SELECT a.k AS x FROM big [ROWS 3] AS a, big [ROWS 3] AS b WHERE a.k = b.k ORDER BY x DESC",
        "ISTREAM(SELECT k FROM big [RANGE 5] WHERE k < 5)",
        "SELECT count(*) AS n, listagg(CAST(k AS STRING), ',') AS l FROM big [RANGE UNBOUNDED] WHERE k < 4",
    ):
        with service.connect("read") as db:
            assert db.execute(text).arrow().equals(service.db.execute(text).arrow())
    with service.connect("read") as db, pytest.raises(ms.EvaluationError, match="division by zero"):
        db.execute("SELECT k / 0 AS x FROM big [RANGE UNBOUNDED]")


def test_nothing_is_left_in_the_directory(service: Service, tmp_path: Path) -> None:
    directory = service.db.engine.store.directory  # type: ignore[attr-defined]
    before = sorted(path for path in directory.rglob("*.seg"))
    for _ in range(3):
        service("POST", "/v1/execute", {"text": "SELECT k FROM big [ROWS 5]"}, "read")
    assert sorted(path for path in directory.rglob("*.seg")) == before
