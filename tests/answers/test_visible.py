"""Answers are seen, gone through, and taken by other libraries as they are."""

from __future__ import annotations

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import millstream as ms
from millstream.database import Database


@pytest.fixture
def db() -> Database:
    db = ms.connect(engine="inprocess")
    db.execute("CREATE STREAM s (k STRING, v INT) TIMESTAMP BY t; INSERT INTO s VALUES ('a', 1, 1), ('<b>', NULL, 2)")
    db.execute("ADVANCE TO 5")
    return db


def test_an_ad_hoc_answer_prints_its_rows(db: Database) -> None:
    assert str(db.execute("SELECT k, v FROM s [RANGE 10] WHERE v = 1")) == "k | v\n--+--\na | 1\n(1 row)"
    assert str(db.execute("SHOW STREAMS")).split("\n")[0].startswith("name | columns")
    assert "\n" not in str(db.execute("ADVANCE TO 6"))
    explained = db.execute("EXPLAIN SELECT * FROM s [RANGE 10]")
    assert str(explained) == explained.message


def test_long_answers_are_cut_where_they_are_printed_only(db: Database) -> None:
    db.insert("s", [("x", n, 9) for n in range(100)])
    db.execute("ADVANCE TO 10")
    result = db.execute("SELECT v FROM s [NOW] UNION ALL SELECT v FROM s [RANGE 2]")
    assert str(result).endswith("(100 rows, 20 shown)")
    assert len([*result]) == 100


def test_rows_are_gone_through_and_fetched(db: Database) -> None:
    result = db.execute("SELECT v, k FROM s [RANGE 10]")
    rows = [*result]
    assert sorted(rows, key=str) == [(1, "a"), (None, "<b>")]
    assert [*result] == rows
    assert len(result) == 2
    assert repr(result) == str(result)
    assert db.register("SELECT v, k FROM s [RANGE 10]", name="fetched").fetchall() == rows
    assert db.execute("SELECT v FROM s [NOW]")  # which has no rows
    assert result.fetchone() == rows[0]
    assert result.fetchmany(0) == []
    assert result.fetchall() == rows[1:]
    assert result.fetchone() is None
    assert result.fetchall() == []


def test_a_statement_without_rows_says_so(db: Database) -> None:
    result = db.execute("ADVANCE TO 20")
    with pytest.raises(ms.InputError, match="gave no rows"):
        result.fetchall()
    assert result._repr_html_() is None


def test_html_shows_values_as_text(db: Database) -> None:
    shown = db.execute("SELECT k, v FROM s [RANGE 10]")._repr_html_()
    assert shown is not None
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "NULL" in shown
    assert "2 rows" in shown


def test_other_libraries_take_results_queries_and_templates(db: Database) -> None:
    cql = "SELECT k, v FROM s [RANGE 100]"
    query = db.register(cql, name="q")
    template = db.register_many("SELECT k, v FROM s [RANGE 100] WHERE v = ?", [(1,), (2,)], template="alerts")
    for answer in (db.execute(cql), query):
        assert pa.table(answer).num_rows == 2
        assert pl.DataFrame(answer).height == 2
        assert answer.pl().columns == ["k", "v"]
        assert isinstance(answer.df(), pd.DataFrame)
        assert duckdb.connect().execute("SELECT count(*) FROM answer").fetchall() == [(2,)]
    assert pa.table(template).num_rows == 1
    shown = query._repr_html_()
    assert shown is not None
    assert "2 rows" in shown


def test_show_prints(db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    db.register("SELECT k FROM s [RANGE 100]", name="q").show(1)
    assert capsys.readouterr().out.endswith("(2 rows, 1 shown)\n")


def test_dates_that_python_has_not_are_shown() -> None:
    with ms.connect(engine="inprocess") as db:
        found = db.execute("SELECT date_add(DATE '9999-12-31', 1) AS d, timestamp_seconds(999999999999) AS t, 1 AS n")
        assert "10000-01-01 |" in str(found)
        assert "+33658-09-27 01:46:39" in str(found)
        with pytest.raises(ms.InputError, match="none of Python's") as raised:
            found.fetchall()
        assert raised.value.hint == "take it as Arrow: .arrow()"


def test_pandas_knows_the_columns_of_rows_that_it_goes_through(db: Database) -> None:
    result = db.execute("SELECT k AS `the key`, v FROM s [RANGE 10]")
    assert list(pd.DataFrame(result).columns) == ["the key", "v"]
    assert all(isinstance(row, tuple) for row in result)
    assert repr(next(iter(result))) == "('<b>', None)"
