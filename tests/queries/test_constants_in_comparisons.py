"""Queries that differ in constants of what columns are compared with: `d > e * 1.5` and `d > e * 2.5` share a plan."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import millstream as ms

STREAM = "CREATE STREAM s (d DOUBLE, e DOUBLE, t STRING, u STRING) TIMESTAMP BY ts"
ROWS = [
    (float(n % 7) if n % 5 else None, float(n % 4) * 1.5, f"{n % 3}b" if n % 4 else None, f"{n % 6}a", n)
    for n in range(60)
]
CONDITIONS = (
    "d > e * {n}.5",
    "d + {n}.0 >= e + 3.5",
    "d = e + {n}.0 AND d > 1.0",
    "NOT (d < e - {n}.5) OR d > {n}",
    "t || '{n}' < u",
    "CASE WHEN d > {n}.5 THEN d ELSE {n}.0 END > e",
    "d > (SELECT avg(e) FROM s[]) + {n}.25",
)


def is_shared(queries: list[ms.Query]) -> bool:
    return len({query.edge for query in queries}) == 1 and all(query.number is not None for query in queries)


def answers(query: ms.Query) -> list[str]:
    return sorted(map(str, query.result().to_pylist()))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_they_share_a_plan_and_answer_as_duckdb_does(condition: str, late: bool, tmp_path: Path) -> None:
    texts = [f"SELECT d, e, t, u FROM s[] WHERE {condition.replace('{n}', str(n))}" for n in range(12)]
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAM)
        if late:
            db.insert("s", ROWS)
        queries = [db.register(text.replace("[]", " [RANGE 1000]"), name=f"q{n}") for n, text in enumerate(texts)]
        if not late:
            db.insert("s", ROWS)
        assert is_shared(queries[9:])
        db.advance("s", to=100)
        found = [answers(query) for query in queries]
        edges = [query.edge for query in queries]
    with duckdb.connect() as oracle:
        oracle.execute("CREATE TABLE s (d DOUBLE, e DOUBLE, t VARCHAR, u VARCHAR)")
        oracle.executemany("INSERT INTO s VALUES (?, ?, ?, ?)", [row[:-1] for row in ROWS])
        for text, own in zip(texts, found, strict=True):
            rows = oracle.execute(text.replace("[]", "")).fetchall()
            assert own == sorted(str(dict(zip("detu", row, strict=True))) for row in rows)
    with ms.connect(tmp_path, engine="inprocess") as db:
        again = [db.query(f"q{n}") for n in range(12)]
        assert [query.edge for query in again] == edges
        assert [answers(query) for query in again] == found


def test_what_could_fail_only_with_another_constant_keeps_its_own() -> None:
    """And what fails by itself says so with the constant that was written."""
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM i (a BIGINT, b BIGINT) TIMESTAMP BY ts")
        fine = [db.register(f"SELECT a FROM i [RANGE 9] WHERE a > b / {n}") for n in range(1, 12)]
        wrong = [db.register(f"SELECT a FROM i [RANGE 9] WHERE a > b + {n}") for n in range(1, 12)]
        db.insert("i", [(5, 10, 1), (5, 2**63 - 2, 2)])
        db.advance("i", to=5)
        assert [query.result().num_rows for query in fine] == [int(10 // n < 5) for n in range(1, 12)]
        assert wrong[0].result().num_rows == 0
        with pytest.raises(ms.Error, match="b \\+ 7"):
            wrong[6].result()
