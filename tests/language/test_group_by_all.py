"""GROUP BY ALL before the window that a query ends with."""

from __future__ import annotations

import millstream as ms


def test_all_may_be_followed_by_the_window_of_the_query() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY t")
        query = db.register("SELECT a, count(*) AS n FROM S GROUP BY ALL BEGIN NOW - 1 END NOW")
        db.insert("S", [(1, 1), (1, 2), (2, 3)])
        db.advance(to=4)
        assert query.result(2).to_pylist() == [{"a": 1, "n": 2}]
        assert query.result(4).to_pylist() == [{"a": 2, "n": 1}]
