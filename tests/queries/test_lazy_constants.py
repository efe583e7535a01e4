"""Mode LAZY with constants in what is done with the matches: these are kept once, each query has its own answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

STREAM = "CREATE STREAM s (u INT, a BIGINT, i INT) TIMESTAMP BY ts"
ROWS = [(n % 3, n % 5, n % 7, n) for n in range(20)]

TEXTS: list[tuple[str, list[tuple[object, ...]]]] = [
    ("SELECT i, ? AS l FROM s [RANGE 5] WHERE a > ?", [("x", 1), ("y", 2), ("z", 1)]),
    ("SELECT CASE WHEN i > ? THEN 'more' ELSE ? END AS c FROM s [RANGE 5] WHERE a > ?", [(2, "x", 0), (3, "y", 2)]),
    ("SELECT u, count(*) AS n FROM s [RANGE 5] WHERE a > ? GROUP BY u HAVING count(*) > ?", [(0, 1), (1, 0), (0, 0)]),
    ("SELECT sum(CASE WHEN i > ? THEN 1 ELSE 0 END) AS n FROM s [RANGE 5] WHERE a > ?", [(2, 0), (3, 1), (2, 0)]),
    ("SELECT ISTREAM(i, ? AS l) FROM s [RANGE 5] WHERE a > ?", [("x", 1), ("y", 2)]),
    ("SELECT DISTINCT u, ? AS l FROM s [RANGE 5] WHERE a > ?", [("x", 1), ("y", 2)]),
    (
        "SELECT s.i, t.i AS j, ? AS l FROM s [RANGE 3], s [RANGE 2] AS t WHERE s.u = t.u AND s.a > ?",
        [("x", 1), ("y", 2), ("z", 1)],
    ),
]


def single(template: str, row: tuple[object, ...]) -> str:
    for value in row:
        template = template.replace("?", repr(value), 1)
    return template


def all_of(query: ms.Query) -> list[list[str]]:
    instants = (0, 2, 7, 13, 19, 22) if query.kind == "relation" else (None,)
    return [sorted(map(str, query.result(at).to_pylist())) for at in instants]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("template", "rows"), TEXTS)
def test_shared_as_alone(template: str, rows: list[tuple[object, ...]], late: bool, tmp_path: Path) -> None:
    names = [f"q{number}" for number in range(len(rows))]
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAM)
        if late:
            db.insert("s", ROWS[:12])
            db.advance("s", to=11)
        queries = db.register_many(template, rows, names, mode="lazy")
        assert len({query.edge for query in queries}) == 1
        assert all(query.number is not None for query in queries)
        if not late:
            db.insert("s", ROWS[:12])
            db.advance("s", to=11)
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.insert("s", ROWS[12:])
        db.advance("s", to=22)
        queries = [db.query(name) for name in names]
        assert len({query.edge for query in queries}) == 1
        db.execute("SET sharing = 'off'")
        own = [db.register(single(template, row)) for row in rows]
        for query, other in zip(queries, own, strict=True):
            assert all_of(query) == all_of(other)
            assert query.changes().to_pylist() == other.changes().to_pylist()
        together = sorted(str([*row.values()]) for row in db.results(queries).to_pylist())
        assert together == sorted(
            str([query.name, *row.values()]) for query in queries for row in query.result().to_pylist()
        )
