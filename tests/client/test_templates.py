"""Templates over HTTP, by the client and in the shell: the same objects, the same rows."""

from __future__ import annotations

import io
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from tests.support.awaiting import Blocking
from tests.support.events import Reader
from tests.support.serving import served, until

import millstream as ms
from millstream.shell.session import ShellSession

STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts"
TEXT = "SELECT v FROM s [RANGE 4] WHERE k = ?"


def summed(tables: list[pa.Table], t: int) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in (row for table in tables for row in table.to_pylist()):
        if row["_ts"] <= t:
            found[row["_query"], row["_p1"], row["v"]] += row["_weight"]
    return +found


def test_a_template_and_its_queries(db: Any) -> None:
    db.execute(STREAM)
    alerts = db.register_many(TEXT, [1, 2], names=["a", "b"], template="Alerts")
    assert (alerts.name, alerts.kind, alerts.mode, len(alerts)) == ("Alerts", "relation", "eager", 2)
    assert [query.name for query in alerts] == ["a", "b"]
    assert alerts[1].cql == "SELECT v FROM s [RANGE 4] WHERE k = 2"
    assert [query.name for query in alerts[1:]] == ["b"]
    assert alerts.schema == pa.schema([("_query", pa.string()), ("_p1", pa.int32()), ("v", pa.int32())])
    assert len(db.register_many(TEXT, [3], names=["c"], template="alerts")) == 3
    db.insert("s", [(1, 10, 1), (2, 20, 2), (3, 30, 2), (1, 0, 9)])
    assert alerts.result(2).to_pylist() == [
        {"_query": "a", "_p1": 1, "v": 10},
        {"_query": "b", "_p1": 2, "v": 20},
        {"_query": "c", "_p1": 3, "v": 30},
    ]
    assert alerts.changes(2).to_pylist()[0] == {"_query": "a", "_p1": 1, "_ts": 6, "_weight": -1, "v": 10}
    assert next(alerts.follow(timeout=60)).to_pylist() == alerts.changes().to_pylist()
    assert (alerts.final, alerts.failed, alerts.notices) == (8, {}, [])
    assert [template.name for template in db.templates()] == ["Alerts"]
    assert isinstance(db, Blocking) or repr(db.template("alerts")) == f"<Template Alerts: 3 queries {TEXT}>"
    with pytest.raises(ms.CatalogError, match="has another text"):
        db.register_many("SELECT k FROM s WHERE k = ?", [1], template="alerts")
    with pytest.raises(ms.TimeError, match="not final"):
        alerts.result(100)
    alerts.drop()
    with pytest.raises(ms.ClosedError, match='template "Alerts" was dropped'):
        alerts.result()
    with pytest.raises(ms.NameError, match='no template called "alerts"'):
        db.template("alerts")
    assert db.queries() == []


def test_an_empty_one_and_queries_that_fail(db: Any) -> None:
    db.execute(STREAM)
    text = "SELECT v FROM s [RANGE 4] WHERE 10 / (v - ?) > 0"
    alerts = db.register_many(text, [], template="alerts")
    assert (len(alerts), alerts.result().num_rows) == (0, 0)
    db.register_many(text, [1, 2], names=["a", "b"], template="alerts")
    db.insert("s", [(0, 1, 1), (0, 5, 2), (0, 5, 3)])
    found = alerts.result()
    assert {row["_query"] for row in found.to_pylist()} == {"b"}
    assert [*json.loads(found.schema.metadata[b"millstream.missing"])] == [*alerts.failed] == ["a"]
    following = next(alerts.follow(timeout=60))
    assert [*json.loads(following.schema.metadata[b"millstream.missing"])] == ["a"]
    assert alerts.notices[0].startswith("1 of 2 queries have failed: a (")


@pytest.fixture
def local() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        yield db


def test_documents(local: ms.Database) -> None:
    with served(local) as url:

        def ask(method: str, path: str, body: Any = None) -> Any:
            content = None if body is None else json.dumps(body).encode()
            request = Request(f"{url}/v1/{path}", content, {"Content-Type": "application/json"}, method=method)
            with urlopen(request) as response:
                return json.load(response)

        made = ask("POST", "templates", {"name": "alerts", "text": TEXT, "rows": [1, [2]], "names": ["a", "b"]})
        assert (made["queries"], made["parameters"], made["text"]) == (2, ["INT"], TEXT)
        local.insert("s", [(1, 10, 1), (0, 0, 3)])
        assert ask("GET", "templates/alerts/result")["rows"] == [{"_query": "a", "_p1": 1, "v": 10}]
        assert ask("GET", "templates/alerts/changes?since=1")["rows"] == []
        assert ask("GET", "templates")["templates"] == [ask("GET", "templates/alerts")]
        assert ask("GET", "templates/alerts/queries?limit=1") == {
            "queries": [{"name": "a", "kind": "relation", "mode": "eager"}],
            "total": 2,
        }
        assert ask("DELETE", "templates/alerts") == {"message": "template alerts and its 2 queries dropped"}
        assert local.templates() == []


def test_a_reader_that_comes_back_is_told_of_queries_that_came_meanwhile(local: ms.Database) -> None:
    local.register_many(TEXT, [1], names=["a"], template="alerts")
    local.insert("s", [(1, 1, 1), (2, 2, 1), (1, 3, 3)])
    tables: list[pa.Table] = []
    with served(local) as url:
        with Reader(url, "/v1/templates/alerts/follow") as first:
            kind, content = next(iter(first))
            assert kind == "message"
            tables.append(pa.Table.from_pylist(content["rows"]))
            last = first.last
        local.register_many(TEXT, [2], names=["b"], template="alerts")
        local.insert("s", [(2, 4, 4), (0, 0, 5)])
        with Reader(url, "/v1/templates/alerts/follow", last) as second:
            tables.append(pa.Table.from_pylist(next(iter(second))[1]["rows"]))
    rows = [(1, 1, 1), (2, 2, 1), (1, 3, 3), (2, 4, 4)]
    assert summed(tables, 2) == Counter([("a", 1, 1)])
    for t in (3, 4):
        expected = Counter((name, k, v) for name, p in (("a", 1), ("b", 2)) for k, v, ts in rows if k == p and ts <= t)
        assert summed(tables, t) == expected


def test_a_remote_follower_and_queries_that_come(local: ms.Database) -> None:
    with served(local) as url, ms.connect(url) as remote:
        alerts = remote.register_many(TEXT, [0], names=["q0"], template="alerts")
        found: list[pa.Table] = []
        follower = threading.Thread(target=lambda: found.extend(alerts.follow()))
        follower.start()
        rows = [(t % 4, t, t // 2) for t in range(60)]
        for step in range(6):
            local.insert("s", rows[step * 10 : step * 10 + 10])
            if step in (1, 3):
                remote.register_many(TEXT, [step], names=[f"q{step}"], template="alerts")
        local.insert("s", [(9, 9, 60), (9, 9, 61)])
        until(lambda: found and found[-1]["_ts"][-1].as_py() >= 33)
        alerts.drop()
        follower.join()
        expected = Counter((f"q{p}", p, v) for p in (0, 1, 3) for k, v, ts in rows if k == p and ts <= 29 <= ts + 4)
        assert summed(found, 29) == expected
        assert summed(found, 60) == Counter()


def test_the_shell_lists_and_describes_them(local: ms.Database) -> None:
    local.register_many(TEXT, [1, 2], names=["a", "b"], template="alerts")
    local.insert("s", [(1, 10, 1), (0, 0, 3)])
    out, errors = io.StringIO(), io.StringIO()
    session = ShellSession(local, out, errors)
    for line in ("\\d", "\\d alerts", "\\watch alerts 0.05", "SHOW TEMPLATES;", "\\d nothing"):
        session.take(line + "\n")
    shown = out.getvalue()
    assert "templates\n" in shown
    assert f"template alerts: 2 queries, each a relation, eager\n{TEXT}" in shown
    assert errors.getvalue().startswith('there is nothing called "nothing"')
