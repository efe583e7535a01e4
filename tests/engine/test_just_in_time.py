"""Just-in-time joins through the engine: what EXPLAIN ANALYZE says, shards, restarts, tables, shared producers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.engine.just_in_time import counts

import millstream as ms
from millstream.database import Database

SCHEMA = """
CREATE STREAM A (x INT, y INT) TIMESTAMP BY ts;
CREATE STREAM B (x INT, b INT) TIMESTAMP BY ts;
CREATE STREAM C (y INT) TIMESTAMP BY ts;
"""
TABLE_1 = "SELECT B.b FROM A [RANGE 300], B [RANGE 300], C [RANGE 300] WHERE A.x = B.x AND A.y = C.y"
COUNTED = ("made", "suspended", "resumed", "waiting")


def fill(db: Database) -> None:
    """Table I of the paper; another c and an a for it are there from the beginning."""
    db.insert("C", [(7, 0)])
    db.insert("A", [(9, 7, 0)])
    db.insert("B", [(1, 1, 0), (1, 2, 0), (1, 3, 0)])
    db.insert("A", [(1, 100, 1)])
    db.insert("B", [(1, 4, 2)])
    db.insert("A", [(1, 100, 3)])


# The other c waits for its a, the only one that nobody else asks of; SteMs also hold b1 to b3 back until a1 comes, and
# the a that has no b.
@pytest.mark.parametrize(
    ("plan", "first", "then"),
    [("tree", (0, 3, 1, 2), (8, 3, 3, 0)), ("eddy", (0, 7, 4, 3), (0, 7, 6, 1)), ("mjoin", (0, 7, 4, 3), (0, 7, 6, 1))],
)
def test_explain_analyze_counts_what_is_held_back(plan: str, first: tuple[int, ...], then: tuple[int, ...]) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = '{plan}'; SET jit = on")
        query = db.register(TABLE_1, name="q")
        fill(db)
        assert "just in time" in query.explain()
        assert counts(db, "q") == {**dict(zip(COUNTED, first, strict=True)), "withheld": 0, "dropped": 0}
        db.insert("C", [(100, 4)])
        db.advance(to=10)
        assert counts(db, "q") == {**dict(zip(COUNTED, then, strict=True)), "withheld": 0, "dropped": 0}
        assert sorted(query.result(at=5)["b"].to_pylist()) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("detection", ["all", "lattice", "lattice bloom"])
def test_marks_are_counted_and_outlive_a_restart(tmp_path: Path, detection: str) -> None:
    """a and b have a C each, but none together: with a lattice that is remembered."""
    schema = "CREATE STREAM {0} (x INT, y INT) TIMESTAMP BY ts;"
    text = (
        "SELECT COUNT(*) AS n FROM A [RANGE 90], B [RANGE 90], C [RANGE 90] WHERE A.x = B.x AND A.y = C.x AND B.y = C.y"
    )
    with ms.connect(str(tmp_path), engine="inprocess") as db:
        db.execute(" ".join(schema.format(name) for name in "ABC"))
        db.execute(f"SET join_plan = 'tree'; SET jit = on; SET jit_detection = '{detection}'")
        plan = db.register(text, name="q").explain()
        assert ("by lattice" in plan) == (detection != "all")
        db.insert("C", [(1, 9, 0), (9, 2, 0)])
        db.insert("A", [(1, 1, 0), (7, 9, 0)])
        db.insert("B", [(1, 2, 0), (8, 9, 0)])
        db.advance(to=1)
        counted = counts(db, "q")
        assert (counted["made"], counted["withheld"]) == (0, 1)
        assert counted.get("marks_of_2", 0) == (detection != "all")
    with ms.connect(str(tmp_path), engine="inprocess") as db:
        db.insert("A", [(1, 1, 2)])
        db.advance(to=2)
        counted = counts(db, "q")
        assert (counted["made"], counted["withheld"]) == (0, 2)
        db.insert("C", [(1, 2, 3)])
        db.advance(to=5)
        assert (counts(db, "q")["made"], counts(db, "q").get("marks_of_2", 0)) == (2, 0)
        assert db.query("q").result(at=4)["n"].to_pylist() == [2]


def test_a_row_is_suspended_again_and_resumed_with_what_it_has_not_met(tmp_path: Path) -> None:
    """Table I, with a c that lasts until a1 has met b1, over a restart; afterwards the paper's seven pairs are made."""
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = 'tree'; SET jit = on")
        db.register(TABLE_1, name="q")
        db.insert("C", [(100, 0), (7, 200)])
        db.insert("A", [(9, 7, 200)])
        db.insert("B", [(1, 1, 298)])
        db.insert("A", [(1, 100, 299)])
        assert counts(db, "q")["made"] == 1
        db.advance(to=302)
        db.insert("B", [(1, 2, 303), (1, 3, 303)])
        assert (counts(db, "q")["made"], counts(db, "q")["waiting"]) == (1, 1)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.insert("B", [(1, 4, 304)])
        db.insert("A", [(1, 100, 305)])
        assert (counts(db, "q")["made"], counts(db, "q")["waiting"]) == (1, 2)
        db.insert("C", [(100, 306)])
        db.advance(to=310)
        assert (counts(db, "q")["made"], counts(db, "q")["waiting"]) == (1 + 7, 0)
        query = db.query("q")
        assert query.result(at=299)["b"].to_pylist() == [1]
        assert query.result(at=305).num_rows == 0
        assert sorted(query.result(at=307)["b"].to_pylist()) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("plan", ["eddy", "mjoin"])
def test_a_row_of_a_stem_is_suspended_again_and_put_back(plan: str, tmp_path: Path) -> None:
    """Its c leaves, and it waits over a restart until another comes; those that wait with it never had any."""
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = '{plan}'; SET jit = on")
        db.register(TABLE_1, name="q")
        db.insert("C", [(100, 0)])
        db.insert("B", [(1, 1, 298)])
        db.insert("A", [(1, 100, 299)])
        db.advance(to=299)
        assert counts(db, "q")["waiting"] == 0
        db.advance(to=302)
        for time in (303, 304, 305):  # it is the turn of each SteM in one of these
            db.insert("C", [(7, time)])
            db.advance(to=time)
        assert counts(db, "q")["waiting"] == 1 + 3
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.insert("B", [(1, 2, 306)])
        db.advance(to=306)
        assert counts(db, "q")["waiting"] == 1 + 3
        db.insert("C", [(100, 307)])
        db.advance(to=310)
        assert counts(db, "q")["waiting"] == 3
        query = db.query("q")
        assert query.result(at=299)["b"].to_pylist() == [1]
        assert query.result(at=306).num_rows == 0
        assert sorted(query.result(at=307)["b"].to_pylist()) == [1, 2]


def test_what_waits_outlasts_the_process(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = 'tree'; SET jit = on")
        db.register(TABLE_1, name="q")
        fill(db)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert counts(db, "q")["waiting"] == 2
        db.insert("C", [(100, 4)])
        db.advance(to=10)
        assert db.query("q").result(at=5).num_rows == 8


def test_queries_that_share_a_tree_hold_back_only_what_both_do_not_need() -> None:
    """Equal trees are one step; whoever looks at it differently has a tree of their own."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SCHEMA} SET join_plan = 'tree'; SET jit = on")
        one = db.register(TABLE_1, name="one")
        other = db.register(TABLE_1.replace("C [RANGE 300] WHERE", "C [RANGE 2] WHERE"), name="other")
        pair = db.register("SELECT B.b FROM A [RANGE 300], B [RANGE 300] WHERE A.x = B.x", name="pair")
        again = db.register(TABLE_1, name="again")
        fill(db)
        db.insert("C", [(100, 4)])
        db.advance(to=10)
        assert [q.result(at=9).num_rows for q in (one, other, pair, again)] == [8, 0, 8, 8]
        assert [q.result(at=5).num_rows for q in (one, other, pair, again)] == [8, 8, 8, 8]


BUSHY = """SELECT A.i, B.i, C.i, D.i FROM (A [RANGE 40] JOIN B [RANGE 40] ON A.b = B.a)
    JOIN (C [RANGE 40] JOIN D [RANGE 40] ON C.d = D.c)
    ON A.c = C.a AND A.d = D.a AND B.c = C.b AND B.d = D.b"""


@pytest.mark.parametrize("seed", range(3))
def test_trees_of_any_shape_answer_as_steps_do(seed: int) -> None:
    """A clique of four, as in the paper's experiments, nested by parentheses and not."""
    rng = np.random.default_rng(seed)
    rows = {name: rng.integers(0, 4, (120, 3)) for name in "ABCD"}
    answers = {}
    plans = [("tree", "on"), ("tree", "off"), ("eddy", "on"), ("mjoin", "on"), ("auto", "auto")]
    for plan, jit in plans:
        with ms.connect(engine="inprocess") as db:
            db.execute(f"SET join_plan = '{plan}'; SET jit = {jit}")
            for name in "ABCD":
                others = ", ".join(f"{other.lower()} INT" for other in "ABCD" if other != name)
                db.execute(f"CREATE STREAM {name} ({others}, i INT) TIMESTAMP BY ts")
            query = db.register(BUSHY)
            if (plan, jit) == ("tree", "on"):
                assert "as the tree ((1 2) (3 4)) just in time" in query.explain()
            for low in range(0, 120, 30):
                for name, values in rows.items():
                    db.insert(name, [(*map(int, values[n]), n, n) for n in range(low, low + 30)])
            db.advance(to=300)
            changes = query.changes()
            answers[plan, jit] = sorted(zip(*(changes[name].to_pylist() for name in changes.column_names), strict=True))
    assert len(answers["tree", "off"]) > 20
    assert all(answers[key] == answers["tree", "off"] for key in answers)


def test_settings_are_checked() -> None:
    with ms.connect(engine="inprocess") as db:
        with pytest.raises(ms.Error, match="jit is one of 'auto', 'on', 'off'"):
            db.execute("SET jit = maybe")
        with pytest.raises(ms.Error, match="join_plan is one of"):
            db.execute("SET join_plan = 'stems'")
