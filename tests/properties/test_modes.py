"""LAZY and NONE say what EAGER says: random queries of all kinds, in both modes, against the oracle."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Case
from tests.properties.driver import check_case
from tests.properties.generate import cases
from tests.properties.queries import LINEAR, LONG, RELATIONAL
from tests.properties.variants import shared

MODES = st.sampled_from(["lazy", "none"])


@settings(max_examples=20)
@given(cases(LINEAR), MODES)
def test_linear_queries_answer_as_the_oracle_in_all_modes(case: Case, mode: str) -> None:
    check_case(case, mode=mode)


@settings(max_examples=30)
@given(cases(RELATIONAL), MODES)
def test_queries_answer_as_the_oracle_in_all_modes(case: Case, mode: str) -> None:
    check_case(case, mode=mode)


@settings(max_examples=10)
@given(cases(LONG), MODES)
def test_matches_last_over_many_windows(case: Case, mode: str) -> None:
    check_case(case, mode=mode)


@settings(max_examples=20)
@given(cases(RELATIONAL), st.integers(1, 2))
def test_matches_of_groups_answer_as_the_oracle(case: Case, shards: int) -> None:
    check_case(case, partial(shared, shards), mode="lazy")


@pytest.mark.slow
@settings(max_examples=3000)
@given(cases(RELATIONAL), MODES)
def test_queries_answer_as_the_oracle_in_all_modes_in_many_cases(case: Case, mode: str) -> None:
    check_case(case, mode=mode)
