"""Queries that differ in the sizes of their windows: one plan, and each query its elements for as long as it asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import millstream as ms

STREAM = "CREATE STREAM s (u INT, a BIGINT, i INT) TIMESTAMP BY ts"
ROWS = [(n % 3, n % 5, n, n) for n in range(20)] + [(1, 2, 7, 19), (1, 2, 7, 19)]

TEXTS = [
    "SELECT * FROM s [RANGE {k}] WHERE a = {c}",
    "SELECT u, i FROM s [RANGE {k}] WHERE a > {c}",
    "SELECT u, i FROM s [RANGE {k}]",
    "SELECT 'l{c}' AS l, i FROM s [RANGE {k}] WHERE a > {c}",
    "SELECT u, count(*) AS n, avg(i) AS m FROM s [RANGE {k}] WHERE a > {c} GROUP BY u",
    "SELECT u, count(*) AS n FROM s [RANGE {k}] WHERE a = {c} GROUP BY u",
    "SELECT count(*) AS n, sum(i) AS t FROM s [RANGE {k}] WHERE a > {c}",
    "SELECT u, max(i) AS m FROM s [RANGE {k}] WHERE a > {c} GROUP BY u HAVING max(i) > {c}",
    "SELECT u, sum(a) AS t FROM s [RANGE {k}] GROUP BY u HAVING sum(a) > {c}",
    "SELECT DISTINCT u FROM s [RANGE {k}] WHERE a > {c}",
    "SELECT ISTREAM(u) FROM s [RANGE {k}] WHERE a > {c}",
    "SELECT DSTREAM(u) FROM s [RANGE {k}] WHERE a > {c}",
    "SELECT RSTREAM(u) FROM s [RANGE {k}] WHERE a > {c}",
    "SELECT u, i FROM s [RANGE {k} SLIDE 3] WHERE a > {c}",
    "SELECT u, i FROM s [RANGE 4 SLIDE {k}] WHERE a = {c}",
    "SELECT u, count(*) AS n FROM s [TUMBLE {k}] WHERE a > {c} GROUP BY u",
    "SELECT u, first(i) AS f, last(i) AS l FROM s [RANGE {k}] WHERE a > {c} GROUP BY u",
    "SELECT u, i FROM s [ROWS {k}] WHERE a > {c}",
    "SELECT u, i FROM s [ROWS {k}]",
    "SELECT 'l{c}' AS l, i FROM s [PARTITION BY u ROWS {k}] WHERE a = {c}",
    "SELECT u, count(*) AS n, sum(i) AS m, max(i) AS x FROM s [ROWS {k}] WHERE a > {c} GROUP BY u",
    "SELECT count(*) AS n, avg(i) AS t FROM s [PARTITION BY u ROWS {k}] WHERE a > {c} HAVING count(*) > {c}",
    "SELECT u, sum(a) AS t FROM s [ROWS {k}] GROUP BY u HAVING sum(a) > {c}",
    "SELECT ISTREAM(DISTINCT u) FROM s [ROWS {k}] WHERE a > {c}",
    "SELECT u, first(i) AS f, last(i) AS l FROM s [ROWS {k}] WHERE a > {c} GROUP BY u",
]


def filled(db: ms.Database, rows: Sequence[tuple[int, ...]] = ROWS) -> None:
    db.insert("s", [*rows])
    db.advance("s", to=rows[-1][-1] + 5)


def texts(text: str) -> list[str]:
    return [text.format(k=number + 1, c=number % 4) for number in range(12)]


def all_of(query: ms.Query) -> list[list[str]]:
    instants = (0, 3, 8, 13, 19, 23) if query.kind == "relation" else (None,)
    return [sorted(map(str, query.result(at).to_pylist())) for at in instants]


def is_shared(queries: list[ms.Query]) -> bool:
    return len({query.edge for query in queries}) == 1 and all(query.number is not None for query in queries)


@pytest.mark.parametrize(("late", "shards"), [(False, 1), (False, 2), (True, 3)])
@pytest.mark.parametrize("text", TEXTS)
def test_windows_of_any_size(text: str, late: bool, shards: int) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; {STREAM}")
        if late:
            filled(db)
        queries = [db.register(each) for each in texts(text)]
        db.execute("SET sharing = 'off'")
        own = [db.register(each) for each in texts(text)]
        if not late:
            filled(db)
        assert is_shared(queries[-2:])
        for query, other in zip(queries, own, strict=True):
            assert all_of(query) == all_of(other)


@pytest.mark.parametrize("text", TEXTS[:6])
def test_half_open_windows(text: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET range_bounds = 'half_open'; {STREAM}")
        queries = [db.register(each) for each in texts(text)]
        db.execute("SET sharing = 'off'")
        own = [db.register(each) for each in texts(text)]
        filled(db)
        assert [all_of(query) for query in queries] == [all_of(query) for query in own]


def test_a_longer_window_that_comes_late_brings_its_past() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(f"SELECT i FROM s [RANGE {k}] WHERE a = 2") for k in range(1, 11)]
        filled(db, ROWS[:15])
        (late,) = [db.register("SELECT i FROM s [RANGE 100] WHERE a = 2")]
        assert is_shared([queries[-1], late])
        assert [row["i"] for row in late.result(14).to_pylist()] == [2, 7, 12]
        db.insert("s", [(1, 2, 50, 30)])
        db.advance("s", to=30)
        assert [row["i"] for row in late.result(30).to_pylist()] == [2, 7, 12, 50]


def test_a_longer_window_than_is_kept() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{STREAM} RETAIN 5")
        for k in range(1, 11):
            db.register(f"SELECT i FROM s [RANGE {k}]")
        for row in ROWS[:18]:
            filled(db, [row])
        late = db.register("SELECT i FROM s [RANGE 100]")
        db.execute("SET sharing = 'off'")
        alone = db.register("SELECT i FROM s [RANGE 100]")
        assert late.number is not None
        assert late.notices == alone.notices != []
        with pytest.raises(ms.Error):
            late.result()


def test_queries_of_many_sizes_come_and_go_and_are_there_again(tmp_path: Path) -> None:
    text = "SELECT u, count(*) AS n FROM s [RANGE {k}] WHERE a > {c} GROUP BY u"
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(each, name=f"q{number}") for number, each in enumerate(texts(text))]
        filled(db, ROWS[:8])
        queries[9].drop()
        assert is_shared([queries[10], queries[11]])
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.register(text.format(k=12, c=3), name="late")
        assert db.query("late").edge == db.query("q11").edge
        filled(db, ROWS[8:])
        found = {query.name: (query.cql, all_of(query)) for query in db.queries()}
        db.execute("SET sharing = 'off'")
        for cql, answers in found.values():
            assert all_of(db.register(cql)) == answers


def test_what_can_fail_as_long_as_it_stays_has_a_plan_for_each_size() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(f"SELECT i FROM s [RANGE {k}] WHERE 10 / a > {k}") for k in range(1, 13)]
        assert len({query.edge for query in queries}) == len(queries)


def test_a_larger_window_of_rows_that_comes_late_brings_its_past() -> None:
    """Windows of some size class keep their elements together; those that are much larger lie elsewhere."""
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(f"SELECT i FROM s [ROWS {k}] WHERE a = 2") for k in range(1, 11)]
        filled(db, ROWS[:15])
        late, large = (db.register(f"SELECT i FROM s [ROWS {k}] WHERE a = 2") for k in (14, 5_000))
        assert is_shared([queries[-1], late])
        assert late.edge != large.edge
        assert [row["i"] for row in late.result(14).to_pylist()] == [2, 7, 12]
        db.insert("s", [(1, 2, 50, 30), (1, 1, 51, 31)])
        db.advance("s", to=32)
        assert [row["i"] for row in late.result(31).to_pylist()] == [7, 12, 50]
        assert [row["i"] for row in large.result(31).to_pylist()] == [2, 7, 12, 50]


def test_two_sizes_of_enough_queries_have_one_plan() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAM)
        queries = [db.register(f"SELECT i FROM s [RANGE {1 + n % 2}] WHERE a > {n}") for n in range(24)]
        assert len({query.edge for query in queries[-6:]}) == 1
        assert all(query.number is not None for query in queries[-6:])
