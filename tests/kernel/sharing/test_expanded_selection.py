"""Selection, projection and expansion in one go: of each query what its own condition selects, piece by piece."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.sharing.conditions import (
    NO_TIME,
    SCHEMA,
    bag,
    batches,
    by_query,
    column,
    filled,
    query_state,
    query_tables,
    templates,
)

from millstream.kernel.batch import batch_schema
from millstream.kernel.relational.linear import Project
from millstream.kernel.scalar.evaluate import select_true
from millstream.kernel.scalar.expressions import TRUE
from millstream.kernel.sharing import expanded_selection
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.expanded_selection import ExpandedSelection
from millstream.kernel.sharing.grouped_selection import EDDY, GroupedSelection
from millstream.kernel.sharing.parameters import with_values
from millstream.types import BIGINT, Field

COLUMNS = (6, 0)  # what is left of a row


@pytest.mark.parametrize("piece", [2, 1000])
@given(data=st.data())
@settings(max_examples=40)
def test_every_query_gets_what_its_own_condition_selects(piece: int, data: st.DataObject) -> None:
    template = data.draw(templates(depth=2))
    tables = data.draw(query_tables(template, data.draw(st.lists(st.integers(0, 3000), unique=True, max_size=8))))
    batch = data.draw(batches())
    schema = tuple(SCHEMA[index] for index in COLUMNS)
    project = Project(schema, [column(index) for index in COLUMNS])
    operator = ExpandedSelection(GroupedSelection(SCHEMA, {"q": template.condition}), [project], Expand(schema))
    with patch.object(expanded_selection, "_PIECE", piece):
        output, state = operator.step([batch], query_state({"q": tables}), NO_TIME)
    expected = {
        query: _projected(select_true(batch, with_values(template.condition, values)))
        for query, *values in pl.concat(tables).iter_rows()
    }
    assert by_query(output, len(COLUMNS)) == filled(expected)
    assert set(state) <= {EDDY}


def _projected(rows: pl.DataFrame) -> Counter[tuple[object, ...]]:
    return bag(rows, [f"c{index}" for index in COLUMNS])


def test_what_several_pieces_say_of_a_cell_is_summed() -> None:
    schema = (Field("a", BIGINT),)
    rows = pl.DataFrame([(7, 0, 5, 1)] * 6, schema=batch_schema(schema), orient="row")
    everyone = pl.DataFrame({"query": [3, 2000]})
    operator = ExpandedSelection(GroupedSelection(schema, {"q": TRUE}), [], Expand(schema))
    with patch.object(expanded_selection, "_PIECE", 2):
        output, _ = operator.step([rows], query_state({"q": [everyone]}), NO_TIME)
    assert sorted(output.rows()) == [(3, 7, 0, 5, 6), (2000, 7, 0, 5, 6)]
