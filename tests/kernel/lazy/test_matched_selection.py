"""Matches of many queries: each finds the rows that its own condition selects, in any range of time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.lazy.selections import PROJECTION, SCHEMA, elements, queries, query_table, selection, wanted
from tests.kernel.sharing.conditions import query_state
from tests.support.instants import batch

from millstream.kernel.batch import INF
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.postings import Postings
from millstream.kernel.operator import Progress


@pytest.mark.parametrize("keyed", [False, True], ids=["grouped", "keyed"])
@given(data=st.data(), rows=elements)
@settings(max_examples=50)
def test_each_query_finds_what_its_condition_selects(
    keyed: bool, data: st.DataObject, rows: list[tuple[int, int]]
) -> None:
    asked = data.draw(queries(keyed=keyed))
    operator = MatchedSelection(selection(keyed=keyed), PROJECTION, Matches(SCHEMA, 1, None, timed=False))
    inputs = [batch(SCHEMA, [(v, t, t, INF, 1) for v, t in rows])]
    segment, _ = operator.step(inputs, query_state({"q": [query_table(asked)]}), Progress((-1,), (20,)))
    first, last = sorted(data.draw(st.tuples(st.integers(0, 20), st.integers(0, 20))))
    found = {
        number: sorted(Postings(segment).rows_of(number, first, last).select("c0", "_t0").rows())
        for number in (asked if segment.height else ())
    }
    expected = {number: wanted(rows, bounds, first, last) for number, bounds in asked.items()}
    assert found == (expected if segment.height else {})
    assert segment.height or not any(wanted(rows, bounds, 0, 20) for bounds in asked.values())
