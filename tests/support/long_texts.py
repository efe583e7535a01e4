"""Texts that are long, or say much in few words: of streams `s (k, v)` and tables `names (id)`."""

from __future__ import annotations

from collections.abc import Callable

_FROM = "FROM s [RANGE 5]"


def _each(item: str, count: int, between: str = ", ") -> str:
    return between.join(item.replace("#", str(number)) for number in range(count))


def _doubled(levels: int) -> str:
    parts = [f"x0 AS (SELECT k {_FROM})"]
    parts += [f"x{n + 1} AS (SELECT a.k FROM x{n} AS a, x{n} AS b WHERE a.k = b.k)" for n in range(levels)]
    return f"WITH {', '.join(parts)} SELECT k FROM x{levels}"


# By what is long; each takes how long it is to be.
LONG_TEXTS: dict[str, Callable[[int], str]] = {
    "inputs": lambda n: f"SELECT count(*) AS n FROM {_each('s [RANGE 5] AS a#', n)}",
    "joins": lambda n: f"SELECT a.k FROM s [RANGE 5] AS a {_each('JOIN s [RANGE 5] AS a# ON a.k = a#.k', n, ' ')}",
    "left joins": lambda n: f"SELECT a.k FROM s [NOW] AS a {_each('LEFT JOIN names AS a# ON a.k = a#.id', n, ' ')}",
    "EXISTS": lambda n: f"SELECT k {_FROM} WHERE {_each('EXISTS (SELECT 1 FROM names WHERE id = #)', n, ' OR ')}",
    "subqueries": lambda n: f"SELECT {_each('(SELECT count(*) FROM names WHERE id = #) AS c#', n)} {_FROM}",
    "items": lambda n: f"SELECT {_each('k + # AS c#', n)} {_FROM}",
    "stars": lambda n: f"SELECT {_each('*', n)} {_FROM}",
    "aggregates": lambda n: f"SELECT {_each('sum(k + #) AS c#', n)} {_FROM}",
    "keys": lambda n: f"SELECT count(*) AS n {_FROM} GROUP BY {_each('k + #', n)}",
    "order": lambda n: f"SELECT k {_FROM} ORDER BY {_each('k + #', n)} LIMIT 3",
    "windows": lambda n: f"SELECT {_each('row_number() OVER (PARTITION BY k + # ORDER BY v) AS c#', n)} {_FROM}",
    "branches": lambda n: f"SELECT CASE {_each('WHEN k = # THEN #', n, ' ')} END AS c {_FROM}",
    "branches that can fail": lambda n: f"SELECT CASE k {_each('WHEN # THEN v || 9 / k', n, ' ')} END AS c {_FROM}",
    "terms": lambda n: f"SELECT k {_FROM} WHERE {_each('(k = # AND v <> repeat(v, #))', n, ' OR ')}",
    "sums": lambda n: f"SELECT {_each('k', n, ' + ')} AS c {_FROM}",
    "quotients": lambda n: f"SELECT {_each('k', n, ' / ')} AS c {_FROM}",
    "constants": lambda n: f"SELECT k {_FROM} WHERE k IN ({_each('#', 50 * n)})",
    "values": lambda n: f"SELECT k {_FROM} WHERE k IN ({_each('k + #', n)})",
    "arguments": lambda n: f"SELECT greatest({_each('k + #', n)}) AS c {_FROM}",
    "UNION": lambda n: _each(f"SELECT k + # AS c {_FROM}", n, " UNION "),
    "EXCEPT": lambda n: _each(f"SELECT k + # AS c {_FROM}", n, " EXCEPT "),
    "parentheses": lambda n: f"SELECT {'(' * n}k{')' * n} AS c {_FROM}",
    "calls": lambda n: f"SELECT {'abs(' * n}k{')' * n} AS c {_FROM}",
    "queries in FROM": lambda n: f"SELECT k FROM {'(SELECT k FROM ' * n}s [RANGE 5]{')' * n}",
    "WITH": lambda n: _doubled(min(n, 60)),
    "digits": lambda n: f"SELECT {'9' * 10 * n} AS c {_FROM}",
    "a name": lambda n: f"SELECT k AS {'x' * 10 * n} {_FROM}",
    "a pattern": lambda n: f"SELECT k {_FROM} WHERE v LIKE '{'%a' * n}' OR v RLIKE '{'(a+)+' * min(n, 500)}b'",
    "statements": lambda n: _each(f"SELECT k + # AS c {_FROM}; SHOW QUERIES", n, "; "),
    "semicolons": lambda n: f"{';' * 200 * n} SHOW STREAMS",
    "quotes": lambda n: "'" * (100 * n + 1),
    "open comments": lambda n: "/* " * 30 * n,
    "rows": lambda n: f"INSERT INTO names VALUES {_each('(# + 1, repeat(a, #))', n)}",
    "columns": lambda n: f"CREATE STREAM wide ({_each('c# INT', n)}) TIMESTAMP BY ts",
    "registrations": lambda n: (
        _each(f"REGISTER QUERY long_# AS SELECT k + # AS c {_FROM}", n // 20 + 1, "; ")
        + ";"
        + _each("DROP QUERY long_#", n // 20 + 1, "; ")
    ),
}
