"""Views over joins as intermediate results: kept where another query makes them anyway."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms
from millstream.database import Database
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator

SCHEMA = """
CREATE STREAM A (k INT, x INT) TIMESTAMP BY ts;
CREATE STREAM B (k INT, y INT) TIMESTAMP BY ts;
CREATE STREAM C (x INT, z INT) TIMESTAMP BY ts;
CREATE VIEW V AS SELECT A.k, x, y FROM A [RANGE 10000], B [RANGE 10000] WHERE A.k = B.k;
"""
VIEW = "SELECT * FROM V"
ABOVE = "SELECT V.k, V.y, z FROM V, C [RANGE 10000] WHERE V.x = C.x"


def opened(path: Path | None = None, settings: str = "") -> Database:
    db = ms.connect(str(path), engine="inprocess") if path else ms.connect(engine="inprocess")
    db.execute(SCHEMA)
    db.execute(settings)
    return db


def joins(db: Database) -> list[type[Operator]]:
    kinds = (InnerJoin, StemJoin, JoinTree)
    return [type(step.operator) for step in db.engine.pipeline.steps if isinstance(step.operator, kinds)]


def fill(db: Database) -> None:
    for number in range(3):
        low = 40 * number
        db.insert("A", [(t % 5, t % 7, t) for t in range(low, low + 40)])
        db.insert("B", [(t % 5, t % 3, t) for t in range(low, low + 40)])
        db.insert("C", [(t % 7, t % 2, t) for t in range(low, low + 40, 4)])
        db.advance(to=low + 39)


def test_a_view_is_kept_as_an_intermediate_where_it_is_made_anyway() -> None:
    found = {}
    for queries in ([ABOVE], [VIEW, ABOVE]):
        with opened() as db:
            for number, text in enumerate(queries):
                db.register(text, name=f"q{number}")
            fill(db)
            found[len(queries)] = joins(db), db.query(f"q{len(queries) - 1}").changes().to_pylist()
    # Nothing is known of the streams, so that the view is taken to be large.
    assert found[1][0] == [StemJoin]
    assert found[2][0] == [InnerJoin, InnerJoin]
    key = lambda row: sorted(row.items())  # noqa: E731
    assert sorted(found[1][1], key=key) == sorted(found[2][1], key=key)


def test_a_query_that_selects_from_it_or_is_told_to_use_stems_has_its_own_join() -> None:
    with opened() as db:
        db.register(VIEW)
        db.register(f"{ABOVE} AND V.y = 2 AND V.k < 3")
        assert joins(db) == [InnerJoin, InnerJoin, InnerJoin]
    with opened(settings="SET join_plan = 'eddy'") as db:
        db.register(VIEW)
        db.register(ABOVE)
        assert joins(db) == [StemJoin, StemJoin]


@pytest.mark.parametrize("jit", ["auto", "on"])
def test_it_stays_one_after_a_restart_without_the_other_query(tmp_path: Path, jit: str) -> None:
    with opened(tmp_path / "db", f"SET jit = {jit}") as db:
        db.register(VIEW, name="view")
        db.register(ABOVE, name="above")
        fill(db)
        db.query("view").drop()
        steps = [step.name for step in db.engine.pipeline.steps]
        states, answer = db.engine.snapshot.states, db.query("above").changes()
    with ms.connect(str(tmp_path / "db"), engine="inprocess") as db:
        assert [step.name for step in db.engine.pipeline.steps] == steps
        assert db.engine.snapshot.states == states
        assert db.query("above").changes() == answer
        assert joins(db) == [InnerJoin, InnerJoin]
