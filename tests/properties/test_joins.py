"""Inner joins of two to four inputs, nested by parentheses or not, by SteMs and by trees, just in time and not, on one
to three shards: random cases against the oracle."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Case, in_large_batches, in_single_rows, registered_first
from tests.properties.driver import check_case, outcome
from tests.properties.join_cases import joins
from tests.properties.queries import LONG, RELATIONAL
from tests.properties.variants import on_shards


@settings(max_examples=50)
@given(joins(RELATIONAL), st.integers(1, 3))
def test_the_engine_answers_as_the_oracle(case: Case, shards: int) -> None:
    check_case(case, partial(on_shards, shards))


@settings(max_examples=12)
@given(joins(LONG))
def test_state_lasts_over_many_windows(case: Case) -> None:
    check_case(case)


@settings(max_examples=10)
@given(joins(RELATIONAL))
def test_neither_batches_nor_trees_matter(case: Case) -> None:
    case = registered_first(case)
    by_trees = replace(
        case, definitions=(*case.definitions, "SET join_plan = 'tree'", "SET jit = off", "SET stem_window = 0")
    )
    assert outcome(in_single_rows(case)) == outcome(in_large_batches(case)) == outcome(by_trees)


@pytest.mark.slow
@settings(max_examples=2000)
@given(joins(RELATIONAL), st.integers(1, 3))
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case, shards: int) -> None:
    check_case(case, partial(on_shards, shards))
