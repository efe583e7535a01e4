"""Queries that come when some of the past is cut: what failed before they can be asked is nothing to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.properties.driver import in_process

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
        assert db.execute("SELECT RSTREAM(10/x AS y) FROM A [NOW]").table.num_rows == 10
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
