"""How long elements matter: all of those up to an instant, and not only the last one."""

from __future__ import annotations

import pytest

import millstream as ms
from millstream.kernel.batch import INF
from millstream.plan.analysis.lifetime import influence


@pytest.mark.parametrize(
    ("text", "lost", "last"),
    [
        ("SELECT COUNT(*) AS n FROM s [BEGIN 22 END 33]", 40, INF),
        ("SELECT COUNT(*) AS n FROM s [BEGIN 22 END 33]", 21, -1),
        ("SELECT COUNT(*) AS n FROM s [BEGIN 22 END NOW]", 22, INF),
        ("SELECT COUNT(*) AS n FROM s [BEGIN NOW - 5 END 10]", 40, 15),
        ("SELECT COUNT(*) AS n FROM s [BEGIN NOW - 5 END NOW - 2]", 40, 45),
        ("SELECT k FROM s [RANGE 8]", 40, 48),
        ("SELECT RSTREAM(k) FROM s [RANGE 8]", 40, 48),
        ("SELECT ISTREAM(k) FROM s [RANGE 8]", 40, 49),
        ("SELECT k FROM (SELECT ISTREAM(k) FROM s [RANGE 3]) [RANGE 4]", 31, 39),
        ("SELECT k FROM s [TUMBLE 10]", 40, 59),
        ("SELECT k FROM s [PARTITION BY k ROWS 2]", 40, INF),
        ("SELECT k FROM s [ROWS 2]", 40, INF),
        ("SELECT k FROM s [RANGE 8]", -1, -1),
    ],
)
def test_the_last_instant_at_which_lost_elements_matter(text: str, lost: int, last: int) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT) TIMESTAMP BY ts")
        assert influence(db.register(text).bound.plan, {"s": lost}) == last
