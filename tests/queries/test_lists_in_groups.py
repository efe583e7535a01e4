"""Queries of a template over lists and ranges of values answer as single ones do, in every mode."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import millstream as ms

TEXTS = (
    "SELECT k, x FROM S [RANGE 4], UNNEST(S.xs) AS u(x) WHERE k > ? AND x <> ?",
    "SELECT k, y FROM S [RANGE 4], UNNEST(S.xs, array(7, 8, k)) AS u(x, y) WHERE k > ? AND y <> ?",
    "SELECT k, c FROM S [RANGE 2 ON c] WHERE k > ? AND c <> ?",
    "SELECT k, collect_list(x) AS l FROM S [RANGE 4], UNNEST(S.xs) AS u(x) WHERE k > ? AND x <> ? GROUP BY k",
    "SELECT xs, array_agg(k) AS ks FROM S [RANGE 4] WHERE k > ? AND c <> ? GROUP BY xs",
    "SELECT k, c FROM S [RANGE 4] WHERE k > ? AND array_contains(xs, ?)",
)
ROWS = ((0, 1), (1, 2), (2, 3))
INSTANTS = (5, 11, 20)


def _elements() -> list[tuple[object, ...]]:
    chance, found, t, c = random.Random(3), list[tuple[object, ...]](), 0, 0
    for _ in range(40):
        t, c = t + chance.choice([0, 1, 1]), max(0, c + chance.choice([0, 1, 1, 2, -1]))
        found.append((chance.randrange(4), c, chance.choice([None, [], [1], [1, 2], [2, 2, 3], [None, 3]]), t))
    return found


def _answers(mode: str, *, together: bool) -> list[list[str]]:
    elements = _elements()
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (k INT, c INT, xs ARRAY<INT>) TIMESTAMP BY t")
        queries: list[ms.Query] = []
        for text in TEXTS:
            if together:
                queries += db.register_many(text, list(ROWS), mode=mode)
            else:
                for one, other in ROWS:
                    written = text.replace("?", str(one), 1).replace("?", str(other), 1)
                    queries.append(db.register(written, mode=mode))
        for start in range(0, len(elements), 15):
            db.insert("S", elements[start : start + 15])
        db.advance(to=60)
        return [sorted(map(repr, query.result(at).to_pylist())) for query in queries for at in INSTANTS]


WITH_LISTS: tuple[tuple[str, list[tuple[object, ...]]], ...] = (
    ("SELECT k, c FROM S [RANGE 4] WHERE array_contains(?, k) AND c < ?", [([0, 1], 9), ([], 9), (None, 9), ([2], 20)]),
    ("SELECT k, c FROM S [RANGE 4] WHERE xs = ?", [([1, 2],), ([],), ([None, 3],)]),
    ("SELECT k, x FROM S [RANGE 4], UNNEST(?) AS u(x) WHERE k = x", [([0, 2],), ([1, 1],)]),
)


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_values_of_templates_may_be_lists(mode: str, tmp_path: Path) -> None:
    with ms.connect(tmp_path, engine="inprocess") as db:
        db.execute("CREATE STREAM S (k INT, c INT, xs ARRAY<INT>) TIMESTAMP BY t")
        db.insert("S", _elements())
        db.advance(to=60)
        for number, (text, rows) in enumerate(WITH_LISTS):
            made = db.register_many(text, rows, mode=mode, template=f"t{number}")
            for query, row in zip(made, rows, strict=True):
                written = text
                for value in row:
                    said = "NULL" if value is None else f"array{tuple(value)}" if isinstance(value, list) else value
                    written = written.replace("?", str(said).replace("None", "NULL").replace(",)", ")"), 1)
                single = db.register(written)
                for at in (5, 11, 20):
                    assert query.result(at).to_pylist() == single.result(at).to_pylist()
                assert db.execute(text, list(row)).fetchall() == db.execute(written).fetchall()
    with ms.connect(tmp_path, engine="inprocess") as db:
        found = db.template("t0").result(20).to_pylist()
        assert found
        assert {repr(row["_p1"]) for row in found} <= {"[0, 1]", "[2]"}


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_answers_are_those_of_single_queries(mode: str) -> None:
    alone = _answers("eager", together=False)
    assert _answers(mode, together=True) == alone
    assert sum(map(len, alone)) > 50
