"""Whatever the parser takes and the binder does not read is refused at its place; negated forms mean what they say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlglot import exp

import millstream as ms
from millstream.language.binder import Binder
from millstream.language.statement_parser import parse_query
from millstream.plan.definitions import TableDefinition
from millstream.settings import Settings
from millstream.types import DOUBLE, INT, STRING, Field

CATALOG = {
    name: TableDefinition(name, (Field("a", INT), Field("b", INT), Field("s", STRING), Field("d", DOUBLE)), (), "")
    for name in ("t", "u")
}
REFUSED = """
SELECT * ILIKE '%a%' FROM t
SELECT count(* EXCEPT (a)) FROM t
(SELECT a FROM t) LIMIT 1
(SELECT a FROM t) OFFSET 1
SELECT a FROM t LIMIT 1
SELECT a FROM t UNION SELECT a FROM u LIMIT 1
SELECT a FROM t INTERSECT BY NAME SELECT a FROM u
SELECT a FROM t UNION CORRESPONDING SELECT a FROM u
SELECT a FROM t UNION CORRESPONDING BY (a) SELECT a FROM u
SELECT a FROM (SELECT a FROM t LIMIT 1) x
SELECT a FROM t WHERE a IN (SELECT a FROM u LIMIT 1)
SELECT a FROM t WHERE a IN ((SELECT a FROM u) LIMIT 1)
SELECT a FROM t WHERE EXISTS ((SELECT a FROM u) LIMIT 1)
SELECT ((SELECT a FROM u) LIMIT 1) AS x FROM t
WITH x AS (SELECT a FROM t LIMIT 1) SELECT a FROM x
WITH x AS MATERIALIZED (SELECT a FROM t) SELECT a FROM x
WITH x AS (SELECT a FROM t), x AS (SELECT b FROM t) SELECT * FROM x
SELECT CAST(s AS DATE FORMAT 'yyyy') AS x FROM t
SELECT AS STRUCT a FROM t
SELECT AS VALUE a FROM t
SELECT a FROM t FINAL
SELECT a FROM t WITH ORDINALITY
SELECT a FROM t TABLESAMPLE (10 PERCENT)
SELECT a FROM t TABLESAMPLE (10 ROWS)
SELECT a FROM t TABLESAMPLE (BUCKET 1 OUT OF 2)
SELECT a FROM t VERSION AS OF 1
SELECT a FROM t TIMESTAMP AS OF '2020-01-01'
SELECT a FROM t FOR SYSTEM_TIME AS OF '2020-01-01'
SELECT a FROM t PIVOT (sum(b) FOR a IN (1, 2))
SELECT a FROM t UNPIVOT (x FOR y IN (a, b))
SELECT a FROM t LATERAL VIEW explode(a) AS x
SELECT a FROM t QUALIFY a > 1
SELECT /*+ BROADCAST(t) */ a FROM t
SELECT a FROM t CLUSTER BY a
SELECT a FROM t DISTRIBUTE BY a
SELECT a FROM t SORT BY a
SELECT a FROM t FOR UPDATE
SELECT DISTINCT ON (a) b FROM t
SELECT TRANSFORM(a) USING 'cat' FROM t
SELECT sum(a) WITHIN GROUP (ORDER BY a) AS n FROM t
SELECT sum(a ORDER BY a) AS n FROM t
SELECT sum(a LIMIT 1) AS n FROM t
SELECT abs(DISTINCT a) AS n FROM t
SELECT max(a HAVING MAX b) AS n FROM t
SELECT a FROM t NATURAL JOIN u ON t.a = u.a
SELECT t.a FROM t ASOF JOIN u ON t.a = u.a
SELECT t.a FROM t ANY JOIN u ON t.a = u.a
SELECT t.a FROM t GLOBAL JOIN u ON t.a = u.a
SELECT t.a FROM t, u WHERE t.a = u.a (+)
SELECT a FROM t GROUP BY a WITH TOTALS
SELECT a FROM t WHERE a IN UNNEST(b)
SELECT a FROM t WHERE a GLOBAL IN (SELECT a FROM u)
SELECT a FROM t WHERE s SIMILAR TO 'a'
SELECT a FROM t WHERE s COLLATE UTF8_LCASE = 'a'
SELECT trim(s COLLATE UTF8_LCASE) AS x FROM t
SELECT CAST(a AS ARRAY<INT>) AS x FROM t
SELECT CAST(s AS TIMESTAMP(3)) AS x FROM t
SELECT a[0] AS x FROM t
SELECT s:a AS x FROM t
SELECT :name AS x FROM t
SELECT a AS (x, y) FROM t
SELECT a FROM t AS t (a INT, b INT, s STRING, d DOUBLE)
SELECT a FROM range(5)
SELECT x.a FROM t x JOIN u USING (a) AS y
SELECT TOP 3 a FROM t
SELECT a INTO x FROM t
SELECT a FROM t FETCH FIRST 3 ROWS ONLY
SELECT a FROM t |> WHERE a > 1
FROM t SELECT a LIMIT 3
SELECT a FROM t MATCH_RECOGNIZE (PARTITION BY a PATTERN (x) DEFINE x AS a > 1)
SELECT a FROM t CONNECT BY a = b
SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a = b
SELECT a FROM t PREWHERE a > 1
SELECT a FROM t SETTINGS x = 1
SELECT a FROM ONLY t
SELECT a FROM t WITH (NOLOCK)
SELECT a FROM t INDEXED BY x
SELECT a FROM t PARTITION (a = 1)
""".strip().splitlines()


def bind(text: str, tree: Any = None) -> Any:
    return Binder(CATALOG, Settings(), text).bind(tree or parse_query(text))


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_its_place(text: str) -> None:
    with pytest.raises(ms.Error) as caught:
        bind(text)
    assert caught.value.place is not None


ACCEPTED = """
SELECT a FROM VALUES (1), (2) AS x (a)
SELECT a FROM t WHERE a > ALL (SELECT a FROM u)
SELECT a FROM t WHERE a = ANY (SELECT a FROM u)
SELECT a FROM t WHERE s NOT LIKE ALL ('a', 'b')
SELECT a FROM t WHERE s LIKE ANY ('a', 'b')
SELECT a FROM t UNION BY NAME SELECT a FROM u
SELECT a FROM t UNION ALL BY NAME SELECT a FROM u
SELECT t.* REPLACE (b AS a) FROM t
SELECT * RENAME (a AS z) FROM t
SELECT * REPLACE (b AS a) FROM t
SELECT * FROM t
SELECT t.*, u.a AS x FROM t LEFT JOIN u ON t.a = u.a AND t.b < u.b
SELECT a, count(*) AS n, sum(DISTINCT b) AS m FROM t GROUP BY a HAVING count(*) > 1
SELECT DISTINCT a FROM t WHERE a IN (1, 2) OR b NOT IN (SELECT b FROM u)
WITH x (q) AS (SELECT a FROM t) SELECT q FROM x UNION ALL SELECT a FROM u
SELECT CASE a WHEN 1 THEN 'x' ELSE s END AS c, if(a > 1, 1, 2) AS i, CAST(s AS DECIMAL(5, 2)) AS e FROM t
SELECT a FROM t WHERE s LIKE 'a!%' ESCAPE '!' AND s ILIKE 'A%' AND s RLIKE 'a' AND a BETWEEN 1 AND 2 AND d IS NOT NULL
SELECT -a AS n, ~a AS m, a / b AS q, a % b AS r, s || 'x' AS c, trim(BOTH 'x' FROM s) AS v FROM t
SELECT position('x' IN s) AS p, 'a' 'b' AS q FROM t
SELECT substring(s FROM 1 FOR 2) AS x, extract(YEAR FROM TIMESTAMP '2020-01-01') AS y, X'ab' AS h, NULL AS z FROM t
SELECT a FROM t NATURAL JOIN u
SELECT a FROM t JOIN u USING (a, b, s, d)
SELECT (SELECT max(a) FROM u) AS m FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)
SELECT x.a FROM (t JOIN u ON t.a = u.a) CROSS JOIN (SELECT a FROM t) AS x (a)
SELECT a, b FROM t ORDER BY a DESC NULLS FIRST, b + 1 LIMIT 3 OFFSET 1
(SELECT a FROM t UNION SELECT a FROM u ORDER BY 1 LIMIT 2) ORDER BY a OFFSET 1 ROWS FETCH NEXT 2 ROWS WITH TIES
SELECT a, b FROM t ORDER BY ALL
SELECT lag(a, 2, 0) IGNORE NULLS OVER w AS x FROM t WINDOW w AS (PARTITION BY b ORDER BY a DESC)
SELECT sum(DISTINCT b) OVER (w ROWS 2 PRECEDING) AS y FROM t WINDOW w AS (PARTITION BY b ORDER BY a DESC)
SELECT a, count(*) OVER (ORDER BY d RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS x FROM t QUALIFY x > 1
SELECT DATE '2020-01-01' + INTERVAL '1' DAY AS e FROM t WHERE a <=> b AND NOT TRUE AND a IS DISTINCT FROM b
SELECT t.a FROM t, LATERAL (SELECT b FROM u WHERE u.a = t.a) AS x (y)
SELECT t.a FROM t LEFT ASOF JOIN u MATCH_CONDITION (t.a > u.a)
""".strip().splitlines()


# The arguments that may be set besides those in the texts above.
UNDERSTOOD = {"Table.alias"}


def test_no_argument_of_any_node_is_ignored() -> None:
    """Every argument that a class of nodes knows is set, one by one, where the text does not set it. Whatever is bound
    nevertheless must be among those that are known to be read."""
    taken, tried = set(), set()
    for text in ACCEPTED:
        bind(text)
        parsed = parse_query(text)
        for number, node in enumerate(parsed.walk()):
            for name in sorted(node.arg_types):
                case = (type(node), type(node.parent), node.arg_key, name)
                if node.args.get(name) or isinstance(node, exp.Literal) or case in tried:
                    continue
                tried.add(case)
                tree = parsed.copy()
                list(tree.walk())[number].set(name, exp.Var(this="UNREAD"))
                with suppress(ms.Error, AttributeError, KeyError, TypeError, ValueError):
                    bind(text, tree)
                    taken.add(f"{type(node).__name__}.{name}")
    assert len(tried) > 300
    assert taken == UNDERSTOOD


@pytest.fixture(scope="module")
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as database:
        database.execute(
            """CREATE TABLE t (a INT, b INT, s STRING);
               INSERT INTO t VALUES (1, 3, 'abc'), (2, 1, 'xaxa'), (3, NULL, NULL), (4, 4, 'Abc'), (5, 5, 'a%c')"""
        )
        yield database


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("s LIKE 'a%'", [1, 5]),
        ("s NOT LIKE 'a%'", [2, 4]),
        ("NOT s LIKE 'a%'", [2, 4]),
        ("NOT s NOT LIKE 'a%'", [1, 5]),
        ("s NOT ILIKE 'a%'", [2]),
        ("s ILIKE 'a%'", [1, 4, 5]),
        ("s NOT LIKE 'a!%c' ESCAPE '!'", [1, 2, 4]),
        ("s NOT RLIKE '^a'", [2, 4]),
        ("a NOT IN (1, 2)", [3, 4, 5]),
        ("a NOT BETWEEN 2 AND 4", [1, 5]),
        ("a BETWEEN SYMMETRIC 4 AND 2", [2, 3, 4]),
        ("a NOT BETWEEN SYMMETRIC 4 AND 2", [1, 5]),
        ("a BETWEEN ASYMMETRIC 4 AND 2", []),
        ("2 BETWEEN SYMMETRIC b AND a", [1, 2]),
        ("b IS NOT NULL", [1, 2, 4, 5]),
        ("(a > 1) IS NOT TRUE", [1]),
        ("a IS DISTINCT FROM b", [1, 2, 3]),
        ("position('a', s, 3) = 4", [2]),
        ("position('a', s) = 2", [2]),
        ("s = 'it''s' OR a = 1", [1]),
    ],
)
def test_conditions(db: ms.Database, condition: str, rows: list[int]) -> None:
    found = db.execute(f"SELECT a FROM t WHERE {condition}").table
    assert found is not None
    assert sorted(found["a"].to_pylist()) == rows


def test_star_without_columns(db: ms.Database) -> None:
    found = db.execute("SELECT * EXCEPT (b, S), t.* EXCEPT (a) FROM t WHERE a = 1").table
    assert found is not None
    assert found.to_pylist() == [{"a": 1, "b": 3, "s": "abc"}]
    with pytest.raises(ms.NameError, match="unknown column"):
        db.execute("SELECT * EXCEPT (nosuch) FROM t")
    with pytest.raises(ms.BindError, match="no column"):
        db.execute("SELECT * EXCEPT (a, b, s) FROM t")


def test_deletes_keep_what_is_like() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE TABLE t (s STRING); INSERT INTO t VALUES ('ab'), ('cd')")
        db.execute("DELETE FROM t WHERE s NOT LIKE 'a%'")
        found = db.execute("SELECT s FROM t").table
        assert found is not None
        assert found["s"].to_pylist() == ["ab"]
        with pytest.raises(ms.Error):
            db.execute("DELETE FROM t WHERE s LIKE ANY ('a')")
        with pytest.raises(ms.Error):
            db.execute("UPDATE t SET s = CAST(s AS DATE FORMAT 'x')")
        with pytest.raises(ms.Error):
            db.execute("INSERT INTO t VALUES (CAST('1' AS INT FORMAT 'x'))")
