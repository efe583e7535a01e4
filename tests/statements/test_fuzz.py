"""Whatever is sent as a statement: an answer or an error of ours, and a refused statement changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import millstream as ms
from millstream.wire.keywords import KEYWORDS

SETUP = """
CREATE STREAM s (k INT, v STRING, d DECIMAL(5,2), t TIMESTAMP) TIMESTAMP BY ts;
CREATE TABLE names (id INT, name STRING) KEY (id);
CREATE VIEW w AS SELECT k, COUNT(*) AS n FROM s [RANGE 5] GROUP BY k;
REGISTER QUERY q AS SELECT v FROM s WHERE k > 1;
INSERT INTO s VALUES (1, 'a', 1.5, NULL, 1), (2, NULL, NULL, TIMESTAMP '2026-01-01 00:00:00', 2);
INSERT INTO names VALUES (1, 'one');
ADVANCE TO 3
"""
WHOLE = [
    *("SELECT k, SUM(d) AS total FROM s [RANGE 5 SLIDE 2] GROUP BY k HAVING COUNT(*) > 0", "SHOW QUERIES"),
    *("SELECT ISTREAM(v) FROM s [PARTITION BY k ROWS 2], names WHERE id = k", "EXPLAIN ANALYZE SELECT k FROM s"),
    *("INSERT INTO s VALUES (1, 'x', 1.1, NULL, 9)", "DELETE FROM names WHERE id = 1 AT 9", "DROP VIEW w"),
    *("UPDATE names SET name = upper(name)", "SET max_rstream_rows = 5", "ADVANCE s TO 8", "DROP QUERY q"),
    *("CREATE TABLE t (a BIGINT) APPEND ONLY", "REGISTER QUERY r MODE LAZY AS SELECT k FROM s [NOW]"),
    *("SELECT * FROM s SAMPLE (10 PERCENT) [TUMBLE 3]", "SELECT k FROM s BEGIN NOW - 3 END NOW"),
    *("CREATE STREAM z (a INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND HEARTBEAT DELAY 3 RETAIN 5", "DROP STREAM s"),
]
WORDS = [
    *KEYWORDS,
    *("s", "names", "w", "q", "k", "v", "d", "t", "id", "name", "n", "ts", "x", "_ts", "s._late"),
    *("(", ")", "[", "]", ",", ";", ".", "*", "=", "<", ">", "<>", "+", "-", "/", "%", "||", "?", ":", "::", "@"),
    *("0", "1", "-1", "2147483648", "9223372036854775808", "1.5", "1e400", "'a'", "''", "NULL", "TRUE", "'", '"', "`"),
    *("--", "/*", "*/", "\x00", "\ufeff", "é", "INTERVAL '1' DAY"),
    *("TIMESTAMP '2026-01-01'", "DATE '2026-13-01'", "x'ff'"),
    *("abs", "substr", "round", "coalesce", "date_trunc", "avg", "stddev", "first", "rand", "OVER", "LIMIT", "ORDER"),
]


@some.composite
def changed(draw: Any) -> str:
    """A statement that means something, with some of its words taken out, put in or exchanged."""
    words = draw(some.sampled_from(WHOLE)).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    for _ in range(draw(some.integers(0, 4))):
        place = draw(some.integers(0, len(words)))
        words[place : place + draw(some.integers(0, 2))] = draw(some.lists(some.sampled_from(WORDS), max_size=2))
    return " ".join(words)


STATEMENTS = (
    changed()
    | some.lists(some.sampled_from(WORDS), max_size=12).map(" ".join)
    | some.text(max_size=40)
    | some.lists(changed(), min_size=2, max_size=3).map("; ".join)
)


@pytest.fixture(scope="module")
def databases() -> Iterator[list[ms.Database]]:
    """The one at the end is in use; it is left when a statement was accepted that changes it."""
    opened: list[ms.Database] = []
    yield opened
    for db in opened:
        db.close()


def _new() -> ms.Database:
    db = ms.connect(engine="inprocess")
    db.execute(SETUP)
    return db


def _state(db: ms.Database) -> tuple[Any, ...]:
    """All that a statement could change: what is committed, and what is known in the process."""
    known = [*db.catalog], [query.name for query in db.queries()], [*db.sinks.by_name], db.session.code
    return db.engine.snapshot, db.session.declared.entries, db.settings, db.engine.pipeline.steps, known


def _check(databases: list[ms.Database], text: str) -> None:
    if not databases:
        databases.append(_new())
    db = databases[-1]
    before = _state(db)
    try:
        db.execute(text)
    except ms.Error:
        # Of several statements those before the wrong one are done.
        if ";" not in text:
            assert _state(db) == before, text
            assert db.query("q").result().num_rows == 1
            return
    if _state(db) != before:
        databases.pop().close()


@given(text=STATEMENTS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_statements(databases: list[ms.Database], text: str) -> None:
    _check(databases, text)


@pytest.mark.slow
@given(text=STATEMENTS)
@settings(
    max_examples=100_000,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_very_many_statements(databases: list[ms.Database], text: str) -> None:
    _check(databases, text)
