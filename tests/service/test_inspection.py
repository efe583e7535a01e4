"""The routes for those who look inside: the plan and its events, checked texts, names, streams, settings."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.support.serving import served

import millstream as ms
from millstream.service.tokens import Role, Tokens

SETUP = """
CREATE STREAM s (a BIGINT, b BIGINT, ts BIGINT) TIMESTAMP BY ts;
CREATE TABLE t (k BIGINT, v STRING);
CREATE VIEW w AS SELECT a FROM s [RANGE 3];
REGISTER QUERY counts AS SELECT a, COUNT(*) AS n FROM s [RANGE 10] GROUP BY a;
REGISTER QUERY fails AS SELECT 1 / a AS x FROM s [RANGE 10];
"""
ROWS = "INSERT INTO s VALUES (1, 1, 1), (2, 2, 2), (0, 3, 3), (1, 9, 1); ADVANCE TO 5"


class Service:
    def __init__(self, url: str, token: str | None = None) -> None:
        self.url, self._token = url, token

    def ask(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any, dict[str, str]]:
        headers = {"content-type": "application/json"} if body is not None else {}
        headers |= {"authorization": f"Bearer {self._token}"} if self._token else {}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(f"{self.url}{path}", data, headers, method=method)) as response:
                content, found = response.read(), {name.lower(): value for name, value in response.headers.items()}
                return response.status, json.loads(content) if "json" in found["content-type"] else content, found
        except HTTPError as error:
            return error.code, json.loads(error.read()), {}

    def get(self, path: str) -> Any:
        status, content, _ = self.ask(path)
        assert status == 200, content
        return content


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(SETUP)
        db.register_many("SELECT a, b FROM s WHERE a > ?", [(n,) for n in range(30)], template="many")
        db.execute(ROWS)
        yield db


@pytest.fixture(scope="module")
def service(db: ms.Database) -> Iterator[Service]:
    with served(db) as url:
        yield Service(url)


def test_the_plan_is_what_the_database_says(db: ms.Database, service: Service) -> None:
    whole = service.get("/v1/plan")
    assert {node["id"] for node in whole["nodes"]} == {node["id"] for node in db.inspection.plan()["nodes"]}
    part = service.get("/v1/plan?query=counts")
    assert {node["id"] for node in part["nodes"]} < {node["id"] for node in whole["nodes"]}
    assert service.ask("/v1/plan?query=nothing")[0] == 404
    (source,) = (node for node in whole["nodes"] if node["kind"] == "source")
    sharers = service.get(f"/v1/plan/{source['id']}/queries?offset=30&limit=5")
    assert (len(sharers["queries"]), sharers["total"]) == (2, 32)
    assert service.ask("/v1/plan/nothing/queries")[0] == 404


def test_events_of_the_plan(db: ms.Database, service: Service) -> None:
    with urlopen(f"{service.url}/v1/plan/events?timeout=20") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = (json.loads(line[6:]) for line in response if line.startswith(b"data: "))
        first = next(events)
        assert first == {"epoch": db.stats()["epoch"], "version": service.get("/v1/plan")["version"]}
        db.insert("s", [(7, 7, 7)])
        moved = next(event for event in events if "rows_out" in event.get("nodes", {}).get("s", {}))
        assert moved["nodes"]["s"]["rows_out"] == 4
        assert set(moved["edges"]) <= {edge["id"] for edge in service.get("/v1/plan")["edges"]}
        db.register("SELECT DISTINCT b FROM s [RANGE 9]", name="new")
        changed = next(event for event in events if event.get("structure"))
        assert changed["version"] == service.get("/v1/plan")["version"]
    db.drop_query("new")


def test_a_text_is_checked_and_not_registered(db: ms.Database, service: Service) -> None:
    before = len(db.queries()), db.stats()["epoch"]
    _, found, _ = service.ask("/v1/check", {"cql": "SELECT a, b FROM s WHERE a > 5"})
    assert (found["ok"], found["kind"]) == (True, "stream")
    assert found["schema"] == [{"name": "a", "type": "BIGINT"}, {"name": "b", "type": "BIGINT"}]
    assert "ISTREAM" in found["expanded"]
    assert len(found["defaults"]) == 2
    assert found["shared"][0]["queries"] == 30
    assert (found["cost"]["operators"], found["cost"]["new_operators"]) == (2, 0)
    assert found["cost"]["nanoseconds_per_tick"] > 0
    _, own, _ = service.ask("/v1/check", {"cql": "REGISTER QUERY x AS SELECT DISTINCT a FROM s [RANGE 77]"})
    assert own["ok"]
    assert own["cost"]["new_operators"] > 0
    _, other, _ = service.ask("/v1/check", {"cql": "DROP QUERY counts"})
    assert (other["ok"], other["kind"]) == (True, "statement")
    assert (len(db.queries()), db.stats()["epoch"]) == before


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT zz FROM s", 'unknown column "zz"', (1, 8, 1, 10)),
        ("SELECT a\nFROM nowhere [RANGE 5]", 'there is no stream, table or view called "nowhere"', (2, 6, 2, 23)),
        ("SELECT a FROM s\nWHERE", "the text ends too early", (2, 6, 2, 7)),
        ("", "there is no query in the text", (None, None, None, None)),
        ("SELECT 'open", "cannot read the text", (None, None, None, None)),
    ],
)
def test_errors_have_places(service: Service, text: str, message: str, place: tuple[int | None, ...]) -> None:
    status, found, _ = service.ask("/v1/check", {"cql": text})
    assert (status, found["ok"]) == (200, False)
    (error,) = found["errors"]
    assert error["message"] == message
    assert tuple(error[name] for name in ("line", "column", "end_line", "end_column")) == place


def test_names(service: Service) -> None:
    found = service.get("/v1/names")
    streams = {each["name"]: each["columns"] for each in found["streams"]}
    assert streams["s"][0] == {"name": "a", "type": "BIGINT"}
    assert "sys.epochs" in streams
    assert {"t"} <= {each["name"] for each in found["tables"]}
    assert [each["name"] for each in found["views"]] == ["w"]
    functions = {each["name"]: each["signature"] for each in found["functions"]}
    assert {"upper", "count", "coalesce"} <= functions.keys()
    assert {"SELECT", "ISTREAM"} <= {*found["keywords"]}
    assert "counts" in found["queries"]


def test_queries_are_sought_and_sorted(service: Service) -> None:
    page = service.get("/v1/queries?limit=3")
    assert (page["queries"][0]["name"], page["queries"][0]["state"]) == ("fails", "failed")
    assert "division by zero" in page["queries"][0]["error"]
    assert (len(page["queries"]), page["total"]) == (3, 32)
    assert page["states"] == {"running": 31, "filling": 0, "failed": 1}
    assert [each["name"] for each in service.get("/v1/queries?search=COUN")["queries"]] == ["counts"]
    assert service.get("/v1/queries?state=failed")["total"] == 1
    assert service.get("/v1/queries?template=many&limit=0") == {**page, "queries": [], "total": 30}
    assert {each["name"] for each in service.get("/v1/queries?template=")["queries"]} == {"counts", "fails"}
    names = [each["name"] for each in service.get("/v1/queries?sort=name")["queries"]]
    assert names == sorted(names)
    costs = [each["share"] for each in service.get("/v1/queries?sort=cost")["queries"]]
    assert costs == sorted(costs, reverse=True)
    assert sum(costs) == pytest.approx(1, abs=0.1)
    assert service.ask("/v1/queries?sort=beauty")[0] == 422


def test_downloads_and_extent(db: ms.Database, service: Service) -> None:
    expected = db.query("counts").result(at=4).to_pylist()
    for form in ("csv", "json", "arrow", "parquet"):
        _, content, headers = service.ask(f"/v1/queries/counts/result?at=4&format={form}")
        assert headers["content-disposition"].startswith(f'attachment; filename="counts.{form}"')
        if form == "parquet":
            assert pa.parquet.read_table(io.BytesIO(content)).to_pylist() == expected
        elif form == "arrow":
            assert pa.ipc.open_stream(content).read_all().to_pylist() == expected
        elif form == "json":
            assert content["rows"] == expected
        else:
            assert len(content.splitlines()) == len(expected) + 1
    final = db.query("counts").final
    assert service.get("/v1/queries/counts/extent") == {"first_answerable": 0, "final": final, "type": "BIGINT"}
    assert service.get("/v1/queries/fails/extent") == {"first_answerable": None, "final": None, "type": "BIGINT"}


def test_a_part_of_an_answer_says_how_many_there_are(db: ms.Database, service: Service) -> None:
    counts, changes = db.query("counts"), db.query("counts").changes().to_pylist()
    found = service.get("/v1/queries/counts/result?limit=1")
    assert found["rows"] == counts.result().to_pylist()[:1]
    assert found["total"] == counts.result().num_rows > 1
    found = service.get("/v1/queries/counts/changes?limit=2")
    assert (found["rows"], found["total"]) == (changes[-2:], len(changes))
    stream = next(iter(db.template("many")))
    elements = stream.result().to_pylist()
    found = service.get(f"/v1/queries/{stream.name}/result?limit=1")
    assert (found["rows"], found["total"]) == (elements[-1:], len(elements))
    assert service.ask("/v1/queries/counts/result?limit=-1")[0] == 422


def test_templates_are_downloaded(db: ms.Database, service: Service) -> None:
    _, content, headers = service.ask("/v1/templates/many/result?format=parquet")
    assert "many.parquet" in headers["content-disposition"]
    assert pa.parquet.read_table(io.BytesIO(content)).num_rows == db.template("many").result().num_rows > 0


def test_a_hostile_name_of_a_file(db: ms.Database, service: Service) -> None:
    db.register("SELECT a FROM s [RANGE 3]", name='a"b; X: y/ü')
    _, _, headers = service.ask("/v1/queries/a%22b%3B%20X%3A%20y%2F%C3%BC/result?format=csv")
    assert headers["content-disposition"].startswith('attachment; filename="a_b__X__y__.csv";')
    assert headers["content-disposition"].endswith("filename*=UTF-8''a%22b%3B%20X%3A%20y%2F%C3%BC.csv")
    db.drop_query('a"b; X: y/ü')


def test_streams_and_their_late_rows(service: Service) -> None:
    streams = {each["name"]: each for each in service.get("/v1/streams")["streams"]}
    found = streams["s"]
    assert (found["late"], found["malformed"], found["kind"], found["system"]) == (1, 0, "stream", False)
    assert found["rows"] == found["arrived"] - 1
    assert streams["sys.epochs"]["system"]
    late = service.get("/v1/streams/s/late?limit=1")["rows"]
    assert [(row["a"], row["b"]) for row in late] == [(1, 9)]
    assert service.get("/v1/streams/s/malformed")["rows"] == []
    assert service.ask("/v1/streams/nothing/late")[0] == 404


def test_what_was_noticed_lately(db: ms.Database, service: Service) -> None:
    epoch = db.stats()["epoch"]
    (last,) = service.get("/v1/system/epochs?limit=1")["rows"]
    assert last["epoch"] <= epoch
    assert service.get(f"/v1/system/epochs?since={last['ts']}")["rows"] == []
    assert service.get("/v1/system/operators?limit=5")["rows"]
    assert {row["query"] for row in service.get("/v1/system/queries")["rows"]} >= {"counts", "fails"}
    states = [row["state"] for row in service.get("/v1/system/queries")["rows"] if row["query"] == "fails"]
    assert states == ["running", "failed"]
    assert service.get("/v1/system/routing")["rows"]
    (one,) = service.get("/v1/system/epochs?limit=1")["rows"]
    at = round(datetime.fromisoformat(one["ts"]).timestamp() * 1e6)
    of_one = service.get(f"/v1/system/operators?since={at - 1}&until={at}")["rows"]
    assert of_one
    assert {row["epoch"] for row in of_one} == {one["epoch"]}
    assert service.get(f"/v1/system/epochs?until={at - 1}&limit=1")["rows"][0]["epoch"] < one["epoch"]
    assert service.get("/v1/system/sinks")["rows"] == []
    assert service.ask("/v1/system/secrets")[0] == 422
    assert db.stats()["epoch"] == epoch, "to look feeds nothing"


def test_parts_of_the_answers_of_many(db: ms.Database, service: Service) -> None:
    """So many rows of each query, and how many it has."""
    names = [db.register(f"SELECT a, b FROM s [RANGE UNBOUNDED] WHERE a > {n}", name=f"part_{n}").name for n in (0, 1)]
    every = {name: db.query(name).result().to_pylist() for name in names}
    found = service.ask("/v1/results", {"queries": names, "limit": 2})[1]
    for name in names:
        rows = [{k: v for k, v in row.items() if k != "_query"} for row in found["rows"] if row["_query"] == name]
        assert rows in (every[name][:2], every[name][-2:])
        assert found["totals"].get(name, 0) == len(every[name])
    assert service.ask("/v1/results", {"queries": names, "limit": -1})[0] == 422
    for name in names:
        db.query(name).drop()


def test_settings(db: ms.Database, service: Service) -> None:
    found = {each["name"]: each for each in service.get("/v1/settings")["settings"]}
    assert (found["jit"]["choices"], found["jit"]["kind"]) == (["auto", "on", "off"], "choice")
    assert (found["memory_budget"]["kind"], found["shards"]["kind"]) == ("bytes", "number")
    assert not found["shards"]["changeable"]
    assert (found["join_plan"]["of_plans"], found["shards"]["of_plans"]) == (True, False)
    assert service.ask("/v1/settings/jit", {"value": "on"}, "PUT")[1]["value"] == "on"
    assert db.settings.jit == "on"
    assert service.ask("/v1/settings/memory_budget", {"value": "512 MB"}, "PUT")[1]["value"] == 512 << 20
    assert service.ask("/v1/settings/jit", {"value": "it's"}, "PUT")[0] == 400
    assert service.ask("/v1/settings/jit", {"value": "off'; DROP QUERY counts; SET jit = 'on"}, "PUT")[0] == 400
    assert service.ask("/v1/settings/shards", {"value": 3}, "PUT")[0] == 409
    assert service.ask("/v1/settings/nothing", {"value": 3}, "PUT")[0] == 404
    assert db.query("counts").name == "counts"
    db.execute("SET jit = 'auto'; SET memory_budget = 0")
    assert "queries" not in service.ask("/v1/settings/expiry_groups", {"value": 0}, "PUT")[1]
    applied = service.ask("/v1/settings/strategy", {"value": "negative", "running": True}, "PUT")[1]["queries"]
    assert applied["counts"].startswith(("moving", "moved"))
    assert applied["fails"] == "stays: it is not running"
    db.execute("SET strategy = 'upa'")


def test_roles(db: ms.Database, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secrets = {role: tokens.add(str(role), role) for role in Role}
    with served(db, tokens=tokens) as url:
        reader, writer, admin = (Service(url, secrets[role]) for role in Role)
        for path in ("/v1/plan", "/v1/names", "/v1/streams", "/v1/settings", "/v1/sinks", "/v1/system/epochs"):
            assert reader.ask(path)[0] == 200
            assert Service(url).ask(path)[0] == 401
        assert reader.ask("/v1/me")[1] == {
            "role": "read",
            "version": "test",
            "database": None,
            "tokens": True,
            "names": [],
        }
        assert admin.get("/v1/me")["role"] == "admin"
        for one in (reader, writer):
            assert one.ask("/v1/settings/jit", {"value": "on"}, "PUT")[0] == 403
        assert admin.ask("/v1/settings/jit", {"value": "auto"}, "PUT")[0] == 200
