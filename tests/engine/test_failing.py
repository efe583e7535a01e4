"""Queries that fail, or must not, each in several ways: by settings, modes and time of registration."""

from __future__ import annotations

import pytest
from tests.engine.failing import Rows, failure
from tests.properties.driver import in_process
from tests.support.answers import table_of

import millstream as ms

STREAMS = "; ".join(f"CREATE STREAM {name} (x INT, v INT) TIMESTAMP BY ts" for name in "ABC")
MANY = {"A": [(1, 5, 1), (0, 7, 2)], "B": [(1, 5, 1), (2, 5, 3)], "C": [(9, 9, 1)]}
FEW = {"A": [(1, 5, 1)], "B": [(1, 0, 1)], "C": [(1, 9, 1)]}
WAYS = [
    ("", "eager", "early"),
    ("", "eager", "late"),
    ("", "lazy", "early"),
    ("", "none", "late"),
    ("SET jit = on", "eager", "early"),
    ("SET join_plan = 'eddy'; SET jit = on", "eager", "early"),
    ("SET disabled_rules = 'push_selections, prune_columns'", "none", "early"),
    ("SET strategy = 'negative'; SET shards = 2", "eager", "early"),
]
CASES = [
    (
        "SELECT A.x FROM A [RANGE 5], B [RANGE 5], C [RANGE 5] WHERE A.x=B.x AND 10/(A.v-B.v) > 0 AND B.x = C.x",
        MANY,
        False,
    ),
    ("SELECT A.x FROM A [RANGE 5] JOIN B [RANGE 5] ON A.x=B.x AND 10/(A.v-B.v) > 0", MANY, True),
    ("SELECT 10/COALESCE(B.v-4, A.x) AS y FROM A [RANGE 5] LEFT JOIN B [RANGE 5] ON A.x=B.x", MANY, True),
    ("SELECT 10/COALESCE(B.v+1, A.x-1) AS y FROM A [RANGE 5] LEFT JOIN B [RANGE 5] ON A.x=B.x", FEW, False),
    ("SELECT 10/(x-1) AS y FROM A [RANGE 5] WHERE NOT EXISTS (SELECT * FROM B [RANGE 5] WHERE B.x=A.x)", FEW, False),
    ("SELECT 10/(x-1) AS y FROM A [RANGE 5] WHERE x NOT IN (SELECT x FROM B [RANGE 5])", FEW, False),
    ("SELECT x FROM A [RANGE 5] WHERE 10/x > 1 AND x <> 0", MANY, False),
    ("SELECT x FROM A [RANGE 5] WHERE x <> 0 AND 10/x > 1", MANY, False),
    ("SELECT x FROM A [RANGE 5] WHERE 10/x > 1", MANY, True),
    ("SELECT x FROM (SELECT x, 10/x AS y FROM A [RANGE 5]) t", MANY, False),
    ("SELECT x FROM (SELECT x FROM A [RANGE 5] WHERE 10/x > 1) t WHERE x <> 0", MANY, True),
    ("SELECT COUNT(*) FROM A [RANGE 5] LEFT JOIN B [RANGE 5] ON 10/A.x = B.x WHERE A.x <> 0", MANY, True),
    ("SELECT A.v FROM A [RANGE 5] LEFT JOIN B [RANGE 5] ON A.x = B.x WHERE 10/A.x > 1 AND A.x <> 0", MANY, False),
    ("SELECT A.v FROM A [RANGE 5] WHERE EXISTS (SELECT * FROM B [RANGE 5] WHERE 10/A.x = B.x)", MANY, True),
    ("SELECT A.v FROM A [RANGE 5] WHERE A.v IN (SELECT 10/(B.x-2) FROM B [RANGE 5])", MANY, True),
    (
        "SELECT A.v FROM A [RANGE 5] WHERE A.v = 5 AND NOT EXISTS (SELECT * FROM B [RANGE 5] WHERE 10/A.x = B.x)",
        MANY,
        False,
    ),
    ("SELECT A.v FROM A [RANGE 5], B [RANGE 5] WHERE 10/A.x = B.x", MANY, True),
    ("SELECT A.v FROM A [RANGE 5], B [RANGE 5] WHERE 10/A.x = B.x AND A.v < B.v", MANY, False),
    ("SELECT x, SUM(10/x) AS s FROM A [RANGE 5] GROUP BY x HAVING COUNT(*) > 5", MANY, True),
    ("SELECT x, 10/x AS s FROM A [RANGE 5] GROUP BY x HAVING COUNT(*) > 5", MANY, False),
    ("SELECT 10/x AS y FROM A [ROWS 1]", MANY, True),
    ("SELECT ISTREAM(10/x AS y) FROM A [RANGE 5]", MANY, True),
    # Conditions on both sides that fail; one is enough to be false.
    ("SELECT x FROM A [RANGE 5] WHERE 10/x > 1 AND 10/(x-1) > 1", MANY, True),
    ("SELECT x FROM A [RANGE 5] WHERE 10/x > 1 AND v/(v-7) > 100 AND v = 5", MANY, False),
    # Rows that come and go within an instant never count.
    ("SELECT 10/(v-5) AS y FROM B [ROWS 1]", {"A": [], "C": [], "B": [(1, 5, 1), (1, 6, 1)]}, False),
    ("SELECT CASE WHEN x = 0 THEN 0 ELSE 10/x END AS y FROM A [RANGE 5]", MANY, False),
    ("SELECT x FROM A [RANGE 5] WHERE x = 1 OR 10/x > 1 OR v = 7", MANY, False),
    ("SELECT x FROM A [RANGE 5] UNION ALL SELECT 10/x FROM A [RANGE 5]", MANY, True),
    # A scalar subquery is computed for rows that the other conditions keep, wherever they are written.
    (
        "SELECT v FROM A [RANGE 5] a WHERE (SELECT MAX(10/(b.v-5)) FROM B [RANGE 5] b WHERE b.x=a.x) > 0 AND x = 0",
        MANY,
        False,
    ),
    (
        "SELECT v FROM A [RANGE 5] a WHERE x = 0 AND (SELECT MAX(10/(b.v-5)) FROM B [RANGE 5] b WHERE b.x=a.x) > 0",
        MANY,
        False,
    ),
    ("SELECT v FROM A [RANGE 5] a WHERE (SELECT MAX(10/(b.v-5)) FROM B [RANGE 5] b WHERE b.x=a.x) > 0", MANY, True),
    ("SELECT (SELECT MAX(10/x) FROM A [RANGE 5]) AS m FROM C [RANGE 5]", MANY, True),
    # EXISTS inside of EXISTS fails for rows of the outermost block that its other conditions keep.
    *(
        (
            f"SELECT v FROM A [RANGE 5] a WHERE {where} AND {outer} (SELECT * FROM B [RANGE 5] b WHERE b.x = a.x AND "
            f"{inner} (SELECT * FROM C [RANGE 5] c WHERE 10/(c.x-9) = b.v))",
            MANY,
            fails,
        )
        for where, fails in (("a.v = 6", False), ("a.v = 5", True))
        for outer, inner in (("EXISTS", "EXISTS"), ("NOT EXISTS", "EXISTS"), ("EXISTS", "NOT EXISTS"))
    ),
    # It is true by another row than that on which what is inside fails.
    (
        "SELECT v FROM A [RANGE 5] WHERE x = 0 AND EXISTS (SELECT * FROM B [RANGE 5] b WHERE "
        "NOT EXISTS (SELECT * FROM C [RANGE 5] c WHERE 10/(b.x-2) = c.x AND c.x = 9))",
        {**MANY, "B": [(1, 5, 2), (2, 5, 2)]},
        False,
    ),
    # Each of two fails, each inside of another.
    (
        "SELECT v FROM A [RANGE 5] WHERE EXISTS (SELECT * FROM B [RANGE 5] WHERE EXISTS "
        "(SELECT * FROM C [RANGE 5] c WHERE 10/(c.x-9) = 1)) AND x IN (SELECT x FROM A [RANGE 5] WHERE NOT EXISTS "
        "(SELECT * FROM C [RANGE 5] c WHERE 10/(c.v-9) = 1))",
        MANY,
        True,
    ),
]


def failed(text: str, rows: Rows, setting: str, mode: str, when: str) -> bool:
    with in_process() as db:
        db.execute(f"{STREAMS}; {setting}")
        return bool(failure(db, text, rows, mode, when))


@pytest.mark.parametrize(("text", "rows", "fails"), CASES)
def test_it_fails_in_every_way_or_in_none(text: str, rows: Rows, fails: bool) -> None:
    assert [failed(text, rows, *way) for way in WAYS] == [fails] * len(WAYS)


def test_ad_hoc_queries_have_only_the_instant_asked() -> None:
    with in_process() as db:
        db.execute(STREAMS)
        db.insert("A", [(0, 1, 1), (2, 1, 5)])
        db.advance(to=3)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            db.execute("SELECT 10/x AS y FROM A [RANGE 3]")
        db.advance(to=9)
        assert table_of(db, "SELECT 10/x AS y FROM A [RANGE 5]").num_rows == 1


def test_rows_beyond_the_heartbeat_do_not_count_yet() -> None:
    with in_process() as db:
        db.execute(STREAMS)
        queries = [db.register("SELECT 10/x AS y FROM A [RANGE 3]", mode=mode) for mode in ("eager", "lazy", "none")]
        db.insert("A", [(0, 1, 5)])
        for query in queries:
            assert query.result().num_rows == 0
        db.advance(to=5)
        for query in queries:
            with pytest.raises(ms.EvaluationError, match="division by zero"):
                query.result()


def test_users_functions_fail_on_single_rows() -> None:
    """Whatever the batch, and not where a row does not need it."""

    def picky(column):  # type: ignore[no-untyped-def]
        if (column == 0).any():
            raise ValueError("zero")
        return column

    with in_process() as db:
        db.create_function("picky", picky, returns="int")
        db.execute(STREAMS)
        fine = db.register("SELECT v FROM A [RANGE 9] WHERE picky(x) > 0 AND x <> 0")
        fails = db.register("SELECT v FROM A [RANGE 9] WHERE picky(x) > 0 AND v > 1")
        db.insert("A", [(1, 1, 1), (0, 1, 2), (2, 3, 3)])
        db.advance(to=4)
        assert fine.result().num_rows == 2
        assert fails.result().num_rows == 1
        db.insert("A", [(0, 2, 5)])
        db.advance(to=6)
        with pytest.raises(ms.EvaluationError, match="function picky raised ValueError: zero"):
            fails.result()
        assert fine.result().num_rows == 2


CALLED = [
    ("SELECT v FROM A [RANGE 9] WHERE seen(x) > 0 AND v > -{}", 1),
    ("SELECT v FROM A [RANGE 9] WHERE v > -{} AND seen(x) > 0 AND seen(v) > 1", 2),
    ("SELECT seen(x) AS y FROM A [RANGE 9] WHERE v > -{}", 1),
    ("SELECT SUM(seen(x)) AS y FROM A [RANGE 9] WHERE v > -{}", 1),
    ("SELECT v, 10/seen(x) AS y FROM A [ROWS 4] WHERE v > -{}", 1),
]


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize(("text", "places"), CALLED)
def test_users_functions_are_called_once_for_each_row_and_place(text: str, places: int, queries: int) -> None:
    """Those of a group ask each value once, however many they are."""
    called: list[int] = []

    def seen(column):  # type: ignore[no-untyped-def]
        called.extend(column)
        return column

    with in_process() as db:
        db.execute("SET sharing = 'on'")
        db.create_function("seen", seen, returns="int")
        db.execute(STREAMS)
        for number in range(queries):
            db.register(text.format(number + 1))
        called.clear()
        db.insert("A", [(1, 11, 1), (2, 12, 2), (3, 13, 3)])
        db.advance(to=4)
        assert len(called) == 3 * places


def test_errors_have_the_names_of_their_own_columns() -> None:
    with in_process() as db:
        db.execute("CREATE STREAM one (apples INT) TIMESTAMP BY t; CREATE STREAM other (pears INT) TIMESTAMP BY t")
        first = db.register("SELECT 77 / apples AS n FROM one [RANGE 9]")
        second = db.register("SELECT 77 / pears AS n FROM other [RANGE 9]")
        for name in ("one", "other"):
            db.insert(name, [(0, 1)])
        db.advance(to=2)
        assert "apples" in str(first.error)
        assert "pears" in str(second.error)
        assert "apples" not in str(second.error)
