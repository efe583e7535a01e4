"""`SET stem_window`: queries that differ in nothing but their RANGE windows share a join; the answers are the same."""

from __future__ import annotations

from collections import Counter

import millstream as ms
from millstream.database import Database

SCHEMA = "CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts; CREATE STREAM T (a INT, c INT) TIMESTAMP BY ts"
WINDOWS = [(2, 9), (9, 2), (4, 4), (1, 30)]


def answers(stem_window: int, *, strategy: str = "upa") -> tuple[list[Counter[tuple[object, ...]]], list[str]]:
    """The changes of joins with different windows, and the joins that ran."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET join_plan = 'eddy'; SET stem_window = {stem_window}; SET strategy = '{strategy}'; {SCHEMA}")
        texts = [f"SELECT S.b, T.c FROM S [RANGE {n}], T [RANGE {m}] WHERE S.a = T.a" for n, m in WINDOWS]
        queries = [db.register(text) for text in texts[:3]]
        for step in range(20):
            db.insert("S", [(k, step, step) for k in range(3)])
            db.insert("T", [(k + step % 2, -step, step) for k in range(3)])
        queries.append(db.register(texts[3]))  # it comes late to a join that is there
        db.advance(to=60)
        found = [Counter(tuple(row.values()) for row in query.changes().to_pylist()) for query in queries]
        return found, joins(db)


def joins(db: Database) -> list[str]:
    return [step.name for step in db.engine.pipeline.steps if step.name.startswith("stemjoin")]


def test_one_join_serves_all_windows_up_to_the_size_that_is_kept() -> None:
    alone, several = answers(0)
    assert len(several) == 4
    shared, one = answers(30)
    assert len(one) == 1
    assert shared == alone
    assert all(found for found in alone)


def test_longer_windows_stay_on_their_own() -> None:
    shared, steps = answers(9)
    assert len(steps) == 2
    assert shared == answers(0)[0]


def test_windows_whose_ends_are_said_by_negative_rows_are_not_shared() -> None:
    shared, steps = answers(30, strategy="negative")
    assert len(steps) == 4
    assert shared == answers(0)[0]
