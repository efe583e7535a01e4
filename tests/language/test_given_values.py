"""Values that are given beside a text: whatever they are, they are constants."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.database import Database

VALUES: list[Any] = [
    None, True, 0, -5, 2**62, 1.5, -1e300, Decimal("12.340"), "", "it's", "a\\'b", "?", ":name", "'; DROP STREAM s; --",
    "ä\n", np.int32(7),
    [1, None, 3], ["it's", "?"], [[1], []], dt.date(2026, 2, 3), dt.datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=dt.UTC),
]  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Database:
    db = ms.connect(engine="inprocess")
    db.execute("CREATE STREAM s (v INT) TIMESTAMP BY t; INSERT INTO s VALUES (1, 1), (2, 2); ADVANCE TO 5")
    return db


@pytest.mark.parametrize("value", VALUES)
def test_a_value_comes_back_as_it_was(db: Database, value: Any) -> None:
    assert db.execute("SELECT ? AS x", [value]).fetchall() == [(value,)]
    named = db.execute("SELECT :x AS x, '?' AS y, ':x' AS z -- ? :y", {"x": value})
    assert named.fetchall() == [(value, "?", ":x")]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=12))
def test_no_text_is_read_as_a_statement(db: Database, text: str) -> None:
    assert db.execute("SELECT ? AS x, ? AS y", [text, 1]).fetchall() == [(text, 1)]


def test_in_statements_of_all_kinds(db: Database) -> None:
    db.execute("CREATE TABLE names (v INT, name STRING); INSERT INTO names VALUES (?, ?)", (1, "o'neil"))
    db.execute("UPDATE names SET name = :new WHERE name = :old", {"old": "o'neil", "new": "x"})
    query = db.execute("REGISTER QUERY q AS SELECT v FROM s [RANGE 100] WHERE v > :least", {"least": 1}).query
    assert query is not None
    assert query.result().to_pylist() == [{"v": 2}]
    assert "v > 1" in query.cql
    assert db.execute("SELECT name FROM names").fetchall() == [("x",)]


@pytest.mark.parametrize(
    ("text", "params", "said"),
    [
        ("SELECT ?", [], "0 values for 1 parameter"),
        ("SELECT ?", [1, 2], "2 values for 1 parameter"),
        ("SELECT :a", {}, "no value is given for :a"),
        ("SELECT :a", {"a": 1, "b": 2}, "the text has no parameter :b"),
        ("SELECT ?", "1", "parameters are a list or a dict"),
        ("SELECT ?", 5, "parameters are a list or a dict"),
        ("SELECT ?", [object()], "object"),
    ],
)
def test_what_does_not_fit_is_refused(db: Database, text: str, params: Any, said: str) -> None:
    with pytest.raises(ms.Error, match=said):
        db.execute(text, params)
