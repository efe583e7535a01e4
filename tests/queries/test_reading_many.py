"""Answers of many queries that are made when they are asked (modes LAZY and NONE): what many say at once is what each
says alone, and they are not asked one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millstream as ms
from millstream.engine.materialization import Lazy, Unmaterialized
from millstream.errors import EvaluationError
from millstream.query import Query

STREAMS = """
    CREATE STREAM s (k INT, v INT, n STRING) TIMESTAMP BY ts;
    CREATE STREAM u (k INT, w INT) TIMESTAMP BY ts
"""
PAIRS = [(k, v) for k in range(4) for v in range(0, 10, 3)] + [(1, 3), (1, 3)]
KEYS = [(0,), (1,), (2,), (3,), (4,), (5,), (2,)]
SHAPES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "selection": ("SELECT k, v FROM s [RANGE 4] WHERE k > ? AND v < ?", PAIRS),
    "key": ("SELECT n FROM s [RANGE 4] WHERE k = ?", KEYS),
    "distinct": ("SELECT DISTINCT n FROM s [RANGE 6] WHERE k > ? AND v < ?", PAIRS),
    "count": ("SELECT COUNT(*) AS c FROM s [RANGE 4] WHERE k > ? AND v < ?", PAIRS),
    "tree": ("SELECT n, COUNT(*) AS c, MAX(v) AS m FROM s [RANGE 6] WHERE k > ? AND v < ? GROUP BY n", PAIRS),
    "having": ("SELECT k, COUNT(*) AS c FROM s [RANGE 6] WHERE v > ? GROUP BY k HAVING COUNT(*) > 1", KEYS),
    "distinct count": ("SELECT COUNT(DISTINCT n) AS c FROM s [RANGE 6] WHERE k > ? AND v < ?", PAIRS),
    "keys in groups": ("SELECT n, COUNT(DISTINCT v) AS c FROM s [RANGE 6] WHERE k = ? GROUP BY n", KEYS),
    "istream": ("SELECT ISTREAM(k, v) FROM s [RANGE 4] WHERE k > ? AND v < ?", PAIRS),
    "dstream": ("SELECT DSTREAM(k, v) FROM s [RANGE 4] WHERE k > ? AND v < ?", PAIRS),
    "rstream": ("SELECT RSTREAM(k, v) FROM s [RANGE 2] WHERE k > ? AND v < ?", PAIRS),
    "join": ("SELECT s.v, u.w FROM s [RANGE 4], u [RANGE 6] WHERE s.k = u.k AND s.v > ? AND u.w < ?", PAIRS),
    "self join": ("SELECT a.v, b.v FROM s [RANGE 4] a, s [RANGE 4] b WHERE a.k = b.k AND a.v < ? AND b.v > ?", PAIRS),
    "rows": ("SELECT k, v FROM s [ROWS 5] WHERE k > ? AND v < ?", PAIRS),
    "label": ("SELECT k, ? AS label FROM s [RANGE 4] WHERE v > ?", [("a", 1), ("b", 3), ("b", 1)]),
    "left join": ("SELECT s.v, u.w FROM s [RANGE 4] LEFT JOIN u [RANGE 4] ON s.k = u.k WHERE s.v > ?", [(1,), (5,)]),
    "union": ("SELECT k FROM s [RANGE 4] WHERE v > ? UNION SELECT k FROM u [RANGE 4] WHERE w > ?", PAIRS),
    "nothing": ("SELECT SUM(v) AS c FROM s [RANGE 1] WHERE k > ?", [(100,), (200,)]),
}  # fmt: skip


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as db:
        db.execute(STREAMS)
        yield db


def fill(db: ms.Database, begin: int = 0, seed: int = 1) -> None:
    dice = random.Random(seed)
    for first in (begin, begin + 10):
        elements = [(dice.randrange(5), dice.randrange(10), dice.choice("abc"), first + i // 4) for i in range(36)]
        db.insert("s", elements)
        db.insert("u", [(dice.randrange(5), dice.randrange(10), first + i // 2) for i in range(18)])
    db.advance(to=begin + 20)


def told(table: pa.Table, parameters: int = 0) -> Counter[tuple[Any, ...]]:
    """Rows with the name of their query; without parameters."""
    hidden = [f"_p{n}" for n in range(1, parameters + 1)]
    return Counter(tuple(row.values()) for row in table.drop_columns(hidden).to_pylist())


def alone(queries: list[Query], at: int | None = None) -> Counter[tuple[Any, ...]]:
    return Counter((q.name, *row.values()) for q in queries for row in q.result(at).to_pylist())


@pytest.mark.parametrize("mode", ["lazy", "none"])
@pytest.mark.parametrize("shape", SHAPES)
def test_together_as_alone(shape: str, mode: str, db: ms.Database) -> None:
    text, rows = SHAPES[shape]
    if shape not in ("selection", "count", "tree"):
        db.execute("SET shards = 2")
    early = db.register_many(text, rows, mode=mode, template="t")
    fill(db)
    late = db.register_many(text, rows[:2], mode=mode, template="t")
    fill(db, 20, 2)
    queries = [*late]
    assert len(queries) == len(rows) + 2
    assert early is late
    for at in (None, 33, 20, 3):
        each = alone(queries, at)
        assert told(late.result(at), len(rows[0])) == each, at
        assert told(db.results(queries, at)) == each, at
    changes = Counter((q.name, *row.values()) for q in queries for row in q.changes(25).to_pylist())
    assert told(late.changes(25), len(rows[0])) == changes
    assert any(alone(queries, 33))


@pytest.mark.parametrize("mode", ["lazy", "none"])
@pytest.mark.parametrize("shape", ["selection", "key", "tree", "distinct", "istream", "join", "count"])
def test_many_are_not_asked_one_by_one(shape: str, mode: str, db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    text, rows = SHAPES[shape]
    queries = db.register_many(text, rows, mode=mode, template="t")
    fill(db)
    right = alone([*queries])

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("asked alone")

    for kind in (Lazy, Unmaterialized):
        monkeypatch.setattr(kind, "answer", refused)
    assert told(queries.result(), len(rows[0])) == right
    assert told(db.results([*queries])) == right


@pytest.mark.parametrize("mode", ["lazy", "none"])
def test_single_queries_and_templates_in_one_table(mode: str, db: ms.Database) -> None:
    single = [db.register(f"SELECT v FROM s [RANGE {4 + n % 2}] WHERE k = {n % 3}", mode=mode) for n in range(12)]
    many = db.register_many("SELECT v FROM s [RANGE 4] WHERE k > ?", [(1,), (2,)], mode=mode)
    kept = db.register_many("SELECT v FROM s [RANGE 4] WHERE k > ?", [(1,), (3,)])
    fill(db)
    queries = [*single, *many, *kept]
    for at in (None, 7):
        assert told(db.results(queries, at)) == alone(queries, at)


def test_one_that_fails_takes_no_others_with_it(db: ms.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong for many is looked for one by one."""
    queries = db.register_many("SELECT v FROM s [RANGE 4] WHERE k > ?", [(1,), (2,), (3,)], mode="none", template="t")
    fill(db)
    right = alone([*queries][1:])
    answer = Unmaterialized.answer

    def refused(*_: object, **__: object) -> None:
        raise EvaluationError("too much")

    def first_fails(self: Unmaterialized, *arguments: Any, **named: Any) -> Any:
        return refused() if self.values == (1,) else answer(self, *arguments, **named)

    monkeypatch.setattr("millstream.engine.answers_of_many.UnmaterializedOfMany.rows", refused)
    monkeypatch.setattr(Unmaterialized, "answer", first_fails)
    found = queries.result()
    assert told(found, 1) == right
    assert b"too much" in b"".join((found.schema.metadata or {}).values())
    with pytest.raises(EvaluationError, match="too much"):
        db.results([*queries])


@pytest.mark.parametrize("mode", ["lazy", "none"])
def test_after_a_restart(mode: str, tmp_path: Path) -> None:
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        db.execute(STREAMS)
        text, rows = SHAPES["tree"]
        right = db.register_many(text, rows, mode=mode, template="t")
        fill(db)
        right[0].drop()
        before = told(right.result(), 2)
    with ms.connect(tmp_path / "db", engine="inprocess") as db:
        assert told(db.template("t").result(), 2) == before
        assert alone([*db.template("t")]) == before


@pytest.mark.parametrize("first", [0, 3])
def test_a_count_of_nothing_that_queries_share(first: int, db: ms.Database) -> None:
    """Once instants are final, also where no element has come."""
    db.advance(to=first)
    text = "SELECT SUM(v) AS c, COALESCE(SUM(v), ?) AS d FROM s [RANGE 4] WHERE v IS NOT NULL"
    some = db.register_many(text, [(5,), (-1,)])
    db.insert("s", [(1, 2, "a", first + 1)])
    db.advance(to=first + 1)
    (nothing, something), _ = (q.changes().to_pylist()[:2] for q in some)
    assert (nothing["_ts"], nothing["c"], nothing["d"]) == (0, None, 5)
    assert some[0].result().to_pylist() == [{"c": 2, "d": 2}]
    assert something["_ts"] == first + 1


def test_what_is_shared_is_explained(db: ms.Database) -> None:
    having = "SELECT n, COUNT(*) AS c FROM s [RANGE 6] GROUP BY n HAVING COUNT(*) > ?"
    lazy = db.register_many(having, [(1,), (2,), (3,)], mode="lazy")
    assert "sharing: what is kept for it is kept for 2 others too" in lazy[0].explain()
    none = db.register_many(having, [(1,), (2,)], mode="none")
    assert "sharing: when asked with the 1 others of its template: one run through history" in none[1].explain()
    assert "sharing" not in db.register("SELECT k FROM u [RANGE 3]").explain()
