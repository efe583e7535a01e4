"""Expansion: of each query the rows whose lineage has its bit, summed by cell."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.sharing.conditions import (
    NO_TIME,
    SCHEMA,
    batches,
    by_query,
    filled,
    of_each_query,
    query_state,
    query_tables,
    templates,
)

from millstream.kernel.batch import ARRIVAL, batch_schema
from millstream.kernel.sharing import expand as expansion
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.lineage import BLOCK, lineage_series
from millstream.types import BIGINT, Field

WIDTH = len(SCHEMA)
WAYS = [{"_SORTED": 0}, {"_FEW": 2}, {"_FEW": 2, "_SORTED": 0}, {"_DENSE": 0}, {"_PAIRS": 3, "_GROUPS": 2}]


@given(st.data(), st.sampled_from(WAYS))
@settings(max_examples=80)
def test_expanded_lineage_is_what_each_query_selects_summed_by_cell(data: st.DataObject, way: dict[str, int]) -> None:
    template = data.draw(templates(depth=2))
    numbers = data.draw(st.lists(st.integers(0, 3000), unique=True, max_size=10))
    batch = data.draw(batches())
    batch = pl.concat([batch] * data.draw(st.integers(1, 5)) + [batch[: data.draw(st.integers(0, batch.height))]])
    batch = batch.with_columns(pl.Series(ARRIVAL, np.arange(batch.height)))
    tables = data.draw(query_tables(template, numbers))
    lineage, _ = GroupedSelection(SCHEMA, {"q": template.condition}).step([batch], query_state({"q": tables}), NO_TIME)
    with ExitStack() as stack:
        for name, value in way.items():
            stack.enter_context(patch.object(expansion, name, value))
        output, _ = Expand(SCHEMA).step([lineage], {}, NO_TIME)
    assert output.columns == ["c0", *(f"c{i + 1}" for i in range(WIDTH)), "_start", "_end", "_weight"]
    assert by_query(output) == filled(of_each_query(batch, template, tables))
    assert sum(len(rows) for rows in by_query(output).values()) == output.height


def test_cells_of_all_sizes() -> None:
    """1 row, 2 rows, and so on, and many rows in the last cell; weights of both signs, and sums that cancel."""
    schema = (Field("a", BIGINT),)
    bits = np.random.default_rng(1).integers(0, 2**63, (5000, 16), dtype=np.uint64)
    bits[:500, 1:] = 0
    ends = np.arange(1, 41).cumsum()
    values = ends.searchsorted(np.arange(5000), side="right")
    batch = pl.DataFrame(
        {"c0": values, "_start": 0, "_end": 1, "_weight": np.where(np.arange(5000) % 3 == 0, -1, 1)},
        schema=batch_schema(schema),
    ).with_columns(pl.lit(7, pl.UInt32).alias(BLOCK), lineage_series(bits))
    output, _ = Expand(schema).step([batch], {}, NO_TIME)
    weights = batch["_weight"].to_numpy()
    plain = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(np.int64) * weights[:, None]
    sums = np.add.reduceat(plain, np.append(0, ends), axis=0)
    expected = {(7 * 1024 + bit, cell): sums[cell, bit] for cell, bit in zip(*np.nonzero(sums), strict=True)}
    found = {(query, cell): weight for query, cell, _, _, weight in output.iter_rows()}
    assert found == expected
    assert output.height == len(expected)
