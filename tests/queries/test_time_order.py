"""FIRST and LAST, which go by when rows came, in every mode."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import millstream as ms

ORDERED = (
    "SELECT b, FIRST(a) AS f, LAST(a) AS l FROM s [RANGE 3] GROUP BY b",
    "SELECT s.b, FIRST(u.a) AS f, LAST(s.a) AS l FROM s [RANGE 3], u [RANGE 4] WHERE s.b = u.b GROUP BY s.b",
    "SELECT FIRST(a) AS f, LAST(a) AS l FROM (SELECT DISTINCT a FROM s [RANGE 3]) AS x",
    "SELECT b, FIRST(a) AS f, LAST(a) AS l FROM (SELECT a, b FROM s [RANGE 3] UNION ALL SELECT a, b FROM u [RANGE 3])"
    " AS x GROUP BY b",
    "ISTREAM(SELECT b, FIRST(a) AS f, LAST(a) AS l FROM s [RANGE 3] GROUP BY b)",
    "SELECT FIRST(a) AS f FROM (SELECT a FROM s [RANGE 3] EXCEPT SELECT a FROM u [RANGE 3]) AS x",
)


@pytest.mark.parametrize("seed", range(6))
def test_first_and_last_go_by_the_order_of_rows_in_every_mode(seed: int) -> None:
    """Of matches nobody knows when they came, nor of what is computed from a part of history."""
    chance = random.Random(seed)
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (a INT, b INT) TIMESTAMP BY ts; CREATE STREAM u (a INT, b INT) TIMESTAMP BY ts")
        queries = [[db.register(text, mode=mode) for mode in ("eager", "lazy", "none")] for text in ORDERED]
        instant = 1
        for _ in range(12):
            rows = [(chance.randint(0, 9), chance.randint(0, 1), instant) for _ in range(chance.randint(1, 3))]
            db.insert(chance.choice("su"), rows)
            if chance.random() < 0.5:
                db.advance(to=instant)
                instant += 1
        db.advance(to=instant + 1)
        for eager, *others in queries:
            for other in others:
                for at in range(1, instant):
                    assert in_order(other.result(at=at)) == in_order(eager.result(at=at))
                    assert in_order(other.changes(since=at)) == in_order(eager.changes(since=at))


def in_order(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())
