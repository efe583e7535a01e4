"""A query of a group that fails takes nothing from the others, though history was cut since they came."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.answers import table_of

import millstream as ms

# Each with rows of parameters, of which the first makes its query fail once an element has d = 0.
SHAPES: dict[str, tuple[str, list[Any]]] = {
    "projected": ("SELECT k, 10/d AS n FROM s [RANGE 25] WHERE k >= ?", [0, 1, 2, 3]),
    "keyed": ("SELECT k, 10/d AS n FROM s [RANGE 25] WHERE k = ?", [0, 1, 2, 3]),
    "condition": ("SELECT k FROM s [RANGE 25] WHERE k >= 0 AND 10/(d + ?) < 100", [0, 1, 2, 3]),
    "aggregated": ("SELECT k, sum(10/d) AS n, max(v) AS m FROM s [RANGE 25] WHERE k >= ? GROUP BY k", [0, 1, 2, 3]),
    "having": (
        "SELECT k, count(*) AS n FROM s [RANGE 25] WHERE k >= ? GROUP BY k HAVING 10/min(d) > 0",
        [0, 1, 2, 3],
    ),
    "overall": ("SELECT sum(v) AS n, count(DISTINCT v) AS c FROM s [RANGE 25] WHERE k >= ? AND 10/d > 0", [0, 1, 2]),
    "distinct": ("SELECT DISTINCT v / d AS n FROM s [RANGE 25] WHERE k >= ?", [0, 1, 2, 3]),
    "derived": (
        "SELECT sum(v) AS n FROM (SELECT ISTREAM(v, 10/d AS w) FROM s [RANGE 3] WHERE k >= ?) [ROWS 15]",
        [0, 1, 2],
    ),
    "elements": ("SELECT ISTREAM(v, 10/d AS n) FROM s [RANGE 3] WHERE k >= ?", [0, 1, 2, 3]),
    "late start": ("SELECT k, 10/d AS n FROM s [TUMBLE 9] WHERE k >= ?", [0, 1, 2, 3]),
    "overflowing": ("SELECT sum(v * 1000000000000) AS n FROM s [RANGE 25] WHERE k >= ?", [0, 1, 2, 3]),
}


def elements() -> list[tuple[int, int, int, int]]:
    return [(0, 0, 9_000_000, tick) if tick in (40, 44) else (tick % 4, 1, tick % 7, tick) for tick in range(62)]


def answer(query: ms.Query) -> Any:
    """Of the last instant and of changes, or what stopped the query."""
    try:
        found = [query.result(at=at).to_pylist() for at in (55, 60)]
        changes = query.changes().to_pylist()
    except ms.EvaluationError as error:
        return error.primary.partition(" in ")[0]  # whose parameters are shown as such
    return [Counter(tuple(row.items()) for row in table) for table in (*found, changes)], query.instants.first


def answers(path: Path | None, shape: str, sharing: str, mode: str, *, size: int, shards: int = 1) -> dict[str, Any]:
    text, parameters = SHAPES[shape]
    names = [f"q{number}" for number in range(len(parameters))]
    with ms.connect(path, engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; SET sharing = '{sharing}'")
        db.execute("CREATE STREAM s (k INT, d INT, v INT) TIMESTAMP BY ts RETAIN 8")
        if sharing == "off":
            for name, value in zip(names, parameters, strict=True):
                db.register(text.replace("?", str(value)), name=name, mode=mode)
        else:
            db.register_many(text, parameters, names, mode)
        rows = elements()
        for start in range(0, len(rows), size):
            db.insert("s", rows[start : start + size])
        return {name: answer(db.query(name)) for name in names}


@pytest.mark.parametrize(
    ("shape", "mode"), [*((shape, "eager") for shape in SHAPES), ("projected", "lazy"), ("condition", "lazy")]
)
def test_the_others_keep_their_answers(shape: str, mode: str) -> None:
    alone = answers(None, shape, "off", mode, size=7)
    assert isinstance(alone["q0"], str)
    assert not isinstance(alone["q2"], str)
    assert answers(None, shape, "on", mode, size=7) == alone


@pytest.mark.parametrize(("shape", "size"), [("aggregated", 3), ("derived", 62), ("having", 20)])
def test_whatever_the_batches_and_shards(tmp_path: Path, shape: str, size: int) -> None:
    alone = answers(None, shape, "off", "eager", size=7)
    assert answers(tmp_path, shape, "on", "eager", size=size, shards=3) == alone
    with ms.connect(tmp_path, engine="inprocess") as db:
        assert {query.name: answer(query) for query in db.queries()} == alone


def test_those_that_waited_for_it_go_on() -> None:
    """Late ones come to the group as if nothing had happened."""
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, d INT, v INT) TIMESTAMP BY ts RETAIN 8")
        text = "SELECT k, 10/d AS n FROM s [RANGE 6] WHERE k >= ?"
        first = db.register_many(text, [0, 1, 2])
        db.insert("s", elements()[:46])
        late = db.register_many(text, [1, 2])
        db.insert("s", elements()[46:])
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            first[0].result()
        assert [query.result(at=57) for query in first[1:]] == [query.result(at=57) for query in late]
        assert first[0].stats()["state"] == "failed"


# Conditions that can fail: by a grouped filter, by keys, over what is expanded, and joined.
HELD = [
    "SELECT k FROM s [RANGE 6] WHERE k >= ? AND 10/d > 0",
    "SELECT v FROM s [RANGE 6] WHERE k = ? AND 10/d > 0",
    "SELECT sum(v) AS n FROM s [RANGE 6] WHERE k >= ? AND 10/d > 0",
    "SELECT a.k FROM s [RANGE 6] a, s [RANGE 9] b WHERE a.v = b.v AND a.k >= ? AND 10/a.d > 0",
]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("text", HELD)
def test_what_is_not_final_fails_nothing_yet(tmp_path: Path, text: str, shards: int) -> None:
    """Neither those that were there nor those that come before it is, nor after a restart; nor one that is gone."""
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute(f"SET shards = {shards}; CREATE STREAM s (k INT, d INT, v INT) TIMESTAMP BY ts")
        db.register_many(text, [0, 1, 2], ["q0", "q1", "q2"])
        db.insert("s", [(1, 1, 1, 1), (0, 0, 2, 9), (2, 1, 3, 9)])
        db.register_many(text, [0, 2], ["q3", "q4"])
        db.insert("s", [(2, 1, 4, 9)])
        for query in db.queries():
            query.result()
    with ms.connect(tmp_path, engine="inprocess") as db:
        for query in db.queries():
            query.result()
        db.drop_query("q3")
        db.advance(to=9)
        with pytest.raises(ms.EvaluationError, match="division by zero"):
            db.query("q0").result()
        assert [db.query(name).result().num_rows for name in ("q1", "q2", "q4")] == [
            table_of(db, text.replace("?", str(k))).num_rows for k in (1, 2, 2)
        ]


@pytest.mark.parametrize("text", [*HELD, SHAPES["projected"][0]])
def test_the_error_of_one_that_is_gone_is_nobodys(text: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, d INT, v INT) TIMESTAMP BY ts")
        db.register_many(text, [0, 1, 2], ["q0", "q1", "q2"])
        db.insert("s", [(1, 1, 1, 1), (0, 0, 2, 9), (2, 1, 3, 9)])
        db.drop_query("q0")
        db.advance(to=9)
        for name in ("q1", "q2"):
            db.query(name).result()
