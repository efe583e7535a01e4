"""Keyed selection: rows of each query are what its own condition selects."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.sharing.conditions import (
    NO_TIME,
    SCHEMA,
    Template,
    batches,
    by_query,
    column,
    filled,
    of_each_query,
    query_state,
    query_tables,
    templates,
)

from millstream.kernel.scalar.expressions import TRUE, Call, Cast, Column, Expression, Literal, Parameter, conjunction
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.keyed_selection import KeyedSelection, equality_key
from millstream.types import BIGINT, BOOLEAN, INT, STRING

WIDTH = len(SCHEMA)


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
        parts[str(index)] = conjunction([call("=", [key, Parameter(key.type, 0)]), template.condition])
    operator = KeyedSelection(SCHEMA, key, parts)
    output, _ = operator.step([batch], query_state(tables), NO_TIME)
    assert output.columns == ["c0", *(f"c{i + 1}" for i in range(WIDTH)), "_start", "_end", "_weight"]
    assert by_query(output) == filled(expected)


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
