"""Grouped selection: what each query wants is what its own condition selects."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.sharing.conditions import (
    NO_TIME,
    SCHEMA,
    bag,
    batches,
    of_each_query,
    query_state,
    query_tables,
    templates,
)

from millstream.kernel.batch import value_columns
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.lineage import BLOCK, LINEAGE, lineage_of, wanted_by


@given(st.data())
@settings(max_examples=150)
def test_every_query_gets_what_its_own_condition_selects(data: st.DataObject) -> None:
    shapes = data.draw(st.lists(templates(), min_size=1, max_size=3))
    numbers = data.draw(st.lists(st.integers(0, 3000), unique=True, max_size=10))
    batch = data.draw(batches())
    expected: dict[int, Counter[tuple[object, ...]]] = {}
    tables = {}
    for index, template in enumerate(shapes):
        segments = data.draw(query_tables(template, numbers[index :: len(shapes)]))
        tables[str(index)] = segments
        expected |= of_each_query(batch, template, segments)
    operator = GroupedSelection(SCHEMA, {str(i): template.condition for i, template in enumerate(shapes)})
    output, _ = operator.step([batch], query_state(tables), NO_TIME)
    assert output.columns == [*batch.columns, BLOCK, LINEAGE]
    assert all(row.any() for row in lineage_of(output))
    columns = value_columns(len(SCHEMA))
    found = {query: bag(output.filter(pl.Series(wanted_by(output, query))), columns) for query in expected}
    assert found == expected
