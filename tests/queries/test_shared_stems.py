"""Joins of different FROM lists keep the rows of a stream once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.engine.epochs import task

STREAMS = """
CREATE STREAM a (k INT, x INT, y INT) TIMESTAMP BY ts;
CREATE STREAM b (k INT, u INT) TIMESTAMP BY ts;
CREATE STREAM c (k INT, w INT) TIMESTAMP BY ts
"""
JOINS = {
    "ab": "SELECT a.x, a.y, b.u FROM a [RANGE 100], b [RANGE 100] WHERE a.k = b.k",
    "ac": "SELECT a.y, c.w FROM a [RANGE 100], c [RANGE 100] WHERE a.k = c.k",
    "bc": "SELECT b.u, c.w FROM b [RANGE 100], c [RANGE 100] WHERE b.k = c.k",
    "abc": "SELECT a.x, b.u, c.w FROM b [RANGE 100], a [RANGE 100], c [RANGE 100] WHERE a.k = b.k AND a.k = c.k",
}


def feed(db: ms.Database, start: int, stop: int, seed: int = 1) -> None:
    """Some rows of one stream after the other: none of them is as far as the others."""
    dice = Random(seed)
    for ts in range(start, stop, 10):
        for name in dice.sample("abc", 3):
            db.insert(name, [(t % 5, *([t] * (2 if name == "a" else 1)), t) for t in range(ts, ts + 10)])


def stems(db: ms.Database) -> dict[str, list[tuple[str, ...]]]:
    """For each join the segments that it keeps, input by input."""
    return {
        step: [names for synopsis, names in sorted(synopses.items()) if "routing" not in synopsis]
        for step, synopses in db.engine.snapshot.states.items()
        if "join" in step
    }


def alone(joins: Mapping[str, str], stop: int) -> dict[str, list[str]]:
    answers = {}
    for name, text in joins.items():
        with ms.connect(engine="inprocess") as db:
            db.execute(STREAMS)
            query = db.register(text)
            feed(db, 0, stop)
            answers[name] = rows(query)
    return answers


def rows(query: ms.Query) -> list[str]:
    return sorted(map(str, query.changes().to_pylist()))


@pytest.mark.parametrize("plan", ["tree", "eddy"])
def test_joins_that_read_a_stream_keep_its_rows_once(plan: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS + f"; SET join_plan = '{plan}'" if plan != "tree" else STREAMS)
        queries = {name: db.register(text, name=name) for name, text in JOINS.items() if name != "abc"}
        assert "sharing: keeps the rows of a, b" in db.explain(JOINS["abc"])
        queries["abc"] = db.register(JOINS["abc"], name="abc")
        feed(db, 0, 250)
        kept = stems(db)
        segments = [name for inputs in kept.values() for names in inputs for name in names]
        assert len(set(segments)) < len(segments)
        # Of each of the three streams, and of a join of two of them where there is one: as if it were one join.
        different = {frozenset(names) for inputs in kept.values() for names in inputs}
        assert len(different) == (3 if plan == "eddy" else 4)
        assert {name: rows(query) for name, query in queries.items()} == alone(JOINS, 250)
        with_both = sum(db.stats()["state_bytes"].values())
        for name in ("ac", "bc", "abc"):
            db.execute(f"DROP QUERY {name}")
        assert len(stems(db)) == 1
        feed(db, 250, 350)
        assert sum(db.stats()["state_bytes"].values()) < with_both


def test_a_join_that_comes_late_ends_up_with_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "COMPARED_EVERY", 5)
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        db.register(JOINS["ab"])
        feed(db, 0, 300)
        late = db.register(JOINS["ac"])
        late.wait()
        before = stems(db)
        assert len({frozenset(names) for inputs in before.values() for names in inputs}) == 4
        feed(db, 300, 500)
        assert len({frozenset(names) for inputs in stems(db).values() for names in inputs}) == 3
        assert rows(late) == alone({"ac": JOINS["ac"]}, 500)["ac"]


def test_a_join_that_fails_leaves_what_the_others_keep(tmp_path: Path) -> None:
    failing = "SELECT a.y, c.w FROM a [RANGE 100], c [RANGE 100] WHERE a.k = c.k AND 10 / (c.w - 155) < 100"
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAMS)
        query = db.register(JOINS["ab"])
        db.register(failing, name="fails")
        feed(db, 0, 300)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            db.query("fails").result()
        feed(db, 300, 400)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        feed(db, 400, 500)
        assert rows(db.query(query.name)) == alone({"ab": JOINS["ab"]}, 500)["ab"]


@pytest.mark.spark
def test_on_spark_and_after_a_restart(session: SparkSession, tmp_path: Path) -> None:
    chosen = {name: JOINS[name] for name in ("ab", "ac")}
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(STREAMS)
        for name, text in chosen.items():
            db.register(text, name=name)
        feed(db, 0, 40)
    with ms.connect(tmp_path / "db", spark=session) as db:
        feed(db, 40, 80)
        kept = {frozenset(names) for inputs in stems(db).values() for names in inputs}
        assert len({name for names in kept for name in names}) < sum(
            len(names) for inputs in stems(db).values() for names in inputs
        )
        assert {name: rows(db.query(name)) for name in chosen} == alone(chosen, 80)
