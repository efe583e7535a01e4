"""Queries parse, and print back as CQL that parses to the same tree."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.language.dialect import CQL
from millstream.language.statement_parser import parse, parse_query
from millstream.language.syntax import WINDOW, StreamOperator

QUERIES = {
    "SELECT a FROM S [Rows 5] as I, T x": "SELECT a FROM S [ROWS 5] AS I CROSS JOIN T AS x",
    "select istream(*) from S [range unbounded] where a > 65": (
        "SELECT ISTREAM(*) FROM S [RANGE UNBOUNDED] WHERE a > 65"
    ),
    "SELECT Dstream(Distinct a, b AS c) FROM S [Range 30 Seconds]": (
        "SELECT DSTREAM(DISTINCT a, b AS c) FROM S [RANGE 30 SECONDS]"
    ),
    "SELECT a FROM S [RANGE INTERVAL '1' HOUR SLIDE 5 MINUTES]": "SELECT a FROM S [RANGE 1 HOUR SLIDE 5 MINUTES]",
    "SELECT a FROM S [Rows 50,000]": "SELECT a FROM S [ROWS 50000]",
    "SELECT a FROM S [PARTITION BY a, b ROWS 3 SLIDE 2] y": "SELECT a FROM S [PARTITION BY a, b ROWS 3 SLIDE 2] AS y",
    "SELECT a FROM S SAMPLE (10 PERCENT) [TUMBLE 60]": "SELECT a FROM S SAMPLE (10 PERCENT) [TUMBLE 60]",
    "SELECT a FROM (SELECT a FROM S) [NOW] z": "SELECT a FROM (SELECT a FROM S) [NOW] AS z",
    "ISTREAM(SELECT a FROM S UNION SELECT a FROM T)": "ISTREAM(SELECT a FROM S UNION SELECT a FROM T)",
    "SELECT * FROM (ISTREAM(SELECT a FROM R)) [RANGE 5]": "SELECT * FROM (ISTREAM(SELECT a FROM R)) [RANGE 5]",
    "SELECT * FROM S [BEGIN NOW - 30 SECONDS END NOW]": "SELECT * FROM S [BEGIN NOW - 30 SECONDS END NOW]",
    "SELECT * FROM S, T WHERE a > 5 BEGIN 5 END NOW": "SELECT * FROM S CROSS JOIN T WHERE a > 5 BEGIN 5 END NOW",
    "WITH x AS (SELECT a FROM S) RSTREAM(SELECT * FROM x)": "WITH x AS (SELECT a FROM S) RSTREAM(SELECT * FROM x)",
    "SELECT a -- why\nFROM S [NOW]": "SELECT a /* why */ FROM S [NOW]",
    "SELECT Max(timestamp) - Min(timestamp) FROM S [ROWS 2]": "SELECT Max(timestamp) - Min(timestamp) FROM S [ROWS 2]",
}


@pytest.mark.parametrize(("text", "printed"), QUERIES.items())
def test_prints_as_cql(text: str, printed: str) -> None:
    query = parse_query(text)
    assert query.sql(dialect=CQL) == printed
    assert parse_query(printed).sql(dialect=CQL) == printed


def test_a_window_stands_on_its_from_item() -> None:
    query = parse_query("SELECT a FROM S [NOW] AS x, (SELECT b FROM T) [ROWS 2] y")
    first, second = query.args["from_"].this, query.args["joins"][0].this
    assert isinstance(first, exp.Table)
    assert isinstance(second, exp.Subquery)
    assert (first.alias, first.args[WINDOW].args["kind"]) == ("x", "NOW")
    assert (second.alias, second.args[WINDOW].args["kind"]) == ("y", "ROWS")


def test_an_operator_around_a_query_is_one_around_its_columns() -> None:
    query = parse_query("ISTREAM(SELECT a FROM S)")
    assert isinstance(query, exp.Select)
    operator = query.expressions[0]
    assert isinstance(operator, StreamOperator)
    assert (operator.this, operator.args["whole"]) == ("ISTREAM", True)


def test_functions_keep_their_names() -> None:
    query = parse_query("SELECT Substr(b, 1), myfun(a), nvl(a, 0) FROM S")
    assert [type(item).__name__ for item in query.expressions] == ["Substring", "Anonymous", "Anonymous"]
    assert [item.name for item in query.expressions[1:]] == ["myfun", "nvl"]


def test_statements_come_in_order_with_their_places() -> None:
    text = "-- first\nADVANCE TO 5;\nSELECT 1 ; ; SET sample_seed = 3; -- last"
    found = [text[s.place.start : s.place.end] for s in parse(text)]
    assert found == ["ADVANCE TO 5", "SELECT 1", "SET sample_seed = 3"]
