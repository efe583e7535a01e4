"""Trees of many queries: each has the aggregates of the rows that its own condition selects, in any range of time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.lazy.selections import PROJECTION, SCHEMA, elements, queries, query_table, selection, wanted
from tests.kernel.sharing.conditions import query_state
from tests.support.instants import batch

from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.batch import INF
from millstream.kernel.lazy.ranked_tree import aggregate
from millstream.kernel.lazy.tree_segments import TreeShape
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.operator import Progress
from millstream.types import BIGINT

CALLS = tuple(AggregateCall(name, 0, False, BIGINT) for name in ("count", "sum", "min", "max"))
SHAPE = TreeShape(SCHEMA[:1], 0, CALLS)


def aggregates(values: list[int]) -> tuple[int | None, ...]:
    return (len(values), sum(values), min(values), max(values)) if values else (0, None, None, None)


@pytest.mark.parametrize("keyed", [False, True], ids=["grouped", "keyed"])
@given(data=st.data(), rows=elements)
@settings(max_examples=50)
def test_each_query_has_the_aggregates_of_what_its_condition_selects(
    keyed: bool, data: st.DataObject, rows: list[tuple[int, int]]
) -> None:
    asked = data.draw(queries(keyed=keyed))
    operator = TreeSelection(selection(keyed=keyed), PROJECTION, SHAPE, None)
    inputs = [batch(SCHEMA, [(v, t, t, INF, 1) for v, t in rows])]
    segment, _ = operator.step(inputs, query_state({"q": [query_table(asked)]}), Progress((-1,), (20,)))
    trees = [segment] if segment.height else []
    first, last = sorted(data.draw(st.tuples(st.integers(0, 20), st.integers(0, 20))))
    for number, bounds in asked.items():
        found = aggregate(trees, SHAPE, first, last, 30, number)
        values = [v for v, _ in wanted(rows, bounds, first, last)]
        assert found.rows() == [(*aggregates(values), 30, 31, 1)]
