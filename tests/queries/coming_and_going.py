"""Queries that come to groups and leave them, what they are fed with, and what they answer."""

from __future__ import annotations

from typing import Any

import millstream as ms

STREAMS = """
    CREATE STREAM s (u INT, v INT) TIMESTAMP BY ts;
    CREATE STREAM t (u INT, w INT) TIMESTAMP BY ts
"""
TEXTS = [
    "SELECT u, count(*) AS n, sum(v) AS v FROM s [RANGE 20] WHERE v > {c} GROUP BY u",
    "SELECT u, v FROM s [RANGE 20] WHERE v > {c}",
    "SELECT ISTREAM(u) FROM s [ROWS 5] WHERE v > {c}",
    "SELECT s.v, t.w FROM s [RANGE 9], t [RANGE 9] WHERE s.u = t.u AND s.v > {c}",
    "SELECT s.u, max(t.w) AS m FROM s [RANGE 9], t [RANGE 9] WHERE s.u = t.u AND t.w > {c} GROUP BY s.u",
    "SELECT u FROM s [RANGE 9] WHERE v > {c} EXCEPT ALL SELECT u FROM t [RANGE 1] WHERE w > {c}",
]


def feed(db: ms.Database, first: int, last: int) -> None:
    for ts in range(first, last, 5):
        db.insert("s", [(n % 3, (n * 7) % 11, n) for n in range(ts, ts + 5)])
        db.insert("t", [(n % 3, (n * 5) % 11, n) for n in range(ts, ts + 5)])
    db.advance(to=last)


def answers(query: ms.Query) -> list[Any]:
    return _answers(query, (0, 7, 20, 33, 40))


def answers_so_far(query: ms.Query) -> list[Any]:
    return _answers(query, (0, 7, 20, 30))


def _answers(query: ms.Query, at: tuple[int, ...]) -> list[Any]:
    instants = at if query.kind == "relation" else (None,)
    found = [sorted(map(str, query.result(at).to_pylist())) for at in instants]
    return [*found, sorted(map(str, query.changes().to_pylist()))]


def feed_missing(db: ms.Database, last: int) -> None:
    """The same, as far as it has not come."""
    for ts in range(0, last, 5):
        for name, factor in (("s", 7), ("t", 5)):
            if db.stats()["streams"][name]["arrived"] <= ts:
                db.insert(name, [(n % 3, (n * factor) % 11, n) for n in range(ts, ts + 5)])
    db.advance(to=last)
