"""Constants in ON of outer joins, selections beside RIGHT and FULL JOIN: one plan, the answers of each query alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

STREAMS = """
    CREATE STREAM s (u INT, a BIGINT, i INT) TIMESTAMP BY ts;
    CREATE STREAM t (u INT, b BIGINT, j INT) TIMESTAMP BY ts
"""
S = [(n % 3, n % 5, n % 7, n) for n in range(20)]
T = [(n % 4, n % 3, n % 5, n) for n in range(20)]

JOINS = "SELECT s.u, s.i, t.j FROM s [RANGE 3] {} JOIN t [RANGE 2] ON t.u = s.u AND "
TEXTS: list[tuple[str, list[tuple[int, ...]]]] = [
    (JOINS.format("LEFT") + "t.j > ? WHERE s.i > ?", [(1, 2), (2, 0), (3, 3)]),
    (JOINS.format("LEFT") + "s.i > ?", [(1,), (2,), (9,)]),
    (JOINS.format("LEFT") + "(s.i > t.j OR t.j > ?) WHERE s.a > ?", [(1, 1), (2, 0), (9, 3)]),
    (JOINS.format("RIGHT") + "s.i > ?", [(1,), (2,), (9,)]),
    (JOINS.format("RIGHT") + "t.j > ?", [(1,), (2,), (9,)]),
    (JOINS.format("RIGHT") + "(s.i > t.j OR t.j > ?) WHERE t.b < ?", [(1, 1), (2, 2), (9, 3)]),
    (JOINS.format("RIGHT") + "s.a < 3 WHERE t.j > ?", [(1,), (2,), (9,)]),
    (JOINS.format("FULL") + "t.j > ?", [(1,), (2,), (9,)]),
    (JOINS.format("FULL") + "(s.i > t.j OR t.j > ?)", [(1,), (2,), (9,)]),
    (JOINS.format("FULL") + "s.a < 3 WHERE s.i > ?", [(1,), (2,), (9,)]),
    (
        "SELECT s.u, count(*) AS n FROM s [RANGE 3] FULL JOIN t [RANGE 2] ON t.u = s.u WHERE s.i > ? OR t.j > ? "
        "GROUP BY s.u HAVING count(*) > ?",
        [(1, 2, 0), (2, 3, 1), (9, 0, 2)],
    ),
    (
        "SELECT t.u, count(s.i) AS n FROM s [RANGE 3] RIGHT JOIN t [RANGE 2] ON t.u = s.u WHERE t.j > ? GROUP BY t.u",
        [(1,), (2,), (9,)],
    ),
    (
        "SELECT s.u, s.i, t.j FROM (SELECT * FROM s [RANGE 3] WHERE a > ?) AS s FULL JOIN "
        "(SELECT * FROM t [RANGE 2] WHERE j > ?) AS t ON t.u = s.u",
        [(1, 1), (0, 2), (2, 0)],
    ),
    (
        "SELECT ISTREAM(s.u, t.j) FROM (SELECT * FROM s [RANGE 3] WHERE a > ?) AS s RIGHT JOIN "
        "(SELECT * FROM t [RANGE 2] WHERE j > ?) AS t ON t.u = s.u",
        [(1, 1), (0, 2), (2, 0)],
    ),
    (
        "SELECT u, i FROM s [RANGE 3] WHERE EXISTS (SELECT * FROM t [RANGE 2] WHERE t.u = s.u AND "
        "(s.i > t.j OR t.j > ?))",
        [(1,), (2,), (9,)],
    ),
    (
        "SELECT u, i FROM s [RANGE 3] WHERE NOT EXISTS (SELECT * FROM t [RANGE 2] WHERE t.u = s.u AND "
        "(s.i > t.j OR t.j > ?))",
        [(1,), (2,), (9,)],
    ),
]


def filled(db: ms.Database, first: int = 0, last: int = 20) -> None:
    db.insert("s", S[first:last])
    db.insert("t", T[first:last])
    db.advance(to=last + 2)


def single(template: str, row: tuple[int, ...]) -> str:
    for value in row:
        template = template.replace("?", str(value), 1)
    return template


def all_of(query: ms.Query) -> list[list[str]]:
    instants = (0, 2, 5, 9, 14, 19, 21) if query.kind == "relation" else (None,)
    return [sorted(map(str, query.result(at).to_pylist())) for at in instants]


def is_shared(queries: list[ms.Query]) -> bool:
    return len({query.edge for query in queries}) == 1 and all(query.number is not None for query in queries)


@pytest.mark.parametrize(("late", "shards"), [(False, 1), (True, 3)])
@pytest.mark.parametrize(("template", "rows"), TEXTS)
def test_shared_as_alone(template: str, rows: list[tuple[int, ...]], late: bool, shards: int) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; {STREAMS}")
        if late:
            filled(db)
        queries = db.register_many(template, rows)
        db.execute("SET sharing = 'on'")
        singles = [db.register(single(template, row)) for row in rows]
        db.execute("SET sharing = 'off'")
        own = [db.register(single(template, row)) for row in rows]
        if not late:
            filled(db)
        assert is_shared(queries)
        assert is_shared(singles)
        for query, one, other in zip(queries, singles, own, strict=True):
            assert all_of(query) == all_of(one) == all_of(other)


@pytest.mark.parametrize(("template", "rows"), [TEXTS[2], TEXTS[5], TEXTS[8]])
def test_they_come_and_go_and_are_there_again(template: str, rows: list[tuple[int, ...]], tmp_path: Path) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(f"{STREAMS}; SET sharing = 'on'")
        for number, row in enumerate(rows):
            db.register(single(template, row), name=f"q{number}")
        filled(db, 0, 8)
        db.query("q1").drop()
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute("SET sharing = 'on'")
        db.register(single(template, rows[1]), name="late")
        assert is_shared(db.queries())
        filled(db, 8, 20)
        found = {query.cql: all_of(query) for query in db.queries()}
        db.execute("SET sharing = 'off'")
        assert {text: all_of(db.register(text)) for text in found} == found
