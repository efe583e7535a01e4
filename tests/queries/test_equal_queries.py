"""Equal queries of a group have one row of its query table, and what is kept for it once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import millstream as ms
from millstream.database import Database
from millstream.kernel.sharing.parameters import QUERY
from millstream.queries.registration import PlannedOtherwise
from millstream.queries.template_recovery import TemplateRecovery

STREAM = "CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts"
COUNTS = "SELECT a, COUNT(*) AS n, MAX(b) AS m FROM s [RANGE 10] WHERE b > ? GROUP BY a"
# The same in other words.
WORDS = ("b > 5", "5 < b", "NOT (b <= 5)", "b > 5 AND b > 3", "b >= 6", "6 <= b AND b > 5")


def asked(condition: str) -> str:
    return f"SELECT a, COUNT(*) AS n FROM s [RANGE 10] AS r WHERE {condition} GROUP BY a"


def rows(query: ms.Query, at: int | None = None) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in query.result(at).to_pylist())


def numbers(db: Database) -> list[int]:
    """The rows that operators see, by number."""
    db.engine.commits.commit_pending()
    tables = db.engine.snapshot.query_tables.values()
    names = [name for table in tables for name in (*table.admitted, *table.waiting, *table.failed)]
    return sorted(number for name in names for number in db.engine.store.read(name)[QUERY])


def held(db: Database) -> int:
    """The rows of all state."""
    states = db.engine.snapshot.states.values()
    segments = [name for synopses in states for names in synopses.values() for name in names]
    return sum(db.engine.store.read(name).height for name in segments)


@pytest.fixture
def db() -> Iterator[Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute(f"{STREAM}; SET sharing = 'on'")
        yield database


def feed(db: Database, first: int = 0, last: int = 4) -> None:
    db.insert("s", [(n % 3, n % 9, instant) for instant in range(first, last) for n in range(30)])


def test_a_hundred_equal_ones_make_one_row_and_the_state_of_one() -> None:
    found = []
    for count in (1, 100):
        with ms.connect(engine="inprocess") as db:
            db.execute(STREAM)
            queries = db.register_many(COUNTS, [(5,)] * count)
            feed(db)
            assert len({tuple(rows(query)) for query in queries}) == 1
            found.append((numbers(db), held(db), rows(queries[-1])))
    assert found[0] == found[1]
    assert found[0][0] == [0]


def test_one_by_one_they_have_one_plan_without_a_group_until_enough_differ() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(asked("b > 5")) for _ in range(20)]
        assert len({query.edge for query in queries}) == 1
        assert not [*db.engine.groups]
        for constant in range(6, 14):  # the eighth that differs has eight others
            db.register(asked(f"b > {constant}"))
        feed(db)
        assert len([*db.engine.groups]) == 1
        assert len({tuple(rows(query)) for query in queries}) == 1


def test_one_by_one_and_in_other_words(db: Database) -> None:
    queries = [db.register(asked(words)) for words in WORDS]
    other = db.register(asked("b > 6"))
    feed(db)
    assert numbers(db) == [0, len(WORDS)]
    assert {tuple(rows(query)) for query in queries} == {tuple(rows(queries[0]))}
    assert rows(other) != rows(queries[0])
    assert [query.cql.count("5") for query in queries] == [1, 1, 1, 1, 0, 1]
    assert queries[1].stats()["equal"] == len(WORDS) - 1
    assert f"the same row as {len(WORDS) - 1} of these" in queries[1].explain()
    assert "the same row" not in other.explain()


def test_all_names_are_told_together(db: Database) -> None:
    equal = [db.register(asked(words), name=f"q{n}") for n, words in enumerate(WORDS)]
    feed(db)
    found = db.results(equal).to_pylist()
    assert sorted((row["_query"], row["a"], row["n"]) for row in found) == [
        (query.name, *row) for query in equal for row in rows(query)
    ]
    alerts = db.register_many(COUNTS, [(5,), (6,), (5,)], names=["x", "y", "z"], template="alerts")
    found = alerts.result().to_pylist()
    assert [row["n"] for row in found if row["_query"] == "x"] == [row["n"] for row in found if row["_query"] == "z"]
    assert {row["_query"] for row in found} == {"x", "y", "z"}


def test_a_row_is_there_as_long_as_one_of_its_names(db: Database) -> None:
    queries = [db.register(asked(words), name=f"q{n}") for n, words in enumerate(WORDS)]
    other = db.register(asked("b > 6"))
    feed(db)
    before = rows(queries[0])
    for query in queries[:-1]:
        query.drop()
        assert numbers(db) == [0, len(WORDS)]
        assert rows(queries[-1]) == before
    feed(db, 4, 5)
    again = db.register(asked("b > 5"), name="q0")
    assert again.row == 0
    assert rows(again) == rows(queries[-1])
    queries[-1].drop()
    again.drop()
    assert numbers(db) == [len(WORDS)]
    new = db.register(asked("b > 5"))
    assert rows(new) == rows(db.register(asked("b > 5")))
    assert len(numbers(db)) == 2
    assert rows(other)


@pytest.mark.parametrize("dropped", [(0,), (0, 2), (0, 1, 2, 3), (5,)])
def test_after_a_restart(tmp_path: Path, dropped: tuple[int, ...]) -> None:
    """Also of shapes of which the first query is gone."""
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        for number, words in enumerate(WORDS):
            db.register(asked(words), name=f"q{number}")
        db.register(asked("b > 6"), name="other")
        feed(db)
        expected = rows(db.query("q4"))
        for number in dropped:
            db.drop_query(f"q{number}")
    left = [f"q{number}" for number in range(len(WORDS)) if number not in dropped]
    for attempt in range(3):
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            assert sorted(query.name for query in db.queries()) == sorted([*left, "other"])
            assert len(numbers(db)) == 2
            assert {tuple(rows(db.query(name), 2)) for name in left} == {tuple(rows(db.query(left[0]), 2))}
            feed(db, 4 + attempt, 5 + attempt)
            assert {tuple(rows(db.query(name))) for name in left} == {tuple(rows(db.query(left[0])))}
            if not attempt:
                assert rows(db.query(left[0]), 2) != rows(db.query(left[0]))
                assert rows(db.query("q4"), 2) == expected
            elif len(left) > 1:
                db.drop_query(left.pop(0))  # and so on


def test_of_different_templates_of_which_the_first_goes(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        one = db.register_many(COUNTS, [(5,), (7,)], template="one")
        two = db.register_many(COUNTS.replace("b > ?", "? < b"), [(5,), (8,)], names=["x", "y"])
        feed(db)
        assert numbers(db) == [0, 1, 3]
        expected = rows(two[0])
        one.drop()
        assert numbers(db) == [0, 3]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert rows(db.query("x")) == expected
        feed(db, 4, 6)
        assert rows(db.query("x"), 2) == expected
        assert rows(db.query("x"))[0][1] > expected[0][1]


def test_a_template_that_is_planned_otherwise_leaves_its_rows_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAM)
        db.register_many(COUNTS, [(5,), (7,)], names=["one", "other"])
        db.register_many(COUNTS.replace("b > ?", "? < b"), [(5,), (8,)], names=["x", "y"])
        feed(db)
        expected = {name: rows(db.query(name)) for name in ("one", "other", "x", "y")}
        assert expected["one"] == expected["x"]
    recover = TemplateRecovery.recover

    def refuse(self: TemplateRecovery, entry: Any) -> None:
        if "? <" not in entry["text"]:
            raise PlannedOtherwise
        recover(self, entry)

    monkeypatch.setattr(TemplateRecovery, "recover", refuse)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert {name: rows(db.query(name)) for name in expected} == expected
        feed(db, 4, 6)
        assert rows(db.query("one")) == rows(db.query("x")) != expected["x"]
    monkeypatch.undo()
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        feed(db, 6, 8)
        assert rows(db.query("one")) == rows(db.query("x"))
        assert {name: rows(db.query(name), 2) for name in expected} == expected


CHILD = """
import os, signal, sys
import millstream as ms
from tests.queries.test_equal_queries import STREAM, WORDS, asked, feed

db = ms.connect(sys.argv[1], engine="inprocess")
db.execute(f"{STREAM}; SET sharing = 'on'")
db.register(asked(WORDS[0]), name="q0")
db.register(asked("b > 6"), name="other")
feed(db)
for number, words in enumerate(WORDS[1:], 1):
    db.register(asked(words), name=f"q{number}")
db.drop_query("q0")
db.drop_query("q2")
db.register(asked("b > 6"), name="q0")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_kill_9(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "db")], timeout=300, check=False)
    assert died.returncode == -signal.SIGKILL
    for _ in range(2):
        with ms.connect(tmp_path / "db", engine="inprocess") as db:
            assert sorted(query.name for query in db.queries()) == ["other", "q0", "q1", "q3", "q4", "q5"]
            assert {tuple(rows(db.query(f"q{n}"))) for n in (1, 3, 4, 5)} == {tuple(rows(db.query("q1")))}
            assert rows(db.query("q0")) == rows(db.query("other")) != rows(db.query("q1"))
            assert numbers(db) == [0, 1]


def test_a_late_one_begins_with_its_own_first_instant() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts RETAIN 5; SET sharing = 'on'")
        text = "SELECT a, COUNT(*) AS n FROM s [RANGE 3] WHERE b > 5 GROUP BY a"
        early = db.register(text)
        feed(db, 0, 40)
        late = db.register(text)
        assert numbers(db) == [0]
        assert rows(late) == rows(early)
        with pytest.raises(ms.TimeError):
            late.result(at=20)
        unbounded = [db.register("SELECT a, COUNT(*) AS n FROM s WHERE b > 5 GROUP BY a") for _ in range(2)]
        feed(db, 40, 80)
        unbounded.append(db.register("SELECT a, COUNT(*) AS n FROM s WHERE b > 5 GROUP BY a"))
        assert rows(unbounded[0]) == rows(unbounded[1]) != rows(unbounded[2])  # it has seen less


def test_names_of_a_row_that_fails_fail_and_one_that_comes_then_goes_on() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        template = "SELECT a FROM s [RANGE 3] WHERE 10 / (b - ?) > 1"
        queries = db.register_many(template, [(4,), (4,), (99,)])
        feed(db)
        db.advance(to=3)
        assert [query.error is None for query in queries] == [False, False, True]
        assert [query.stats()["state"] for query in queries] == ["failed", "failed", "running"]
        assert "b - 4" in str(queries[1].error)
        assert {*db.stats()["query_states"]["failed"]} == {queries[0].name, queries[1].name}
        queries[0].drop()
        assert queries[1].error is not None
        (new,) = db.register_many(template, [(99,)])
        assert rows(new) == rows(queries[2])


@pytest.mark.parametrize("mode", ["lazy", "none"])
def test_other_modes(mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = db.register_many(COUNTS, [(5,), (6,), (5,)], mode=mode)
        longer = db.register_many(COUNTS.replace("10", "9"), [(5,)], mode=mode)
        feed(db)
        assert rows(queries[0]) == rows(queries[2]) == rows(longer[0]) != rows(queries[1])
        if mode == "lazy":
            assert numbers(db) == [0, 1]
        queries[0].drop()
        feed(db, 4, 20)
        assert rows(queries[2]) != rows(longer[0])


def test_by_a_key(db: Database) -> None:
    """More of them than may ask for one value."""
    queries = db.register_many("SELECT b FROM s [RANGE 10] WHERE a = ?", [(1,)] * 40 + [(2,)])
    queries += [db.register("SELECT b FROM s [RANGE 10] WHERE 1 = a") for _ in range(40)]
    feed(db)
    assert len(numbers(db)) == 2
    assert {tuple(rows(query)) for query in queries if query is not queries[40]} == {tuple(rows(queries[0]))}


@pytest.mark.spark
def test_on_spark_and_after_a_restart(session: SparkSession, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", spark=session) as db:
        db.execute(f"{STREAM}; SET sharing = 'on'")
        queries = [db.register(asked(words), name=f"q{n}") for n, words in enumerate(WORDS)]
        feed(db)
        assert len(numbers(db)) == 1
        assert {tuple(rows(query)) for query in queries} == {tuple(rows(queries[0]))}
        queries[0].drop()
    with ms.connect(tmp_path / "db", spark=session) as db:
        before = rows(db.query("q1"))
        feed(db, 4, 6)
        assert len(numbers(db)) == 1
        assert rows(db.query("q1")) == rows(db.query("q5")) != before


def test_a_name_that_is_gone_stays_gone_where_equal_queries_fail(tmp_path: Path) -> None:
    """One by one, since they fail together: the row that they have gets the words of the one that is left."""
    text = "SELECT ISTREAM(sum(b), count(*) FILTER (WHERE a > ? AND a < ?)) FROM S [PARTITION BY b RANGE 1 ON b]"
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute("SET sharing = 'on'; CREATE STREAM S (a INT, b BIGINT) TIMESTAMP BY ts HEARTBEAT DELAY 3")
        db.insert("S", [(1, 2**62, 5), (1, 2**62, 7)])
        db.register(text.replace("?", "0"), name="first")
        db.insert("S", [(3, 2**63 - 1, 12), (3, -(2**63), 12)])
        db.register_many(text, [(3, 1), (4, 0), (4, 0)], names=["other", "gone", "left"])
        db.query("gone").drop()
        db.advance(to=20)
        assert {query.name for query in db.queries() if query.error is not None} == {"first", "other", "left"}
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert {query.name for query in db.queries()} == {"first", "other", "left"}
