"""Queries that differ in LIMIT only: the first rows are kept once, and each query has as many as it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream as ms

STREAM = "CREATE STREAM s (u INT, a BIGINT, i INT) TIMESTAMP BY ts"
ROWS = [(n % 3, n % 5, n, n) for n in range(30)] + [(1, 2, 7, 29), (1, 2, 7, 29)]
TEXTS = [
    "SELECT u, i FROM s [RANGE 9] ORDER BY i DESC LIMIT {k}",
    "SELECT a, i FROM s [ROWS 15] ORDER BY a, i LIMIT {k}",
    "SELECT a, i FROM s [ROWS 15] WHERE u = 1 ORDER BY a LIMIT {k} OFFSET 2",
    "SELECT u, count(*) AS n FROM s [RANGE 12] GROUP BY u ORDER BY n DESC, u LIMIT {k}",
    "SELECT 'top {k}' AS l, a, i FROM s [RANGE 9] ORDER BY a DESC, i LIMIT {k}",
    "SELECT ISTREAM(i) FROM (SELECT i FROM s [RANGE 9] ORDER BY a, i LIMIT {k})",
    "SELECT sum(i) AS t FROM (SELECT i FROM s [RANGE 9] ORDER BY a, i LIMIT {k})",
    "SELECT i FROM s ORDER BY a DESC, i LIMIT {k}",
]


def texts(text: str) -> list[str]:
    return [text.format(k=number + 1) for number in range(12)]


def filled(db: ms.Database) -> None:
    db.insert("s", ROWS)
    db.advance("s", to=35)


def all_of(query: ms.Query) -> list[list[str]]:
    instants = (0, 3, 8, 13, 24, 34) if query.kind == "relation" else (None,)
    said = [sorted(map(str, query.result(at).to_pylist())) for at in instants]
    return [*said, sorted(map(str, query.changes().to_pylist()))]


def are_together(queries: list[ms.Query]) -> bool:
    return len({query.edge for query in queries}) == 1 and all(query.number is not None for query in queries)


@pytest.mark.parametrize(("late", "shards"), [(False, 1), (False, 2), (True, 3)])
@pytest.mark.parametrize("text", TEXTS)
def test_limits_of_any_size(text: str, late: bool, shards: int) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; {STREAM}")
        if late:
            filled(db)
        queries = [db.register(each) for each in texts(text)]
        db.execute("SET sharing = 'off'")
        own = [db.register(each) for each in texts(text)]
        if not late:
            filled(db)
        assert are_together(queries[-3:])
        for query, other in zip(queries, own, strict=True):
            assert all_of(query) == all_of(other)


def test_the_first_rows_are_kept_once() -> None:
    """What is kept does not grow with the queries, and what they are told is what their answers change by."""
    held = dict[int, int]()
    for count in (10, 60):
        with ms.connect(engine="inprocess") as db:
            db.execute(f"SET sharing = 'on'; {STREAM}")
            queries = [db.register(f"SELECT i FROM s [RANGE 500] ORDER BY i LIMIT {n + 1}") for n in range(count)]
            db.insert("s", [(0, 0, n, n) for n in range(400)])
            assert are_together(queries)
            assert queries[-1].changes().num_rows == count  # later rows are never among the first
            (step,) = {each for each in db.engine.pipeline.by_name if each.startswith("sizedtop-")}
            states = db.engine.snapshot.states[step]
            held[count] = sum(db.engine.commits.store.read(name).height for name in states.get("rows", ()))
    assert held[10] == held[60]


def test_limits_of_another_class_have_another_plan() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET sharing = 'on'; {STREAM}")
        few = [db.register(f"SELECT i FROM s ORDER BY i LIMIT {n + 1}") for n in range(10)]
        many = [db.register(f"SELECT i FROM s ORDER BY i LIMIT {n + 5_000}") for n in range(10)]
        filled(db)
        assert {query.edge for query in few}.isdisjoint(query.edge for query in many)
        assert [query.result().num_rows for query in few] == [*range(1, 11)]
        assert {query.result().num_rows for query in many} == {32}


def test_who_goes_and_comes_after_a_restart(tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(f"SET sharing = 'on'; {STREAM}")
        for n in range(10):
            db.register(f"SELECT i FROM s [RANGE 20] ORDER BY i DESC LIMIT {n + 1}", name=f"q{n}")
        db.insert("s", ROWS[:10])
        db.drop_query("q9")
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.insert("s", ROWS[10:20])
        late = db.register("SELECT i FROM s [RANGE 20] ORDER BY i DESC LIMIT 14", name="late")
        db.insert("s", ROWS[20:])
        db.advance("s", to=35)
        assert late.edge == db.query("q3").edge
        db.execute("SET sharing = 'off'")
        for name, limit in (("q0", 1), ("q8", 9), ("late", 14)):
            own = db.register(f"SELECT i FROM s [RANGE 20] ORDER BY i DESC LIMIT {limit}")
            assert all_of(db.query(name)) == all_of(own)


def test_explain_says_how_rows_are_found() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET sharing = 'on'; {STREAM}")
        query = db.register("SELECT i FROM s [RANGE 20] ORDER BY i DESC LIMIT 3")
        assert "looked up by the value of limit" in query.explain()
