"""Subqueries that fail, or must not: in EXISTS and IN over whatever there is, and where an expression chooses."""

from __future__ import annotations

import pytest
from tests.engine.failing import failure
from tests.properties.driver import in_process

STREAMS = "; ".join(f"CREATE STREAM {name} (x INT, v INT) TIMESTAMP BY ts" for name in "ABC")
ROWS = {"A": [(1, 5, 1), (0, 7, 2)], "B": [(1, 5, 1), (2, 5, 3)], "C": [(9, 9, 1)]}
WAYS = [("eager", "early"), ("eager", "late"), ("lazy", "early"), ("none", "late")]
# What stands for whole inputs: A and B fail on x - 1 = 0, C on x - 9 = 0. By WHERE, on rows of A.
EXISTENCES = [
    ("v = 6 AND EXISTS (SELECT DISTINCT x FROM B {R} WHERE 10/(x-1) > 0)", False),
    ("EXISTS (SELECT DISTINCT 10/(x-1) AS y FROM B {R})", False),
    ("EXISTS (SELECT DISTINCT x FROM B {R} WHERE 10/(x-1) > 0)", True),
    ("v = 6 AND EXISTS (SELECT DISTINCT x FROM B {R} b WHERE b.x = a.x AND 10/(b.x-1) > 0)", False),
    ("EXISTS (SELECT DISTINCT x FROM B {R} b WHERE b.x = a.x AND 10/(b.x-1) > 0)", True),
    ("v = 6 AND EXISTS (SELECT x FROM B {R} GROUP BY x HAVING 10/(x-1) > 0)", False),
    ("v = 6 AND EXISTS (SELECT x FROM B {R} WHERE 10/(x-1) > 0 UNION SELECT x FROM C {R})", False),
    ("v = 6 AND EXISTS (SELECT * FROM (SELECT 10/(x-1) AS y FROM B {R}) q WHERE y > 0)", False),
    ("EXISTS (SELECT * FROM (SELECT 10/(x-1) AS y FROM B {R}) q WHERE y > 0)", True),
    ("v = 6 AND x IN (SELECT DISTINCT 10/(x-1) FROM B {R})", False),
    ("x IN (SELECT DISTINCT 10/(x-1) FROM B {R})", True),
    ("v = 6 AND x IN (SELECT MAX(10/(x-1)) FROM B {R})", False),
    ("v = 6 AND x NOT IN (SELECT MAX(10/(x-1)) FROM B {R})", False),
    ("v = 6 AND x IN (SELECT 10/(x-1) FROM B {R} UNION ALL SELECT x FROM C {R})", False),
    # Two that both fail; one beside a condition that fails; one inside of another.
    (
        "EXISTS (SELECT * FROM (SELECT 10/(x-1) AS y FROM B {R}) q WHERE y > 0) "
        "AND EXISTS (SELECT * FROM (SELECT 10/(v-5) AS y FROM B {R}) q WHERE y > 0)",
        True,
    ),
    ("NOT EXISTS (SELECT * FROM (SELECT 10/(x-1) AS y FROM B {R}) q WHERE y > 0) AND 10/x > 0", True),
    ("NOT EXISTS (SELECT * FROM (SELECT 10/(x-1) AS y FROM B {R}) q WHERE y > 0) AND v = 8", False),
    *(
        (
            f"v = {v} AND EXISTS (SELECT * FROM B {{R}} b WHERE b.x < {most} AND "
            "EXISTS (SELECT * FROM (SELECT 10/(x-9) AS y FROM C {R}) q WHERE y = b.x))",
            fails,
        )
        for v, most, fails in ((5, 7, True), (8, 7, False), (5, 1, False))
    ),
    # A stream fails as it comes, whatever is read of it.
    ("v = 8 AND EXISTS (SELECT * FROM (SELECT ISTREAM(10/(x-1) AS y) FROM B {R}) {R} q WHERE y > 0)", True),
]
CHOSEN = [
    ("v = 6 AND (SELECT MAX(10/(x-1)) FROM B {R}) > 0", False),
    ("v = 7 AND (SELECT MAX(10/(x-1)) FROM B {R}) > 0", True),
    ("v > 0 OR EXISTS (SELECT * FROM B {R} b WHERE 10/(b.x-1) = a.x)", False),
    ("v > 5 OR EXISTS (SELECT * FROM B {R} b WHERE 10/(b.x-1) = a.x)", True),
    ("v > 0 OR x IN (SELECT 10/(b.x-1) FROM B {R} b)", False),
    ("v > 0 OR (SELECT MAX(10/(x-1)) FROM B {R}) > 0", False),
    ("v > 0 OR (SELECT SUM(q.y) FROM (SELECT 10/(x-1) AS y FROM B {R}) q) > 0", False),
    ("v = 99 OR 10/x IN (SELECT x FROM B {R})", True),
    ("v > 0 OR 10/x IN (SELECT x FROM B {R})", False),
    # A row that suffices hides what fails on another, but not what its source fails by.
    ("v = 99 OR EXISTS (SELECT * FROM A [RANGE 9] b WHERE b.v = 5 OR 10/b.x > 0)", False),
    ("v = 99 OR EXISTS (SELECT * FROM (SELECT x, 10/(x-1) AS y FROM B {R}) q WHERE q.x = 2 OR y > 0)", True),
]
SELECTED = [
    ("CASE WHEN v > {} THEN 0 ELSE (SELECT MAX(10/(x-1)) FROM B {R}) END", 0, 5),
    ("IF(v > {}, 0, (SELECT MAX(10/(b.x-1)) FROM B {R} b WHERE b.x = a.x))", 0, 5),
    ("IF(v > {}, 0, (SELECT 10/(b.x-1) FROM B {R} b WHERE b.x = a.x))", 0, 5),
    ("COALESCE(NULLIF(v, {}), (SELECT MAX(10/(x-1)) FROM B {R}))", 0, 5),
    ("IF(v > {}, TRUE, EXISTS (SELECT * FROM B {R} b WHERE 10/(b.x-1) = 1))", 0, 5),
    ("IF(v > {}, TRUE, EXISTS (SELECT * FROM B {R} b WHERE 10/(b.x-1) = a.x))", 0, 5),
    ("IF(v > {}, TRUE, x IN (SELECT 10/(b.x-1) FROM B {R} b))", 0, 5),
    ("IF(v > {}, 0, (SELECT SUM(b.v * 9000000000000000000) FROM B {R} b WHERE b.x = a.x))", 0, 5),
    ("IF(v > {}, 0, (SELECT MAX(b.v) FROM B {R} b LEFT JOIN C {R} c ON 10/(b.x-1) = c.x WHERE b.x = a.x))", 0, 5),
    ("IF(v > {}, 0, (SELECT MAX(b.v) FROM B {R} b, C {R} c WHERE 10/(b.x-1) = c.x AND b.x = a.x))", 0, 5),
]
CASES = [
    *((f"SELECT v FROM A {{R}} a WHERE {where}", fails) for where, fails in EXISTENCES + CHOSEN),
    *(
        (f"SELECT {item.replace('{}', str(number))} AS y FROM A {{R}} a", number > 0)
        for item, *numbers in SELECTED
        for number in numbers
    ),
    ("SELECT v FROM A {R} GROUP BY v HAVING v = 6 AND (SELECT MAX(10/(x-1)) FROM B {R}) > 0", False),
    ("SELECT v, (SELECT MAX(10/(x-1)) FROM B {R}) AS n FROM A {R} GROUP BY v HAVING v = 6", False),
    ("SELECT v FROM (SELECT v, (SELECT MAX(10/(x-1)) FROM B {R}) AS n FROM A {R}) q", False),
]


@pytest.mark.parametrize(("text", "fails"), CASES)
def test_a_subquery_fails_where_it_is_read(text: str, fails: bool) -> None:
    said = [_outcome(text.replace("{R}", "[RANGE 5]"), *way) for way in WAYS]
    assert [bool(each) for each in said] == [fails] * len(WAYS)


def _outcome(text: str, mode: str, when: str) -> str:
    with in_process() as db:
        db.execute(STREAMS)
        return failure(db, text, ROWS, mode, when)


def test_its_error_says_what_it_was_and_what_to_do() -> None:
    text = "SELECT IF(v > 5, 0, (SELECT MAX(10/(b.x-1)) FROM B [RANGE 5] b WHERE b.x = a.x)) AS y FROM A [RANGE 5] a"
    with in_process() as db:
        db.execute(STREAMS)
        said = failure(db, text, ROWS, "eager", "early")
        alone = failure(db, "SELECT 10/(x-1) AS y FROM B [RANGE 5]", {}, "eager", "late")
    assert _without_place(said) == _without_place(alone)
    assert "(SELECT MAX(10 / (b.x - 1))" in said


def _without_place(said: str) -> list[str]:
    return [line for line in said.splitlines() if not line.startswith(("line ", "  "))]
