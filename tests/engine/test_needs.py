"""Late queries read only the files of history that they can need."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

import millstream as ms
from millstream.database import Database
from millstream.state.store import DirectoryStore

# Of every query how many of the ten files it reads; k is 0 in the first, 1 in the second, and so on.
READ = {
    "SELECT v FROM s WHERE k = 4": 1,
    "SELECT v FROM s WHERE k = 4 AND v > 3": 1,
    "SELECT k, COUNT(*) AS n FROM s [RANGE 20] WHERE k >= 7 GROUP BY k": 3,
    "SELECT v FROM s WHERE 2 > k": 3,  # bounds are taken to be inclusive
    "SELECT v FROM s WHERE t IN ('t3', 't5')": 3,
    "SELECT v FROM s WHERE k BETWEEN 2 AND 3": 2,
    "SELECT v FROM s WHERE k = 77": 0,
    "SELECT a.v FROM s [RANGE 5] a, s [RANGE 5] b WHERE a.k = 1 AND b.k = 8": 2,
    "SELECT v FROM s WHERE f = 4e0": 1,
    "SELECT v FROM s WHERE f <= 1e0": 3,  # one file has NaN as well, and 0
    "SELECT v FROM s WHERE f >= 7e0 AND f < 8e0": 2,
    "SELECT v FROM s WHERE g = 0.1F": 1,
    "SELECT v FROM s WHERE d > CAST(6.05 AS DECIMAL(8,2))": 4,
    "SELECT v FROM s WHERE day BETWEEN DATE '2020-01-03' AND DATE '2020-01-04'": 2,
    "SELECT v FROM s WHERE at < TIMESTAMP '2020-01-01 01:30:00'": 2,
    # All of them: nothing is known, or something else looks at the rows.
    "SELECT v FROM s [RANGE 9]": 10,
    "SELECT v FROM s WHERE f > 7e0": 10,  # as NaN is
    "SELECT v FROM s [ROWS 3] WHERE k = 4": 10,
    "SELECT v FROM s WHERE k = 4 OR v = 3": 10,
    "SELECT v FROM s WHERE k = 4 AND 10 / (k + 1) > 1": 1,
    "SELECT a.v FROM s [RANGE 5] a, s [RANGE 5] b WHERE a.k = 1": 10,
    "SELECT COUNT(*) AS n FROM s WHERE v <> 3 GROUP BY k HAVING k = 4": 10,
}


COLUMNS = "k INT, v INT, t STRING, f DOUBLE, g FLOAT, d DECIMAL(8,2), day DATE, at TIMESTAMP"
STREAM = f"CREATE STREAM s ({COLUMNS}) TIMESTAMP BY ts RETAIN 81"  # a file is a period


def play(db: Database) -> None:
    for k in range(10):
        number = float("nan") if k == 2 else float(k)
        day = dt.datetime(2020, 1, 1 + k)
        own = (f"t{k}", number, k / 10, Decimal(f"{k}.1"), day.date(), dt.datetime(2020, 1, 1, k, tzinfo=dt.UTC))
        rows = [(k, n, *own, 9 * k + n) for n in range(9)]
        db.insert("s", [*rows[:-1], (*rows[-1][:3], 0.0 if k == 2 else number, *rows[-1][4:])])
    db.advance(to=89)


@contextmanager
def reading(db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The files that are read within the block."""
    db.engine.sources.statistics()  # which looks at the newest
    read: set[str] = set()
    usual = DirectoryStore.read_history

    def noted(store: DirectoryStore, name: str, *wanted: object) -> object:
        read.add(name)
        return usual(store, name, *wanted)  # type: ignore[arg-type]

    with monkeypatch.context() as patching:
        patching.setattr(DirectoryStore, "read_history", noted)
        yield read


@pytest.mark.parametrize("background", [0, 1000])
@pytest.mark.parametrize("text", READ)
def test_files_that_cannot_matter_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, background: int
) -> None:
    with ms.connect(tmp_path / "late", engine="inprocess") as db, ms.connect(engine="inprocess") as early:
        early.execute(STREAM)
        right = early.register(text)
        play(early)
        db.execute(f"{STREAM}; SET background_rows = {background}")
        play(db)
        files = len(db.engine.snapshot.history["s"])
        with reading(db, monkeypatch) as read:
            query = db.register(text)
            assert query.wait(60)
        assert (files, len(read)) == (10, READ[text])
        # Windows reach back to what is no longer promised; from the first instant after that all is the same.
        assert query.changes(since=40).to_pylist() == right.changes(since=40).to_pylist()


MANY = [(0, k) for k in range(3, 6)] * 6
GROUPS: list[tuple[str, Sequence[tuple[object, ...]], int]] = [
    ("SELECT v FROM s WHERE k = ?", [(4,), (8,)], 2),
    ("SELECT v FROM s WHERE v > ? AND k = ?", MANY, 3),
    ("SELECT v FROM s WHERE v > ? AND f <= ?", [(0, 1.0)], 3),
    ("SELECT v, COUNT(*) AS n FROM s [RANGE 9] WHERE t > ? AND v < ? GROUP BY v", [("t7", 5), ("t8", 5)], 3),
    ("SELECT v FROM s WHERE at >= ?", [(dt.datetime(2020, 1, 1, 8, tzinfo=dt.UTC),)], 2),
    ("SELECT v FROM s WHERE v > ? AND (k = ? OR f = 3e0)", [(0, 4)], 10),
    ("SELECT a.v FROM s [RANGE 5] a, s [RANGE 5] b WHERE a.k = b.k AND a.k = ?", [(4,)], 10),
]


@pytest.mark.parametrize(("background", "mode"), [(0, "lazy"), (1000, "eager")])
@pytest.mark.parametrize(("template", "values", "files"), GROUPS)
def test_queries_of_groups_read_the_files_that_matter_to_one_of_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    template: str,
    values: Sequence[tuple[object, ...]],
    files: int,
    background: int,
    mode: str,
) -> None:
    with ms.connect(tmp_path / "late", engine="inprocess") as db, ms.connect(engine="inprocess") as early:
        early.execute(STREAM)
        right = early.register_many(template, values)
        play(early)
        db.execute(f"{STREAM}; SET background_rows = {background}")
        play(db)
        with reading(db, monkeypatch) as read:
            queries = db.register_many(template, values, mode=mode)
            assert all(query.wait(60) for query in queries)
        assert len(read) == files
        for query, expected in zip(queries, right, strict=True):
            assert query.number is not None
            assert query.changes(since=40).to_pylist() == expected.changes(since=40).to_pylist()


WITHOUT_CONSTANTS = [
    "t IS NULL",
    "t IS NOT NULL",
    "t LIKE '%t%'",
    "f <=> NULL",
    "k < v",
    "NOT k = v",
    "day IS NULL OR k < v",
]


@pytest.mark.parametrize("condition", WITHOUT_CONSTANTS)
def test_a_query_without_constants_needs_everything_whoever_comes_with_it(condition: str) -> None:
    text = f"SELECT k, v FROM s [RANGE 100] WHERE {condition}"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM.replace("RETAIN 81", "RETAIN 810"))
        for number in range(9):
            db.register(f"SELECT k, v FROM s [RANGE 100] WHERE v > {number}")
        early = db.register(text)
        play(db)
        late = db.register(text)
        db.register("SELECT k, v FROM s [RANGE 100] WHERE k < 1")
        assert late.result().to_pylist() == early.result().to_pylist()


def test_columns_may_be_called_as_polars_calls_patterns() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (`*` INT, `^a.*$` INT, ab INT) TIMESTAMP BY ts")
        db.insert("s", [(1, 2, 3, 0), (4, 5, 6, 1)])
        db.advance(to=2)
        query = db.register("SELECT `*`, ab FROM s [RANGE 9] WHERE `^a.*$` = 5 AND `*` < 9")
        assert query.result().to_pylist() == [{"*": 4, "ab": 6}]
