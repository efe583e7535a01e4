"""A table fed by changes holds what applying them one by one leaves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.inputs import ChangeTable, Element, Feed
from tests.oracle.times import Ticks
from tests.support.changes import REJECTED, SCHEMA, stepped
from tests.support.instants import LAST, at

from millstream.kernel.relational.change_log import ChangeLog
from millstream.language.statements import Heartbeat

OPERATIONS = {(): ("+", "insert", "-", "delete"), (0,): ("+", "-", "delete", "update")}


@pytest.mark.parametrize("key", OPERATIONS, ids=["without a key", "by key"])
@given(data=st.data())
@settings(max_examples=60)
def test_the_table_is_what_the_oracle_makes_of_the_changes(key: tuple[int, ...], data: st.DataObject) -> None:
    change = st.tuples(
        st.integers(0, LAST), st.integers(0, 1), st.none() | st.integers(0, 1), st.sampled_from(OPERATIONS[key])
    )
    drawn = data.draw(st.lists(change, max_size=15))
    changes = [Element(ts, (k, v, operation), place) for place, (ts, k, v, operation) in enumerate(drawn)]
    cuts = sorted(data.draw(st.lists(st.integers(0, LAST), max_size=3)))
    feed = Feed("t", ("k", "v", "op"), 0, Ticks(), Heartbeat(), accepted=changes)
    table = ChangeTable("t", SCHEMA, "", key, 2, feed)  # type: ignore[arg-type]
    output = stepped(ChangeLog(SCHEMA, key), changes, cuts)
    for instant in range(LAST + 1):
        assert at(output, 2, instant) == Counter(table.rows(instant)), f"at {instant}"


def test_a_deletion_without_a_copy_is_told_apart() -> None:
    changes = [
        Element(1, (0, 5, "-"), 0),
        Element(2, (0, 5, "+"), 1),
        Element(3, (0, 5, "-"), 2),
        Element(3, (0, 5, "delete"), 3),
    ]
    rejected = stepped(ChangeLog(REJECTED, (), malformed=True), changes, [1, 2])
    assert [row[:4] for row in rejected] == [(0, 5, "-", 1), (0, 5, "delete", 3)]
