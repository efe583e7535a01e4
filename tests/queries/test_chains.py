"""Groups over joins that no one column connects: each input's rows go a route of their own, and only combinations are
made that some query may want."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

import millstream as ms

STREAMS = """
    CREATE STREAM s (a INT, v INT) TIMESTAMP BY ts;
    CREATE STREAM t (a INT, b INT, w INT) TIMESTAMP BY ts;
    CREATE STREAM u (b INT, c INT, x INT) TIMESTAMP BY ts;
    CREATE TABLE p (c INT, y INT)
"""
WIDTHS = {"s": 1, "t": 2, "u": 2}
FROM_LISTS = {
    "chain": "s [RANGE 8], t [RANGE 6], u [RANGE 5] WHERE s.a = t.a AND t.b = u.b",
    "rows": "s [ROWS 20], t [ROWS 15], u [RANGE 5] WHERE s.a = t.a AND t.b = u.b",
    "triangle": "s [RANGE 8], t [RANGE 6], u [RANGE 5] WHERE s.a = t.a AND t.b = u.b AND u.c = s.a",
    "nulls": "s [RANGE 8], t [RANGE 6], u [RANGE 5] WHERE s.a <=> t.a AND t.b = u.b",
    "compared": "s [RANGE 8], t [RANGE 6], u [RANGE 5] WHERE s.a = t.a AND t.b = u.b AND s.v < u.x",
    "table": "s [RANGE 8], t [RANGE 6], u [RANGE 5], p WHERE s.a = t.a AND t.b = u.b AND u.c = p.c",
    "self": "s [RANGE 8], t [RANGE 6], t [RANGE 3] AS u WHERE s.a = t.a AND t.b = u.b",
}


def feed(db: ms.Database, dice: Random, first: int, last: int) -> None:
    for stream in dice.sample("stu", 3):
        times = [ts for ts in range(first, last) for _ in range(dice.randrange(5))]
        keys = [None, 0, 1, 2]
        db.insert(stream, [(*dice.choices(keys, k=WIDTHS[stream]), dice.randrange(100), ts) for ts in times])
    db.execute(f"INSERT INTO p VALUES ({dice.randrange(3)}, {dice.randrange(100)})")
    if dice.random() < 0.5:
        db.execute(f"DELETE FROM p WHERE y < {dice.randrange(100)}")
    db.advance(to=last)


def conditions(form: str, dice: Random) -> str:
    low, high = dice.randrange(100), dice.randrange(100)
    last = "u.w" if form == "self" else "u.x"
    return dice.choice(
        [
            f"s.v >= {low}",
            f"t.w < {high}",
            f"s.v >= {low} AND {last} < {high}",
            f"s.v >= {low} AND t.w < {high} AND {last} > {low % 30}",
            f"(s.v < {low} OR {last} < {high})",
            f"s.v < {low} AND s.v + {last} > {high}",
            f"{last} = {low}",
            f"t.w > {low} AND 100 / (s.v + 1) > {high % 9}",
        ]
    )


@pytest.mark.parametrize("form", [*FROM_LISTS])
def test_shared_as_alone(form: str, tmp_path: Path) -> None:
    """Early and late, dropped, opened again, on shards, in groups and not."""
    seed = [*FROM_LISTS].index(form)
    dice = Random(seed)
    texts = {f"q{n}": f"SELECT s.v, t.w FROM {FROM_LISTS[form]} AND {conditions(form, dice)}" for n in range(6)}
    shards = 1 + seed % 3
    names, answers = [*texts], {}
    for sharing in ("off", "on"):
        path, rows = tmp_path / sharing, Random(seed)
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"{STREAMS}; SET shards = {shards}; SET sharing = '{sharing}'")
            for name in names[:3]:
                db.register(texts[name], name=name)
            feed(db, rows, 1, 6)
            for name in names[3:5]:
                db.register(texts[name], name=name)
            feed(db, rows, 6, 9)
            db.execute("DROP QUERY q0; DROP QUERY q3")
            feed(db, rows, 9, 12)
        with ms.connect(path, engine="inprocess") as db:
            db.execute(f"SET sharing = '{sharing}'")
            feed(db, rows, 12, 15)
            for name in names[5:]:
                db.register(texts[name], name=name)
            feed(db, rows, 15, 20)
            answers[sharing] = {q.name: sorted(map(str, q.changes().to_pylist())) for q in db.queries()}
    assert answers["on"] == answers["off"]
    assert sum(map(len, answers["on"].values())) > 9


CHAIN = "SELECT s.v, t.w, u.x FROM s [RANGE 100], t [RANGE 100], u [RANGE 100] WHERE s.a = t.a AND t.b = u.b AND {}"


def made(query: ms.Query, db: ms.Database) -> dict[str, int]:
    """How many combinations the stops of routes have made, by EXPLAIN ANALYZE."""
    text = str(db.execute(f"EXPLAIN ANALYZE QUERY {query.name}"))
    found = re.finditer(r"halfjoin-([\d-]+)-\S+ +[\d,]+ +([\d,]+)", text)
    return {each[1]: int(each[2].replace(",", "")) for each in found}


def test_only_combinations_that_some_query_wants_are_made() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        first = db.register(CHAIN.format("s.v < 2 AND t.w < 10"))
        second = db.register(CHAIN.format("t.w >= 90 AND u.x < 10"))
        db.insert("u", [(n % 10, 0, n, 1) for n in range(100)])
        db.insert("t", [(n % 10, n % 10, n, 1) for n in range(100)])
        db.insert("s", [(n % 10, n, 1) for n in range(100)])
        db.advance(to=2)
        # Of t the 20 rows that are wanted meet those of u: all 10 of the first ten rows, and one of the last ten rows.
        assert first.result().num_rows == 2 * 1 * 10
        assert second.result().num_rows == 10 * 10 * 1
        counts = made(first, db)
        assert counts["0-1"] == 2 + 10 * 10  # as the query of either asks, and not all 1,000
        assert counts["0-1-2"] == 20 + 100
        late = db.register(CHAIN.format("s.v = 50 AND u.x = 60"))
        db.insert("t", [(0, 0, 1000, 3)])
        db.advance(to=4)
        assert sorted(row["w"] for row in late.result().to_pylist()) == [*range(0, 100, 10), 1000]


def test_a_cross_product_stays_a_tree() -> None:
    """Its rows could not be spread."""
    text = "SELECT s.v FROM s [RANGE 9], t [RANGE 9], u [RANGE 9] WHERE s.a = t.a AND u.x > {}"
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        queries = [db.register(text.format(low)) for low in (1, 2)]
        for stream, row in (("s", (1, 1, 1)), ("t", (1, 1, 1, 1)), ("u", (1, 1, 2, 1))):
            db.insert(stream, [row])
        db.advance(to=2)
        assert not made(queries[0], db)
        assert [query.result().num_rows for query in queries] == [1, 0]


def test_texts_leave_windows_that_count_rows() -> None:
    """Stops of a route do not find what a window has forgotten of the rows that leave it."""
    text = "SELECT s.d, u.a FROM s [ROWS 3], t [RANGE 9], u [RANGE 9] WHERE s.a = t.a AND t.b = u.b AND u.a > {}"
    found = []
    for sharing in ("on", "off"):
        with ms.connect(engine="inprocess") as db:
            db.execute(
                "CREATE STREAM s (a INT, d STRING) TIMESTAMP BY ts; CREATE STREAM t (a INT, b INT) TIMESTAMP BY ts;"
                f"CREATE STREAM u (a INT, b INT) TIMESTAMP BY ts; SET join_plan = 'eddy'; SET sharing = '{sharing}'"
            )
            queries = [db.register(text.format(c)) for c in range(3)]
            for ts in range(25):
                db.insert("s", [(ts % 3, f"text {ts}", ts), (1, "x", ts)])
                db.insert("t", [(ts % 3, ts % 4, ts)])
                db.insert("u", [(ts % 5, ts % 4, ts)])
            found.append([sorted(map(str, query.changes().to_pylist())) for query in queries])
    assert found[0] == found[1]
    assert found[0][0]
