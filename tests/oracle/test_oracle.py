"""The oracle's statements and questions, against answers worked out by hand."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from tests.oracle import Oracle, OracleError, Taken

from millstream.errors import SyntaxError


def opened(text: str = "CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts") -> Oracle:
    oracle = Oracle()
    oracle.execute(text)
    return oracle


def test_lateness_is_judged_row_by_row() -> None:
    oracle = opened()
    assert oracle.insert("S", [(1, 1, 5), (2, 2, 5), (3, 3, 4), (4, 4, 6)]) == Taken(accepted=3, late=1)
    assert oracle.insert("s", [(5, 5, 5)]) == (0, 1)
    assert oracle.execute("INSERT INTO S VALUES (6, 6, 7), (7, 7, 0)") == (1, 1)
    assert oracle.final("SELECT a FROM S") == 6


def test_delay_and_explicit_heartbeats() -> None:
    oracle = opened("""
        CREATE STREAM D (a INT) TIMESTAMP BY ts HEARTBEAT DELAY 10;
        CREATE STREAM E (a INT) TIMESTAMP BY ts HEARTBEAT EXPLICIT;
    """)
    assert oracle.insert("D", [(1, 5), (2, 0), (3, 20), (4, 9), (5, 10)]) == (4, 1)
    assert oracle.final("SELECT a FROM D") == 9
    assert oracle.insert("E", [(1, 50), (2, 0)]) == (2, 0)
    assert oracle.final("SELECT a FROM E") == -1
    oracle.advance("E", to=7)
    assert oracle.final("SELECT a FROM E") == 7
    assert oracle.final("SELECT D.a FROM D, E") == 7
    oracle.advance(to=30)
    assert oracle.final("SELECT D.a FROM D, E") == 30


def test_an_insert_is_all_or_nothing() -> None:
    oracle = opened()
    for wrong in ([(1, 1, 3), (1, 1, None)], [(1, 1, 3), (1, 1, -1)], [(1, 1, 3), (1, 1)], [(1, 1, 3), (1, 1, "x")]):
        with pytest.raises((OracleError, ValueError)):
            oracle.insert("S", wrong)
    assert oracle.insert("S", [(1, 1, 0)]) == (1, 0)


def test_only_final_answers() -> None:
    oracle = opened()
    oracle.insert("S", [(1, 1, 3)])
    assert oracle.elements("SELECT a FROM S", 2) == Counter()
    with pytest.raises(OracleError, match="not final"):
        oracle.elements("SELECT a FROM S", 3)
    with pytest.raises(OracleError, match="not final"):
        oracle.relation("SELECT a FROM S [NOW]", 3)
    with pytest.raises(OracleError, match="not final"):
        oracle.changes("SELECT a FROM S [NOW]", to=3)


def test_before_time_zero_everything_is_empty() -> None:
    oracle = opened()
    oracle.advance(to=5)
    query = "SELECT COUNT(*) AS n FROM S [NOW]"
    assert oracle.relation(query, -1) == Counter()
    assert oracle.relation(query, 0) == Counter({(0,): 1})
    assert oracle.changes(query) == {(0, (0,)): 1}
    assert oracle.elements(f"ISTREAM({query})", 5) == Counter({(0, (0,)): 1})


def test_changes_between_instants() -> None:
    oracle = opened()
    oracle.insert("S", [(1, 0, 1), (1, 0, 1), (2, 0, 3)])
    oracle.advance(to=9)
    query = "SELECT a FROM S [RANGE 2]"
    everything = {(1, (1,)): 2, (3, (2,)): 1, (4, (1,)): -2, (6, (2,)): -1}
    assert oracle.changes(query) == everything
    assert oracle.changes(query, since=1, to=4) == {(3, (2,)): 1, (4, (1,)): -2}
    assert oracle.changes("SELECT ISTREAM(a) FROM S [RANGE 2]", since=1) == {(3, (2,)): 1}


def test_kinds_and_wrong_questions() -> None:
    oracle = opened()
    oracle.execute("REGISTER QUERY q AS SELECT a FROM S [NOW]; ADVANCE TO 3")
    assert oracle.kind("q") == "relation"
    assert oracle.kind("Q") == "relation"
    with pytest.raises(OracleError, match="relation"):
        oracle.elements("q", 1)
    with pytest.raises(OracleError, match="stream"):
        oracle.relation("SELECT a FROM S", 1)
    with pytest.raises(SyntaxError):
        oracle.kind("no_such_query")


def test_output_names() -> None:
    oracle = opened("CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts; CREATE STREAM T (a INT) TIMESTAMP BY ts")
    assert oracle.columns("SELECT a, a + 1, S.b, count(*) FROM S [NOW] GROUP BY a, b") == (
        "a",
        "a + 1",
        "b",
        "count(*)",
    )
    assert oracle.columns("SELECT * FROM S, T") == ("a", "b", "a_1")
    oracle.execute("CREATE VIEW V AS SELECT * FROM S, T; CREATE VIEW W (x, y, z) AS SELECT * FROM V")
    assert oracle.columns("SELECT a_1 FROM V") == ("a_1",)
    assert oracle.columns("SELECT * FROM W") == ("x", "y", "z")
    assert oracle.columns("SELECT `a + 1` FROM (SELECT a + 1 FROM S) AS x") == ("a + 1",)


def test_ties_by_arrival_and_by_value() -> None:
    oracle = opened("CREATE STREAM S (a STRING) TIMESTAMP BY ts HEARTBEAT EXPLICIT")
    oracle.insert("S", [("z", 2), ("b", 1), (None, 1), ("a", 1)])
    oracle.advance(to=5)
    assert oracle.relation("SELECT a FROM S [ROWS 2]", 1) == Counter([(None,), ("a",)])
    derived = "SELECT a FROM (SELECT ISTREAM(a) FROM S [RANGE UNBOUNDED]) [ROWS {}]"
    assert oracle.relation(derived.format(1), 1) == Counter([("b",)])
    assert oracle.relation(derived.format(2), 1) == Counter([("a",), ("b",)])
    assert oracle.relation(derived.format(3), 1) == Counter([(None,), ("a",), ("b",)])


def test_a_stream_inside_a_query_gets_an_unbounded_window() -> None:
    oracle = opened()
    oracle.insert("S", [(1, 1, 0), (2, 1, 2)])
    oracle.advance(to=5)
    union = "SELECT ISTREAM(a) FROM S [NOW] UNION ALL SELECT DSTREAM(a) FROM S [NOW]"
    assert oracle.kind(union) == "stream"
    assert oracle.elements(union, 5) == Counter([(0, (1,)), (1, (1,)), (2, (2,)), (3, (2,))])
    exists = "SELECT b FROM S [NOW] WHERE EXISTS (SELECT DSTREAM(a) FROM S [NOW])"
    assert oracle.changes(exists) == {(2, (1,)): 1, (3, (1,)): -1}


def test_the_clock_and_tables() -> None:
    oracle = opened()
    oracle.execute("CREATE TABLE T (a INT, b STRING)")
    assert oracle.execute("INSERT INTO T VALUES (1, 'x')") == 0
    assert oracle.final("SELECT a FROM T") == -1
    assert oracle.now("SELECT a FROM T") == Counter([(1,)])  # a pending change
    oracle.insert("S", [(1, 1, 10)])
    assert oracle.final("SELECT a FROM T") == 9
    assert oracle.execute("UPDATE T SET b = 'y' WHERE a = 1") == 10
    assert oracle.execute("INSERT INTO T VALUES (2, NULL) AT 15") == 15
    assert oracle.execute("INSERT INTO T VALUES (3, NULL)") == 15  # not before the last change
    with pytest.raises(OracleError, match="after the clock"):
        oracle.execute("DELETE FROM T AT 14")
    oracle.advance(to=20)
    assert oracle.execute("DELETE FROM T WHERE b IS NULL AND a < 3") == 21
    oracle.advance(to=30)
    assert oracle.changes("SELECT * FROM T") == {
        (0, (1, "x")): 1,
        (10, (1, "x")): -1,
        (10, (1, "y")): 1,
        (15, (2, None)): 1,
        (15, (3, None)): 1,
        (21, (2, None)): -1,
    }
    # A table that statements change does not hold back a stream.
    assert oracle.final("SELECT S.a FROM S, T") == 30


def test_changes_by_tables_have_heartbeats() -> None:
    oracle = opened("CREATE TABLE T (a INT, op STRING, ts BIGINT) KEY (a) CHANGES BY op TIMESTAMP BY ts")
    assert oracle.insert("T", [(1, "+", 0), (1, "update", 4), (2, "-", 5), (3, "+", 3)]) == (3, 1)
    assert oracle.final("SELECT a FROM T") == 4
    assert oracle.relation("SELECT * FROM T", 4) == Counter([(1, "update", 4)])
    with pytest.raises(OracleError, match="none of"):
        oracle.insert("T", [(1, "?", 9)])
    with pytest.raises(OracleError, match="statements"):
        oracle.execute("DELETE FROM T")


def test_timestamps_and_ticks() -> None:
    oracle = opened("CREATE STREAM S (a INT) TIMESTAMP BY at TIMESTAMP TICK INTERVAL '10' SECONDS HEARTBEAT EXPLICIT")
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    oracle.insert("S", [(1, noon), (2, noon + dt.timedelta(seconds=19, microseconds=999_999))])
    oracle.advance("S", to=noon + dt.timedelta(hours=1))
    tick = int(noon.timestamp()) // 10
    assert oracle.elements("SELECT a FROM S", tick + 360) == Counter([(tick, (1,)), (tick + 1, (2,))])
    query = "SELECT a FROM S [RANGE 1 MINUTE]"
    assert oracle.changes(query) == {
        (tick, (1,)): 1,
        (tick + 1, (2,)): 1,
        (tick + 7, (1,)): -1,
        (tick + 8, (2,)): -1,
    }
    assert oracle.timestamp(query, tick) == dt.datetime(2024, 5, 1, 12)
    with pytest.raises(OracleError, match="whole number of ticks"):
        oracle.kind("SELECT a FROM S [RANGE 15 SECONDS]")
    oracle.advance("S", to=tick + 10**7)
    with pytest.raises(OracleError, match="too many rows"):
        oracle.elements("SELECT RSTREAM(a) FROM S", tick + 10**7)


def test_streams_of_different_ticks_do_not_mix() -> None:
    oracle = opened("""
        CREATE STREAM A (a INT) TIMESTAMP BY ts;
        CREATE STREAM B (a INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
        CREATE STREAM C (a INT) TIMESTAMP BY ts TIMESTAMP TICK INTERVAL '1' SECOND;
    """)
    assert oracle.kind("SELECT B.a FROM B [RANGE 1 MINUTE], C [RANGE 1 MINUTE]") == "relation"
    with pytest.raises(OracleError, match="tick"):
        oracle.kind("SELECT A.a FROM A, B")


def test_settings_are_those_of_the_database() -> None:
    oracle = opened()
    oracle.insert("S", [(1, 1, 0)])
    oracle.advance(to=9)
    query = "SELECT DSTREAM(a) FROM S [RANGE 3]"
    assert oracle.elements(query, 9) == Counter([(4, (1,))])
    oracle.execute("SET range_bounds = 'half_open'")
    assert oracle.elements(query, 9) == Counter([(3, (1,))])
    with pytest.raises(OracleError, match="range_bounds"):
        oracle.execute("SET range_bounds = 'open'")


def test_drop() -> None:
    oracle = opened()
    oracle.execute("CREATE VIEW V AS SELECT a FROM S; REGISTER QUERY q AS SELECT a FROM V")
    for wrong in ("DROP VIEW V", "DROP STREAM S", "DROP TABLE S", "DROP QUERY V"):
        with pytest.raises(OracleError):
            oracle.execute(wrong)
    oracle.execute("DROP QUERY q; DROP VIEW V; DROP STREAM S")
    with pytest.raises(OracleError, match="no stream or table"):
        oracle.insert("S", [])


def test_what_is_left_out_says_so() -> None:
    oracle = opened()
    with pytest.raises(NotImplementedError, match="CLOCK"):
        oracle.execute("CREATE STREAM C (a INT) TIMESTAMP BY ts HEARTBEAT CLOCK")
    oracle.execute("CREATE TABLE N (a INT) NON RETROACTIVE; ADVANCE TO 5")
    joined = "SELECT S.a FROM S, N WHERE S.a = N.a"
    assert oracle.kind(joined) == "stream"
    with pytest.raises(NotImplementedError, match="NON RETROACTIVE"):
        oracle.elements(joined, 3)


def test_ad_hoc_queries_answer_now() -> None:
    oracle = opened()
    oracle.insert("S", [(1, 1, 0), (2, 1, 3)])
    assert oracle.execute("SELECT a FROM S [ROWS 1]") == Counter([(1,)])  # final up to 2
    assert oracle.execute("ADVANCE S TO 3; SELECT a FROM S [ROWS 1]") == Counter([(2,)])
    assert oracle.execute("SELECT a FROM S") == Counter([(0, (1,)), (3, (2,))])
