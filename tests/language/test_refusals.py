"""What is refused is called as whoever wrote it calls it, and comes with what to write instead."""

from __future__ import annotations

import re

import pytest

import millstream as ms
from millstream.language.binder import Binder
from millstream.language.refusals import STATEMENTS
from millstream.language.statement_parser import parse, parse_query
from millstream.plan.definitions import TableDefinition, shown_duration
from millstream.settings import Settings
from millstream.types import INT, STRING, Field

CATALOG = {
    name: TableDefinition(name, (Field("a", INT), Field("b", INT), Field("s", STRING)), (), "") for name in ("t", "u")
}
# The text, how the primary line begins, and a part of what is hinted at.
REFUSED = [
    ("SELECT * ILIKE 'a%' FROM t", "* ILIKE is not supported here", "* EXCEPT (a, b)"),
    ("SELECT a FROM t PIVOT (sum(a) FOR b IN (1, 2))", "PIVOT is", "sum(CASE WHEN"),
    ("SELECT a FROM t UNPIVOT (x FOR y IN (a, b))", "UNPIVOT is", "UNION ALL"),
    ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE is", "SAMPLE (10 PERCENT)"),
    ("SELECT a FROM t CLUSTER BY a", "CLUSTER BY is", "leave it out"),
    ("SELECT a FROM t DISTRIBUTE BY a", "DISTRIBUTE BY is", "leave it out"),
    ("SELECT a FROM t SORT BY a", "SORT BY is", "ORDER BY"),
    ("SELECT a FROM t FOR UPDATE", "FOR UPDATE is", "leave it out"),
    ("SELECT /*+ BROADCAST(t) */ a FROM t", "a hint is", "SET join_plan"),
    ("SELECT a INTO x FROM t", "INTO is", "CREATE VIEW x AS"),
    ("SELECT a FROM t WITH (NOLOCK)", "a hint is", "leave it out"),
    ("WITH x AS MATERIALIZED (SELECT a FROM t) SELECT a FROM x", "MATERIALIZED is", "leave it out"),
    ("WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x", "WITH RECURSIVE is", "as often as there are levels"),
    ("SELECT a FROM t NATURAL JOIN u ON t.a = u.a", "ON beside NATURAL", "leave one of them out"),
    ("SELECT t.a FROM t RIGHT SEMI JOIN u ON t.a = u.a", "RIGHT SEMI JOIN is not supported", "LEFT SEMI"),
    ("SELECT CAST(s AS TIMESTAMP(3)) AS x FROM t", "a length of this type", "leave it out"),
    ("SELECT a FROM t AS x (a INT, b INT, s STRING)", "a type in an alias", "CAST(a AS INT)"),
    ("SELECT a AS (x, y) FROM t", "several names", "a AS x"),
    ("SELECT DISTINCT ON (a) b FROM t", "DISTINCT ON is", "ROW_NUMBER()"),
    ("SELECT a[0:1] FROM t", "a[i:j] is", "slice("),
    ("SELECT s -> 'x' FROM t", "-> is", "columns of the stream"),
    ("SELECT s ->> 'x' FROM t", "->> is", "columns of the stream"),
    ("SELECT a FROM t WHERE s COLLATE UTF8_LCASE = 'a'", "COLLATE is", "lower(a)"),
    ("SELECT a FROM t WHERE s SIMILAR TO 'a'", "SIMILAR TO is", "RLIKE"),
    ("SELECT @x AS x FROM t", "a variable is", "register_many"),
    ("SELECT TRANSFORM(a) USING 'cat' FROM t", "TRANSFORM .. USING is", "create_function"),
    ("SELECT (a, b) AS x FROM t", "a row of values", "(a, b) = (1, 2)"),
    ("SELECT a FROM t FOR SYSTEM_TIME AS OF '2020-01-01'", "FOR SYSTEM_TIME AS OF takes", "FOR SYSTEM_TIME AS OF s.ts"),
    ("SELECT a FROM t VERSION AS OF 1", "FOR SYSTEM_TIME AS OF takes", "FOR SYSTEM_TIME AS OF s.ts"),
    ("SELECT t.a FROM t ASOF JOIN u ON t.a = u.a", "an ASOF JOIN has one comparison", "a.t >= b.t"),
    ("SELECT * FROM t, UNNEST(array(1), t.a) AS x", "an array is unnested, not a INT", "split(text"),
    ("SELECT * FROM t, UNNEST(t.a) AS x", "an array is unnested, not a INT", "split(text"),
    ("SELECT a FROM t LATERAL VIEW stack(a) x AS y", "stack is not supported", "explode(x)"),
    ("SELECT a FROM t WHERE explode(array(1)) = 1", "explode in WHERE", "LATERAL explode"),
    ("SELECT count(*) FROM t FULL JOIN UNNEST(array(1)) AS x ON TRUE", "a full join with rows", "CROSS JOIN"),
    ("SELECT a FROM t WHERE EXISTS ((SELECT a FROM u) LIMIT 1)", "LIMIT is", "inside of the parentheses"),
    ("SELECT a FROM t INTERSECT BY NAME SELECT a FROM u", "BY NAME is for UNION only", "list the columns"),
    ("SELECT count(*) FROM t GROUP BY session_window(ts, '5 minutes')", "session_window is", "[SESSION 5 MINUTES"),
    ("SELECT CURRENT_DATE AS d FROM t", "CURRENT_DATE is refused: the answer would depend", "into the stream"),
    ("SELECT ntile(0) OVER (ORDER BY a) AS n FROM t", "NTILE takes a number from 1 on", ""),
    ("SELECT a FROM t ORDER BY a LIMIT 9223372036854775807", "LIMIT 9223372036854775807 is too many", "at most 2^60"),
]
AT_ONCE = [
    ("SELECT TOP 3 a FROM t", "ORDER BY .. LIMIT 3"),
    ("SELECT a FROM t MATCH_RECOGNIZE (PATTERN (x) DEFINE x AS a > 1)", "join the stream with itself"),
    ("SELECT a FROM t |> WHERE a > 1", "use a subquery"),
    ("SELECT * FROM t [RANGE 5] PIVOT (sum(a) FOR a IN (1, 2))", "FILTER (WHERE k = 1)"),
]


@pytest.mark.parametrize(("text", "message", "hint"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_the_nearest_that_works_is_named(text: str, message: str, hint: str) -> None:
    with pytest.raises(ms.Error) as caught:
        Binder(CATALOG, Settings(), text).bind(parse_query(text))
    assert str(caught.value).startswith(message)
    assert hint in (caught.value.hint or "")
    assert caught.value.place is not None


@pytest.mark.parametrize(("text", "said"), AT_ONCE)
def test_what_the_parser_refuses(text: str, said: str) -> None:
    with pytest.raises(ms.Error, match=re.escape(said)):
        parse_query(text)


@pytest.mark.parametrize("word", STATEMENTS)
def test_statements_of_other_databases(word: str) -> None:
    with pytest.raises(ms.Error) as caught:
        parse(f"{word} t")
    assert caught.value.hint == STATEMENTS[word]


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0 MICROSECONDS"),
        (1, "1 MICROSECOND"),
        (300_000_000, "5 MINUTES"),
        (5_400_000_000, "90 MINUTES"),
        (1500, "1500 MICROSECONDS"),
    ],
)
def test_durations_are_shown_as_people_write_them(microseconds: int, shown: str) -> None:
    assert shown_duration(microseconds) == shown


def test_explain_and_show_have_durations() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(
            """CREATE STREAM s (a INT, ts TIMESTAMP) TIMESTAMP BY ts
               HEARTBEAT DELAY 5 MINUTES IDLE AFTER 30 SECONDS RETAIN 2 DAYS"""
        )
        assert "[RANGE 5 MINUTES SLIDE 1 MINUTE]" in db.explain("SELECT a FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE]")
        assert "[BEGIN NOW - 1 HOUR END NOW]" in db.explain("SELECT a FROM s [BEGIN NOW - 1 HOUR END NOW]")
        listed = db.execute("SHOW STREAMS").table
        assert listed is not None
        assert listed["properties"].to_pylist() == [
            "timestamp ts, ticks of 1 MICROSECOND, heartbeat DELAY 5 MINUTES IDLE AFTER 30 SECONDS, retain 2 DAYS"
        ]
