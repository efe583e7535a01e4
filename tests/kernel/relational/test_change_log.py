"""A table fed by changes holds what applying them one by one leaves."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.inputs import ChangeTable, Element, Feed
from tests.oracle.times import Ticks
from tests.support.instants import LAST, Row, at

from millstream.kernel.batch import batch_schema
from millstream.kernel.operator import NO_STATE, Progress, State
from millstream.kernel.relational.change_log import ChangeLog
from millstream.language.statements import Heartbeat
from millstream.types import BIGINT, STRING, Field, Schema

SCHEMA: Schema = (Field("k", BIGINT), Field("v", BIGINT))
REJECTED: Schema = (*SCHEMA, Field("op", STRING))
OPERATIONS = {(): ("+", "insert", "-", "delete"), (0,): ("+", "-", "delete", "update")}


def as_batch(changes: list[Element]) -> pl.DataFrame:
    rows = [(*change.values, change.ts, change.ts + 1, 1, change.key) for change in changes]
    return pl.DataFrame(rows, schema=batch_schema(REJECTED, arrival=True), orient="row")


def stepped(operator: ChangeLog, changes: list[Element], cuts: list[int]) -> list[Row]:
    """All rows of the output; each step ends at one of the frontiers, and changes come when they must."""
    state: State = NO_STATE
    output: list[Row] = []
    before = -1
    for after in [*cuts, LAST]:
        due = [change for change in changes if before < change.ts <= after]
        new, state = operator.step([as_batch(due)], state, Progress((before,), (after,)))
        output += new.rows()
        before = after
    return output


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
