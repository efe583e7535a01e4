"""Keyed selection and expansion: rows of each query are what its own condition selects."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.sharing.conditions import (
    NO_TIME,
    SCHEMA,
    Template,
    bag,
    batches,
    column,
    of_each_query,
    query_state,
    query_tables,
    templates,
)

from millstream.kernel.batch import ARRIVAL, batch_schema, value_columns
from millstream.kernel.scalar.expressions import TRUE, Call, Cast, Column, Expression, Literal, Parameter, conjunction
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing import expand as expansion
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection, equality_key
from millstream.kernel.sharing.lineage import BLOCK, lineage_series
from millstream.types import BIGINT, BOOLEAN, INT, STRING, Field

WIDTH = len(SCHEMA)


def by_query(output: pl.DataFrame) -> dict[int, Counter[tuple[object, ...]]]:
    parts = output.partition_by("c0", as_dict=True)
    return {int(query): bag(part, value_columns(WIDTH + 1)[1:]) for (query,), part in parts.items()}


def filled(expected: dict[int, Counter[tuple[object, ...]]]) -> dict[int, Counter[tuple[object, ...]]]:
    return {query: rows for query, rows in expected.items() if rows}


@st.composite
def keyed_templates(draw: st.DrawFn, key: Column) -> Template:
    """key = ?0 and something else, in any order."""
    rest = draw(templates(depth=2))
    moved = rest.condition.transform(
        lambda node: Parameter(node.type, node.index + 1) if isinstance(node, Parameter) else node
    )
    parts: list[Expression] = [call("=", [key, Parameter(key.type, 0)]), moved]
    return Template(conjunction(draw(st.permutations(parts))), (key.type, *rest.parameters))


@given(st.data())
@settings(max_examples=80)
def test_every_query_gets_the_rows_of_its_key(data: st.DataObject) -> None:
    key = column(data.draw(st.integers(0, WIDTH - 1)))
    shapes = data.draw(st.lists(keyed_templates(key), min_size=1, max_size=3))
    numbers = data.draw(st.lists(st.integers(0, 3000), unique=True, max_size=10))
    batch = data.draw(batches())
    expected: dict[int, Counter[tuple[object, ...]]] = {}
    tables, parts = {}, {}
    for index, template in enumerate(shapes):
        segments = data.draw(query_tables(template, numbers[index :: len(shapes)]))
        tables[str(index)] = segments
        expected |= of_each_query(batch, template, segments)
        found = equality_key(conjunction([call("=", [key, Parameter(key.type, 0)]), template.condition]))
        assert found is not None
        assert found[:2] == (key, Parameter(key.type, 0))
        parts[str(index)] = (found[1], found[2])
    operator = KeyedSelection(SCHEMA, key, parts)
    output, _ = operator.step([batch], query_state(tables), NO_TIME)
    assert output.columns == ["c0", *(f"c{i + 1}" for i in range(WIDTH)), "_start", "_end", "_weight"]
    assert by_query(output) == filled(expected)


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


A, P = Column(INT, 0, "a"), Parameter(INT, 0)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (call("=", [A, P]), (A, P, TRUE)),
        (call("=", [P, A]), (A, P, TRUE)),
        (call("and", [call(">", [A, P]), call("=", [A, P])]), (A, P, call(">", [A, P]))),
        (call("=", [Column(BIGINT, 1, "b"), P]), (Column(BIGINT, 1, "b"), Cast(BIGINT, P), TRUE)),
        (call("=", [A, Parameter(BIGINT, 0)]), (Cast(BIGINT, A), Parameter(BIGINT, 0), TRUE)),
        (call("=", [A, Literal(INT, 1)]), None),
        (call("<=>", [A, P]), None),
        (call("or", [call("=", [A, P]), call("=", [A, P])]), None),
        # A text that is no number would be an error on rows that no query asks for.
        (Call(BOOLEAN, "=", (Cast(INT, Column(STRING, 1, "s")), P)), None),
    ],
)
def test_the_key_of_a_condition(condition: Expression, expected: object) -> None:
    assert equality_key(condition) == expected
