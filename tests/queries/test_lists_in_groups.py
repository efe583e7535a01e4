"""Queries of a template over lists and ranges of values answer as single ones do, in every mode."""

from __future__ import annotations

import random

import pytest

import millstream as ms

TEXTS = (
    "SELECT k, x FROM S [RANGE 4], UNNEST(S.xs) AS u(x) WHERE k > ? AND x <> ?",
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


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_answers_are_those_of_single_queries(mode: str) -> None:
    alone = _answers("eager", together=False)
    assert _answers(mode, together=True) == alone
    assert sum(map(len, alone)) > 50
