"""What operators see of a service: its health, its metrics, its log."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families as families
from tests.support.serving import served, until

import millstream as ms
from millstream.engine.invocations import KINDS
from millstream.service.limits import ServiceLimits
from millstream.service.metrics import OTHERS, Metrics
from millstream.service.tokens import Role, Tokens

DOCS = Path(__file__).parents[2] / "docs"
STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts"


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        db.execute("CREATE STREAM clocked (k INT) TIMESTAMP BY at TIMESTAMP")
        db.register("SELECT k FROM s WHERE v > 1", name="q")
        db.register("SELECT k FROM clocked", name="timed")
        db.create_sink("taken", "q", lambda number, changes: None)
        yield db


@pytest.fixture(scope="module")
def url(db: ms.Database) -> Iterator[str]:
    with served(db, limits=ServiceLimits(requests_per_second=0)) as url:
        yield url


def ask(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=300)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json", **given})
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def metrics(url: str) -> dict[str, float]:
    """Samples by name, with labels as they are written."""
    status, text, _ = ask(url, "GET", "/metrics")
    assert status == 200
    found = {}
    for family in families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_what_happens_is_counted(db: ms.Database, url: str) -> None:
    before = metrics(url)
    db.insert("s", [(1, 5, 10), (2, 6, 12), (3, 7, 2)])
    db.insert("clocked", [(1, "2026-01-31 10:00:00")])
    assert ask(url, "GET", "/v1/queries/q/result")[0] == 200
    assert ask(url, "GET", "/v1/queries/nobody/result")[0] == 404
    ask(url, "GET", "/v1/queries/q/follow?timeout=0.01")
    db.query("q").result()  # in the process itself
    db.query("q").changes()
    db.query("q").follow().close()
    db.results(["q"])
    db.execute("SHOW QUERIES")
    found = metrics(url)

    def more(name: str) -> float:
        return found[name] - before.get(name, 0.0)

    assert more("millstream_epoch_seconds_count") == more("millstream_epoch_phase_seconds_count{phase=run}") == 2
    assert sum(more(name) for name in found if name.startswith("millstream_epochs_total")) == 2
    assert more("millstream_elements_total{stream=s}") == 3
    assert more("millstream_late_elements_total{stream=s}") == 1
    asked = {what: more(f"millstream_invocations_total{{what={what}}}") for what in KINDS}
    assert asked == {"result": 2, "changes": 1, "follow": 2, "results": 1, "execute": 1}
    assert more("millstream_requests_total{method=GET,status=404}") == 1
    route = "/v1/queries/{name:path}/result"
    assert more(f"millstream_request_seconds_count{{route={route}}}") == 2
    assert found["millstream_heartbeat_ticks{stream=s}"] == 11
    assert found["millstream_stream_open_rows{stream=s}"] == 1  # the element of 12: others of that instant may come
    assert found["millstream_stream_lag_seconds{stream=clocked}"] > 86_400
    assert found["millstream_final_age_seconds{of=most}"] > 86_400
    assert "millstream_stream_lag_seconds{stream=s}" not in found  # its ticks are no time of day
    assert found["millstream_sink_active{sink=taken}"] == 1
    assert found["millstream_sink_deliveries_total{sink=taken}"] >= 1
    assert found["millstream_pool_threads{pool=read}"] > 0
    assert found["millstream_queries"] == sum(
        value for name, value in found.items() if name.startswith("millstream_query_states")
    )


def test_every_metric_is_in_the_glossary_and_the_dashboard_names_no_other(db: ms.Database, url: str) -> None:
    ask(url, "GET", "/v1/queries/q/result")
    db.engine.reports.behind = {"s": 3}  # as a source that tells it
    text = ask(url, "GET", "/metrics")[1].decode()
    db.engine.reports.behind = {}
    samples = {sample.name for family in families(text) for sample in family.samples}
    samples = {name for name in samples if not name.endswith("_created")}
    glossary = (DOCS / "glossary.md").read_text()
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in samples}
    assert not [name for name in names if f"`{name.removeprefix('millstream_')}`" not in glossary]
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    asked = set(re.findall(r"millstream_\w+", json.dumps(dashboard)))
    assert len(dashboard["panels"]) > 10
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert not asked - samples
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            said = target["expr"]
            for label in re.findall(r"by \(([\w, ]+)\)", said) + re.findall(r"{{(\w+)}}", target["legendFormat"]):
                for name in label.split(", "):
                    (metric,) = set(re.findall(r"millstream_\w+", said))
                    assert re.search(rf"{metric}{{[^}}]*\b{name}=", text), (panel["title"], name)


def test_openmetrics_where_it_is_asked_for(url: str) -> None:
    _, text, headers = ask(url, "GET", "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_a_scrape_is_as_large_with_ten_thousand_queries_as_with_one() -> None:
    with ms.connect(engine="inprocess") as db, served(db) as url:
        db.execute(STREAM)
        query = db.register_many("SELECT k FROM s WHERE v = ?", [0])[0]
        metrics(url)  # which itself is counted from now on
        few = len(metrics(url))
        db.register_many("SELECT k FROM s WHERE v = ?", range(1, 10_000))
        assert query.name in {each.name for each in db.queries()}
        found = metrics(url)
        assert found["millstream_queries"] == 10_000
        assert len(found) == few


def test_streams_beyond_the_first_are_one() -> None:
    from millstream.service import metrics as module

    values = {f"s{number}": float(number) for number in range(module._MOST + 3)}
    few = module._few(values, sum)
    assert len(few) == module._MOST + 1
    assert few[OTHERS] == sum(values.values()) - sum(few[name] for name in few if name != OTHERS)
    assert sum(few.values()) == sum(values.values())
    assert Metrics().exposition("")[1].startswith("text/plain")


def test_health_says_why(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secret = tokens.add("watcher", Role.READ)
    with ms.connect(engine="inprocess") as db, served(db, tokens) as url:

        def health(**headers: str) -> Any:
            status, body, _ = ask(url, "GET", "/healthz", **headers)
            assert status == 200
            return json.loads(body)

        assert health() == {"status": "ok"}
        db.execute(STREAM)
        db.execute("CREATE STREAM clocked (k INT) TIMESTAMP BY at TIMESTAMP; SET max_lag = 60 FOR clocked")
        db.register("SELECT 1 / (k - 3) AS x FROM s", name="bad")
        db.register("SELECT k FROM s", name="good")

        def refuse(number: int, changes: object) -> None:
            raise OSError("the disk is full")

        db.sinks.pause = 0.0
        db.create_sink("full", "good", refuse)
        db.insert("s", [(3, 1, 1), (3, 1, 2)])
        db.insert("clocked", [(1, "2026-01-31 10:00:00")])
        until(lambda: len(health().get("reasons", ())) == 3)
        assert health() == {
            "status": "degraded",
            "reasons": [
                {"what": "queries have failed", "count": 1},
                {"what": "sinks are paused", "count": 1},
                {"what": "streams lag", "count": 1},
            ],
        }
        told = health(Authorization=f"Bearer {secret}")["reasons"]
        assert [reason["names"] for reason in told] == [["bad"], ["full"], ["clocked"]]
        assert "the disk is full" in told[1]["details"][0]
        assert health(Authorization="Bearer ms_guessed")["reasons"][0].keys() == {"what", "count"}
        assert json.loads(ask(url, "GET", "/readyz")[1]) == {"ready": True}
        assert ask(url, "GET", "/metrics", Authorization=f"Bearer {secret}")[1].count(b"millstream_degraded 1.0") == 1
        db.query("bad").drop()
        db.execute("DROP SINK full; SET max_lag = 0 FOR clocked")
        until(lambda: health() == {"status": "ok"})


def test_it_is_not_ready_when_nothing_can_be_committed(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db, served(db) as url:
        db.execute(STREAM)
        (newest,) = (tmp_path / "db" / "manifest").glob("manifest-*.json")
        number = int(newest.stem.partition("-")[2]) + 1
        (newest.parent / f"manifest-{number:010d}.json").write_bytes(newest.read_bytes())  # another owner has come
        status, body, _ = ask(url, "GET", "/readyz")
        assert status == 503
        assert "was taken over" in json.loads(body)["reason"]
        assert ask(url, "GET", "/healthz")[0] == 200


def test_requests_have_names(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "millstream.service.request_log"):
        status, body, headers = ask(url, "GET", "/v1/queries/nobody", X_Request_ID="mine-1")
        assert (status, headers["x-request-id"]) == (404, "mine-1")
        assert json.loads(body)["error"]["request_id"] == "mine-1"
        _, body, headers = ask(url, "GET", "/v1/queries/nobody")
        own = headers["x-request-id"]
        assert json.loads(body)["error"]["request_id"] == own != "mine-1"
        for hostile in ("a\tb", "x" * 500, "ä", "<script>"):
            given = ask(url, "GET", "/healthz", X_Request_ID=hostile)[2]["x-request-id"]
            assert re.fullmatch(r"[0-9a-f]{16}", given)
    records = [record for record in caplog.records if record.name == "millstream.service.request_log"]
    assert vars(records[0])["data"]["path"] == "/v1/queries/nobody"
    assert (records[0].levelname, records[-1].levelname) == ("INFO", "DEBUG")


def test_refusals_are_warnings_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    with ms.connect(engine="inprocess") as db, served(db, limits=ServiceLimits(requests_per_second=1)) as url:
        caplog.clear()
        statuses = [ask(url, "GET", "/v1/stats")[0] for _ in range(30)]
    refused = statuses.count(429)
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert refused > 5
    assert 0 < len(warned) < refused
    assert vars(warned[0])["data"]["status"] == 429


def test_malformed_requests_are_warned_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sends nonsense does not fill the disk: one line, and the next one says how many there were."""
    with ms.connect(engine="inprocess") as db, served(db) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port

        def lines() -> list[str]:
            return [each.getMessage() for each in caplog.records if "Invalid HTTP request" in each.getMessage()]

        sent = 0

        def send() -> None:
            nonlocal sent
            with create_connection((host, port)) as connection:
                connection.sendall(b"\x00 nonsense\r\n\r\n")
                assert b" 400 " in connection.recv(1000)
            sent += 1

        for _ in range(30):
            send()
        assert 1 <= len(lines()) < sent
        while "more of the kind" not in lines()[-1]:
            send()
        counted = sum(1 + int((re.findall(r"and (\d+) more", line) or [0])[0]) for line in lines())
        assert counted == sent  # the last one was logged just now, with all before it


def test_a_name_follows_its_request_into_other_threads(url: str) -> None:
    from millstream.service.request_ids import request_id

    with ms.connect(engine="inprocess") as db, served(db) as own:
        db.execute(STREAM)
        seen: list[str] = []
        db.inspection.epochs.observe(lambda epoch: seen.append(request_id()))
        ask(own, "POST", "/v1/streams/s/rows", [[1, 1, 1]], X_Request_ID="the-insert")
        assert seen == ["the-insert"]
