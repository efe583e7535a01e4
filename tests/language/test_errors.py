"""Wrong inputs: each gets an error of the right class that says what is wrong and points at the place."""

from __future__ import annotations

import pytest

import millstream as ms

SCHEMA = """
CREATE STREAM S (a INT, b STRING, d DECIMAL(10,2)) TIMESTAMP BY ts;
CREATE STREAM T (a INT, x DOUBLE) TIMESTAMP BY ts;
CREATE STREAM Seconds (a INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
CREATE STREAM Micros (a INT, at TIMESTAMP) TIMESTAMP BY at;
CREATE TABLE P (id INT, price DOUBLE) KEY (id);
CREATE TABLE Log (id INT) APPEND ONLY;
CREATE VIEW Recent AS SELECT a, b FROM S [RANGE 5];
REGISTER QUERY q AS SELECT a FROM T [NOW];
"""

# (text, class, what the message must say, the text that the caret must stand under)
WRONG = [
    # Syntax
    ("SELEC a FROM S", ms.SyntaxError, 'no statement starts with "SELEC".*did you mean "SELECT"', "SELEC"),
    ("SELECT a FROM", ms.SyntaxError, "expected the name of a stream", ""),
    ("SELECT a FROM S WHERE", ms.SyntaxError, "ends too early", ""),
    ("SELECT a b c FROM S", ms.SyntaxError, 'unexpected "c"', "c"),
    ("SELECT (a FROM S", ms.SyntaxError, r"expecting \)", "FROM"),
    ("SELECT 'abc FROM S", ms.SyntaxError, "quote", None),
    ("SELECT a FROM S [RANGE 5", ms.SyntaxError, "expected ]", ""),
    ("SELECT a FROM S [RANGE]", ms.SyntaxError, "RANGE takes a number or an interval", "]"),
    ("SELECT a FROM S [ROWS five]", ms.SyntaxError, "ROWS takes a number", "five"),
    ("SELECT a FROM S [SLIDE 5]", ms.SyntaxError, "a window is", "SLIDE"),
    ("SELECT a FROM S [RANGE 5 SLIDE]", ms.SyntaxError, "SLIDE takes a number", "]"),
    ("SELECT a FROM S [RANGE 5 ROWS 4]", ms.SyntaxError, "expected ]", "4"),
    ("SELECT a FROM S [BEGIN 5]", ms.SyntaxError, "expected END", "]"),
    ("SELECT a FROM Seconds [RANGE 5 SECODNS]", ms.SyntaxError, 'unknown unit of time.*"SECONDS"', "5 SECODNS"),
    ("SELECT a FROM S [RANGE 1.5]", ms.SyntaxError, "not a whole number of ticks", "1.5"),
    ("SELECT ISTREAM(a), b FROM S", ms.SyntaxError, "around the whole select list", ","),
    ("SELECT a FROM S SAMPLE (10)", ms.SyntaxError, "expected PERCENT", ")"),
    ("DROP S", ms.SyntaxError, "DROP takes a QUERY", "S"),
    ("CREATE INDEX i", ms.SyntaxError, "CREATE makes a STREAM", "INDEX"),
    ("CREATE STREAM U (a INT)", ms.SyntaxError, "expected TIMESTAMP", ""),
    ("CREATE STREAM U (a INT) TIMESTAMP BY t HEARTBEAT FAST", ms.SyntaxError, "HEARTBEAT is", "FAST"),
    ("INSERT INTO S VALUES 5", ms.SyntaxError, r"expecting \(", "5"),
    ("REGISTER QUERY r MODE QUICK AS SELECT a FROM S", ms.SyntaxError, "MODE is", "QUICK"),
    ("SET range_bounds 'closed'", ms.SyntaxError, "expected =", "'closed'"),
    ("SHOW ME", ms.SyntaxError, "SHOW takes", "ME"),
    ("SELECT FROM S", ms.BindError, "SELECT without columns", None),
    # Names
    ("SELECT a FROM Sx", ms.NameError, 'no stream, table or view called "Sx".*did you mean "S"', "Sx"),
    ("SELECT c FROM S", ms.NameError, 'unknown column "c"', "c"),
    ("SELECT pric FROM P", ms.NameError, 'unknown column "pric".*did you mean "price"', "pric"),
    ("SELECT U.a FROM S", ms.NameError, 'nothing in FROM is called "U"', "U.a"),
    ("SELECT a FROM S [NOW], T [NOW]", ms.NameError, '"a" is ambiguous.*S.a, T.a', "a"),
    (
        "SELECT a FROM S [NOW] JOIN S [NOW] AS U USING (a), T [NOW]",
        ms.NameError,
        '"a" is ambiguous.*T.a, a of USING',
        "a",
    ),
    ("SELECT 1 FROM S [NOW], S [NOW]", ms.NameError, '"S" stands twice', "S [NOW]"),
    ("SELECT leng(b) FROM S", ms.NameError, 'leng.*did you mean "len', "leng(b)"),
    ("SELECT a FROM S [PARTITION BY z ROWS 5]", ms.NameError, 'PARTITION BY unknown column "z"', "z"),
    ("SELECT a AS _a FROM S", ms.NameError, "starts with _", None),
    ("CREATE STREAM _s (a INT) TIMESTAMP BY t", ms.NameError, "starts with _", "_s"),
    ("CREATE STREAM U (a INT, A INT) TIMESTAMP BY t", ms.NameError, 'declares column "A" twice', "A"),
    ("CREATE TABLE U (a INT) KEY (b)", ms.NameError, 'has no column "b"', "b"),
    ("SET range_bound = 'closed'", ms.NameError, 'unknown setting.*did you mean "range_bounds"', "range_bound"),
    ("DROP QUERY qq", ms.NameError, 'no query called "qq".*did you mean "q"', "qq"),
    ("DROP VIEW S", ms.NameError, 'no view called "S"', "S"),
    ("EXPLAIN QUERY nope", ms.NameError, 'no query called "nope"', None),
    ("INSERT INTO Nope VALUES (1)", ms.NameError, 'no stream or table called "Nope"', "Nope"),
    ("INSERT INTO S (a, z) VALUES (1, 2)", ms.NameError, 'no column "z"', "z"),
    ("UPDATE P SET pric = 5", ms.NameError, 'no column "pric".*"price"', "pric"),
    ("ADVANCE Nope TO 5", ms.NameError, 'no stream called "Nope"', "Nope"),
    # Types
    ("SELECT a FROM S WHERE a", ms.TypeError, "WHERE takes a condition, not a INT", "a"),
    ("SELECT a + TRUE FROM S", ms.TypeError, "BOOLEAN", "a + TRUE"),
    ("SELECT CASE WHEN a > 1 THEN a ELSE DATE '2020-01-01' END FROM S", ms.TypeError, "CASE", None),
    ("SELECT a FROM S WHERE a IN (DATE '2020-01-01')", ms.TypeError, "IN compares", None),
    ("SELECT sum(b IS NULL) FROM S", ms.TypeError, "sum", "sum(b IS NULL)"),
    ("CREATE STREAM U (a FOO) TIMESTAMP BY t", ms.TypeError, 'unknown type "FOO"', None),
    ("CREATE STREAM U (a MAP<INT, INT>) TIMESTAMP BY t", ms.TypeError, "not supported", None),
    ("CREATE STREAM U (a DECIMAL(50,2)) TIMESTAMP BY t", ms.TypeError, "not possible", None),
    ("CREATE STREAM U (a STRING) TIMESTAMP BY a", ms.TypeError, "timestamp column", "a"),
    ("SELECT a FROM S [NOW] UNION ALL SELECT at FROM Micros [NOW]", ms.BindError, "counts time", None),
    ("SELECT x FROM T [NOW] UNION ALL SELECT a > 1 FROM T [NOW]", ms.TypeError, "column 1 of the two sides", None),
    ("INSERT INTO S VALUES ('x', 'y', 1, 5)", ms.TypeError, 'column "a" is INT, not STRING', "'x'"),
    # Windows and kinds
    ("SELECT * FROM P [RANGE 5]", ms.BindError, "a window on the table", "[RANGE 5]"),
    ("SELECT * FROM Recent [RANGE 5]", ms.BindError, "rows come and go.*ISTREAM", "[RANGE 5]"),
    ("SELECT * FROM (SELECT count(*) FROM S) [NOW]", ms.BindError, "rows come and go", "[NOW]"),
    ("SELECT * FROM S [NOW SLIDE 5]", ms.BindError, "NOW with SLIDE", "[NOW SLIDE 5]"),
    ("SELECT * FROM S [RANGE UNBOUNDED SLIDE 5]", ms.BindError, "UNBOUNDED with SLIDE", None),
    ("SELECT * FROM S [ROWS 0]", ms.BindError, "ROWS must be greater than 0", "[ROWS 0]"),
    ("SELECT * FROM S [ROWS 5 SLIDE 0]", ms.BindError, "SLIDE must be greater than 0", None),
    ("SELECT * FROM S [RANGE -5]", ms.BindError, "negative span", None),
    ("SELECT * FROM S [ROWS -5]", ms.BindError, "ROWS must be greater than 0", None),
    ("SELECT * FROM S [TUMBLE 0]", ms.BindError, "TUMBLE must be greater than 0", None),
    ("SELECT * FROM S [PARTITION BY a RANGE 5]", ms.BindError, "PARTITION BY with RANGE", None),
    ("SELECT * FROM S [ROWS 5 SECONDS]", ms.BindError, "counts rows, not time", None),
    ("SELECT * FROM S [RANGE 5 SECONDS]", ms.BindError, "TICK INTERVAL", "5 SECONDS"),
    ("SELECT * FROM Seconds [RANGE 10 MILLISECONDS]", ms.BindError, "whole number of ticks", None),
    ("SELECT * FROM S [BEGIN NOW - 2 END NOW - 5]", ms.BindError, "begins after it ends", None),
    ("SELECT * FROM S SAMPLE (110 PERCENT)", ms.BindError, "0 to 100 percent", None),
    ("SELECT * FROM P SAMPLE (10 PERCENT)", ms.BindError, "table", None),
    ("SELECT a FROM S [NOW], Seconds [NOW]", ms.BindError, "TICK INTERVAL", "Seconds [NOW]"),
    ("SELECT RSTREAM(a) FROM Micros [RANGE 5]", ms.BindError, "every microsecond", None),
    ("SELECT a FROM S WHERE ISTREAM(a)", ms.BindError, "ISTREAM cannot stand", "ISTREAM(a)"),
    ("SELECT DISTINCT ISTREAM(a) FROM S", ms.BindError, r"ISTREAM\(DISTINCT", None),
    ("CREATE STREAM U (a INT) TIMESTAMP BY t HEARTBEAT CLOCK", ms.BindError, "how long a tick is", "t"),
    ("CREATE STREAM U (a INT) TIMESTAMP BY t TICK 5", ms.BindError, "TICK takes a positive interval", None),
    ("SET range_bounds = 'open'", ms.BindError, "one of 'closed', 'half_open'", None),
    # Aggregates and subqueries
    ("SELECT a FROM S WHERE count(*) > 1", ms.BindError, "aggregate count in WHERE.*HAVING", "count(*)"),
    ("SELECT a, count(*) FROM S", ms.BindError, '"a" is neither grouped nor aggregated', "a"),
    ("SELECT sum(count(*)) FROM S", ms.BindError, "inside another aggregate", "count(*)"),
    ("SELECT sum(*) FROM S", ms.BindError, "only COUNT takes", None),
    ("SELECT a FROM S GROUP BY 5", ms.BindError, "GROUP BY 5", "5"),
    ("SELECT a FROM S WHERE a IN (SELECT a, x FROM T)", ms.BindError, "2 columns where one is wanted", None),
    ("SELECT a FROM S UNION SELECT a, x FROM T", ms.BindError, "differ in columns: 1 and 2", None),
    ("SELECT rand() FROM S", ms.Error, "rand", "rand()"),
    ("SELECT current_timestamp() FROM S", ms.Error, "current_timestamp", None),
    ("SELECT ISTREAM(a) FROM S ORDER BY a", ms.BindError, "ORDER BY of a stream.*LIMIT", "a"),
    ("REGISTER QUERY o AS SELECT a FROM S LIMIT 5", ms.BindError, "LIMIT without ORDER BY", "5"),
    ("SELECT a FROM (SELECT a FROM S ORDER BY a) AS x", ms.BindError, "without LIMIT inside of a query", "a"),
    ("CREATE VIEW o AS SELECT a FROM S ORDER BY a", ms.BindError, "without LIMIT inside of a query", "a"),
    ("SELECT DISTINCT a FROM S ORDER BY b LIMIT 1", ms.BindError, "not in the select list.*DISTINCT", "b"),
    ("REGISTER QUERY o AS SELECT a FROM S [NOW] ORDER BY b", ms.BindError, "not in the select list", "b"),
    ("SELECT a FROM S ORDER BY 2", ms.BindError, "ORDER BY 2", "2"),
    ("SELECT a FROM S ORDER BY a LIMIT -1", ms.BindError, "LIMIT takes a number of rows", "-1"),
    ("SELECT a FROM S ORDER BY a LIMIT 'x'", ms.BindError, "LIMIT takes a number of rows", "'x'"),
    ("SELECT a FROM S FETCH FIRST 2 ROWS WITH TIES", ms.BindError, "WITH TIES without ORDER BY", None),
    ("SELECT a FROM S WHERE rank() OVER (ORDER BY a) = 1", ms.BindError, "OVER in WHERE.*QUALIFY", None),
    ("SELECT rank() FROM S", ms.BindError, "rank without OVER", "rank()"),
    ("SELECT rank() OVER () FROM S", ms.BindError, "without order", None),
    ("SELECT lag(a) OVER (ORDER BY a ROWS 1 PRECEDING) FROM S", ms.BindError, "lag takes no frame", None),
    ("SELECT abs(a) OVER (ORDER BY a) FROM S", ms.BindError, "OVER goes with an aggregate", None),
    ("SELECT sum(a) OVER w FROM S", ms.BindError, "no WINDOW is called", "w"),
    (
        "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 FOLLOWING AND 2 PRECEDING) FROM S",
        ms.BindError,
        "ends before",
        None,
    ),
    ("SELECT sum(a) OVER (ORDER BY a, b RANGE 1 PRECEDING) FROM S", ms.BindError, "goes by one key", "1"),
    ("SELECT sum(a) OVER (ORDER BY a RANGE INTERVAL '1' DAY PRECEDING) FROM S", ms.BindError, "does not fit", None),
    ("SELECT sum(rank() OVER (ORDER BY a)) FROM S", ms.BindError, "OVER in an aggregate", None),
    ("SELECT ntile(0) OVER (ORDER BY a) FROM S", ms.BindError, "NTILE takes", "0"),
    ("SELECT a FROM S QUALIFY a > 1", ms.BindError, "QUALIFY without OVER", None),
    ("SELECT max(a) IGNORE NULLS OVER () FROM S", ms.BindError, "IGNORE NULLS of max", None),
    ("SELECT a FROM S WHERE a = ?", ms.BindError, "parameter", "?"),
    # The catalog
    ("CREATE STREAM s (a INT) TIMESTAMP BY t", ms.CatalogError, 'there is a stream "S" already', "s"),
    ("CREATE VIEW P AS SELECT a FROM S", ms.CatalogError, 'there is a table "P" already', "P"),
    ("REGISTER QUERY Q AS SELECT a FROM S", ms.CatalogError, 'there is a query "Q" already', "Q"),
    ("DROP STREAM S", ms.CatalogError, 'stream "S" is in use.*Recent', "S"),
    ("DROP STREAM T", ms.CatalogError, "in use.*by q", "T"),
    ("CREATE VIEW V (x) AS SELECT a, b FROM S", ms.BindError, "names 1 columns, but there are 2", "x"),
    ("SET range_bounds = 'half_open'", ms.CatalogError, "cannot change once", None),
    ("INSERT INTO Recent VALUES (1, 'x')", ms.CatalogError, "is a view", "Recent"),
    # Rows and time
    ("INSERT INTO S VALUES (1, 'x', 5)", ms.InputError, "row 1 has 3 values, not 4", None),
    ("INSERT INTO S VALUES (1, 'x', 1.5, NULL)", ms.InputError, 'timestamp "ts" is NULL', None),
    ("INSERT INTO S VALUES (1, 'x', 1.5, -1)", ms.InputError, 'negative timestamp "ts": -1', None),
    ("INSERT INTO S VALUES (3000000000, 'x', 1, 5)", ms.Error, "3000000000", "3000000000"),
    ("INSERT INTO S VALUES (1, 'x', 1, 5) AT 7", ms.BindError, "AT belongs to tables", None),
    ("DELETE FROM S", ms.InputError, "is a stream", None),
    ("DELETE FROM Log", ms.InputError, "APPEND ONLY", None),
    ("ADVANCE TO -5", ms.InputError, "before time 0", None),
    ("ADVANCE S TO 'soon'", ms.InputError, "not an instant", None),
]


@pytest.fixture
def db() -> ms.Database:
    database = ms.connect(engine="inprocess")
    database.execute(SCHEMA)
    return database


@pytest.mark.parametrize(("text", "kind", "says", "under"), WRONG, ids=[text[:60] for text, *_ in WRONG])
def test_wrong_input(db: ms.Database, text: str, kind: type[ms.Error], says: str, under: str | None) -> None:
    before = db.stats()
    with pytest.raises(ms.Error) as caught:
        db.execute(text)
    assert isinstance(caught.value, kind), f"{type(caught.value).__name__}: {caught.value}"
    message = " ".join(str(caught.value).split())
    assert caught.match("(?s)" + says), message
    if under is not None:
        place = caught.value.place
        assert place is not None, message
        assert place.text[place.start : place.end] == under
    assert db.stats() == before, "a failed statement changed the database"


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 60


def test_the_caret_stands_under_the_place(db: ms.Database) -> None:
    with pytest.raises(ms.NameError) as caught:
        db.execute("SELECT a,\n\tbb\nFROM S")
    assert str(caught.value).split("\n") == [
        'unknown column "bb"',
        "line 2, column 2:",
        "  \tbb",
        "  \t^^",
        'hint: did you mean "b"?',
    ]


class TestInserts:
    """Rows from Python: all or nothing, and the first thing that is wrong is named."""

    @pytest.mark.parametrize(
        ("rows", "says"),
        [
            ([(1, "x", 1, 5), ("y", "x", 1, 6)], "row 2, column \"a\": 'y' is not an INT"),
            ([(1, "x", 5)], "row 1 has 3 values, not 4"),
            ([(1, "x", 1, None)], "NULL"),
            ([(1, "x", 1, -4)], "negative"),
            ([(2**40, "x", 1, 1)], "is not an INT"),
            ([(1.5, "x", 1, 1)], "1.5 is not an INT"),
            ([(True, "x", 1, 1)], "True"),
            ([(1, b"\xff", 1, 1), 7], "row 2 is a int"),
            ([{"a": 1, "b": "x", "d": 1}], 'column "ts" is missing'),
            ([{"a": 1, "b": "x", "d": 1, "ts": 1, "dd": 2}], 'no column "dd"'),
            (7, "a list of tuples"),
            ("rows", "a list of tuples"),
        ],
    )
    def test_refused(self, db: ms.Database, rows: object, says: str) -> None:
        with pytest.raises(ms.InputError) as caught:
            db.insert("S", rows)
        assert says in str(caught.value)
        assert db.stats()["streams"]["S"]["arrived"] == 0

    def test_into_a_table(self, db: ms.Database) -> None:
        with pytest.raises(ms.InputError, match="statements change"):
            db.insert("P", [(1, 2.0)])

    def test_unknown(self, db: ms.Database) -> None:
        with pytest.raises(ms.NameError, match="did you mean"):
            db.insert("SS", [])


class TestTime:
    def test_an_instant_that_is_not_final(self, db: ms.Database) -> None:
        db.execute("INSERT INTO T VALUES (1, 1.5, 7)")
        with pytest.raises(ms.TimeError, match=r"(?s)at 9 is not final.*final is 6.*ADVANCE T TO 9"):
            db.query("q").result(at=9)

    def test_before_time(self, db: ms.Database) -> None:
        with pytest.raises(ms.InputError, match="before time 0"):
            db.query("q").result(at=-1)

    def test_a_table_change_in_the_past(self, db: ms.Database) -> None:
        db.execute("ADVANCE TO 9")
        with pytest.raises(ms.InputError, match="the earliest instant is 10"):
            db.execute("INSERT INTO P VALUES (1, 2.0) AT 9")


def test_closed(db: ms.Database) -> None:
    query = db.query("q")
    query.drop()
    with pytest.raises(ms.ClosedError, match="was dropped"):
        query.result()
    db.close()
    with pytest.raises(ms.ClosedError, match="closed"):
        db.execute("SELECT a FROM S")


def test_modes_and_names_of_queries(db: ms.Database) -> None:
    with pytest.raises(ms.BindError, match="mode is"):
        db.register("SELECT a FROM S", mode="fast")
    with pytest.raises(ms.BindError, match="cannot be a query's name"):
        db.register("SELECT a FROM S", name="_x")
    with pytest.raises(ms.SyntaxError, match="expected one query"):
        db.register("SELECT a FROM S; SELECT b FROM S")
    with pytest.raises(ms.SetupError, match="engine is"):
        ms.connect(engine="flink")
