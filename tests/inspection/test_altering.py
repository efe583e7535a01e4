"""Settings that are changed while queries run: they move to other plans, eddies route otherwise, answers stay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import millstream as ms
from millstream.database import Database

JOIN = "SELECT s.a, r.c, u.d FROM s [RANGE 30], r [RANGE 30], u [RANGE 30] WHERE s.a = r.a AND r.c = u.c"


@pytest.fixture(params=[1, 3], ids=["1 shard", "3 shards"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with ms.connect(engine="inprocess") as opened:
        opened.execute(f"SET shards = {request.param}; SET join_plan = 'tree'; SET jit = 'off'")
        for name, columns in {"s": "a", "r": "a BIGINT, c", "u": "c BIGINT, d"}.items():
            opened.execute(f"CREATE STREAM {name} ({columns} BIGINT, ts BIGINT) TIMESTAMP BY ts")
        yield opened


def fill(db: Database, first: int, last: int) -> None:
    for ts in range(first, last):
        db.insert("s", [(ts % 5, ts)])
        db.insert("r", [(ts % 5, ts % 3, ts)])
        db.insert("u", [(ts % 3, ts, ts)])


def joins(db: Database, query: str) -> set[str]:
    found = (node for node in db.inspection.plan_of(query)["nodes"] if node["kind"] == "join")
    return {node["label"].partition(" key ")[0] for node in found}


def applied(db: Database, name: str, value: str | int) -> dict[str, str]:
    """What comes of a setting for the queries that run, once they have moved."""
    db.execute(f"SET {name} = '{value}'" if isinstance(value, str) else f"SET {name} = {value}")
    said = db.inspection.apply(name)
    until = time.monotonic() + 60
    while any((change := query.plan_change) is not None and change.state == "moving" for query in db.queries()):
        assert time.monotonic() < until, "it does not end"
        time.sleep(0.01)
    return said


def rows(db: Database, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = db.query(query).changes().to_pylist()
    return found


def test_running_queries_move_to_the_plan_that_a_setting_makes(db: Database) -> None:
    db.register(JOIN, name="moves")
    fill(db, 0, 20)
    assert joins(db, "moves") == {"Join inner"}
    assert applied(db, "join_plan", "eddy").keys() == {"moves"}
    assert joins(db, "moves") == {"Join of 3 by SteMs"}
    assert "replan: moved since epoch" in db.query("moves").explain()
    assert "SET join_plan = eddy" in db.query("moves").explain()
    applied(db, "jit", "on")
    assert joins(db, "moves") == {"Join of 3 by SteMs just in time"}
    applied(db, "strategy", "negative")
    assert any("negative" in node["id"] for node in db.inspection.plan_of("moves")["nodes"])
    fill(db, 20, 40)
    with ms.connect(engine="inprocess") as other:
        for name, columns in {"s": "a", "r": "a BIGINT, c", "u": "c BIGINT, d"}.items():
            other.execute(f"CREATE STREAM {name} ({columns} BIGINT, ts BIGINT) TIMESTAMP BY ts")
        other.register(JOIN, name="moves")
        fill(other, 0, 40)
        assert rows(db, "moves") == rows(other, "moves")


def test_what_cannot_move_stays(db: Database) -> None:
    db.register("SELECT a FROM s [ROWS 3]", name="strict")
    db.register("SELECT a FROM s [RANGE 3]", name="same")
    db.register_many("SELECT a FROM s WHERE a > ?", [(n,) for n in range(10)], template="group")
    fill(db, 0, 5)
    said = applied(db, "strategy", "direct")
    assert said["strict"] == "stays: strategy 'direct' cannot run this query"
    together = "q3 and 9 that share its plan"
    assert said.keys() == {"strict", "same", together}
    assert said[together] == "stays: queries that share a plan keep their strategy"
    assert db.inspection.apply("memory_budget") == {}
    assert db.inspection.apply("jit") == dict.fromkeys(said, "stays: its plan is the same")


def test_queries_of_a_group_move_together(db: Database) -> None:
    db.register_many(f"{JOIN} AND u.d > ?", [(n,) for n in range(10)], template="group")
    fill(db, 0, 20)
    (said,) = applied(db, "jit", "on").values()
    assert "SET jit = on" in said
    assert "SET jit = on" in db.query("q1").explain()
    assert all("just in time" in join for join in joins(db, "q1"))
    fill(db, 20, 30)
    with ms.connect(engine="inprocess") as other:
        for name, columns in {"s": "a", "r": "a BIGINT, c", "u": "c BIGINT, d"}.items():
            other.execute(f"CREATE STREAM {name} ({columns} BIGINT, ts BIGINT) TIMESTAMP BY ts")
        other.register_many(f"{JOIN} AND u.d > ?", [(n,) for n in range(10)], template="group")
        fill(other, 0, 30)
        assert [rows(db, f"q{n}") for n in range(1, 11)] == [rows(other, f"q{n}") for n in range(1, 11)]


@pytest.mark.parametrize("policy", ["ticket", "fixed", "random"])
def test_eddies_route_by_the_policy_of_now(db: Database, policy: str) -> None:
    db.execute("SET join_plan = 'eddy'")
    db.register(JOIN, name="joined")
    db.register_many("SELECT a, c FROM r WHERE a > ? AND c < ?", [(n % 5, n % 3) for n in range(50)], template="many")
    fill(db, 0, 10)
    db.execute(f"SET routing = '{policy}'")
    assert db.engine.limits.routing == policy
    fill(db, 10, 30)
    routed = db.inspection.recent("routing", None, 100)
    assert routed.num_rows > 0
    db.execute("SET routing = 'auto'")
    assert db.engine.limits.routing == ""
    found = rows(db, "joined")
    with ms.connect(engine="inprocess") as other:
        for name, columns in {"s": "a", "r": "a BIGINT, c", "u": "c BIGINT, d"}.items():
            other.execute(f"CREATE STREAM {name} ({columns} BIGINT, ts BIGINT) TIMESTAMP BY ts")
        other.register(JOIN, name="joined")
        fill(other, 0, 30)
        assert found == rows(other, "joined")
