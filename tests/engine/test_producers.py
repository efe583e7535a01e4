"""One join for several queries that ask for different rows of it: what is made, and that nobody notices the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.just_in_time import SCHEMA, THREE, TWO

import millstream as ms
from millstream.database import Database
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.just_in_time.producers import Producer

BATCHES, TIMES = 6, 240
SETTINGS = "SET join_plan = 'tree'; SET jit = on"
VIEWS = f"""
CREATE VIEW Two AS SELECT A.k, x, y FROM {TWO};
CREATE VIEW Three AS SELECT A.k, A.x, B.y, C.z FROM {THREE};
"""
NESTED = """SELECT g.x, g.n, C.z FROM (SELECT x, COUNT(*) AS n FROM {{}} j
    WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = j.x) GROUP BY x) g, C [RANGE 20]
    WHERE g.x = C.z AND EXISTS (SELECT * FROM R [RANGE {0}] WHERE R.x = g.x)"""
ASKING = {
    "some": "SELECT * FROM {} j WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = j.x)",
    "longer": "SELECT * FROM {} j WHERE EXISTS (SELECT * FROM S [RANGE 40] WHERE S.x = j.x)",
    "other": "SELECT * FROM {} j WHERE EXISTS (SELECT * FROM R [RANGE 20] WHERE R.y = j.y)",
    "both": "SELECT * FROM {} j WHERE EXISTS (SELECT * FROM R [RANGE 9] WHERE R.x = j.x AND R.y = j.y)",
    "table": "SELECT * FROM {} j WHERE x IN (SELECT x FROM T)",
    "none": "SELECT * FROM {} j WHERE NOT EXISTS (SELECT * FROM T WHERE T.x = j.x)",
    "behind": "SELECT * FROM {} j WHERE x IN (SELECT x FROM T) AND EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = j.x)",
    "padded": "SELECT S.z, j.* FROM S [RANGE 9] LEFT JOIN {} j ON j.x = S.x",
    "joined": "SELECT j.*, S.z FROM {} j, S [RANGE 9] WHERE j.x = S.x",
    "joined twice": "SELECT j.*, S.z FROM {} j, S [RANGE 9], R [RANGE 30] WHERE j.x = S.x AND j.y = R.y",
    "counted": "SELECT x, COUNT(*) AS n FROM {} j WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = j.x) GROUP BY x",
    "as of": "SELECT j.*, n FROM {} j, N WHERE j.x = N.x",
    "twice": """SELECT * FROM {} j WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = j.x)
        AND EXISTS (SELECT * FROM R [RANGE 30] WHERE R.y = j.y)""",
    "joined as of": "SELECT j.*, S.z, n FROM {} j, S [RANGE 9], N WHERE j.x = S.x AND N.x = j.x",
    "nested": NESTED.format(10),
    "nested longer": NESTED.format(30),
    "all": "SELECT * FROM {} j",
}


Answer = Counter[tuple[Any, ...]]


class Told:
    """A database that is told something at every step: rows, changes of tables, heartbeats, perhaps uneven ones."""

    def __init__(self, seed: int, *, even: bool = True) -> None:
        self.dice, self.even = np.random.default_rng(seed), even
        spans = {"A": (6, 20), "B": (6, 6), "C": (6, 20), "S": (20, 20), "R": (20, 6)}
        often = {"A": 2, "B": 2, "C": 2, "S": 8, "R": 8}
        self.rows = {
            name: [(*(int(self.dice.integers(0, s)) for s in spans[name]), t) for t in range(0, TIMES, often[name])]
            for name in spans
        }

    def start(self, db: Database) -> None:
        db.execute("INSERT INTO T VALUES (1, 1), (2, 2), (3, 3), (NULL, 4); INSERT INTO N VALUES (1, 1), (2, 2)")

    def batch(self, db: Database, number: int) -> None:
        low, high = (TIMES * (number + each) // BATCHES for each in (0, 1))
        dice = np.random.default_rng(number)
        for name in dice.permutation(sorted(self.rows)):
            db.insert(str(name), [row for row in self.rows[str(name)] if low <= row[-1] < high])
        for name in sorted(self.rows):
            db.advance(name, to=high - 1 if self.even else max(low, int(dice.integers(low, high))))
        at = high + int(dice.integers(0, 5))
        for table in ("T", "N"):
            db.execute(f"INSERT INTO {table} VALUES ({dice.integers(0, 20)}, 7) AT {at}")
            db.execute(f"DELETE FROM {table} WHERE x = {dice.integers(0, 20)} AT {at + 1}")

    def end(self, db: Database) -> None:
        db.advance(to=2 * TIMES)


def run(seed: int, join: str, settings: str, *, even: bool, path: Path | None = None) -> Iterator[dict[str, Answer]]:
    """Queries come at any batch, and some go; gives the answers of those that are there after each batch. With a path
    the database is opened again after each of them."""
    told, dice = Told(seed, even=even), np.random.default_rng(seed + 1000)
    comes = {name: int(dice.integers(0, BATCHES)) for name in ASKING}
    goes = {name: int(dice.integers(comes[name] + 1, 2 * BATCHES)) for name in ASKING}
    db = ms.connect(str(path), engine="inprocess") if path else ms.connect(engine="inprocess")
    db.execute(SCHEMA + VIEWS)
    db.execute(settings)
    told.start(db)
    for number in range(BATCHES):
        for name, text in ASKING.items():
            if comes[name] == number:
                db.register(text.format(join), name=name)
            if goes[name] == number:
                db.query(name).drop()
        told.batch(db, number)
        yield {query.name: answer(query) for query in db.queries()}
        if path is not None:
            db.close()
            db = ms.connect(str(path), engine="inprocess")
    told.end(db)
    yield {query.name: answer(query) for query in db.queries()}
    db.close()


def answer(query: ms.Query) -> Answer:
    changes = query.changes()
    rows = zip(*(changes[name].to_pylist() for name in changes.column_names), strict=True)
    return Counter((query.final, *row) for row in rows)


def producers(db: Database) -> list[Producer]:
    found = [step.operator for step in db.engine.pipeline.steps]
    return [each for each in found if isinstance(each, Producer) and each.consumer_demand is not None]


def compare(held: Iterator[dict[str, Answer]], made: Iterator[dict[str, Answer]]) -> None:
    for number, (one, other) in enumerate(zip(held, made, strict=True)):
        assert one.keys() == other.keys()
        for name in one:
            assert one[name] == other[name], f"{name} after batch {number}"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("plan", "join"), [("tree", "Two"), ("tree", "Three"), ("eddy", "Three")])
def test_queries_that_come_and_go_share_a_join_and_do_not_notice_each_other(seed: int, plan: str, join: str) -> None:
    even = seed % 2 == 0
    held = run(seed, join, f"SET join_plan = '{plan}'; SET jit = on", even=even)
    compare(held, run(seed, join, "SET join_plan = 'tree'; SET jit = off", even=even))


def test_so_it_is_after_restarts_and_for_pasts_that_are_worked_through_in_the_background(tmp_path: Path) -> None:
    told = f"{SETTINGS}; SET shards = 2; SET background_rows = 50"
    held = run(3, "Two", told, even=False, path=tmp_path / "db")
    compare(held, run(3, "Two", "SET join_plan = 'tree'; SET jit = off", even=False))


def opened(*queries: str, settings: str = SETTINGS, batches: int = 2) -> Database:
    """A database with some of the queries, and rows."""
    db, told = ms.connect(engine="inprocess"), Told(0)
    db.execute(SCHEMA + VIEWS)
    db.execute(settings)
    told.start(db)
    for name in queries:
        db.register(ASKING[name].format("Two"), name=name)
    for number in range(batches):
        told.batch(db, number)
    return db


def test_one_join_makes_what_its_queries_need_and_no_more() -> None:
    made = {}
    for queries in (["both"], ["some"], ["both", "some"], ["both", "some", "other"]):
        with opened(*queries) as db:
            (producer,) = producers(db)
            assert producer.consumer_demand is not None
            assert len(producer.consumer_demand.alternatives) == len(queries)
            shown = str(db.execute(f"EXPLAIN ANALYZE QUERY {queries[0]}")).split("\n")
            _, rows, *_, read_by = next(line for line in shown if line.startswith("producer-")).split()
            assert int(read_by) == len(queries)
            made[tuple(queries)] = int(rows.replace(",", ""))
    assert max(made["both",], made["some",]) < made["both", "some"] < made["both", "some", "other"]


def test_who_has_gone_asks_no_more() -> None:
    with opened("some", "other", batches=3) as db:
        (step,) = (s for s in db.engine.pipeline.steps if isinstance(s.operator, Producer))
        assert len(step.consumer_edges) == 2
        db.query("other").drop()
        (step,) = (s for s in db.engine.pipeline.steps if isinstance(s.operator, Producer))
        assert len(step.consumer_edges) == 1
        Told(0).batch(db, 3)
        kept = db.engine.snapshot.states[step.name]
        assert sum("asked" in synopsis for synopsis in kept) == 1
        db.query("some").drop()
        assert not producers(db)


def test_another_one_that_lags_behind_holds_nobody_up() -> None:
    with opened("some") as db:
        (before,) = (step.name for step in db.engine.pipeline.steps if isinstance(step.operator, Producer))
        db.execute("CREATE STREAM Idle (x INT) TIMESTAMP BY ts")
        idle = "SELECT * FROM Two j WHERE EXISTS (SELECT * FROM Idle [RANGE 1000] i WHERE i.x = j.x)"
        db.register(idle, name="idle")
        (after,) = (step.name for step in db.engine.pipeline.steps if isinstance(step.operator, Producer))
        assert before == after
        final = db.query("some").final
        Told(0).batch(db, 2)
        assert db.query("some").final > final
        assert db.query("idle").final is None
        # What it asks for now has been long ago for the other one.
        db.insert("Idle", [(x, 3) for x in range(20)])
        db.advance("Idle", to=100)
        found = answer(db.query("idle"))
    with opened("all", settings="SET jit = off", batches=3) as db:
        db.execute("CREATE STREAM Idle (x INT) TIMESTAMP BY ts")
        db.register(idle, name="idle")
        db.insert("Idle", [(x, 3) for x in range(20)])
        db.advance("Idle", to=100)
        assert found == answer(db.query("idle"))


def test_another_one_that_fails_takes_nobody_along() -> None:
    failing = "SELECT * FROM Two j WHERE EXISTS (SELECT * FROM S [RANGE 9] WHERE S.x = j.x AND 1 / (z - 21) < 5)"
    with opened("some") as db:
        db.register(failing, name="failing")
        assert len(producers(db)) == 1
        db.insert("S", [(1, 21, 90)])
        Told(0).batch(db, 2)
        with pytest.raises(ms.Error, match="zero"):
            db.query("failing").result()
        found = answer(db.query("some"))
    with opened("some", settings="SET jit = off") as db:
        db.insert("S", [(1, 21, 90)])
        Told(0).batch(db, 2)
        assert found == answer(db.query("some"))


def test_who_takes_everything_shares_the_join_whoever_comes_first() -> None:
    with opened("all", "some") as db:
        assert not producers(db)
        assert sum(isinstance(step.operator, InnerJoin) for step in db.engine.pipeline.steps) == 1
    with opened("some", "all") as db:
        (producer,) = producers(db)
        assert not any(isinstance(step.operator, InnerJoin) for step in db.engine.pipeline.steps)
        assert "for all consumers" in db.query("all").explain()
        everything = answer(db.query("all"))
        db.query("all").drop()
        (producer,) = producers(db)
        assert producer.consumer_demand is not None
        assert all(producer.consumer_demand.alternatives)
    with opened("all", settings="SET jit = off") as db:
        assert answer(db.query("all")) == everything


def test_queries_of_a_group_have_all_rows_of_a_join_that_others_ask_for_some() -> None:
    found = {}
    for jit in ("on", "off"):
        with opened("some", settings=f"SET join_plan = 'tree'; SET jit = {jit}") as db:
            made = db.register_many("SELECT * FROM Two j WHERE y = ? AND k <> 2", [(y,) for y in range(6)])
            Told(0).batch(db, 2)
            found[jit] = [answer(query) for query in made]
    assert found["on"] == found["off"]
    assert all(found["on"])


@pytest.mark.parametrize("plan", ["tree", "eddy"])
def test_one_of_two_that_a_row_is_needed_by_may_lag_behind(plan: str) -> None:
    """The row of S is over for all but R, which comes last; the row of A has been admitted by what R had before."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SCHEMA}{VIEWS}SET join_plan = '{plan}'; SET jit = on")
        queries = [db.register(ASKING[name].format("Two")) for name in ("joined twice", "twice")]
        db.execute("INSERT INTO R VALUES (0, 9, 5); INSERT INTO S VALUES (1, 5, 5)")
        db.execute("INSERT INTO A VALUES (1, 1, 0); INSERT INTO B VALUES (1, 1, 0)")
        for name in ("A", "B", "S"):
            db.advance(name, to=40)
        db.execute("INSERT INTO R VALUES (0, 1, 6)")
        db.advance("R", to=40)
        assert [list(answer(query)) for query in queries] == [
            [(40, 6, 1, 1, 1, 1, 5), (40, 15, -1, 1, 1, 1, 5)],
            [(40, 6, 1, 1, 1, 1), (40, 15, -1, 1, 1, 1)],
        ]
