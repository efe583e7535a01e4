"""Queries that differ in the sizes of the windows that they join: one join for a class of sizes, and each query its
pairs for as long as its own windows have both elements."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

STREAMS = """
    CREATE STREAM s (u INT, a BIGINT) TIMESTAMP BY ts;
    CREATE STREAM t (u INT, b BIGINT) TIMESTAMP BY ts;
    CREATE STREAM x (u INT, c BIGINT) TIMESTAMP BY ts
"""
S = [(n % 3, n % 7, n) for n in range(0, 30, 2)] + [(1, 2, 29), (1, 2, 29)]
T = [(n % 3, n % 5, n) for n in range(1, 30, 3)]
X = [(n % 3, n, n) for n in range(0, 30, 5)]

TEXTS = [
    "SELECT s.a, t.b FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u",
    "SELECT s.a, t.b FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND s.a > {c} AND t.b < 4",
    "SELECT s.a, t.b FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND s.a = {c}",
    "SELECT 'l{c}' AS l, s.a FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND s.a > {c}",
    "SELECT s.u, count(*) AS n, sum(b) AS b FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND a > {c} GROUP BY s.u",
    "SELECT count(*) AS n FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND s.a > {c}",
    "SELECT s.u, max(t.b) AS m FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u GROUP BY s.u HAVING max(t.b) > {c}",
    "SELECT DISTINCT s.u FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND s.a > {c}",
    "SELECT ISTREAM(s.u, t.b) FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND s.a > {c}",
    "SELECT DSTREAM(s.u) FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND s.a > {c}",
    "SELECT r.a, q.a AS b FROM s [RANGE {k}] AS r, s [RANGE {m}] AS q WHERE r.u = q.u AND r.a > {c}",
    "SELECT s.a, x.c FROM s [RANGE {k}], t [RANGE {m}], x [RANGE 6] WHERE s.u = t.u AND t.u = x.u AND s.a > {c}",
    "SELECT s.a, t.b FROM s [RANGE {k}], t [RANGE {m}] WHERE s.a < t.b AND s.a > {c}",
    "SELECT s.u, sum(s.a + {c}) AS n FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u GROUP BY s.u",
]


def texts(text: str) -> list[str]:
    """Of one class of sizes, on either side."""
    return [text.format(k=5 + n % 4, m=5 + n // 4, c=n % 4) for n in range(12)]


def fill(db: ms.Database, first: int = 0, last: int = 30) -> None:
    for low in range(first, last, 10):
        for stream, rows in {"s": S, "t": T, "x": X}.items():
            db.insert(stream, [row for row in rows if low <= row[-1] < low + 10])
    db.advance(to=last + 9)


def answers(query: ms.Query) -> list[list[str]]:
    instants = (0, 4, 9, 17, 22, 29, 35) if query.kind == "relation" else (None,)
    return [sorted(map(str, query.result(at).to_pylist())) for at in instants]


@pytest.mark.parametrize(("late", "shards", "bounds"), [(False, 1, "closed"), (True, 3, "half_open")])
@pytest.mark.parametrize("text", TEXTS)
def test_windows_of_any_size(text: str, late: bool, shards: int, bounds: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; SET range_bounds = '{bounds}'; {STREAMS}")
        if late:
            fill(db)
        queries = [db.register(each) for each in texts(text)]
        if not late or "DISTINCT" not in text:  # which statistics may move below the join
            assert len({query.edge for query in queries[-3:]}) == 1
            assert all(query.number is not None for query in queries[-3:])
        db.execute("SET sharing = 'off'")
        own = [db.register(each) for each in texts(text)]
        if not late:
            fill(db)
        for query, other in zip(queries, own, strict=True):
            assert answers(query) == answers(other)


def test_they_come_late_go_and_are_there_again(tmp_path: Path) -> None:
    text = TEXTS[1]
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAMS)
        queries = [db.register(each, name=f"q{number}") for number, each in enumerate(texts(text))]
        fill(db, 0, 10)
        queries[10].drop()
        assert "RANGE of each input" in "".join(node["label"] for node in db.inspection.plan_of("q11")["nodes"])
    with ms.connect(tmp_path, engine="inprocess") as db:
        late = db.register(text.format(k=8, m=8, c=0), name="late")
        large = db.register(text.format(k=80, m=8, c=0), name="large")
        assert late.edge == db.query("q11").edge != large.edge
        db.advance(to=20)
        fill(db, 20, 30)
        found = [(query.cql, answers(query)) for query in db.queries()]
        db.execute("SET sharing = 'off'")
        for cql, known in found:
            assert answers(db.register(cql)) == known


def test_what_can_fail_and_other_windows_have_a_plan_for_each_size() -> None:
    for text in (
        "SELECT s.a FROM s [RANGE {k}], t [RANGE {m}] WHERE s.u = t.u AND 10 / s.a > {c}",
        "SELECT s.a FROM s [RANGE {k} SLIDE 2], t [RANGE {m}] WHERE s.u = t.u",
        "SELECT s.a FROM s [RANGE {k}], t [ROWS {m}] WHERE s.u = t.u",
    ):
        with ms.connect(engine="inprocess") as db:
            db.execute(STREAMS)
            assert len({db.register(each).edge for each in texts(text)}) == 12


def test_three_sizes_of_a_join_have_a_plan_each() -> None:
    """A join for all sizes of a class would make pairs that no window has."""
    text = "SELECT s.a, t.b FROM s [RANGE {k}], t [RANGE 8] WHERE s.u = t.u AND s.a > {c}"
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        few = [db.register(text.format(k=5 + n % 3, c=n)).edge for n in range(12)]
        assert len({*few[-3:]}) == 3
        for n in range(12):
            last = db.register(text.format(k=8, c=n)).edge
        assert last not in few
