"""Templates: queries of one text, read together. Expected answers are made from the raw rows, in plain Python."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import millstream as ms
from millstream.queries.named_templates import NamedTemplates
from millstream.queries.registration import PlannedOtherwise
from millstream.queries.template_recovery import TemplateRecovery

STREAM = "CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts"
Row = tuple[int, int, int]  # k, v, ts
Bag = Counter[tuple[Any, ...]]


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        yield db


def rows_until(seed: int, count: int, step: int = 1) -> list[Row]:
    chance = random.Random(seed)
    return [(chance.randrange(5), chance.randrange(10), t // 3 * step) for t in range(count)]


def bag(table: pa.Table) -> Bag:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def summed(changes: pa.Table, until: int) -> Bag:
    """What changes up to an instant come to."""
    found: Bag = Counter()
    for row in changes.to_pylist():
        if row.pop("_ts") <= until:
            weight = row.pop("_weight")
            found[tuple(row.values())] += weight
    return Counter({row: count for row, count in found.items() if count})


# Each shape: a text, parameters, and R(t) of one query by its definition.
def _in_range(rows: list[Row], t: int, length: int) -> list[Row]:
    return [row for row in rows if row[2] <= t <= row[2] + length]


SHAPES: dict[str, tuple[str, list[tuple[Any, ...]], Callable[[list[Row], int, tuple[Any, ...]], list[Any]]]] = {
    "by key": (
        "SELECT v FROM s [RANGE 4] WHERE k = ?",
        [(k,) for k in range(7)],
        lambda rows, t, p: [(v,) for k, v, _ in _in_range(rows, t, 4) if k == p[0]],
    ),
    "by bits": (
        "SELECT k, v FROM s [RANGE 4] WHERE v > ? AND k < ?",
        [(v, k) for v in range(0, 10, 3) for k in range(1, 6, 2)],
        lambda rows, t, p: [(k, v) for k, v, _ in _in_range(rows, t, 4) if v > p[0] and k < p[1]],
    ),
    "counts": (
        "SELECT COUNT(*) AS n FROM s [RANGE 4] WHERE v > ?",
        [(v,) for v in range(12)],
        lambda rows, t, p: [(sum(v > p[0] for _, v, _ in _in_range(rows, t, 4)),)],
    ),
    "own plans": (
        "SELECT v * ? AS w FROM s [RANGE 4] WHERE k = ?",
        [(10, 1), (100, 2)],
        lambda rows, t, p: [(v * p[0],) for k, v, _ in _in_range(rows, t, 4) if k == p[1]],
    ),
}


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_relation_at_every_instant(db: ms.Database, shape: str, mode: str) -> None:
    text, parameters, expected = SHAPES[shape]
    rows, half = rows_until(1, 60), len(parameters) // 2
    db.register_many(text, parameters[:half], names=[f"a{n}" for n in range(half)], mode=mode, template="alerts")
    db.insert("s", rows[:25])
    names = [f"b{n}" for n in range(len(parameters) - half)]
    alerts = db.register_many(text, parameters[half:], names=names, template="alerts")
    db.insert("s", rows[25:])
    named = [*zip([query.name for query in alerts], parameters, strict=True)]
    changes = alerts.changes()
    for t in range(19):
        answer = Counter((name, *p, *row) for name, p in named for row in expected(rows, t, p))
        assert bag(alerts.result(t)) == answer
        assert summed(changes, t) == answer
    labels = ["_query", *[f"_p{n + 1}" for n in range(len(parameters[0]))]]
    assert alerts.result().column_names == alerts.schema.names == [*labels, *alerts[0].schema.names]
    assert changes["_ts"].to_pylist() == sorted(changes["_ts"].to_pylist())


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_a_stream(db: ms.Database, mode: str) -> None:
    rows = rows_until(2, 60)
    db.insert("s", rows[:20])
    alerts = db.register_many("SELECT RSTREAM(k, v) FROM s [NOW] WHERE v > ?", range(11), mode=mode, template="alerts")
    db.insert("s", rows[20:])
    names = [query.name for query in alerts]
    for t in (0, 7, 18):
        answer = Counter((names[p], p, ts, k, v) for p in range(11) for k, v, ts in rows if v > p and ts <= t)
        assert bag(alerts.result(t)) == answer
    later = alerts.changes(since=9)
    changed = Counter((names[p], p, ts, 1, k, v) for p in range(11) for k, v, ts in rows if v > p and 9 < ts <= 18)
    counted: Bag = Counter()
    for row in later.to_pylist():
        weight = row["_weight"]
        counted[tuple({**row, "_weight": 1}.values())] += weight
    assert counted == changed


def test_it_is_a_sequence_of_queries(db: ms.Database) -> None:
    alerts = db.register_many("SELECT v FROM s WHERE k = ?", [1, 2, 3], names=["a", "b", "c"], template="Alerts")
    assert (len(alerts), alerts[0], alerts[-1], alerts[1:]) == (3, db.query("a"), db.query("c"), [*alerts][1:])
    assert [query.name for query in alerts] == ["a", "b", "c"]
    assert db.query("b") in alerts
    assert db.template("ALERTS") is alerts
    assert db.templates() == [alerts]
    shown = db.execute("SHOW TEMPLATES").table
    assert shown is not None
    assert shown.to_pylist() == [
        {
            "name": "Alerts",
            "kind": "stream",
            "mode": "eager",
            "queries": "3",
            "failed": "0",
            "cql": "SELECT v FROM s WHERE k = ?",
        }
    ]


def test_more_queries_come_and_some_go(db: ms.Database) -> None:
    text = "SELECT v FROM s [RANGE 9] WHERE k = ?"
    db.register_many(text, [1], names=["a"], template="alerts")
    alerts = db.register_many("select v from s [range 9]  where k = ?", [2, 3], ["b", "c"], template="alerts")
    db.query("b").drop()
    db.insert("s", [(1, 10, 1), (2, 20, 1), (3, 30, 2), (0, 0, 5)])
    assert alerts.result(2).to_pylist() == [{"_query": "a", "_p1": 1, "v": 10}, {"_query": "c", "_p1": 3, "v": 30}]
    db.register_many(text, [2], names=["b"], template="alerts")
    assert [query.name for query in alerts] == ["a", "c", "b"]
    assert alerts.result(2).to_pylist()[-1] == {"_query": "b", "_p1": 2, "v": 20}


def test_dropping_it_drops_all_at_once(db: ms.Database) -> None:
    others = db.register_many("SELECT v FROM s WHERE k = ?", [1, 2], template="others")
    for text in ("SELECT v FROM s WHERE k = ?", "SELECT v + ? AS w FROM s", "SELECT v FROM s [RANGE 3] WHERE k = ?"):
        for mode in ("eager", "lazy", "none"):
            alerts = db.register_many(text, range(20), mode=mode, template="alerts")
            db.insert("s", [(1, 1, 1)])
            alerts.drop()
            assert db.templates() == [others]
            assert len(db.queries()) == 2
            with pytest.raises(ms.ClosedError, match='template "alerts" was dropped'):
                alerts.result()
    assert db.stats()["operators"] == 2
    result = db.execute("DROP TEMPLATE others")
    assert result.message == "template others and its 2 queries dropped"
    assert (db.queries(), db.templates(), db.stats()["operators"]) == ([], [], 0)


def test_an_empty_template(db: ms.Database) -> None:
    alerts = db.register_many("SELECT v FROM s [NOW] WHERE k = ?", [], template="alerts")
    db.insert("s", [(1, 1, 1), (1, 2, 3)])
    assert (len(alerts), alerts.result().num_rows, alerts.changes().num_rows) == (0, 0, 0)
    assert alerts.final == 2
    following = alerts.follow(timeout=60)
    db.register_many("SELECT v FROM s [NOW] WHERE k = ?", [1], names=["a"], template="alerts")
    db.insert("s", [(1, 5, 5)])
    assert next(following).to_pylist() == [
        {"_query": "a", "_p1": 1, "_ts": 1, "_weight": 1, "v": 1},
        {"_query": "a", "_p1": 1, "_ts": 2, "_weight": -1, "v": 1},
        {"_query": "a", "_p1": 1, "_ts": 3, "_weight": 1, "v": 2},
        {"_query": "a", "_p1": 1, "_ts": 4, "_weight": -1, "v": 2},
    ]
    db.query("a").drop()
    assert (len(alerts), alerts.result().column_names) == (0, ["_query", "_p1", "v"])
    assert str(alerts.result().schema.field("_p1").type) == "int32"


def test_what_does_not_go_with_it_is_refused(db: ms.Database) -> None:
    alerts = db.register_many("SELECT v FROM s WHERE k = ?", [1], template="alerts")
    with pytest.raises(ms.CatalogError, match="has another text"):
        db.register_many("SELECT k FROM s WHERE k = ?", [1], template="alerts")
    with pytest.raises(ms.CatalogError, match="is of mode eager"):
        db.register_many("SELECT v FROM s WHERE k = ?", [1], mode="lazy", template="alerts")
    with pytest.raises(ms.InputError, match="parameter 1 of template alerts is INT"):
        db.register_many("SELECT v FROM s WHERE k = ?", ["x"], template="alerts")
    with pytest.raises(ms.InputError, match="parameter 1 of template alerts is INT"):
        db.register_many("SELECT v FROM s WHERE k = ?", [1.5], template="alerts")
    with pytest.raises(ms.CatalogError, match="already"):
        db.register_many("SELECT v FROM s WHERE k = ?", [2], names=[alerts[0].name], template="alerts")
    with pytest.raises(ms.Error, match="x"):
        db.register_many("SELECT x FROM s WHERE k = ?", [2], template="other")
    with pytest.raises(ms.BindError, match="cannot be a template's name"):
        db.register_many("SELECT v FROM s WHERE k = ?", [2], template="_x")
    with pytest.raises(ms.NameError, match='no template called "alert"'):
        db.template("alert")
    assert db.templates() == [alerts]
    assert (len(alerts), len(db.queries())) == (1, 1)


def test_queries_that_fail_have_no_rows_and_are_named(db: ms.Database) -> None:
    alerts = db.register_many(
        "SELECT v FROM s [RANGE UNBOUNDED] WHERE 10 / (v - ?) > 0", [1, 2], names=["a", "b"], template="alerts"
    )
    following = alerts.follow(timeout=60)
    db.insert("s", [(0, 5, 1), (0, 5, 2)])
    assert len(next(following)) == 2
    db.insert("s", [(0, 1, 3), (0, 7, 4), (0, 7, 5)])
    found = alerts.result()
    assert [*alerts.failed] == ["a"]
    assert {row["_query"] for row in found.to_pylist()} == {"b"}
    assert [*json.loads(found.schema.metadata[b"millstream.missing"])] == ["a"]
    assert alerts.notices[0].startswith("1 of 2 queries have failed: a (")
    assert {row["_query"] for row in next(following).to_pylist()} == {"b"}
    assert (alerts.stats()["running"], [*alerts.stats()["failed"]]) == (1, ["a"])
    db.insert("s", [(0, 2, 6), (0, 0, 9)])
    with pytest.raises(ms.EvaluationError):
        alerts.result()


def test_explain_and_errors_have_the_constants_of_a_query(db: ms.Database) -> None:
    text = "SELECT v FROM s [RANGE 3] WHERE k = ? AND 10 / (v - ?) > 0 AND ? <> 'it''s'"
    alerts = db.register_many(text, [(1, 7, "x"), (2, 8, "?1")], names=["a", "b"], template="alerts")
    shown = db.execute("EXPLAIN QUERY b").message
    assert "template alerts: 2 queries\nsharing: a row of the query table of a group with 1 other\n" in shown
    assert "sharing: looked up by the value of k\n" in shown
    assert "(10 / (v - 8)) > 0" in shown.rpartition("evaluated last, row by row: ")[2]
    assert "?" not in shown.replace("'?1'", "")
    db.insert("s", [(2, 8, 1), (1, 7, 2), (1, 0, 4)])
    assert {name: (error.primary, error.detail) for name, error in alerts.failed.items()} == {
        "a": ("division by zero in (10 / (v - 7))", "for v = 7"),
        "b": ("division by zero in (10 / (v - 8))", "for v = 8"),
    }
    for number in range(12):
        db.register(f"SELECT v FROM s [RANGE 3] WHERE k > {number} AND 1 / (v + {number}) >= 0", name=f"q{number}")
    assert "sharing: filtered by the indexes on k" in db.query("q11").explain()
    assert "1 / (v + 11)" in db.query("q11").explain().rpartition("evaluated last, row by row: ")[2]
    db.insert("s", [(20, -11, 5), (0, 0, 7)])
    assert str(db.query("q11").error).startswith("division by zero in (1 / (v + 11))")


def test_instants_that_cannot_be_asked_for(db: ms.Database) -> None:
    alerts = db.register_many("SELECT v FROM s [NOW] WHERE k = ?", [1, 2], template="alerts")
    db.insert("s", [(1, 1, 1), (1, 2, 3)])
    with pytest.raises(ms.TimeError, match="the answer of alerts at 9 is not final"):
        alerts.result(9)
    with pytest.raises(ms.TimeError, match="changes of alerts since 9 are not final"):
        alerts.changes(9)


def test_queries_that_came_late_are_told_apart() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts RETAIN 10")
        text = "SELECT v FROM s [RANGE 5] WHERE k = ?"
        db.register_many(text, [1], names=["a"], template="alerts")
        rows = [(1 + t % 2, t, t) for t in range(30)]
        db.insert("s", rows)
        alerts = db.register_many(text, [2], names=["b"], template="alerts")
        firsts = {query.name: query.instants.first for query in alerts}
        assert firsts["a"] < firsts["b"] <= 28
        early, late = alerts.result(firsts["a"]), alerts.result(firsts["b"])
        assert {row["_query"] for row in early.to_pylist()} == {"a"}
        assert [*json.loads(early.schema.metadata[b"millstream.missing"])] == ["b"]
        assert {row["_query"] for row in late.to_pylist()} == {"a", "b"}
        changes = alerts.changes()
        for t in range(firsts["b"], 29):
            expected = Counter(("ab"[k - 1], k, v) for k, v, ts in rows if ts <= t <= ts + 5)
            assert bag(alerts.result(t)) == summed(changes, t) == expected
        with pytest.raises(ms.TimeError, match="no longer kept"):
            alerts.result(firsts["a"] - 1)


def test_over_tables_only() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 10), (2, 20)")
        found = db.register_many("SELECT v FROM t WHERE k = ?", [1, 2, 3], names=["a", "b", "c"], template="found")
        assert found.result().to_pylist() == [{"_query": "a", "_p1": 1, "v": 10}, {"_query": "b", "_p1": 2, "v": 20}]


_FIRST = """
import os, signal, sys
import millstream as ms
db = ms.connect(sys.argv[1], engine="inprocess")
db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts")
for mode in ("eager", "lazy", "none"):
    for name, text in (("shared", "SELECT v FROM s [RANGE 4] WHERE k = ?"), ("own", "SELECT v * ? AS v FROM s [NOW]")):
        rows = range(1, 6)
        db.register_many(text, rows, [f"{name}_{mode}_{n}" for n in rows], mode, template=f"{name}_{mode}")
db.register_many("SELECT v FROM s WHERE k = ?", [], template="empty")
db.register_many("SELECT v FROM s WHERE k = ?", range(50), template="gone").drop()
db.insert("s", [(k, 10 * k, t) for t in range(4) for k in range(6)])
for mode in ("eager", "lazy", "none"):
    db.query(f"shared_{mode}_2").drop()
    db.query(f"own_{mode}_3").drop()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_there_again_after_a_kill(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, "-c", _FIRST, str(tmp_path / "db")], env={**os.environ}, check=False)
    assert made.returncode == -signal.SIGKILL
    rows = [(k, 10 * k, t) for t in range(4) for k in range(6)]
    for _ in range(2):
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            names = [f"{name}_{mode}" for mode in ("eager", "lazy", "none") for name in ("shared", "own")]
            assert sorted(template.name for template in db.templates()) == sorted([*names, "empty"])
            for name in names:
                template = db.template(name)
                is_shared, gone = name.startswith("shared"), 2 if name.startswith("shared") else 3
                left = [n for n in range(1, 6) if n != gone]
                assert sorted(query.name for query in template) == [f"{name}_{n}" for n in left]
                if is_shared:
                    expected = Counter((f"{name}_{n}", n, v) for n in left for k, v, ts in rows if k == n and ts <= 2)
                else:
                    expected = Counter((f"{name}_{n}", n, v * n) for n in left for _, v, ts in rows if ts == 2)
                assert bag(template.result(2)) == summed(template.changes(), 2) == expected
            assert len(db.template("empty")) == 0
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        for name in names:
            text, mode = db.template(name).text, db.template(name).mode
            db.register_many(text, [7], [f"{name}_7"], template=name)
            assert (len(db.template(name)), db.template(name).mode) == (5, mode)
            db.template(name).drop()
        assert [template.name for template in db.templates()] == ["empty"]
        assert db.queries() == []


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_queries_that_are_planned_otherwise_after_a_restart_stay_in_it(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        db.register_many(SHAPES["by key"][0], range(4), [f"q{n}" for n in range(4)], mode, template="alerts")
        db.insert("s", rows_until(6, 30))

    def refuse(recovery: TemplateRecovery, entry: Any) -> None:
        raise PlannedOtherwise

    with monkeypatch.context() as patched:
        patched.setattr(TemplateRecovery, "recover", refuse)
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            db.query("q2").drop()
    for _ in range(2):
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            alerts = db.template("alerts")
            rows, left = rows_until(6, 30), (0, 1, 3)
            assert [query.name for query in alerts] == [f"q{n}" for n in left]
            expected = Counter((f"q{n}", n, v) for n in left for k, v, _ in _in_range(rows, 8, 4) if k == n)
            assert bag(alerts.result(8)) == expected


def test_a_text_that_cannot_be_opened_keeps_nobody_from_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        db.register_many("SELECT v FROM s WHERE k = ?", [1, 2], names=["a", "b"], template="alerts")

    def refuse(*_: Any) -> None:
        raise ms.BindError("not by this version")

    with monkeypatch.context() as patched:
        patched.setattr(NamedTemplates, "_made", refuse)
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            assert {query.name for query in db.queries()} == {"a", "b"}
            with pytest.raises(ms.CatalogError, match="cannot be opened by this version"):
                db.template("alerts")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert [query.name for query in db.template("alerts")] == ["a", "b"]


def test_others_register_while_one_follows(db: ms.Database) -> None:
    text, chance = "SELECT k, v FROM s [RANGE 6] WHERE v > ?", random.Random(3)
    alerts = db.register_many(text, [0], names=["first"], template="alerts")
    found: list[pa.Table] = []
    follower = threading.Thread(target=lambda: found.extend(alerts.follow()))
    follower.start()

    def register(who: str) -> None:
        for number in range(15):
            rows = [chance.randrange(9) for _ in range(3)]
            db.register_many(text, rows, [f"{who}{number}_{n}" for n in range(3)], template="alerts")

    threads = [threading.Thread(target=register, args=(who,)) for who in "ab"]
    for thread in threads:
        thread.start()
    rows = rows_until(4, 240)
    for begin in range(0, 240, 12):
        db.insert("s", rows[begin : begin + 12])
    for thread in threads:
        thread.join()
    db.insert("s", [(0, 9, 100), (0, 9, 200)])
    expected = alerts.result(199)
    assert len(alerts) == 91
    deadline = threading.Event()
    for _ in range(600):
        if found and found[-1]["_ts"][-1].as_py() >= 107:
            break
        deadline.wait(0.1)
    alerts.drop()
    follower.join()
    told = pa.concat_tables(found)
    assert told["_ts"].to_pylist() == sorted(told["_ts"].to_pylist())
    assert summed(told, 199) == bag(expected)
    values = {row["_query"]: row["_p1"] for row in told.to_pylist()}
    assert len(values) == 91
    for t in (100, 103, 106):
        assert summed(told, t) == Counter((name, p, 0, 9) for name, p in values.items())


def test_ten_thousand_beside_duckdb(db: ms.Database) -> None:
    chance = random.Random(5)
    parameters = pa.table(
        {
            "name": [f"alert{n}" for n in range(10_000)],
            "least": [chance.randrange(1000) for _ in range(10_000)],
            "key": [chance.randrange(50) for _ in range(10_000)],
        }
    )
    alerts = db.register_many(
        "SELECT k, v FROM s [RANGE 9] WHERE v > ? AND k <> ? AND v < 990",
        parameters.select(["least", "key"]),
        names=parameters["name"].to_pylist(),
        template="alerts",
    )
    rows = [(chance.randrange(50), chance.randrange(1000), t) for t in range(40)]
    db.insert("s", rows)
    elements = pa.table({"k": [r[0] for r in rows], "v": [r[1] for r in rows], "ts": [r[2] for r in rows]})
    with duckdb.connect() as oracle:
        oracle.register("p", parameters)
        oracle.register("s", elements)
        for t in (5, 20, 38):
            expected = oracle.execute(
                "SELECT name, least, key, k, v FROM s, p WHERE v > least AND k <> key AND v < 990 "
                f"AND ts <= {t} AND {t} <= ts + 9"
            ).fetchall()
            assert bag(alerts.result(t)) == Counter(expected)
    assert db.results([*alerts]).num_rows == alerts.result().num_rows
