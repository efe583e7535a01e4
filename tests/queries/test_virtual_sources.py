"""Queries of S ⋈ T and of S ⋈ T ⋈ U have one eddy: the pairs of S and T are made once, and go on to U."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import millstream as ms
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.joins.stem import Probe

STREAMS = """
    CREATE STREAM s (k INT, v INT, z INT) TIMESTAMP BY ts;
    CREATE STREAM t (k INT, w INT) TIMESTAMP BY ts;
    CREATE STREAM u (k INT, x INT) TIMESTAMP BY ts
"""
TWO = "SELECT s.v, t.w FROM s [RANGE 9], t [RANGE 7] WHERE s.k = t.k AND {}"
THREE = """SELECT s.v, t.w, u.x, s.z FROM s [RANGE 9], t [RANGE 7], u [RANGE 5]
           WHERE s.k = t.k AND t.k = u.k AND {}"""
FORMS = {
    "windows": (TWO.replace("RANGE 9", "RANGE 4"), THREE),
    "prefix": (TWO, THREE),
    "suffix": (
        "SELECT s.v, t.w FROM t [RANGE 7], s [RANGE 9] WHERE s.k = t.k AND {}",
        "SELECT s.v, t.w, u.x FROM u [RANGE 5], s [RANGE 9], t [RANGE 7] WHERE s.k = t.k AND t.k = u.k AND {}",
    ),
    "rows": (
        "SELECT s.v, t.w FROM s [ROWS 12], t [ROWS 9] WHERE s.k = t.k AND {}",
        "SELECT s.v, t.w FROM s [ROWS 12], t [ROWS 9], u [ROWS 5] WHERE s.k = t.k AND t.k = u.k AND {}",
    ),
    "self": (
        "SELECT s.v, t.v AS w FROM s [RANGE 9] AS s, s [RANGE 9] AS t WHERE s.k = t.k AND {}",
        """SELECT s.v, t.v AS w, u.x FROM s [RANGE 9] AS s, s [RANGE 9] AS t, u [RANGE 5]
           WHERE s.k = t.k AND t.k = u.k AND {}""",
    ),
    "sums": (
        "SELECT s.k, count(*) AS n, sum(t.w) AS w FROM s [RANGE 9], t [RANGE 7] WHERE s.k = t.k AND {} GROUP BY s.k",
        """SELECT s.k, count(*) AS n, max(u.x) AS x FROM s [RANGE 9], t [RANGE 7], u [RANGE 5]
           WHERE s.k = t.k AND t.k = u.k AND {} GROUP BY s.k""",
    ),
}


def goes_on(db: ms.Database) -> bool:
    """Whether a join goes on with another one's pairs."""
    return any(step.pairs for step in db.engine.pipeline.steps)


def feed(db: ms.Database, dice: Random, first: int, last: int) -> None:
    for stream in dice.sample("stu", 3):
        rows = [(dice.randrange(3), dice.randrange(100), ts) for ts in range(first, last) for _ in range(4)]
        db.insert(stream, [(k, v, v % 7, ts) for k, v, ts in rows] if stream == "s" else rows)
    db.advance(to=last)


def condition(form: str, of_three: bool, dice: Random) -> str:
    other, low, high = ("t.v" if form == "self" else "t.w"), dice.randrange(100), dice.randrange(100)
    found = [f"s.v < {high}", f"s.v >= {low} AND {other} < {high}", f"(s.v < {low} OR {other} > {high})"]
    if of_three:
        found += [f"s.v < {high} AND u.x >= {low}", f"(u.x < {low} OR {other} > {high})", f"u.x = {low}"]
    return dice.choice(found)


def answer(query: ms.Query) -> list[str]:
    return sorted(map(str, query.changes().to_pylist()))


@pytest.mark.parametrize("form", [*FORMS])
@pytest.mark.parametrize("seed", range(2))
def test_together_as_alone(form: str, seed: int, tmp_path: Path) -> None:
    """Whichever comes first or late, goes, and after a restart, on one to three shards."""
    dice = Random(seed)
    texts = {}
    for number in range(12):
        of_three = dice.random() < 0.5
        texts[f"q{number}"] = FORMS[form][of_three].format(condition(form, of_three, dice))
    names, answers, shards, linked = [*texts], {}, dice.randint(1, 3), False
    for sharing in ("off", "on"):
        path, rows = tmp_path / sharing, Random(seed)
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"{STREAMS}; SET shards = {shards}; SET sharing = '{sharing}'")
            for name in names[:4]:
                db.register(texts[name], name=name)
            feed(db, rows, 1, 5)
            for name in names[4:8]:
                db.register(texts[name], name=name)
            feed(db, rows, 5, 8)
            linked |= goes_on(db)
            db.execute("DROP QUERY q0; DROP QUERY q5")
            feed(db, rows, 8, 10)
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"SET sharing = '{sharing}'")
            feed(db, rows, 10, 12)
            for name in names[8:]:
                db.register(texts[name], name=name)
            feed(db, rows, 12, 15)
            linked |= goes_on(db)
            answers[sharing] = {query.name: answer(query) for query in db.queries()}
    assert answers["on"] == answers["off"]
    assert sum(map(len, answers["on"].values())) > 20
    assert linked or form == "windows"  # of which pairs are others


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many pairs of rows joins of two inputs and SteMs have looked at."""
    counts = {"two": 0, "stems": 0}
    for name, kind, method in (("two", InnerJoin, "_candidates"), ("stems", Probe, "candidates")):
        plain = getattr(kind, method)

        def counted(*given: Any, plain: Any = plain, name: str = name) -> Iterator[Any]:
            for pairs in plain(*given):
                counts[name] += pairs[0].size
                yield pairs

        monkeypatch.setattr(kind, method, counted)
    return counts


@pytest.mark.parametrize("first", ["two", "three"])
@pytest.mark.parametrize("late", [False, True])
def test_each_pair_is_looked_at_once(first: str, late: bool, looked_at: dict[str, int]) -> None:
    texts = {"two": TWO.format("s.v < 50"), "three": THREE.format("s.v < 50 AND u.x >= 0")}
    order = [first, "three" if first == "two" else "two"]
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        for name in order[: 1 if late else 2]:
            db.register(texts[name], name=name)
        db.insert("u", [(0, n, 1) for n in range(3)])
        if late:
            db.register(texts[order[1]], name=order[1])
            db.advance(to=1)
        db.insert("s", [(0, n, 0, 2) for n in range(100)])
        before = dict(looked_at)
        db.insert("t", [(0, n, 2) for n in range(10)])
        assert goes_on(db)
        # 50 rows of s have 10 partners each, which are looked at by one join; each pair has 3 in the SteM of u.
        assert looked_at["two"] - before["two"] == 50 * 10
        assert looked_at["stems"] - before["stems"] == 50 * 10 * 3
        db.advance(to=3)
        assert {name: db.query(name).result().num_rows for name in texts} == {"two": 500, "three": 1500}


@pytest.mark.parametrize("gone", ["two", "three"])
def test_who_is_left_goes_on_alone(gone: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        db.register(TWO.format("s.v < 50"), name="two")
        db.register(THREE.format("s.v < 60"), name="three")
        db.insert("s", [(0, n, 0, 1) for n in range(100)])
        db.insert("t", [(0, 1, 1)])
        db.insert("u", [(0, 1, 1)])
        assert goes_on(db)
        db.execute(f"DROP QUERY {gone}")
        assert not goes_on(db)
        db.insert("t", [(0, 2, 2)])
        db.advance(to=3)
        (left,) = db.queries()
        assert left.result().num_rows == (100 if left.name == "two" else 120)


def test_a_join_that_makes_everything_serves_as_well() -> None:
    """Of a query without conditions, which has a plan of its own."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        every = db.register("SELECT * FROM s [RANGE 9], t [RANGE 7] WHERE s.k = t.k")
        db.execute("SET sharing = 'on'")
        some = db.register(THREE.format("s.v < 60"))
        for stream, more in (("s", (5, 0)), ("t", (1,)), ("u", (1,))):
            db.insert(stream, [(0, *more, 1)])
        assert goes_on(db)
        db.advance(to=2)
        assert [query.result().num_rows for query in (every, some)] == [1, 1]


def test_pairs_of_which_few_are_wanted_are_found_again(looked_at: dict[str, int]) -> None:
    """To look at all that another join makes would cost more."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        two, three = db.register(TWO.format("s.v >= 0")), db.register(THREE.format("s.v > 49 AND s.v < 51 AND t.w < 1"))
        db.insert("u", [(0, n, 1) for n in range(3)])
        db.insert("s", [(0, n, 0, 2) for n in range(100)])
        before = looked_at["stems"]
        db.insert("t", [(0, n, 2) for n in range(100)])
        assert goes_on(db)
        assert looked_at["stems"] - before <= 2 * 3
        db.advance(to=3)
        assert [query.result().num_rows for query in (two, three)] == [10_000, 3]
