"""Queries that differ in how many of the first rows they want: one plan, and each query as many as it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

STREAM = "CREATE STREAM s (u INT, a BIGINT, i INT) TIMESTAMP BY ts"
ROWS = [(n % 3, n % 5, (7 * n) % 11, n) for n in range(20)] + [(1, 2, 7, 19), (1, 2, 7, 19)]
TEXTS = [
    "SELECT u, i FROM s [RANGE 6] WHERE a >= {c} ORDER BY i DESC LIMIT {k}",
    "SELECT u, i FROM s [ROWS 7] WHERE a >= {c} ORDER BY i LIMIT {k} OFFSET 1",
    "SELECT u, a FROM s [RANGE 6] WHERE a >= {c} ORDER BY a FETCH FIRST {k} ROWS WITH TIES",
    "SELECT u, count(*) AS n FROM s [RANGE 9] WHERE a >= {c} GROUP BY u ORDER BY n DESC LIMIT {k}",
    "SELECT u, sum(i) AS t FROM s [RANGE 9] GROUP BY u ORDER BY t LIMIT {k}",
    "SELECT count(*) AS n FROM (SELECT u FROM s [RANGE 8] WHERE a >= {c} ORDER BY i LIMIT {k}) AS first",
]


def texts(text: str) -> list[str]:
    return [text.format(k=number % 10, c=number % 2) for number in range(12)]


def all_of(query: ms.Query) -> list[list[str]]:
    return [sorted(map(str, query.result(at).to_pylist())) for at in (0, 3, 8, 13, 19, 23)]


@pytest.mark.parametrize(("late", "shards"), [(False, 1), (True, 2)])
@pytest.mark.parametrize("text", TEXTS)
def test_as_many_of_the_first_rows_as_each_wants(text: str, late: bool, shards: int, tmp_path: Path) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; {STREAM}")
        db.insert("s", ROWS[:12] if late else [])
        queries = [db.register(each, name=f"q{number}") for number, each in enumerate(texts(text))]
        db.execute("SET sharing = 'off'")
        for number, each in enumerate(texts(text)):
            db.register(each, name=f"own{number}")
        for rows in ([] if late else ROWS[:12], ROWS[12:17], ROWS[17:]):
            db.insert("s", rows)
        assert len({query.edge for query in queries[-2:]}) == 1
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.advance("s", to=24)
        for number in range(10):
            assert all_of(db.query(f"q{number}")) == all_of(db.query(f"own{number}"))
