"""Windows in the words of Flink and Spark: what they become, and what is refused."""

from __future__ import annotations

import pytest

import millstream as ms
from millstream.database import Database

CREATE = (
    "CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) TIMESTAMP BY ts;"
    "CREATE STREAM u (k STRING) TIMESTAMP BY ts TIMESTAMP"
)


@pytest.fixture(scope="module")
def db() -> Database:
    opened = ms.connect(engine="inprocess")
    opened.execute(CREATE)
    return opened


@pytest.mark.parametrize(
    ("form", "plain"),
    [
        (
            "SELECT k, window.start, window.end FROM s GROUP BY window(ts, '10 minutes'), k",
            "SELECT k, window_start, window_end FROM s [TUMBLE 10 MINUTES] GROUP BY window_start, window_end, k",
        ),
        (
            "SELECT window.end AS e FROM s AS x JOIN u [NOW] ON x.k = u.k "
            "GROUP BY window(x.ts, '1 hour 30 minutes', INTERVAL '30' MINUTE) HAVING count(*) > 1",
            "SELECT window_end AS e FROM s [HOP 90 MINUTES SLIDE 30 MINUTES] AS x JOIN u [NOW] ON x.k = u.k "
            "GROUP BY window_start, window_end HAVING count(*) > 1",
        ),
        (
            "SELECT x.k, window_end FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR)) x",
            "SELECT x.k, window_end FROM s [HOP 1 HOUR SLIDE 5 MINUTES] x",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '5' MINUTES))",
            "SELECT k, window_start, window_end FROM u [TUMBLE 5 MINUTES]",
        ),
    ],
)
def test_the_same_plan(db: Database, form: str, plain: str) -> None:
    def shape(text: str) -> list[str]:
        return [line for line in db.explain(text).splitlines() if "─ " in line]

    assert shape(form) == shape(plain)
    # What is printed with the defaults is read again.
    query = db.register(form)
    assert shape(query.cql) == shape(plain)
    query.drop()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT window FROM s GROUP BY window(ts, '1 minute')", "no value of its own"),
        ("SELECT window.middle FROM s GROUP BY window(ts, '1 minute')", "no value of its own"),
        ("SELECT k FROM s GROUP BY k, window(v, '1 minute')", "is not the timestamp"),
        ("SELECT k FROM s GROUP BY k, window(ts)", "takes a timestamp"),
        ("SELECT k FROM s GROUP BY k, window(ts, 'soon')", "cannot read the size"),
        ("SELECT 1 AS one FROM s, u GROUP BY window(ts, '1 minute')", "not clear which stream"),
        ("SELECT 1 AS one FROM s GROUP BY window(ts, '1 minute'), window(ts, '2 minutes')", "two windows"),
        ("SELECT k FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))", "expected TUMBLE"),
        ("SELECT k FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(v), INTERVAL '1' HOUR))", "is not the timestamp"),
        ("SELECT k FROM TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))", "its slide and its size"),
        ("SELECT k FROM TABLE(TUMBLE(s, DESCRIPTOR(ts), INTERVAL '1' HOUR))", "expected TABLE"),
    ],
)
def test_what_is_refused(db: Database, text: str, reason: str) -> None:
    with pytest.raises(ms.Error, match=reason):
        db.register(text)
