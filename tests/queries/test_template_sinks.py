"""Sinks of a template: every change once, whatever fails, and queries that come later from then on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms

STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts"
TEXT = "SELECT v FROM s [RANGE 4] WHERE k = ?"


class Collected:
    def __init__(self, failures: int = 0) -> None:
        self.deliveries: dict[int, list[dict[str, Any]]] = {}
        self.tried: list[tuple[int, list[dict[str, Any]]]] = []
        self.failures = failures

    def __call__(self, number: int, changes: pa.Table) -> None:
        self.tried.append((number, changes.to_pylist()))
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.deliveries[number] = changes.to_pylist()

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [change for number in sorted(self.deliveries) for change in self.deliveries[number]]

    def at(self, t: int) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        for change in self.changes:
            if change["_ts"] <= t:
                found[change["_query"], change["_p1"], change["v"]] += change["_weight"]
        return +found


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.sinks.pause = 0.0
        db.execute(STREAM)
        yield db


def held(rows: list[tuple[int, int, int]], names: dict[str, int], t: int) -> Counter[tuple[Any, ...]]:
    return Counter((n, p, v) for n, p in names.items() for k, v, ts in rows if k == p and ts <= t <= ts + 4)


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_all_changes_are_delivered_once(db: ms.Database, mode: str) -> None:
    rows = [(t % 3, t, t // 2) for t in range(80)]
    db.insert("s", rows[:10])
    alerts = db.register_many(TEXT, [0, 1], names=["a", "b"], mode=mode, template="alerts")
    sink = Collected()
    db.create_sink("k", alerts, sink)
    for begin in range(10, 40, 5):
        db.insert("s", rows[begin : begin + 5])
    assert sink.changes == alerts.changes().to_pylist()
    reached = alerts.final
    db.register_many(TEXT, [2], names=["c"], template="alerts")
    for begin in range(40, 80, 5):
        db.insert("s", rows[begin : begin + 5])
    for t in range(39):
        names = {"a": 0, "b": 1} if t <= reached else {"a": 0, "b": 1, "c": 2}
        assert sink.at(t) == held(rows, names, t)


def test_a_delivery_that_failed_is_tried_again_as_it_was(db: ms.Database) -> None:
    alerts = db.register_many(TEXT, [1], names=["a"], template="alerts")
    sink = Collected(failures=3)
    db.create_sink("k", alerts, sink)
    db.insert("s", [(1, 1, 1), (2, 2, 1), (1, 3, 3)])
    assert db.stats()["sinks"]["k"]["state"] == "paused"
    db.register_many(TEXT, [2], names=["b"], template="alerts")
    db.insert("s", [(2, 5, 4), (1, 6, 6)])
    db.resume_sink("k")
    assert len({json.dumps(changes) for number, changes in sink.tried if number == 1}) == 1
    rows = [(1, 1, 1), (2, 2, 1), (1, 3, 3), (2, 5, 4), (1, 6, 6)]
    assert sink.at(2) == held(rows, {"a": 1}, 2)
    assert [sink.at(t) for t in (3, 5)] == [held(rows, {"a": 1, "b": 2}, t) for t in (3, 5)]


def test_queries_that_fail_hold_up_nobody(db: ms.Database) -> None:
    text = "SELECT v FROM s [RANGE 4] WHERE 10 / (v - ?) > 0"
    alerts = db.register_many(text, [1, 2], names=["a", "b"], template="alerts")
    sink = Collected()
    db.create_sink("k", alerts, sink)
    db.insert("s", [(0, 1, 1), (0, 5, 2), (0, 5, 3)])
    shown = db.stats()["sinks"]["k"]
    assert (shown["query"], shown["state"]) == ("TEMPLATE alerts", "active")
    assert shown["error"].startswith("1 of 2 queries have failed: a (")
    assert {change["_query"] for change in sink.changes} == {"b"}


def test_a_template_with_a_sink_stays(db: ms.Database) -> None:
    alerts = db.register_many(TEXT, [1, 2], names=["a", "b"], template="alerts")
    db.create_sink("k", alerts, Collected())
    db.create_sink("own", "b", Collected())
    for sinks in ("the sinks k, own", "the sink own"):
        with pytest.raises(ms.CatalogError, match='template "alerts" is in use') as caught:
            alerts.drop()
        assert f"by {sinks}" in str(caught.value)
        if "k" in sinks.split()[2]:
            db.execute("DROP SINK k")
    db.execute("DROP SINK own; DROP TEMPLATE alerts")
    with pytest.raises(ms.NameError, match='no template called "alerts"'):
        db.execute("CREATE SINK k FOR TEMPLATE alerts USING console")
    db.register("SELECT v FROM s", name="template")
    with pytest.raises(ms.NotSupportedError):
        db.execute("CREATE SINK k FOR template USING console")  # a query is meant: without Spark nobody writes


CRASHING = """
import json, sys
import millstream as ms
directory, rows, values = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
db = ms.connect(directory + "/db", engine="inprocess")
if not db.templates():
    db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts")
alerts = db.register_many({text!r}, values, [f"q{{v}}" for v in values], template="alerts")
def deliver(number, changes):
    with open(f"{{directory}}/{{number}}", "w") as file:
        json.dump(changes.to_pylist(), file)
db.create_sink("k", alerts, deliver)
db.insert("s", rows)
db.close()
"""


@pytest.mark.parametrize("text", [TEXT, "SELECT v + ? AS v FROM s [RANGE 4]"], ids=["shared", "own plans"])
def test_a_crash_repeats_the_same_delivery(tmp_path: Path, text: str) -> None:
    def run(rows: list[tuple[int, int, int]], values: list[int], fault: str = "") -> int:
        program = CRASHING.format(text=text)
        environment = {**os.environ, "MILLSTREAM_FAULT": fault}
        arguments = [sys.executable, "-c", program, str(tmp_path), json.dumps(rows), json.dumps(values)]
        return subprocess.run(arguments, env=environment, check=False).returncode

    assert run([(1, 1, 1), (2, 2, 2)], [1, 2]) == 0
    assert run([(1, 3, 4), (2, 4, 5)], [3], fault="sink-written") == -9
    written = (tmp_path / "2").read_text()
    (tmp_path / "2").write_text("lost")
    assert run([(3, 5, 6), (1, 6, 9)], [4]) == 0
    assert (tmp_path / "2").read_text() == written
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        alerts, files = db.template("alerts"), sorted(int(f.name) for f in tmp_path.iterdir() if f.is_file())
        delivered = [change for number in files for change in json.loads((tmp_path / str(number)).read_text())]
        found: Counter[tuple[Any, ...]] = Counter()
        for change in delivered:
            found[change["_query"], change["_p1"], change["v"]] += change["_weight"]
        assert +found == Counter(tuple(row.values()) for row in alerts.result().to_pylist())
        first = {change["_query"]: change["_ts"] for change in reversed(delivered)}
        assert first["q1"] < 2 <= first["q3"] <= 6


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_long_past_is_worked_through_first(mode: str) -> None:
    rows = [(t % 3, t, t // 2) for t in range(400)]
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM}; SET background_rows = 20")
        db.insert("s", rows[:300])
        alerts = db.register_many(TEXT, [0, 1], names=["a", "b"], mode=mode, template="alerts")
        sink = Collected()
        db.create_sink("k", alerts, sink)
        following = alerts.follow()
        db.register_many(TEXT, [2], names=["c"], template="alerts")
        told = [next(following)]
        assert alerts.wait(60)
        assert alerts.stats()["filling"] == 0
        db.insert("s", rows[300:])
        db.insert("s", [(9, 9, 300), (9, 9, 301)])
        assert alerts.result(100).num_rows == sum(held(rows, {"a": 0, "b": 1, "c": 2}, 100).values())
        while told[-1]["_ts"][-1].as_py() < 203:
            told.append(next(following))
        both = Collected()
        both.deliveries = {number: table.to_pylist() for number, table in enumerate(told)}
        names = {"a": 0, "b": 1, "c": 2}
        for t in (0, 50, 120):
            assert Counter({r: n for r, n in sink.at(t).items() if r[0] != "c"}) == held(rows, {"a": 0, "b": 1}, t)
            assert Counter({r: n for r, n in both.at(t).items() if r[0] != "c"}) == held(rows, {"a": 0, "b": 1}, t)
        for t in (180, 199):
            assert sink.at(t) == both.at(t) == held(rows, names, t)
        assert sink.at(299) == both.at(299) == Counter()
