"""Windows of different sizes over one stream keep its rows once, and joins above them have the only whole ones: the
plan of Figure 5 of the CQL paper."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import millstream as ms
from millstream.engine.epochs import task
from millstream.state.snapshot import state_names

SCHEMA = "CREATE STREAM s1 (a INT, b INT, note STRING) TIMESTAMP BY ts; CREATE STREAM s2 (a INT, d INT) TIMESTAMP BY ts"
LARGER = "SELECT b, MAX(a) AS most FROM s1 [ROWS 50000] GROUP BY b"
RANGE_MOST = "SELECT b, MAX(a) AS most FROM s1 [RANGE 5000] GROUP BY b"
RANGE_JOINED = "SELECT ISTREAM(*) FROM s1 [RANGE 5000], s2 [RANGE 600] WHERE s1.a = s2.a"
JOINED = "SELECT ISTREAM(*) FROM s1 [ROWS 40000], s2 [RANGE 600] WHERE s1.a = s2.a"


def feed(db: ms.Database, epochs: range, rows: int = 10_000) -> None:
    for epoch in epochs:
        first = pl.int_range(epoch * rows, (epoch + 1) * rows, eager=True)
        note = first.map_elements(lambda i: f"{i * 48271 % 2147483647:040d}", pl.String)
        s1 = {"a": first * 7919 % 20_000, "b": first * 31 % 101, "note": note, "ts": first // 10}
        db.insert("s1", pl.DataFrame(s1))
        second = pl.int_range(epoch * 50, epoch * 50 + 50, eager=True)
        last = ((epoch + 1) * rows - 1) // 10
        db.insert("s2", pl.DataFrame({"a": second * 31 % 20_000, "d": second, "ts": [last] * 50}))


def held(db: ms.Database) -> int:
    names = {*state_names(db.engine.snapshot.states)}
    return sum(db.engine.store.size(name) for name in names)


def windows(db: ms.Database) -> dict[str, set[str]]:
    """The elements that windows remember, as segments."""
    return {
        step: {name for synopsis, names in synopses.items() if synopsis.endswith("/recent") for name in names}
        for step, synopses in db.engine.snapshot.states.items()
        if step.startswith("rowswindow")
    }


def alone(path: Path) -> int:
    with ms.connect(path, engine="inprocess") as db:
        db.execute(SCHEMA)
        db.register("SELECT * FROM s1 [ROWS 50000]", name="alone", mode="eager")
        feed(db, range(8))
        return held(db)


@pytest.mark.parametrize("shards", [1, 2])
def test_both_queries_hold_little_more_than_the_larger_window_alone(shards: int, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; {SCHEMA}")
        db.register(LARGER, name="larger")
        db.register(JOINED, name="joined")
        feed(db, range(8))
        small, large = sorted(windows(db).values(), key=len)
        assert small <= large
        assert held(db) <= 1.2 * alone(tmp_path / "alone")
        joins = {step: kept for step, kept in db.engine.snapshot.states.items() if step.startswith("innerjoin")}
        whole = [name for name in state_names(db.engine.snapshot.states) if "c2" in db.engine.store.read(name).columns]
        assert {*whole} & {*state_names(joins)}
        assert sum(db.engine.store.height(name) for name in {*whole}) <= 1.2 * 40_000


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize(
    "one", [RANGE_MOST, "SELECT ISTREAM(*) FROM s1 [RANGE 5000], s2 [RANGE 600] WHERE s1.a = s2.a"]
)
def test_windows_of_time_hold_little_more_than_the_larger_one_alone(one: str, shards: int) -> None:
    """The larger window alone is what a join with it holds; a window of time by itself has nothing to hold."""

    def of(*texts: str) -> int:
        with ms.connect(engine="inprocess") as db:
            db.execute(f"SET shards = {shards}; {SCHEMA}")
            for text in texts:
                db.register(text)
            feed(db, range(8))
            return held(db)

    assert of(one, RANGE_JOINED.replace("5000", "4000")) <= 1.2 * of(RANGE_JOINED)


def test_who_comes_later_finds_what_is_there_and_who_goes_leaves_what_others_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task, "COMPARED_EVERY", 3)
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        db.register("SELECT b, COUNT(*) AS n FROM s1 [ROWS 300] GROUP BY b", name="small")
        feed(db, range(4), 200)
        db.register("SELECT b, COUNT(*) AS n FROM s1 [ROWS 700] GROUP BY b", name="large")
        feed(db, range(4, 8), 200)
        smaller, larger = windows(db).values()
        assert smaller == larger
        db.execute("DROP QUERY large")
        feed(db, range(8, 12), 200)
        assert 300 <= sum(db.engine.store.height(name) for name in next(iter(windows(db).values()))) <= 340
        assert sum(row["n"] for row in db.query("small").result().to_pylist()) == 300


def test_partitions_of_different_sizes_are_kept_once() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        queries = [db.register(f"SELECT a, b FROM s1 [PARTITION BY b ROWS {n}]", name=f"q{n}") for n in (1, 3, 2)]
        feed(db, range(6), 500)
        first, *others = windows(db).values()
        assert others == [first, first]
        assert [query.result().num_rows for query in queries] == [101, 303, 202]


@pytest.mark.parametrize("text", [LARGER, JOINED])
def test_what_was_kept_before_there_was_the_setting_goes_on(text: str, tmp_path: Path) -> None:
    """Its plan has the same name, and so the same state."""
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"SET synopses = 'apart'; {SCHEMA}")
        db.register(text, name="q")
        feed(db, range(2), 500)
        before = {*windows(db)}
        db.execute("SET synopses = 'shared'")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        feed(db, range(2, 4), 500)
        assert {*windows(db)} == before
        assert "+" not in "".join(before)


def test_windows_that_count_by_other_columns_keep_other_elements() -> None:
    """Also in the first epoch, in which all of them begin with the same rows and nothing kept."""
    windows = ("[ROWS 1]", "[PARTITION BY a ROWS 1]", "[PARTITION BY b ROWS 1]", "[PARTITION BY a, b ROWS 1]")
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM p (a INT, b INT, c INT) TIMESTAMP BY ts")
        queries = [db.register(f"SELECT c FROM p {window}") for window in windows]
        db.insert("p", [(1, 1, 10, 1), (2, 1, 20, 2), (1, 2, 30, 3), (2, 2, 40, 4)])
        db.advance(to=4)
        db.insert("p", [(1, 2, 50, 5)])
        db.advance(to=6)
        answers = [sorted(row["c"] for row in query.result().to_pylist()) for query in queries]
        assert answers == [[50], [40, 50], [20, 50], [10, 20, 40, 50]]
