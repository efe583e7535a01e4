"""What DuckDB is asked must mean what Spark SQL in ANSI mode means."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from tests.oracle import Oracle, OracleError
from tests.oracle.sampling import derived_key, kept, mix


def rows_of(query: str, *rows: tuple[Any, ...], other: tuple[tuple[Any, ...], ...] = ()) -> Counter[tuple[Any, ...]]:
    """A query over S and T, whose rows are all of instant 0."""
    oracle = Oracle()
    oracle.execute("""
        CREATE STREAM S (a INT, b INT, d DOUBLE, s STRING) TIMESTAMP BY ts;
        CREATE STREAM T (a INT, b INT) TIMESTAMP BY ts;
    """)
    oracle.insert("S", [(*row, 0) for row in rows])
    oracle.insert("T", [(*row, 0) for row in other])
    oracle.advance(to=1)
    return oracle.relation(query, 0)


def value_of(expression: str, *row: Any) -> Any:
    answer = rows_of(f"SELECT {expression} AS x FROM S [NOW]", row or (7, -2, 2.5, "abc"))
    ((value,),) = answer
    return value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a / b", -3),
        ("-a / 2", -3),
        ("a / 2 / 2", 1),
        ("a % b", 1),
        ("-a % 2", -1),
        ("a / 2.0D", 3.5),
        ("d / 2", 1.25),
        ("a DIV b", -3),
        ("count(*) / 2", 0),
        ("sum(a) / 2", 3),
        ("CAST(d AS INT)", 2),
        ("CAST(-d AS BIGINT)", -2),
        ("CAST('12' AS INT)", 12),
        ("TRY_CAST(s AS INT)", None),
        ("concat(s, NULL)", None),
        ("s || 'd'", "abcd"),
        ("if(a > 1, 'x', 'y')", "x"),
        ("nvl(NULL, 3)", 3),
        ("a <=> NULL", False),
        ("CAST('nan' AS DOUBLE) = CAST('nan' AS DOUBLE)", True),
        ("CAST('nan' AS DOUBLE) > 1e300", True),
        ("substring(s, 2, 1)", "b"),
        ("CASE WHEN b = 0 THEN 0 ELSE a / b END", -3),
        ("avg(a)", 7.0),
        ("stddev(a)", None),
        ("count(DISTINCT a, b)", 1),
        ("greatest(a, NULL, 9)", 9),
    ],
)
def test_expressions(expression: str, expected: object) -> None:
    assert value_of(expression) == expected


@pytest.mark.parametrize("expression", ["a / 0", "a % 0", "d / 0", "2147483647 + a", "CAST(s AS INT)"])
def test_ansi_errors(expression: str) -> None:
    with pytest.raises(OracleError):
        value_of(expression)


def test_conditions_are_evaluated_as_written() -> None:
    rows = (1, 0, 0.0, ""), (6, 2, 0.0, "")
    assert rows_of("SELECT a FROM S [NOW] WHERE b <> 0 AND a / b > 1", *rows) == Counter([(6,)])


def test_a_wrong_row_outside_the_window_does_no_harm() -> None:
    oracle = Oracle()
    oracle.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts")
    oracle.insert("S", [(0, 0), (2, 5)])
    oracle.advance(to=9)
    query = "SELECT 10 / a AS x FROM S [NOW]"
    assert oracle.relation(query, 5) == Counter([(5,)])
    with pytest.raises(OracleError, match=r"(?i)division by zero"):
        oracle.relation(query, 0)


def test_nan_is_one_value() -> None:
    rows = (1, 1, math.nan, ""), (1, 1, math.nan, ""), (1, 1, 1.0, "")
    assert rows_of("SELECT d FROM S [NOW]", *rows) == Counter({(math.nan,): 2, (1.0,): 1})
    assert rows_of("SELECT d, count(*) AS n FROM S [NOW] GROUP BY d", *rows) == Counter([(math.nan, 2), (1.0, 1)])
    assert rows_of("SELECT max(d) AS m FROM S [NOW]", *rows) == Counter([(math.nan,)])


def test_bags_and_sets() -> None:
    rows = (1, 0, 0.0, ""), (1, 0, 0.0, ""), (None, 0, 0.0, "")
    other = ((1, 0), (None, 0))
    query = "SELECT a FROM S [NOW] {} SELECT a FROM T [NOW]"
    assert rows_of(query.format("UNION ALL"), *rows, other=other) == Counter({(1,): 3, (None,): 2})
    assert rows_of(query.format("UNION"), *rows, other=other) == Counter([(1,), (None,)])
    assert rows_of(query.format("EXCEPT ALL"), *rows, other=other) == Counter([(1,)])
    assert rows_of(query.format("EXCEPT"), *rows, other=other) == Counter()
    assert rows_of(query.format("INTERSECT ALL"), *rows, other=other) == Counter([(1,), (None,)])
    both = "SELECT a FROM S [NOW] UNION ALL SELECT a FROM T [NOW] INTERSECT SELECT b FROM T [NOW]"
    assert rows_of(both, *rows, other=other) == Counter({(1,): 2, (None,): 1})  # INTERSECT binds tighter


def test_first_and_last_follow_time() -> None:
    oracle = Oracle()
    oracle.execute("CREATE STREAM S (k INT, v INT) TIMESTAMP BY ts HEARTBEAT EXPLICIT")
    oracle.insert("S", [(1, 10, 3), (1, 20, 1), (2, 30, 2), (1, 40, 3)])
    oracle.advance(to=5)
    query = "SELECT k, first(v) AS f, last(v) AS l FROM S [PARTITION BY k ROWS 3] GROUP BY k"
    assert oracle.relation(query, 5) == Counter([(1, 20, 40), (2, 30, 30)])


def test_with_names_are_seen_where_they_should_be() -> None:
    rows = (1, 1, 0.0, ""), (2, 2, 0.0, "")
    query = """
        WITH S AS (SELECT a FROM S [NOW] WHERE a > 1), x AS (SELECT a + 1 AS a FROM S)
        SELECT x.a, y.a AS b FROM x JOIN (WITH x AS (SELECT 7 AS a) SELECT a FROM x) y ON true
    """
    assert rows_of(query, *rows) == Counter([(3, 7)])
    assert rows_of("WITH x(q) AS (SELECT a FROM S) SELECT q FROM x [ROWS 1]", *rows) == Counter([(2,)])


def test_joins_in_parentheses_and_lists() -> None:
    rows = (1, 5, 0.0, ""), (2, 6, 0.0, "")
    other = ((1, 9),)
    query = "SELECT S.b, T.b AS c FROM (S [NOW] JOIN T [NOW] ON S.a = T.a)"
    assert rows_of(query, *rows, other=other) == Counter([(5, 9)])
    query = "SELECT b, c FROM S [NOW] LEFT JOIN (SELECT a, b AS c FROM T [NOW]) AS t USING (a)"
    assert rows_of(query, *rows, other=other) == Counter([(5, 9), (6, None)])


@pytest.mark.parametrize("call", ["rand()", "uuid()", "current_timestamp()", "now()"])
def test_functions_that_depend_on_when_they_are_asked(call: str) -> None:
    with pytest.raises(OracleError, match="refused"):
        value_of(call)


def test_splitmix64() -> None:
    """The first numbers of the published generator, seeded with 0, are mix(0), mix(golden ratio), ..."""
    step = 0x9E3779B97F4A7C15
    assert [hex(mix(number * step % 2**64)) for number in range(3)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_coins() -> None:
    fifty = Fraction(50)
    assert [key for key in range(16) if kept(key, fifty, 0)] == [1, 4, 5, 6, 7, 11, 13]
    assert [key for key in range(16) if kept(key, fifty, 7)] == [1, 2, 3, 7, 8, 10, 12, 15]
    assert all(kept(key, Fraction(100), 0) for key in range(1000))
    assert not any(kept(key, Fraction(0), 0) for key in range(1000))
    assert 2300 < sum(kept(derived_key(ts, 0), Fraction("25"), 3) for ts in range(10_000)) < 2700
