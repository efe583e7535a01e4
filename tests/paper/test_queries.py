"""The CQL paper's queries parse, mean what the paper says they are, and have an answer over nothing."""

from __future__ import annotations

import pytest
from tests.oracle import Oracle
from tests.paper.queries import QUERIES, PaperQuery

from millstream.language.dialect import CQL
from millstream.language.statement_parser import parse_query


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_parses_and_prints_as_cql_again(query: PaperQuery) -> None:
    printed = parse_query(query.text).sql(dialect=CQL)
    assert parse_query(printed).sql(dialect=CQL) == printed


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_kind(query: PaperQuery) -> None:
    oracle = Oracle()
    oracle.execute(query.setup)
    assert oracle.kind(query.text) == query.kind


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_answers_before_any_input(query: PaperQuery) -> None:
    oracle = Oracle()
    oracle.execute(query.setup)
    oracle.advance(to=3)
    changes = oracle.changes(query.text)
    # Only an aggregate without groups has a row over nothing, and it is new at instant 0.
    aggregates = "Max(timestamp)" in query.text or "Count(*)" in query.text
    assert {ts for ts, _ in changes} == ({0} if aggregates else set())
