"""The text that a query is known by means the same query: rows of lists, and lists, are printed as they are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream as ms

TEXTS = (
    "SELECT k, x FROM S [RANGE 4], UNNEST(S.xs) AS u(x)",
    "SELECT k, x, i FROM S [RANGE 4] CROSS JOIN UNNEST(S.xs) WITH ORDINALITY AS u(x, i)",
    "SELECT k, u.ordinality FROM S [RANGE 4] CROSS JOIN UNNEST(S.xs) WITH ORDINALITY AS u",
    "SELECT k, x, y, i FROM S [RANGE 4] CROSS JOIN UNNEST(S.xs, S.xs) WITH ORDINALITY AS u(x, y, i)",
    "SELECT k, x FROM S [RANGE 4] LEFT JOIN UNNEST(xs) AS u(x) ON TRUE",
    "SELECT k, p, x FROM S [RANGE 4] LATERAL VIEW OUTER posexplode(xs) e AS p, x",
    "SELECT k, x FROM S [RANGE 4] LEFT JOIN LATERAL explode(xs) AS e(x) ON TRUE",
    "SELECT posexplode(xs) AS (p, x) FROM S [RANGE 4]",
    "SELECT CASE WHEN size(xs) > 0 THEN xs[0] END AS f, ARRAY[1, k] AS g, array(1, NULL) AS h FROM S [RANGE 4]",
    "SELECT collect_list(DISTINCT k ORDER BY k DESC) AS l, array_agg(k) FILTER (WHERE k > 1) AS m FROM S [NOW]",
    "SELECT CAST(xs AS ARRAY<STRING>) AS s FROM S [PARTITION BY k RANGE 2 ON k]",
    "SELECT x FROM explode(array(1, 2)) AS e(x), S [NOW]",
)


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as found:
        found.execute("CREATE STREAM S (k INT, xs ARRAY<INT>) TIMESTAMP BY t")
        found.insert("S", [(1, [3, 1], 1), (2, None, 1), (3, [], 2), (4, [None], 3)])
        found.advance(to=9)
        yield found


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_printed_is_read_as_the_same(db: ms.Database, text: str) -> None:
    query = db.register(text)
    again = db.register(query.cql)
    assert again.cql == query.cql
    assert again.schema == query.schema
    assert again.result(3).to_pylist() == query.result(3).to_pylist()
