"""RETAIN says how far back one may ask; it never takes what was not given yet.

What is expected is computed here, element by element, from all rows that ever came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
MODES = ["eager", "lazy", "none"]


def day(number: float) -> datetime:
    return BEGINNING + timedelta(days=number)


def batches(rows: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


class Sum:
    """The sum of changes: what a relation is by them."""

    def __init__(self) -> None:
        self.bag: Counter[tuple[Any, ...]] = Counter()
        self.rows: list[dict[str, Any]] = []

    def __call__(self, number: int, changes: pa.Table) -> None:
        self.add(changes)

    def add(self, changes: pa.Table) -> None:
        for row in changes.to_pylist():
            self.rows.append(row)
            values = tuple(value for name, value in row.items() if name not in ("_ts", "_weight"))
            self.bag[values] += row["_weight"]
        self.bag = Counter({key: count for key, count in self.bag.items() if count})


def bag_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.sinks.pause = 0.0
        yield db


@pytest.mark.parametrize("mode", MODES)
def test_a_follower_that_starts_before_the_first_row_sees_all(db: ms.Database, mode: str) -> None:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts TIMESTAMP")
    query = db.register("SELECT k FROM s [RANGE 1 HOUR]", mode=mode)
    following = query.follow(timeout=0.01)
    db.insert("s", [(k, day(k)) for k in range(30)])
    assert [row["k"] for row in next(following).to_pylist() if row["_weight"] > 0] == [*range(29)]


@pytest.mark.parametrize("mode", MODES)
def test_time_may_jump_beyond_retain(db: ms.Database, mode: str) -> None:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts TIMESTAMP")
    query = db.register("SELECT k FROM s [RANGE 1 HOUR]", mode=mode)
    delivered, followed = Sum(), Sum()
    db.create_sink("all", query.name, delivered)
    following = query.follow(timeout=0.01)
    for number in (0, 0.5, 20, 21, 60):
        db.insert("s", [(int(number * 2), day(number))])
        if number == 0.5:
            followed.add(next(following))
    db.advance("s", to=day(100))
    for table in following:
        followed.add(table)
    assert delivered.rows == followed.rows
    assert [row["k"] for row in followed.rows] == [0, 0, 1, 1, 40, 40, 42, 42, 120, 120]
    assert db.stats()["sinks"]["all"]["state"] == "active"


@pytest.mark.parametrize("mode", MODES)
def test_a_join_waits_for_the_input_that_is_loaded_last(db: ms.Database, mode: str) -> None:
    for name in "su":
        db.execute(f"CREATE STREAM {name} (k INT) TIMESTAMP BY ts TIMESTAMP")
    text = "SELECT ISTREAM(s.k) FROM s [RANGE 1 HOUR], u [RANGE 1 HOUR] WHERE s.k = u.k"
    query, delivered = db.register(text, mode=mode), Sum()
    db.create_sink("all", query.name, delivered)
    for name in "su":
        for number in range(30):
            db.insert(name, [(number, day(number))])
    assert [row["k"] for row in delivered.rows] == [*range(29)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attached", [True, False])
def test_what_a_sink_does_not_take_is_kept_for_it(tmp_path: Path, mode: str, attached: bool) -> None:
    """Whether it is paused or detached, over a restart, however often segments are merged meanwhile."""
    taken = Sum()

    def refuses(number: int, changes: pa.Table) -> None:
        raise OSError("no")

    with ms.connect(tmp_path, engine="inprocess") as db:
        db.sinks.pause = 0.0
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 10")
        db.register("SELECT k, COUNT(*) AS n FROM s [RANGE 2] GROUP BY k", name="q", mode=mode)
        db.create_sink("all", "q", refuses)
        for tick in range(30):
            db.insert("s", [(tick % 4, tick)])
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.sinks.pause = 0.0
        if attached:
            db.create_sink("all", "q", refuses)
        for tick in range(30, 50):
            db.insert("s", [(tick % 4, tick)])
        (shown,) = db.execute("SHOW SINKS").table.to_pylist()  # type: ignore[union-attr]
        assert shown["state"] == ("paused" if attached else "detached")
        assert int(shown["rows"]) >= 30
        assert int(shown["bytes"]) > 0
        assert shown["since"] == "0"
        db.create_sink("all", "q", taken)
        assert taken.bag == bag_of(db.query("q").result())
        assert [row["_ts"] for row in taken.rows if row["_weight"] > 0] == [*range(49)]
        assert len(db.engine.sources.history("s")) < 20


def test_followers_that_are_gone_hold_nothing(db: ms.Database) -> None:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 10")
    query = db.register("SELECT k FROM s [RANGE 3]", mode="none")
    following, unread = query.follow(timeout=0.01), query.follow(timeout=0.01)
    for tick in range(100):
        db.insert("s", [(tick, tick)])
    assert len(db.engine.sources.history("s")) == 100
    assert len(next(following)) == 95 + 99
    del unread
    db.insert("s", [(100, 100)])
    assert len(db.engine.sources.history("s")) < 20
    following.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_remote_follower_holds_only_so_much(db: ms.Database, mode: str) -> None:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 10")
    query = db.register("SELECT k FROM s [RANGE 3]", mode=mode)
    reader = query.reader
    near, far = reader.keep(reader.bookmark(), most=100_000), reader.keep(reader.bookmark(), most=1000)
    for rows in batches([(tick, tick) for tick in range(300)], 10):
        db.insert("s", rows)
    changes, _ = reader.given(near, 298)
    assert changes.num_rows == 299 + 295
    with pytest.raises(ms.TimeError, match=r"since 0 are no longer kept[\s\S]*max_follower_bytes"):
        reader.given(far, 298)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 7, 50])
@pytest.mark.parametrize(
    ("text", "reach"), [("SELECT ISTREAM(k) FROM s [RANGE 3]", 0), ("SELECT DSTREAM(k) FROM s [RANGE 3]", 4)]
)
def test_the_result_of_a_stream_has_the_elements_that_can_be_asked_for(
    db: ms.Database, mode: str, size: int, text: str, reach: int
) -> None:
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 15")
    query = db.register(text, mode=mode)
    for rows in batches([(tick, tick) for tick in range(80)], size):
        db.insert("s", rows)
    first, final = 78 - 15, 78
    expected = [(tick, tick - reach) for tick in range(first, final + 1)]
    assert [(row["_ts"], row["k"]) for row in query.result().to_pylist()] == expected
    assert [(row["_ts"], row["k"]) for row in query.result(at=70).to_pylist()] == [e for e in expected if e[0] <= 70]
    assert [(row["_ts"], row["k"]) for row in query.changes().to_pylist()] == expected
    with pytest.raises(ms.TimeError, match="no longer kept"):
        query.result(at=first - 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 7, 50])
def test_changes_of_a_relation_sum_to_it(db: ms.Database, mode: str, size: int) -> None:
    """They begin with all that holds at the first answerable instant, and so do followers and new sinks."""
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 16")
    query = db.register("SELECT k FROM s [RANGE 100]", mode=mode)
    for rows in batches([(tick, tick) for tick in range(50)], size):
        db.insert("s", rows)
    assert query.result().num_rows == 49
    found, delivered = Sum(), Sum()
    found.add(query.changes())
    db.create_sink("late", query.name, delivered)
    assert found.rows == delivered.rows == next(query.follow(timeout=0.01)).to_pylist()
    assert found.bag == bag_of(query.result())
    assert [row["_ts"] for row in found.rows] == [max(tick, 48 - 16) for tick in range(49)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ["SELECT k FROM s [RANGE 100]", "SELECT ISTREAM(k) FROM s [RANGE 100]"])
def test_changes_since_an_instant_begin_with_one_that_can_be_asked_for(db: ms.Database, mode: str, text: str) -> None:
    """They tell how the relation differs from that of `since`, which must be one that can be known."""
    db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts RETAIN 16")
    query = db.register(text, mode=mode)
    for rows in batches([(tick, tick) for tick in range(50)], 7):
        db.insert("s", rows)
    first = query.instants.first
    assert first == 48 - 16
    expected = [{"_ts": tick, "_weight": 1, "k": tick} for tick in range(first + 1, 49)]
    assert query.changes(since=first).to_pylist() == next(query.follow(since=first, timeout=0.01)).to_pylist()
    assert query.changes(since=first).to_pylist() == expected
    for ask in (lambda: query.changes(since=first - 1), lambda: query.follow(since=first - 1)):
        with pytest.raises(ms.TimeError, match=rf"since {first - 1} are no longer kept[\s\S]*is {first}"):
            ask()
