"""Columns that nobody reads are kept by no operator of a query's own plan: a long text that is projected away costs
nothing but its history."""

from __future__ import annotations

import polars as pl
import pytest

import millstream as ms
from millstream.state.snapshot import state_names

STREAMS = "CREATE STREAM s (a INT, b INT, note STRING) TIMESTAMP BY ts; CREATE STREAM t (a INT, c INT) TIMESTAMP BY ts"
QUERIES = {
    "join": "SELECT s.b, t.c FROM s [RANGE 10], t [RANGE 10] WHERE s.a = t.a",
    "join of rows": "SELECT s.b, t.c FROM s [ROWS 500], t [RANGE 10] WHERE s.a = t.a",
    "three inputs": "SELECT s.b FROM s [RANGE 10], t [NOW], t [RANGE 1] u WHERE s.a = t.a AND t.a = u.a",
    "left": "SELECT s.b, t.c FROM s [RANGE 10] LEFT JOIN t [RANGE 10] ON s.a = t.a",
    "left of rows": "SELECT s.b, t.c FROM s [ROWS 500] LEFT JOIN t [RANGE 10] ON s.a = t.a",
    "full": "SELECT s.b, t.c FROM s [RANGE 10] FULL JOIN t [RANGE 10] ON s.a = t.a AND s.b < t.c",
    "semi": "SELECT s.b FROM s [RANGE 10] WHERE s.a IN (SELECT a FROM t [RANGE 10])",
    "anti of rows": "SELECT s.b FROM s [ROWS 500] WHERE NOT EXISTS (SELECT 1 FROM t [RANGE 10] WHERE t.a = s.a)",
    "scalar": "SELECT s.b FROM s [RANGE 10] WHERE s.b > (SELECT AVG(c) FROM t [RANGE 10])",
    "distinct": "SELECT DISTINCT a, b FROM s [RANGE 10]",
    "distinct of rows": "SELECT DISTINCT a, b FROM s [ROWS 500]",
    "aggregates": "SELECT a, SUM(b) AS x, MAX(b) AS y FROM s [RANGE 10] GROUP BY a",
    "aggregates of rows": "SELECT a, SUM(b) AS x, MAX(b) AS y FROM s [ROWS 500] GROUP BY a",
    "rows": "SELECT a, b FROM s [ROWS 500]",
    "rows that slide": "SELECT a, b FROM s [ROWS 500 SLIDE 5]",
    "rows that slide, joined": "SELECT s.b, t.c FROM s [ROWS 500 SLIDE 5], t [RANGE 10] WHERE s.a = t.a",
    "partitions": "SELECT a, b FROM s [PARTITION BY b ROWS 5]",
    "partitions that slide": "SELECT a, b FROM s [PARTITION BY b ROWS 5 SLIDE 2]",
    "except": "SELECT a FROM s [ROWS 500] EXCEPT SELECT a FROM t [RANGE 10]",
    "union": "SELECT a FROM s [ROWS 500] UNION SELECT a FROM t [RANGE 10]",
    "istream": "SELECT ISTREAM(a) FROM s [ROWS 500]",
    "dstream": "SELECT DSTREAM(a) FROM s [RANGE 10]",
}


def feed(db: ms.Database, epochs: range) -> None:
    for epoch in epochs:
        numbers = pl.int_range(epoch * 50, epoch * 50 + 50, eager=True)
        notes = [f"{number:01000d}" for number in numbers]
        own = {"a": numbers * 7919 % 97, "b": numbers % 101, "note": notes, "ts": [epoch] * 50}
        db.insert("s", pl.DataFrame(own))
        db.insert("t", pl.DataFrame({"a": numbers * 31 % 97, "c": numbers % 101, "ts": [epoch] * 50}))


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_a_text_that_is_projected_away_is_not_kept(text: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        db.register(text, name="q")
        feed(db, range(15))
        kept = [db.engine.store.read(name) for name in {*state_names(db.engine.snapshot.states)}]
        texts = [column for segment in kept for column in segment.get_columns() if column.dtype == pl.String]
        # Elements of the last instant wait to be counted as they came.
        assert sum(column.str.len_bytes().sum() for column in texts) <= 50 * 1000
