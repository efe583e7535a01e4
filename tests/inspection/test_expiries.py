"""EXPLAIN ANALYZE counts the rows that leave what operators keep, whatever they keep."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream as ms

LAST, LENGTH = 59, 5
# There is a row at every instant up to the last; when that is final, all but the last ones have left a window.
LEFT = LAST - LENGTH
ONE = "FROM s [RANGE 5]"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as made:
        for name in "sru":
            made.execute(f"CREATE STREAM {name} (k INT, v INT) TIMESTAMP BY ts")
        yield made


def _expired(db: ms.Database, text: str, kind: str, **settings: str) -> int:
    """The rows that left the operators of a kind, of which the query has one."""
    for name, value in settings.items():
        db.execute(f"SET {name} = '{value}'")
    query = db.register(text, name="q")
    for start in range(0, LAST, 6):
        for stream in "sru":
            db.insert(stream, [(n % 4, n, n) for n in range(start, min(start + 6, LAST + 1))])
    db.advance(to=LAST)
    assert query.final == LAST
    nodes = db.inspection.plan_of("q")["nodes"]
    found = [node["expired"] for node in nodes if node["kind"] == kind]
    analyzed = str(db.execute("EXPLAIN ANALYZE QUERY q"))
    assert all(f" {count:,} " in analyzed for count in found)
    return sum(found)


@pytest.mark.parametrize(
    ("kind", "selected"),
    [
        ("aggregate", f"SELECT k, sum(v) AS x {ONE} GROUP BY k"),
        ("aggregate", f"SELECT k, count(DISTINCT v) AS x {ONE} GROUP BY k"),
        ("order", f"SELECT k, v, row_number() OVER (ORDER BY v) AS n {ONE}"),
        ("stream", f"SELECT DSTREAM(k, v) {ONE}"),
        ("set", f"SELECT v {ONE} EXCEPT SELECT v FROM r [RANGE UNBOUNDED] WHERE v < 0"),
    ],
)
def test_rows_that_end_are_counted(db: ms.Database, kind: str, selected: str) -> None:
    assert _expired(db, selected, kind) == LEFT


def test_values_that_end_are_counted(db: ms.Database) -> None:
    """Nothing asks for a value any more from the instant before its end on."""
    assert _expired(db, f"SELECT DISTINCT v {ONE}", "distinct") == LEFT + 1


def test_rows_that_are_dominated_are_not_awaited(db: ms.Database) -> None:
    assert 0 < _expired(db, f"SELECT k, max(v) AS x {ONE} GROUP BY k", "aggregate") < LEFT


@pytest.mark.parametrize("jit", ["on", "off"])
def test_trees_of_joins_count_what_leaves_them(db: ms.Database, jit: str) -> None:
    text = "SELECT s.v FROM s [RANGE 5], r [RANGE 5], u [RANGE 5] WHERE s.v = r.v AND r.v = u.v"
    # Each of the inputs and the pairs of two of them.
    assert _expired(db, text, "join", join_plan="tree", jit=jit) >= 3 * LEFT
