"""Late queries under RETAIN, instant 0, windows that wait for rows and groups that part, on Spark with shuffles.

What is expected is computed here, from all rows that ever came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import millstream as ms

pytestmark = pytest.mark.spark

RETAIN = 16
Content = Callable[[int], range]  # the elements 0, 1, .. (of the same instants) that a window holds at an instant


def of_range(size: int) -> Content:
    return lambda at: range(max(at - size, 0), at + 1)


def of_rows(count: int, slide: int) -> Content:
    def content(at: int) -> range:
        there = (at + 1) // slide * slide
        return range(max(0, there - count), there)  # whose count is a multiple of the slide

    return content


# Of each query its window, what that holds, and F where K is 32.
LATE: dict[str, tuple[str, Content, int]] = {
    "covered": ("[RANGE 8]", of_range(8), 40),
    "future": ("[RANGE 20]", of_range(20), 52),
    "sliding": ("[ROWS 6 SLIDE 3]", of_rows(6, 3), 40),
    "waiting": ("[ROWS 20]", of_rows(20, 1), 52),
    "never": ("[RANGE UNBOUNDED]", lambda at: range(32, at + 1), 32),
}
MODES = {"covered": ("eager", "lazy", "none"), "future": ("eager", "lazy")}


def opened(path: Path, session: SparkSession) -> ms.Database:
    db = ms.connect(path, spark=session)
    db.engine.runner.small_epoch = 0  # type: ignore[attr-defined]
    return db


def in_one_task(db: ms.Database) -> None:
    """Small epochs cost a fraction of what they do with shuffles."""
    db.engine.runner.small_epoch = None  # type: ignore[attr-defined]


def fed(db: ms.Database, first: int, last: int) -> None:
    """Elements of these instants; number 44 makes the first query of the group fail."""
    db.insert("s", [(at, 0 if at == 44 else 1, at) for at in range(first, last)])


def check(db: ms.Database, now: int) -> None:
    for name, (_, content, first) in LATE.items():
        for mode in MODES.get(name, ("eager",)):
            query = db.query(f"{name}_{mode}")
            assert bool(query.notices) == (name == "never" or first > now), query.name
            if first > now:
                with pytest.raises(ms.TimeError, match="no longer kept"):
                    query.result()
                continue
            begin = max(first, now - RETAIN)
            assert query.instants.first == begin, query.name
            for at in (begin, now):
                held = content(at)
                assert query.result(at).to_pylist() == [{"n": len(held), "k": sum(held)}], (query.name, at)
            with pytest.raises(ms.TimeError, match="no longer kept"):
                query.result(at=begin - 1)
            total: Counter[Any] = Counter()
            for row in query.changes().to_pylist():
                total[row["n"], row["k"]] += row["_weight"]
            held = content(now)
            assert +total == Counter([(len(held), sum(held))]), query.name


def check_group(db: ms.Database, now: int) -> None:
    """The first query has failed, and the others lack nothing, though their windows reach further back than history."""
    with pytest.raises(ms.EvaluationError, match="division by zero"):
        db.query("group_0").result()
    for rest in (1, 2):
        for at in (now - RETAIN, now):
            right = sum(k for k in range(max(0, at - 25), at + 1) if k % 4 == rest)
            assert db.query(f"group_{rest}").result(at=at).to_pylist() == [{"n": right}]


def test_late_queries_and_groups_under_retain(session: SparkSession, tmp_path: Path) -> None:
    delivered: list[dict[str, Any]] = []
    with opened(tmp_path / "db", session) as db:
        db.execute(
            f"SET shards = 2; CREATE STREAM s (k INT, d INT) TIMESTAMP BY ts RETAIN {RETAIN}; CREATE TABLE t (a INT)"
        )
        for found in (
            db.execute("SELECT count(*) AS n FROM t").table,
            db.register("SELECT count(*) AS n FROM t").result(),
        ):
            assert found is not None
            assert found.to_pylist() == [{"n": 0}]  # at instant 0, before time begins
        assert db.register("SELECT 1 AS a").result().to_pylist() == [{"_ts": 0, "a": 1}]
        group = "SELECT sum(k / d) AS n FROM s [RANGE 25] WHERE k % 4 = ?"
        db.register_many(group, [0, 1, 2], names=["group_0", "group_1", "group_2"])
        fed(db, 0, 44)
        fed(db, 44, 50)
        for name, (window, _, _) in LATE.items():
            for mode in MODES.get(name, ("eager",)):
                text = f"SELECT count(*) AS n, sum(k) AS k FROM s {window}"
                db.register(text, name=f"{name}_{mode}", mode=mode)
                in_one_task(db)  # all but the first: they are fed with shuffles later
        check(db, 48)
        check_group(db, 48)
    with opened(tmp_path / "db", session) as db:
        db.create_sink("out", "waiting_eager", lambda number, changes: delivered.extend(changes.to_pylist()))
        fed(db, 50, 52)
        check(db, 50)
        assert not delivered
        fed(db, 52, 65)
        check(db, 63)
        assert delivered[0] == {"_ts": 52, "_weight": 1, "n": 20, "k": sum(range(33, 53))}
        check_group(db, 63)
