"""INSERT .. VALUES of plain constants is read without a syntax tree, and means the same as with one."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.support.answers import accepted, table_of
from tests.support.patching import count_calls

import millstream as ms
from millstream.engine.engine import Engine
from millstream.language import literal_rows
from millstream.language import values as language_values
from millstream.language.literal_rows import plain_inserts
from millstream.language.statement_parser import parse, parsed_insert
from millstream.language.statements import Insert
from millstream.plan.definitions import StreamDefinition
from millstream.types import Field

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


def tree(rows: str) -> Insert:
    return parsed_insert(one_insert(f"INSERT INTO S VALUES {rows}"))


def one_insert(text: str) -> Insert:
    (statement,) = parse(text)
    assert isinstance(statement, Insert)
    return statement


def outcome(text: str, columns: tuple[Field, ...], *, plain: bool) -> str:
    statement = one_insert(text)
    statement = statement if plain else parsed_insert(statement)
    try:
        made = language_values.insert_rows(statement, columns)
    except ms.Error as error:
        return str(error)
    return repr(made).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc")


def columns_of(db: ms.Database, stream: str) -> tuple[Field, ...]:
    definition = db.catalog[stream]
    assert isinstance(definition, StreamDefinition)
    return definition.input_columns


@pytest.mark.parametrize("kind", COLUMNS)
def test_plain_constants_mean_what_they_mean_in_trees(kind: str) -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute(f"CREATE STREAM S (a {kind}, b INT) TIMESTAMP BY t")
        columns = columns_of(db, "s")
        for value in COLUMNS[kind]:
            for text in (f"INSERT INTO S VALUES ({value}, 1, 2)", f"insert into `S` (t, a) values ( 2 , {value} ) ; "):
                assert outcome(text, columns, plain=True) == outcome(text, columns, plain=False)
                assert plain_inserts(text) or value in ("5.",)
        together = ", ".join(f"({value}, 1, 2)" for value in COLUMNS[kind])
        text = f"INSERT INTO S VALUES {together}"
        assert outcome(text, columns, plain=True) == outcome(text, columns, plain=False)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO S VALUES (1 + 1)",
        "INSERT INTO S VALUES ('it' 's')",
        r"INSERT INTO S VALUES ('a\n')",
        "INSERT INTO S VALUES (1, )",
        "INSERT INTO S VALUES (abs(1))",
        "INSERT INTO S VALUES ()",
        "INSERT INTO S VALUES",
        "INSERT INTO S VALUES (1.2.3)",
        "INSERT INTO S VALUES (1abc)",
        "INSERT INTO S SELECT 1",
    ],
)
def test_anything_else_is_left_to_the_parser(text: str) -> None:
    assert not plain_inserts(text)


def test_what_is_wrong_is_pointed_at() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY t")
        with pytest.raises(ms.TypeError, match=r'(?s)column "a" is INT, not STRING.*line 2, column 2'):
            db.execute("INSERT INTO S VALUES (1, 1),\n('x', 2)")
        with pytest.raises(ms.InputError, match="row 2 has 1 value, not 2"):
            db.execute("INSERT INTO S VALUES (1, 1), (2)")
        with pytest.raises(ms.NameError, match="no stream or table"):
            db.execute("INSERT INTO Nobody VALUES (1, 1), (2)")
        assert db.stats()["streams"]["S"]["arrived"] == 0


def test_ten_thousand_rows_cost_no_query_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, since clocks are no test: a few evaluations for each column, whatever the rows."""
    calls = count_calls(monkeypatch, literal_rows, "evaluate")
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
        assert accepted(db, f"INSERT INTO S VALUES {rows}") == 10_000
        assert len(calls) < 10


def test_expressions_of_one_form_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, literal_rows, "evaluate")
    rows = [
        f"({i} + {i % 7}, concat('it''s ', '{i}'), -{i}.5 * 2, DATE '2026-01-01' + INTERVAL {i % 9} DAY, {i} / 3, {i})"
        for i in range(200)
    ]
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT, s STRING, d DECIMAL(10,2), day DATE, b BIGINT) TIMESTAMP BY ts")
        columns = columns_of(db, "s")
        together = language_values.insert_rows(tree(", ".join(rows)), columns)
        assert len(calls) < 20
        singly = [language_values.insert_rows(tree(row), columns)[0] for row in rows]
        assert together == singly
        assert together[8] == (9, "it's 8", Decimal("-17.00"), date(2026, 1, 9), 2, 8)
        with pytest.raises(ms.EvaluationError, match=r"(?s)division by zero.*line 2, column 2"):
            db.execute("INSERT INTO S VALUES (1/1, 'a', 1, NULL, 1, 1),\n(1/0, 'a', 1, NULL, 1, 1)")


SCRIPT = """-- rows of a morning; and more
CREATE STREAM S (a INT, s STRING, t BIGINT) TIMESTAMP BY t;
INSERT INTO S VALUES (1, 'r', 1), (2, '/* ; */', 2);  INSERT INTO S VALUES (3, 'it''s; --', 3);
INSERT INTO S VALUES (4, "x", 3); -- a text in other quotes; and a comment
-- INSERT INTO S VALUES (5, 'no', 3);
INSERT INTO S VALUES (6, 'y', 4), (7, 'z', 4), (8, NULL, 4);
insert into S (t, a) values (5, 9); INSERT INTO S (t, a) VALUES (5, 10);
INSERT INTO S VALUES (11 + 1, 'w', 5), (13, 'v', 5);
CREATE TABLE R (k INT);
INSERT INTO R VALUES (1), (2) AT 20; INSERT INTO R VALUES (3) AT 20; INSERT INTO R VALUES (4); INSERT INTO R VALUES (5);
REGISTER QUERY q AS SELECT a, s FROM S WHERE s <> ';' AND a IN (LIST);
INSERT INTO S VALUES (14, ';', 6); INSERT INTO S VALUES (15, 'r', 7) ;
"""


def test_scripts_of_many_statements() -> None:
    """Whatever stands between them, and with long lists that are taken out of the text as well."""
    script = SCRIPT.replace("LIST", ", ".join(str(i) for i in range(3_000)))
    runs = [len(run) for run in plain_inserts(script)]
    assert runs == [2, 1, 1, 1, 1, 1, 2, 2]
    with ms.connect(engine="inprocess") as db:
        assert accepted(db, script) == 1
        assert db.stats()["streams"]["S"]["arrived"] == 13
        db.advance(to=30)
        found = table_of(db, "SELECT t, a, s FROM S").to_pydict()
        assert sorted(zip(found["a"], found["t"], found["s"], strict=True)) == [
            *((1, 1, "r"), (2, 2, "/* ; */"), (3, 3, "it's; --"), (4, 3, "x"), (6, 4, "y"), (7, 4, "z"), (8, 4, None)),
            *((9, 5, None), (10, 5, None), (12, 5, "w"), (13, 5, "v"), (14, 6, ";"), (15, 7, "r")),
        ]
        assert sorted(table_of(db, "SELECT k FROM R").column("k").to_pylist()) == [1, 2, 3, 4, 5]


def test_statements_of_a_script_are_where_they_are() -> None:
    text = "INSERT INTO S VALUES (1, 1);\n INSERT INTO S VALUES (2, 2), (3, 3);INSERT INTO S VALUES (4, 4) ;\n"
    places = [text[one.place.start : one.place.end] for one in parse(text)]
    assert places == [
        "INSERT INTO S VALUES (1, 1)",
        "INSERT INTO S VALUES (2, 2), (3, 3)",
        "INSERT INTO S VALUES (4, 4)",
    ]
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY t")
        with pytest.raises(ms.TypeError, match=r'(?s)column "a" is INT, not STRING.*line 3, column 23'):
            db.execute(f"{text}INSERT INTO S VALUES ('x', 5); INSERT INTO S VALUES (6, 6)")
        assert db.stats()["streams"]["S"]["arrived"] == 4  # those before it are taken
        with pytest.raises(ms.InputError, match="negative timestamp"):
            db.execute("INSERT INTO S VALUES (5, 5); INSERT INTO S VALUES (6, -1); INSERT INTO S VALUES (7, 7);")
        assert db.stats()["streams"]["S"]["arrived"] == 5
        # Late for one that stands before it: as many statements, or as one.
        assert db.execute(
            "INSERT INTO S VALUES (1, 9); INSERT INTO S VALUES (1, 5); INSERT INTO S VALUES (1, 9);"
        ).insert
        assert db.stats()["streams"]["S"]["late"] == 1


def test_many_statements_are_one_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = count_calls(monkeypatch, Engine, "epoch")
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY t; CREATE TABLE R (a INT)")
        db.execute("REGISTER QUERY q AS SELECT a FROM S [ROWS 2]")
        before = len(epochs)
        db.execute(";".join(f"INSERT INTO S VALUES ({i}, {i})" for i in range(100)))
        db.execute(";".join(f"INSERT INTO R VALUES ({i})" for i in range(100)))
        assert len(epochs) - before < 10
        assert sorted(db.query("q").result().column("a").to_pylist()) == [97, 98]


def test_decimals_whose_scale_is_none() -> None:
    """Arrow lets them be made, and ends the process that casts them."""
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (d DECIMAL(5,2)) TIMESTAMP BY ts")
        for scale in (16_777_218, 6, -3):
            column = pa.array([1, None], pa.decimal128(5, 0)).view(pa.decimal128(5, scale))
            with pytest.raises(ms.InputError, match="a scale is between 0 and the precision"):
                db.insert("s", pa.table({"d": column, "ts": [1, 2]}))
