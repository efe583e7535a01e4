"""INSERT .. VALUES of plain constants is read without a syntax tree, and means the same as with one."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

import millstream as ms
from millstream.language import instants
from millstream.language import values as language_values
from millstream.language.literal_rows import literal_rows
from millstream.language.statement_parser import parse, parsed_insert

COLUMNS = {
    "TINYINT": ["1", "-128", "NULL", "1Y", "CAST('5' AS TINYINT)", "300", "1.0", "1.5", "'1'"],
    "INT": ["0", "-2147483648", "2147483647", "2147483648", "1L", "CAST(7 AS INT)", "1e0", "-0", "TRUE"],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "5", "5S"],
    "DOUBLE": [
        "1",
        "1.5",
        "-1e300",
        "1e400",
        ".5",
        "5.",
        "1F",
        "1.5D",
        "99999999999999999999",
        "CAST('NaN' AS DOUBLE)",
    ],
    "FLOAT": ["1", "0.1", "16777217", "1e300", "-2.5F"],
    "DECIMAL(10,2)": [
        "1",
        "1.255",
        "-0.005",
        "99999999.99",
        "99999999.999",
        "1e0",
        "1.5BD",
        "CAST('1.5' AS DECIMAL(5,1))",
    ],
    "STRING": ["''", "'a'", "'ä'", "'a, (b)'", "'--'", "'/*'", "1", "NULL", "CAST(1 AS STRING)", "'\t'"],
    "BOOLEAN": ["TRUE", "false", "Null", "1", "'true'", "CAST('yes' AS BOOLEAN)"],
    "DATE": ["DATE '2026-01-31'", "DATE '2026-02-30'", "'2026-01-31'", "TIMESTAMP '2026-01-31 10:00:00'", "'x'", "1"],
    "TIMESTAMP": [
        *("TIMESTAMP '2026-01-31 10:00:00.123456'", "'2026-01-31T10:00:00Z'", "DATE '2026-01-31'", "TIMESTAMP 'x'"),
        *("TIMESTAMP '2026-01-31 10:00:00+02:00'", "CAST('2026-01-31' AS TIMESTAMP)", "1", "TIMESTAMP '99999-01-01'"),
    ],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ '2026-01-31 10:00:00'", "TIMESTAMP '2026-01-31 10:00:00'", "NULL"],
}


def outcome(text: str, columns: object, *, plain: bool) -> str:
    (statement,) = parse(text) if plain else [parsed_insert(text)]
    try:
        made = language_values.insert_rows(statement, columns)
    except ms.Error as error:
        return str(error)
    return repr(made).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


@pytest.mark.parametrize("kind", COLUMNS)
def test_plain_constants_mean_what_they_mean_in_trees(kind):
    with ms.connect(engine="inprocess") as db:
        db.execute(f"CREATE STREAM S (a {kind}, b INT) TIMESTAMP BY t")
        columns = db.catalog["s"].input_columns
        for value in COLUMNS[kind]:
            for text in (f"INSERT INTO S VALUES ({value}, 1, 2)", f"insert into `S` (t, a) values ( 2 , {value} ) ; "):
                assert outcome(text, columns, plain=True) == outcome(text, columns, plain=False)
                assert literal_rows(text) is not None or value in ("5.",)
        together = ", ".join(f"({value}, 1, 2)" for value in COLUMNS[kind])
        text = f"INSERT INTO S VALUES {together}"
        assert outcome(text, columns, plain=True) == outcome(text, columns, plain=False)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO S VALUES (1 + 1)",
        "INSERT INTO S VALUES ('it' 's')",
        r"INSERT INTO S VALUES ('a\n')",
        "INSERT INTO S VALUES (1) AT 5",
        "INSERT INTO S VALUES (1); INSERT INTO S VALUES (2)",
        "INSERT INTO S VALUES (1, )",
        "INSERT INTO S VALUES (1) -- one",
        "INSERT INTO S VALUES (abs(1))",
        "INSERT INTO S VALUES (1) (2)",
        "INSERT INTO S VALUES ()",
        "INSERT INTO S VALUES",
        "INSERT INTO S VALUES (1.2.3)",
        "INSERT INTO S VALUES (1abc)",
        "INSERT INTO S SELECT 1",
    ],
)
def test_anything_else_is_left_to_the_parser(text):
    assert literal_rows(text) is None


def test_what_is_wrong_is_pointed_at():
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY t")
        with pytest.raises(ms.TypeError, match=r'(?s)column "a" is INT, not STRING.*line 2, column 2'):
            db.execute("INSERT INTO S VALUES (1, 1),\n('x', 2)")
        with pytest.raises(ms.InputError, match="row 2 has 1 values, not 2"):
            db.execute("INSERT INTO S VALUES (1, 1), (2)")
        with pytest.raises(ms.NameError, match="no stream or table"):
            db.execute("INSERT INTO Nobody VALUES (1, 1), (2)")
        assert db.stats()["streams"]["S"]["arrived"] == 0


def test_ten_thousand_rows_cost_no_query_each(monkeypatch):
    """Counted, since clocks are no test: a few evaluations for each column, whatever the rows."""
    from millstream.language import literal_rows as reading

    calls = []
    right = reading.evaluate
    monkeypatch.setattr(reading, "evaluate", lambda *arguments: calls.append(1) or right(*arguments))
    rows = ", ".join(
        f"({-i}, 'x{i}', {i}.25, DATE '2026-01-0{1 + i % 9}', CAST('{i}' AS BIGINT), {i}.5e0, "
        f"TIMESTAMP '2026-01-01 0{i // 3600}:{i // 60 % 60:02}:{i % 60:02}')"
        for i in range(10_000)
    )
    with ms.connect(engine="inprocess") as db:
        db.execute(
            "CREATE STREAM S (a INT, s STRING, d DECIMAL(10,2), day DATE, b BIGINT, x DOUBLE, ts TIMESTAMP)"
            " TIMESTAMP BY ts"
        )
        assert db.execute(f"INSERT INTO S VALUES {rows}").insert.accepted == 10_000
        assert len(calls) < 10


def test_expressions_of_one_form_are_computed_together(monkeypatch):
    calls = []
    right = instants.evaluate
    monkeypatch.setattr(instants, "evaluate", lambda *arguments: calls.append(1) or right(*arguments))
    rows = [
        f"({i} + {i % 7}, concat('it''s ', '{i}'), -{i}.5 * 2, DATE '2026-01-01' + INTERVAL {i % 9} DAY, {i} / 3, {i})"
        for i in range(200)
    ]
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT, s STRING, d DECIMAL(10,2), day DATE, b BIGINT) TIMESTAMP BY ts")
        columns = db.catalog["s"].input_columns
        together = language_values.insert_rows(parsed_insert(f"INSERT INTO S VALUES {', '.join(rows)}"), columns)
        assert len(calls) < 20
        singly = [language_values.insert_rows(parsed_insert(f"INSERT INTO S VALUES {row}"), columns)[0] for row in rows]
        assert together == singly
        assert together[8] == (9, "it's 8", Decimal("-17.00"), date(2026, 1, 9), 2, 8)
        with pytest.raises(ms.EvaluationError, match=r"(?s)division by zero.*line 2, column 2"):
            db.execute("INSERT INTO S VALUES (1/1, 'a', 1, NULL, 1, 1),\n(1/0, 'a', 1, NULL, 1, 1)")
