"""Texts and bytes that mean something, with some of them changed: from dice, so that a seed says which."""

from __future__ import annotations

import random

STATEMENTS = [
    "SELECT k, SUM(d) AS total FROM s [RANGE 5 SLIDE 2] GROUP BY k HAVING COUNT(*) > 0",
    "SELECT k, v || 'x' AS w, CASE WHEN k > 1 THEN upper(v) ELSE substr(v, 1, 2) END AS c FROM s [RANGE UNBOUNDED]",
    "SELECT ISTREAM(v) FROM s [PARTITION BY k ROWS 2], names WHERE id = k",
    "SELECT a.k, b.v FROM s [RANGE 3] AS a LEFT JOIN s [ROWS 5] AS b ON a.k = b.k AND a.d < b.d WHERE a.d > 0",
    "SELECT DISTINCT v FROM s [TUMBLE 3] EXCEPT SELECT name FROM names",
    "SELECT k FROM s [NOW] WHERE k IN (SELECT id FROM names WHERE name LIKE 'o%') OR EXISTS (SELECT 1 FROM names)",
    "SELECT k, row_number() OVER (PARTITION BY v ORDER BY k DESC) AS n FROM s [RANGE 9] ORDER BY n LIMIT 3",
    "WITH x AS (SELECT k, avg(d) AS m FROM s [RANGE 5] GROUP BY k) SELECT x.k, sqrt(m) + 1e3 AS r FROM x WHERE m > 0",
    "SELECT array_agg(k) AS l, collect_set(v) AS c, percentile(k, 0.5) AS p FROM s [SESSION 3] GROUP BY v",
    "SELECT date_trunc('HOUR', t) AS h, cast(d AS DOUBLE) / k AS q FROM s [RANGE UNBOUNDED]",
    "SELECT repeat(v, 100000) AS r, rpad(v, 1000000, 'ab') AS p FROM s [RANGE UNBOUNDED]",
    "SELECT * FROM s [RANGE UNBOUNDED] AS a, s [RANGE UNBOUNDED] AS b, s [RANGE UNBOUNDED] AS c",
    "INSERT INTO s VALUES (1, 'x', 1.1, NULL, 9), (2, NULL, -1.5, TIMESTAMP '2026-01-01 00:00:00', 10)",
    "INSERT INTO names VALUES (7, 'seven') ON CONFLICT DO UPDATE SET name = 'again'",
    "DELETE FROM names WHERE id = 1 AT 9",
    "UPDATE names SET name = upper(name), id = id + 1 WHERE id > 5",
    "REGISTER QUERY r MODE LAZY AS SELECT k, 10 / k AS x FROM s [RANGE 4]",
    "REGISTER OR REPLACE QUERY r AS SELECT v, COUNT(*) AS n FROM s [ROWS 4 SLIDE 2] GROUP BY v",
    "DROP QUERY IF EXISTS r",
    "EXPLAIN ANALYZE SELECT k, COUNT(*) AS n FROM s [RANGE 5] GROUP BY k",
    "SHOW QUERIES LIKE 'q%'; SHOW STREAMS; DESCRIBE s; SHOW CREATE STREAM s",
    "ADVANCE s TO 8",
    "SELECT UNNEST(sequence(1, k)) AS i FROM s [RANGE 2] WHERE regexp_extract(v, '(a+)+b', 1) <> ''",
    "SELECT a.k FROM s [RANGE 5] AS a ASOF JOIN s [RANGE 5] AS b ON a.k = b.k",
    "SELECT RSTREAM(k, COUNT(*) AS n) FROM s [RANGE 5] GROUP BY k",
]
PIECES = [
    *("s", "names", "q", "k", "v", "d", "t", "id", "name", "ts", "_ts", "s._late", "s._malformed", "sys.epochs"),
    *("(", ")", "[", "]", ",", ";", ".", "*", "=", "<", ">", "<>", "+", "-", "/", "%", "||", "?", ":", "::", "@", "->"),
    *("0", "1", "-1", "2147483647", "9223372036854775807", "9223372036854775808", "1e308", "1e400", "0.1", "1e-400"),
    *("'a'", "''", "NULL", "TRUE", "'", '"', "`", "--", "/*", "*/", "\x00", "\ufeff", "é", "😀", "\u202e", "x'ff'"),
    *("INTERVAL '1' DAY", "TIMESTAMP '2026-01-01'", "DATE '2026-13-01'", "DATE '9999-12-31'", "CAST(v AS INT)"),
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "UNION ALL",
        "INTERSECT",
        "JOIN",
        "ON",
        "AS",
    ),
    *("[RANGE 5]", "[ROWS 1]", "[NOW]", "[RANGE UNBOUNDED]", "[TUMBLE 0]", "[RANGE -1]", "[ROWS 99999999999]"),
    *("abs(k)", "substr(v, -5, 3)", "round(d, 400)", "lpad(v, 9, '')", "split(v, '')", "sequence(1, 1000000000)"),
    *(
        "repeat(v, 2000000000)",
        "rlike(v, '(')",
        "from_json(v)",
        "sum(k)",
        "count(*)",
        "first(v)",
        "stddev(d)",
        "OVER ()",
    ),
    *("date_add(t, 999999999)", "make_date(99999, 1, 1)", "k / 0", "power(k, 1000)", "factorial(k)", "array(k, v)"),
]


def changed_text(dice: random.Random) -> str:
    """A statement with some of its words taken out, put in, exchanged or said twice."""
    words = dice.choice(STATEMENTS).replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()
    for _ in range(dice.randint(1, 4)):
        place = dice.randint(0, len(words))
        match dice.randrange(5):
            case 0:
                words[place:place] = [dice.choice(PIECES)]
            case 1:
                words[place : place + dice.randint(1, 3)] = []
            case 2:
                words[place : place + 1] = [dice.choice(PIECES)]
            case 3:
                words[place:place] = words[place : place + dice.randint(1, 8)]
            case 4:
                words[place:place] = dice.choice(STATEMENTS).split()[dice.randint(0, 5) :][: dice.randint(1, 9)]
    text = " ".join(words)
    if not dice.randrange(10):
        place = dice.randint(0, len(text))
        text = text[:place] + chr(dice.choice([0, 39, 34, 96, 40, 41, 91, 92, 0xD7FF, 0x1F600, 10])) + text[place:]
    return text


def changed_bytes(dice: random.Random, content: bytes) -> bytes:
    """Bytes with some exchanged, taken out, put in, said twice or cut off."""
    found = bytearray(content)
    for _ in range(dice.randint(1, 5)):
        place = dice.randrange(len(found) + 1)
        match dice.randrange(8):
            case 0 | 1 | 2:
                if place < len(found):
                    found[place] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
            case 3:
                found[place : place + dice.randint(1, 16)] = b""
            case 4:
                found[place:place] = dice.randbytes(dice.randint(1, 16))
            case 5:
                found[place:place] = found[place : place + dice.randint(1, 64)]
            case 6:
                found[place : place + 4] = dice.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 20]).to_bytes(4, "little")
            case 7:
                del found[place:]
    return bytes(found)
