"""The index is kept while its query tables stay the same, and new queries make only their own blocks anew."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from tests.kernel.sharing.conditions import NO_TIME

from millstream.kernel.batch import batch_schema
from millstream.kernel.keys import order_codes
from millstream.kernel.scalar.expressions import Column, Expression, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing import block, eddy, index
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.identity import Recent
from millstream.kernel.sharing.lineage import BLOCK_SIZE, wanted_by
from millstream.kernel.sharing.parameters import QUERIES, SHAPE
from millstream.kernel.sharing.predicates import Entries
from millstream.types import BIGINT, STRING, DataType, Field, to_polars


def at_least(kind: DataType) -> Expression:
    return call(">=", [Column(kind, 0, "a"), Parameter(kind, 0)])


def table(kind: DataType, queries: Sequence[int], values: Sequence[Any]) -> pl.DataFrame:
    schema = {"query": pl.Int64(), "c0": to_polars(kind)}
    return pl.DataFrame({"query": queries, "c0": values}, schema=schema).with_columns(pl.lit("q").alias(SHAPE))


def rows(kind: DataType, values: Sequence[Any]) -> pl.DataFrame:
    return pl.DataFrame([(value, 0, 1, 1) for value in values], schema=batch_schema((Field("a", kind),)), orient="row")


def wanted(kind: DataType, tables: Sequence[pl.DataFrame], values: Sequence[Any]) -> dict[int, list[Any]]:
    """What each query with `a >= its constant` wants of the values."""
    operator = GroupedSelection((Field("a", kind),), {"q": at_least(kind)})
    output, _ = operator.step([rows(kind, values)], {QUERIES: tuple(tables)}, NO_TIME)
    queries = [query for part in tables for query in part["query"]]
    return {q: output["c0"].filter(pl.Series(wanted_by(output, q))).to_list() for q in queries}


@pytest.fixture
def built() -> Any:
    """The blocks that are made, in order."""
    made: list[int] = []
    original = block.build_filters

    def build(entries: Entries) -> Any:
        made.append(int(entries.queries[0]) // BLOCK_SIZE)
        return original(entries)

    nothing: Any = {name: Recent[Any](1 << 29, lambda _: 1) for name in ("_blocks", "_blocks_of_pieces", "_indexes")}
    with patch.multiple(index, build_filters=build, **nothing):
        yield made


def test_the_same_tables_are_indexed_once(built: list[int]) -> None:
    tables = [table(BIGINT, [1, 2000], [5, 7])]
    for _ in range(2):
        assert wanted(BIGINT, tables, [4, 5, 8]) == {1: [5, 8], 2000: [8]}
    assert built == [0, 1]


@pytest.mark.parametrize(
    ("kind", "values"), [(BIGINT, [30, 10, 20, 25]), (STRING, ["m", "b", "k", "l"])], ids=["numbers", "texts"]
)
def test_new_queries_make_only_their_own_block_anew(built: list[int], kind: DataType, values: list[Any]) -> None:
    first = table(kind, [0, 1024], values[:2])
    wanted(kind, [first], values)
    # Constants between those of the blocks that stay shift what these are found by.
    second = table(kind, [1025, 4096], values[2:])
    expected = {q: [v for v in values if v >= c] for q, c in zip([0, 1024, 1025, 4096], values, strict=True)}
    assert wanted(kind, [first, second], values) == expected
    assert built == [0, 1, 1, 4]


@pytest.mark.parametrize(
    ("kind", "values"), [(BIGINT, [30, 10, 20, 25]), (STRING, ["m", "b", "k", "l"])], ids=["numbers", "texts"]
)
def test_segments_that_are_merged_or_lose_queries_leave_other_blocks(
    built: list[int], kind: DataType, values: list[Any]
) -> None:
    queries = [0, 1025, 1024, 4096]
    wanted(kind, [table(kind, queries[:2], values[:2]), table(kind, queries[2:], values[2:])], values)
    assert built == [0, 1, 4]
    expected = {q: [v for v in values if v >= c] for q, c in zip(queries, values, strict=True)}
    assert wanted(kind, [table(kind, queries, values)], values) == expected
    assert built == [0, 1, 4]
    del expected[1024]
    assert wanted(kind, [table(kind, queries[:2] + queries[3:], values[:2] + values[3:])], values) == expected
    assert built == [0, 1, 4, 1]


def test_a_shape_that_is_not_known_yet_or_means_something_else() -> None:
    """Names of shapes are the operator's: what another one made of the same segments is of no use to it."""
    tables = {QUERIES: (table(BIGINT, [1], [5]),)}
    less = call("<", [Column(BIGINT, 0, "a"), Parameter(BIGINT, 0)])
    for shapes, expected in (({}, []), ({"q": at_least(BIGINT)}, [5, 6]), ({"q": less}, [4])):
        operator = GroupedSelection((Field("a", BIGINT),), shapes)
        output, _ = operator.step([rows(BIGINT, [4, 5, 6])], tables, NO_TIME)
        assert output["c0"].to_list() == expected


def test_blocks_of_many_constants_have_their_own_intervals() -> None:
    """More cuts than a block has, few or many rows: by map, by a map made for the batch, by search."""
    random = np.random.default_rng(3)
    constants = random.permutation(40_000)[:6000]
    queries = random.permutation(8000)[:6000]
    tables = [table(BIGINT, queries.tolist(), constants.tolist())]
    values = random.integers(-5, 40_005, 50).tolist()
    expected = {q: [v for v in values if v >= c] for q, c in zip(queries.tolist(), constants.tolist(), strict=True)}
    assert wanted(BIGINT, tables, values) == expected
    for most in (100_000, 0):
        with patch.multiple(index, _MAP=0, _SEARCH=most):
            assert wanted(BIGINT, [tables[0].clone()], values) == expected


def test_chunks_of_rows_do_not_matter() -> None:
    tables = [table(BIGINT, [3], [5])]
    with patch.object(eddy, "_MOST_ROWS", 4):
        assert wanted(BIGINT, tables, list(range(11))) == {3: [5, 6, 7, 8, 9, 10]}


def test_an_operator_takes_nothing_of_its_process_along() -> None:
    operator = GroupedSelection((Field("a", BIGINT),), {"q": at_least(BIGINT)})
    state = {QUERIES: (table(BIGINT, [1], [5]),)}
    before, _ = operator.step([rows(BIGINT, [4, 5])], state, NO_TIME)
    copy = pickle.loads(pickle.dumps(operator))
    assert vars(copy) == vars(GroupedSelection(operator.schema, operator.shapes))
    after, _ = copy.step([rows(BIGINT, [4, 5])], state, NO_TIME)
    assert after.equals(before)


def test_what_was_used_least_recently_is_forgotten_first() -> None:
    made: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name

    recent = Recent[str](2, lambda _: 1)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert recent.get(name, partial(make, name)) == name
    assert made == ["a", "b", "c", "b"]


def test_values_far_from_all_constants() -> None:
    """Numbers at both ends of their type do not wrap around when they are ranked."""
    ends = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]
    for constants in ([5, 9], [-(2**63) + 2, -(2**63) + 7], [2**63 - 9, 2**63 - 3]):
        values = [*ends, *constants, *(value - 1 for value in constants), *(value + 1 for value in constants)]
        cuts = order_codes(pl.Series(constants, dtype=pl.Int64))
        axis = index.Axis(Column(BIGINT, 0, "a"), None, cuts)
        batch = pl.DataFrame({"c0": pl.Series(values, dtype=pl.Int64)})
        assert axis.ranks(batch).tolist() == [sum(value >= constant for constant in constants) for value in values]
