"""Queries that come when some of the past is cut: what failed before they can be asked is nothing to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.driver import in_process
from tests.support.answers import table_of

import millstream as ms
from millstream.database import Database

MODES = ("eager", "lazy", "none")
TEXTS = (
    "SELECT 10/x AS y FROM A [RANGE 3]",
    "SELECT v FROM A [RANGE 3] WHERE 10/x > 1 AND v > {}",
    "SELECT 10/x AS y FROM A [RANGE 3] WHERE v > {}",
    "SELECT ISTREAM(10/x AS y) FROM A [RANGE 3] WHERE v > {}",
    "SELECT v, SUM(10/x) AS s FROM A [RANGE 3] WHERE v > {} GROUP BY v",
    "SELECT 10/x AS y FROM A [ROWS 2] WHERE v > {}",
)


def fill(db: Database) -> None:
    """Final up to 80, and kept from 70 on: by then, the row that fails has left its window."""
    db.execute("CREATE STREAM A (x INT, v INT) TIMESTAMP BY ts RETAIN 10")
    db.insert("A", [(0, 1, 1), *((1, 1, t) for t in range(2, 60))])
    db.insert("A", [(1, 2, 60), (0, 9, 61), *((1, 2, t) for t in range(62, 80))])
    db.advance(to=80)


def fail(query: ms.Query) -> None:
    with pytest.raises(ms.EvaluationError, match="division by zero"):
        query.result()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", TEXTS)
def test_what_failed_before_does_not_count(text: str, mode: str) -> None:
    with in_process() as db:
        fill(db)
        # More than a few are a group, where they can be.
        queries = [db.register(text.format(-n), mode=mode) for n in range(10 if "{}" in text else 1)]
        for query in queries:
            query.result()
            query.changes()
        db.insert("A", [(0, 2, 90)])
        db.advance(to=90)
        for query in queries:
            fail(query)


@pytest.mark.parametrize("mode", MODES)
def test_nor_after_a_restart(tmp_path: Path, mode: str) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        fill(db)
        names = [db.register(text.format(0), mode=mode).name for text in TEXTS]
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.insert("A", [(1, 2, 90)])
        db.advance(to=90)
        for name in names:
            db.query(name).result()
        db.insert("A", [(0, 2, 91)])
        db.advance(to=91)
        for name in names:
            fail(db.query(name))


def test_ad_hoc_streams_have_the_elements_that_can_be_asked_for() -> None:
    with in_process() as db:
        fill(db)
        assert table_of(db, "SELECT RSTREAM(10/x AS y) FROM A [NOW]").num_rows == 10
        db.insert("A", [(0, 1, 85)])
        db.advance(to=86)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            db.execute("SELECT RSTREAM(10/x AS y) FROM A [NOW]")


def test_a_pair_that_is_gone_at_its_first_instant_fails_no_query_of_a_group() -> None:
    with in_process() as db:
        db.execute("CREATE STREAM A (x INT, v INT) TIMESTAMP BY ts; CREATE TABLE T (x INT, w INT)")
        db.execute("INSERT INTO T VALUES (0, 0), (1, 5)")
        texts = (f"SELECT A.v FROM A [RANGE 3], T WHERE A.x = T.x AND 10/T.w > 1 AND v > -{n}" for n in range(10))
        queries = [db.register(text) for text in texts]
        db.insert("A", [(0, 1, 5), (1, 1, 5)])
        db.execute("DELETE FROM T WHERE x = 0 AT 5")
        db.advance(to=6)
        assert [query.result().num_rows for query in queries] == [1] * 10


# Windows whose first answerable instant is known once they have counted enough: from 90 on the third row counts, from
# 93 on the fourth; aggregates take rows back.
COUNTING = (
    "SELECT 10/x AS y FROM A [ROWS 2]",
    "SELECT 10/x AS y FROM A [ROWS 1 SLIDE 2]",
    "SELECT SUM(10/x) AS y FROM A [ROWS 2]",
    "SELECT v FROM A [ROWS 2] WHERE 10/x > 1",
    "SELECT RSTREAM(10/x AS y) FROM A [ROWS 2]",
    "SELECT ISTREAM(10/x AS y) FROM A [ROWS 2]",
    "SELECT a.v FROM A [ROWS 2] a JOIN A [RANGE 1] b ON 10/a.x = b.x",
)


def few(db: Database) -> None:
    """Final up to 80, kept from 70 on: nothing."""
    db.execute("CREATE STREAM A (x INT, v INT) TIMESTAMP BY ts RETAIN 10")
    db.insert("A", [(1, 1, t) for t in range(60)])
    db.advance(to=80)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", COUNTING)
@pytest.mark.parametrize("size", [1, 9])
def test_what_fails_before_enough_is_counted_does_not_count(tmp_path: Path, text: str, mode: str, size: int) -> None:
    """Whatever came together, and after a restart."""
    rows = [(0, 1, 85), (1, 1, 86), (1, 1, 87), (1, 1, 90), (1, 1, 93), (1, 1, 96)]
    with ms.connect(tmp_path, engine="inprocess") as db:
        few(db)
        name = db.register(text, name="q", mode=mode).name
        for first in range(0, len(rows), size):
            db.insert("A", rows[first : first + size])
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.advance(to=97)
        query = db.query(name)
        query.result()
        query.changes()
        db.insert("A", [(0, 1, 98), (0, 1, 98), (1, 1, 99)])
        db.advance(to=99)
        fail(query)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", COUNTING)
@pytest.mark.parametrize("size", [1, 9])
def test_what_fails_and_is_gone_when_that_is_found_counts(text: str, mode: str, size: int) -> None:
    """Nobody has asked meanwhile."""
    rows = [
        (1, 1, 85),
        (1, 1, 86),
        (1, 1, 87),
        (1, 1, 90),
        (0, 1, 93),
        (0, 1, 96),
        *((1, 1, t) for t in range(97, 103)),
    ]
    with in_process() as db:
        few(db)
        query = db.register(text, mode=mode)
        for first in range(0, len(rows), size):
            db.insert("A", rows[first : first + size])
        db.advance(to=103)
        fail(query)
        assert query.stats()["state"] == "failed"


def test_ad_hoc_streams_that_count_fail_from_their_first_instant_on() -> None:
    with in_process() as db:
        few(db)
        db.insert("A", [(0, 1, 85), (1, 1, 86), (1, 1, 87), (1, 1, 88), (1, 1, 89)])
        db.advance(to=89)
        assert table_of(db, "SELECT RSTREAM(10/x AS y) FROM A [ROWS 2]").num_rows
        db.insert("A", [(0, 1, 90)])
        db.advance(to=91)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            db.execute("SELECT RSTREAM(10/x AS y) FROM A [ROWS 2]")
