"""Queries of a group over a join: their selections are applied below it, for all of them at once."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

import millstream as ms

STREAMS = """
    CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts;
    CREATE STREAM t (k INT, w INT) TIMESTAMP BY ts;
    CREATE STREAM u (k INT, x INT) TIMESTAMP BY ts
"""
PAIRS = "SELECT s.v, t.w FROM s [RANGE 100], t [RANGE 100] WHERE s.k = t.k AND {}"
FROM_LISTS = {
    "two": "s [RANGE 8] AS a, t [RANGE 6] AS b WHERE a.k = b.k",
    "rows": "s [ROWS 20] AS a, t [ROWS 15] AS b WHERE a.k = b.k",
    "self": "s [RANGE 8] AS a, s [RANGE 5] AS b WHERE a.k = b.k",
    "computed": "s [RANGE 8] AS a, t [RANGE 6] AS b WHERE a.k + 1 = b.k + 1",
    "band": "s [RANGE 3] AS a, t [RANGE 3] AS b WHERE a.k <= b.k AND b.k <= a.k + 1",
    "three": "s [RANGE 8] AS a, t [RANGE 6] AS b, u [RANGE 5] AS c WHERE a.k = b.k AND b.k = c.k",
}


def made(db: ms.Database) -> int:
    """How many pairs the joins have made, by EXPLAIN ANALYZE."""
    texts = (str(db.execute(f"EXPLAIN ANALYZE QUERY {query.name}")) for query in db.queries())
    counted = {found[1]: found[2] for text in texts for found in re.finditer(r"(\S*join-\S+) +[\d,]+ +([\d,]+)", text)}
    return sum(int(count.replace(",", "")) for count in counted.values())


def feed(db: ms.Database, dice: Random, first: int, last: int) -> None:
    for stream in dice.sample("stu", 3):
        times = [ts for ts in range(first, last) for _ in range(dice.randrange(6))]
        db.insert(stream, [(dice.randrange(4), dice.randrange(100), ts) for ts in times])
    db.advance(to=last)


def answer(query: ms.Query) -> list[str]:
    return sorted(map(str, query.changes().to_pylist()))


def conditions(form: str, dice: Random) -> str:
    """Of one side, of both, of both at once, by a key, and such as can fail."""
    one, other = ("a.v", "b.v") if form == "self" else ("a.v", "b.w")
    low, high = dice.randrange(100), dice.randrange(100)
    return dice.choice(
        [
            f"{one} >= {low}",
            f"{other} < {high}",
            f"{one} >= {low} AND {other} < {high}",
            f"{one} >= {low} AND {one} < {low + 5} AND {other} < {high}",
            f"({one} < {low} OR {other} < {high})",
            f"{one} < {low} AND {one} + {other} > {high}",
            f"{one} = {low}",
            f"{other} > {low} AND 100 / ({one} + 1) > {high % 9}",
        ]
    )


@pytest.mark.parametrize("form", [*FROM_LISTS])
@pytest.mark.parametrize("seed", range(2))
def test_shared_as_alone(form: str, seed: int, tmp_path: Path) -> None:
    """Early and late, dropped, opened again, on shards, in groups and not."""
    dice = Random(seed)
    shown = "SELECT a.v, b.v AS w FROM" if form == "self" else "SELECT a.v, b.w FROM"
    texts = {f"q{n}": f"{shown} {FROM_LISTS[form]} AND {conditions(form, dice)}" for n in range(14)}
    settings = f"SET shards = {dice.randint(1, 3)}; SET join_plan = '{dice.choice(['auto', 'eddy'])}'"
    names, answers = [*texts], {}
    for sharing in ("off", "on"):
        path, rows = tmp_path / sharing, Random(seed)
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"{STREAMS}; {settings}; SET sharing = '{sharing}'")
            for name in names[:6]:
                db.register(texts[name], name=name)
            feed(db, rows, 1, 6)
            for name in names[6:10]:
                db.register(texts[name], name=name)
            feed(db, rows, 6, 9)
            db.execute("DROP QUERY q0; DROP QUERY q7")
            feed(db, rows, 9, 12)
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"SET sharing = '{sharing}'")
            feed(db, rows, 12, 15)
            for name in names[10:]:
                db.register(texts[name], name=name)
            feed(db, rows, 15, 20)
            answers[sharing] = {query.name: answer(query) for query in db.queries()}
    assert answers["on"] == answers["off"]
    assert sum(map(len, answers["on"].values())) > 20


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("join_plan", ["tree", "eddy"])
def test_only_pairs_that_some_query_wants_are_made(mode: str, join_plan: str) -> None:
    rows = [(n % 10, n, 1) for n in range(1_000)]
    counts = {}
    for sharing in ("off", "on"):
        with ms.connect(engine="inprocess") as db:
            db.execute(f"{STREAMS}; SET sharing = '{sharing}'; SET join_plan = '{join_plan}'")
            for low in (0, 500):
                db.register(PAIRS.format(f"s.v >= {low} AND s.v < {low + 5} AND t.w < 10"), mode=mode)
            for stream in ("s", "t"):
                db.insert(stream, rows)
            db.advance(to=2)
            assert [query.result().num_rows for query in db.queries()] == [5, 5]
            counts[sharing] = made(db)
    assert counts == {"off": 10, "on": 10}


def test_pairs_of_rows_that_different_queries_want_are_not_made() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        conditions = "s.v < 10 AND t.w < 10", "s.v > 989 AND t.w > 989"
        queries = [db.register(PAIRS.format(condition)) for condition in conditions]
        for stream in ("s", "t"):
            db.insert(stream, [(n % 2, n, 1) for n in range(1_000)])
        db.advance(to=2)
        assert [query.result().num_rows for query in queries] == [50, 50]
        assert made(db) == 100


def test_a_late_query_meets_what_nobody_wanted() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        first = db.register(PAIRS.format("s.v < 1"))
        db.insert("s", [(n % 10, n, 1) for n in range(100)])
        db.insert("t", [(n % 10, n, 1) for n in range(100)])
        db.advance(to=2)
        late = db.register(PAIRS.format("s.v = 50 AND t.w >= 0"))
        db.insert("t", [(0, 1000, 3)])
        db.advance(to=4)
        assert sorted(row["w"] for row in late.result().to_pylist()) == [*range(0, 100, 10), 1000]
        assert first.result().num_rows == 11


THREE = "SELECT s.v, t.w, u.x FROM s [RANGE 100], t [RANGE 100], u [RANGE 100] WHERE s.k = t.k AND t.k = u.k AND {}"


def test_a_tree_of_three_inputs_makes_what_some_query_wants() -> None:
    """Also where selections are on the inputs of an inner join, and a query comes late or goes."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'; SET join_plan = 'tree'")
        conditions = "s.v < 5 AND t.w < 10", "t.w >= 90 AND u.x < 10"
        queries = [db.register(THREE.format(condition)) for condition in conditions]
        for stream in ("s", "t", "u"):
            db.insert(stream, [(n % 10, n, 1) for n in range(100)])
        db.advance(to=2)
        assert [query.result().num_rows for query in queries] == [50, 100]
        assert made(db) == 150
        late = db.register(THREE.format("s.v = 50 AND u.x = 60"))
        queries[0].drop()
        db.insert("t", [(0, 1000, 3)])
        db.advance(to=4)
        assert sorted(row["w"] for row in late.result().to_pylist()) == [*range(0, 100, 10), 1000]
        assert queries[1].result().num_rows == 100 + 10


@pytest.mark.parametrize("asked", [False, True])
def test_queries_that_come_after_the_data_have_one_join(asked: bool) -> None:
    """The first one waits with its past until an epoch comes or somebody asks; then it keeps the plan that it has."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        for stream in ("s", "t"):
            db.insert(stream, [(n % 10, n, 1) for n in range(100)])
        db.advance(to=2)
        first = db.register(PAIRS.format("s.v < 5"), name="first")
        if asked:
            assert first.result().num_rows == 50
        second = db.register(PAIRS.format("s.v >= 95"), name="second")
        assert (first.template is None) is asked
        db.insert("t", [(n % 10, 100 + n, 3) for n in range(10)])
        db.advance(to=4)
        assert [query.result().num_rows for query in (first, second)] == [55, 55]


def test_a_past_that_was_put_off_is_there_after_a_restart(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAMS)
        for stream in ("s", "t"):
            db.insert(stream, [(n % 10, n, 1) for n in range(100)])
        db.advance(to=2)
        db.register(PAIRS.format("s.v < 5"), name="first")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert db.query("first").result().num_rows == 50
        db.insert("t", [(0, 100, 3)])
        db.advance(to=4)
        assert db.query("first").result().num_rows == 51
        db.query("first").drop()
        db.register(PAIRS.format("s.v < 5"), name="second").drop()
        db.insert("t", [(0, 101, 5)])
