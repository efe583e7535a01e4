"""Late queries whose windows count rows: exact once enough have come, and not asked before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms

MODES = ["eager", "lazy", "none"]


def prepared(path: Path | None = None, rows: int = 50) -> ms.Database:
    """RETAIN 16, of elements 0, 1, .. at the instants of the same numbers."""
    db = ms.connect(path, engine="inprocess")
    db.sinks.pause = 0.0
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 16")
    fed(db, range(rows))
    return db


def fed(db: ms.Database, ticks: range) -> None:
    for tick in ticks:
        db.insert("s", [(tick, tick)])


def values(table: pa.Table) -> list[int]:
    return sorted(row["k"] for row in table.to_pylist())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SELECT k FROM s [ROWS 5 SLIDE 3]", 32 + 8 - 1),
        ("SELECT ISTREAM(k) FROM s [ROWS 5 SLIDE 3]", 32 + 8),
        ("SELECT k FROM s SAMPLE (100 PERCENT) [ROWS 5]", 32 + 6 - 1),
        ("SELECT k FROM (SELECT ISTREAM(k) FROM s [RANGE 2]) [ROWS 5]", 32 + 2 + 1 + 6 - 1),
        ("SELECT k FROM (SELECT ISTREAM(k) FROM s [ROWS 5]) [RANGE 2]", 37 + 1 + 2),
        ("SELECT k FROM (SELECT ISTREAM(k) FROM s [ROWS 5 SLIDE 2]) [RANGE 2]", 38 + 1 + 2),
        ("SELECT k FROM (SELECT ISTREAM(k) FROM s [ROWS 3]) [ROWS 4]", 32 + 3 + 1 + 5 - 1),
    ],
)
def test_where_exact_answers_begin(mode: str, text: str, first: int) -> None:
    with prepared(rows=0) as whole, prepared() as db:
        expected, query = whole.register(text), db.register(text, mode=mode)
        fed(whole, range(50))
        assert (query.instants.first, query.notices) == (first, [])
        for upto in (50, 60):
            fed(whole, range(50, upto))
            fed(db, range(50, upto))
            begin = query.instants.first
            for at in range(begin, upto - 1):
                own = query.result(at).to_pylist()
                right = expected.result(at).to_pylist()
                assert own == [row for row in right if row.get("_ts", begin) >= begin]
        with pytest.raises(ms.TimeError, match="no longer kept"):
            query.result(at=query.instants.first - 1)


def test_what_counts_above_what_is_not_known_yet_is_never_covered() -> None:
    with prepared() as db:
        for text in (
            "SELECT k FROM (SELECT ISTREAM(k) FROM s [ROWS 5 SLIDE 2]) [ROWS 3]",
            "SELECT k FROM (SELECT ISTREAM(k) FROM s [RANGE 5]) [ROWS 3 SLIDE 2]",
            "SELECT k FROM (SELECT ISTREAM(k) FROM s [ROWS 30]) [ROWS 3]",
        ):
            assert "its answers lack what came before" in db.register(text).notices[0]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_waited_for_lasts(tmp_path: Path, mode: str) -> None:
    """Followers and sinks begin when it is known, over restarts and jumps of time."""
    delivered: list[Any] = []

    def deliver(number: int, changes: pa.Table) -> None:
        delivered.extend(changes.to_pylist())

    with prepared(tmp_path) as db:
        answer = db.execute(f"REGISTER QUERY q MODE {mode.upper()} AS SELECT k FROM s [ROWS 20]")
        assert "once its windows have counted 21 rows since" in answer.message
        db.create_sink("all", "q", deliver)
        fed(db, range(50, 52))
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.create_sink("all", "q", deliver)
        query = db.query("q")
        following = query.follow(timeout=0.01)
        assert not query.changes().num_rows
        fed(db, range(52, 53))
        with pytest.raises(ms.TimeError, match="no longer kept"):
            query.result()
        assert not delivered
        db.insert("s", [(53, 1000)])
        assert query.instants.first == 999 - 16
        assert not query.notices
        (first, *_) = changes = next(following).to_pylist()
        assert first["_ts"] == 32 + 20  # the 21st element that was seen
        assert changes == delivered
        assert sorted(row["k"] for row in changes) == [*range(33, 53)]
        assert values(query.result()) == [*range(33, 53)]


@pytest.mark.parametrize("mode", MODES)
def test_what_counts_above_what_counts_is_waited_for(tmp_path: Path, mode: str) -> None:
    text = "SELECT k FROM (SELECT ISTREAM(k) FROM s [ROWS 3]) [ROWS 15]"
    with prepared(tmp_path) as db:
        db.register(text, name="q", mode=mode)
        fed(db, range(50, 52))
    with ms.connect(tmp_path, engine="inprocess") as db:
        query = db.query("q")
        with pytest.raises(ms.TimeError, match="no longer kept"):
            query.result()
        fed(db, range(52, 54))
        assert (query.instants.first, query.notices) == (32 + 3 + 1 + 16 - 1, [])
        assert values(query.result()) == [*range(38, 53)]


@pytest.mark.parametrize("mode", MODES)
def test_streams_that_wait_begin_one_tick_later(mode: str) -> None:
    """Whoever followed them before it was known when is given what can be asked for, and nothing of before."""
    delivered: list[Any] = []
    with prepared() as db:
        query = db.register("SELECT DSTREAM(k) FROM s [ROWS 20]", mode=mode)
        db.create_sink("all", query.name, lambda number, changes: delivered.extend(changes.to_pylist()))
        following = query.follow(timeout=0)
        db.insert("s", [(tick, tick) for tick in range(50, 60)])
        right = [{"_ts": tick, "_weight": 1, "k": tick - 20} for tick in range(32 + 20 + 1, 59)]
        assert [row for changes in following for row in changes.to_pylist()] == right
        assert delivered == right == query.changes().to_pylist()


def test_ad_hoc_queries_count_what_is_kept() -> None:
    with prepared() as db:
        for text, right in (
            ("SELECT k FROM s [ROWS 5 SLIDE 3]", [*range(43, 48)]),
            ("SELECT k FROM (SELECT ISTREAM(k) FROM s [RANGE 2]) [ROWS 5]", [*range(44, 49)]),
        ):
            found = db.execute(text)
            assert found.table is not None
            assert (values(found.table), found.notices) == (right, ())
        with pytest.raises(ms.TimeError, match=r"needs history[\s\S]*once its windows have counted"):
            db.execute("SELECT k FROM s SAMPLE (100 PERCENT) [ROWS 30]")


def test_late_templates_count_one_by_one() -> None:
    with prepared() as db:
        queries = db.register_many("SELECT k FROM s [ROWS 20] WHERE k >= ?", [0, 45])
        fed(db, range(50, 60))
        assert [values(query.result()) for query in queries] == [[*range(39, 59)], [*range(45, 59)]]


@pytest.mark.parametrize("ask", ["result", "changes"])
def test_the_error_says_what_is_waited_for(ask: str) -> None:
    with prepared() as db:
        query = db.register("SELECT k FROM s [ROWS 20]")
        with pytest.raises(ms.TimeError, match=r"no longer kept[\s\S]*counted 21 rows[\s\S]*known once so many"):
            getattr(query, ask)(48)


@pytest.mark.parametrize("seed", range(6))
def test_slides_count_all_that_were_accepted_whatever_came_in_between(seed: int) -> None:
    """Elements out of order, late ones, ties where the past begins, and restarts: which elements slide together is the
    same for queries that came first and for those that come later."""
    dice = random.Random(seed)
    rows, slide = dice.choice([(5, 3), (2, 7), (4, 2), (1, 5)])
    text = f"SELECT k FROM s [ROWS {rows} SLIDE {slide}] WHERE k % 3 > 0"
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts HEARTBEAT DELAY 3 RETAIN 16")
        early, late, now = db.register(text), [], 0
        for number in range(120):
            instant = max(0, now - dice.choice([0, 0, 1, 2, 3, 9]))  # the last ones are late
            now += dice.choice([0, 0, 1, 1, 2])
            db.insert("s", [(number, instant)])
            if dice.random() < 0.05:
                late.append(db.register(text, mode=dice.choice(MODES)))
        assert db.stats()["streams"]["s"]["late"]
        for query in late:
            assert not query.notices
            for at in range(query.instants.first, query.final + 1):
                assert values(query.result(at)) == values(early.result(at)), (query.name, at)


@pytest.mark.parametrize("below", ["s SAMPLE (50 PERCENT)", "(SELECT ISTREAM(k) FROM s [RANGE 2] WHERE k > 3)"])
def test_slides_of_what_nobody_has_counted_are_told_not_to_be_exact(below: str) -> None:
    with prepared() as db:
        query = db.register(f"SELECT k FROM {below} [ROWS 3 SLIDE 2]")
        fed(db, range(50, 90))
        assert "its answers lack what came before" in query.notices[0]
