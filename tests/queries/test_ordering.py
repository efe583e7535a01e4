"""ORDER BY, LIMIT and OVER as queries have them: sorted answers, templates, groups, modes, restarts, failures."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import millstream as ms

DECLARED = "CREATE STREAM S (k INT, v DOUBLE) TIMESTAMP BY ts"
MODES = ("eager", "lazy", "none")


def rows(table: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def random_elements(count: int) -> list[tuple[int, float | None, int]]:
    dice = random.Random(3)
    instants = sorted(dice.randrange(40) for _ in range(count))
    return [(dice.randrange(3), dice.choice([None, 1.0, 2.0, 3.5]), instant) for instant in instants]


@pytest.mark.parametrize("mode", MODES)
def test_order_by_alone_sorts_what_is_read_and_leaves_changes_alone(mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(DECLARED)
        query = db.register("SELECT k, v FROM S [RANGE 9] ORDER BY v DESC NULLS FIRST, k DESC", name="q", mode=mode)
        best = db.register("SELECT k, v FROM S [RANGE 9] ORDER BY v, k LIMIT 2", name="best", mode=mode)
        db.insert("S", [(1, 2.0, 1), (2, 3.0, 2), (3, None, 3), (4, 3.0, 4)])
        db.advance("S", to=5)
        assert rows(query.result()) == [(3, None), (4, 3.0), (2, 3.0), (1, 2.0)]
        assert [row[0] for row in rows(query.changes())] == [1, 2, 3, 4]
        assert rows(best.result()) == [(3, None), (1, 2.0)]


def test_ad_hoc_queries_take_any_order_and_limit() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE TABLE T (a INT, b INT); INSERT INTO T VALUES (1, 3), (2, 2), (3, 1), (4, NULL)")
        asked = {
            "SELECT a FROM T ORDER BY b DESC": [(1,), (2,), (3,), (4,)],
            "SELECT a FROM T LIMIT 2": [(1,), (2,)],
            "SELECT a AS b FROM T ORDER BY b DESC OFFSET 3": [(1,)],
            "SELECT a, b FROM T ORDER BY a % 2, b NULLS LAST LIMIT 3": [(2, 2), (4, None), (3, 1)],
            "(SELECT a FROM T ORDER BY a LIMIT 3) UNION ALL (SELECT b FROM T ORDER BY b LIMIT 1) ORDER BY 1 DESC": [
                (3,),
                (2,),
                (1,),
                (None,),
            ],
        }
        for text, expected in asked.items():
            found = db.execute(text).table
            assert rows(found) == expected, text


def test_the_number_of_rows_may_be_a_parameter() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(DECLARED)
        text = "SELECT v FROM S [RANGE 9] ORDER BY v DESC LIMIT ? OFFSET ?"
        queries = db.register_many(text, [(1, 0), (2, 1), (1, 0)], names=["one", "two", "again"], template="firsts")
        db.insert("S", [(1, 2.0, 1), (2, 3.0, 2), (3, 1.0, 3)])
        db.advance("S", to=5)
        assert [rows(query.result()) for query in queries] == [[(3.0,)], [(2.0,), (1.0,)], [(3.0,)]]
        with pytest.raises(ms.Error, match="LIMIT takes a number of rows"):
            db.register_many(text, [(-1, 0)])


TEXTS = [
    "SELECT k, v FROM S [RANGE 5] WHERE v > ? ORDER BY v DESC LIMIT 2",
    "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS n, sum(v) OVER (ORDER BY v) AS s "
    "FROM S [RANGE 7] WHERE k >= ?",
    "SELECT k, count(*) AS n FROM S [RANGE 7] WHERE v >= ? GROUP BY k ORDER BY n DESC, k FETCH FIRST 1 ROWS WITH TIES",
    "SELECT ISTREAM(k, v) FROM S [ROWS 6] WHERE v > ? QUALIFY rank() OVER (PARTITION BY k ORDER BY v) <= 1",
    "SELECT k + ? AS z, v FROM S [RANGE 5] ORDER BY z LIMIT 2",
]


def changes(mode: str, *, together: bool, path: Path | None = None) -> list[list[tuple[Any, ...]]]:
    """Of the texts with three constants each, those of one group or each for itself; perhaps with a restart."""
    elements = random_elements(60)
    with ms.connect(*([] if path is None else [path]), engine="inprocess") as db:
        db.execute(DECLARED)
        for number, text in enumerate(TEXTS):
            names = [f"q{number}{constant}" for constant in range(3)]
            if together:
                db.register_many(text, [(constant,) for constant in range(3)], names=names, mode=mode)
            else:
                for constant, name in enumerate(names):
                    db.register(text.replace("?", str(constant)), name=name, mode=mode)
        for start in range(0, 30, 13):
            db.insert("S", elements[start : min(start + 13, 30)])
        if path is None:
            return _finished(db, elements[30:])
    with ms.connect(path, engine="inprocess") as db:
        return _finished(db, elements[30:])


def _finished(db: Any, elements: list[tuple[int, float | None, int]]) -> list[list[tuple[Any, ...]]]:
    db.insert("S", elements)
    db.advance("S", to=60)
    return [sorted(rows(db.query(f"q{n}{c}").changes()), key=repr) for n in range(len(TEXTS)) for c in range(3)]


def test_answers_do_not_depend_on_modes_groups_and_restarts(tmp_path: Path) -> None:
    expected = changes("eager", together=False)
    assert all(expected)
    for mode in MODES:
        assert changes(mode, together=True) == expected, mode
    assert changes("eager", together=True, path=tmp_path / "db") == expected


BIG = 2**63 - 1
FAILING = {
    "SELECT k, sum(v) OVER (ORDER BY k) AS s FROM B [RANGE 3]": "does not fit into BIGINT",
    "SELECT k FROM B [RANGE 3] ORDER BY 10 / (k - 2) LIMIT 1": "division by zero",
    "SELECT k FROM (SELECT k, sum(v) OVER (ORDER BY k) AS s FROM B [RANGE 3]) AS x": None,
    "SELECT k, sum(v) OVER (ORDER BY k) AS s FROM B [RANGE 3] QUALIFY row_number() OVER (ORDER BY k) <= 1": None,
    "SELECT k, coalesce(1, sum(v) OVER ()) AS s FROM B [RANGE 3]": None,
}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_read_of_rows_that_are_there_fails(mode: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM B (k INT, v BIGINT) TIMESTAMP BY ts")
        queries = [db.register(text, name=f"q{n}", mode=mode) for n, text in enumerate(FAILING)]
        db.insert("B", [(1, BIG, 1), (2, 1, 2), (3, 5, 9)])
        db.advance("B", to=20)
        for query, message in zip(queries, FAILING.values(), strict=True):
            if message is None:
                assert query.changes().num_rows
                continue
            with pytest.raises(ms.EvaluationError, match=message):
                query.changes()


@pytest.mark.parametrize("strategy", ["upa", "negative"])
@pytest.mark.parametrize("mode", MODES)
def test_peers_go_by_what_the_block_reads_whoever_reads_the_block(strategy: str, mode: str) -> None:
    """Not by what only WHERE or others read; and by all that select list, QUALIFY and ORDER BY read, shown or not."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"SET strategy = '{strategy}'; CREATE STREAM s (a INT, b INT, k INT) TIMESTAMP BY ts")
        db.execute("CREATE VIEW v AS SELECT k, lag(b) OVER (ORDER BY k) AS p FROM s [RANGE 2] WHERE a > 0")
        db.execute(
            "CREATE VIEW w AS SELECT k, lag(b) OVER w AS p, lag(a) OVER w FROM s [RANGE 2] WINDOW w AS (ORDER BY k)"
        )
        db.register("SELECT a, max(b) FROM s [RANGE 2] GROUP BY a", mode=mode)
        by_b, by_a = (db.register(f"SELECT p FROM {view}", mode=mode) for view in "vw")
        db.insert("s", [(1, 30, 0, 1), (2, 10, 0, 1), (3, 20, 0, 1)])
        db.advance(to=2)
        assert sorted(by_b.result()["p"].to_pylist(), key=str) == [10, 20, None]
        assert sorted(by_a.result()["p"].to_pylist(), key=str) == [10, 30, None]
