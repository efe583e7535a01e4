"""All of SQL over windows, tables and derived streams, nested, on random cases, against the oracle."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from tests.properties.cases import Case
from tests.properties.driver import check_case
from tests.properties.generate import cases
from tests.properties.queries import LONG, RELATIONAL
from tests.properties.shapes import shapes_of


def check(case: Case) -> None:
    for shape in shapes_of(case):
        event(shape)
    check_case(case)


@settings(max_examples=200)
@given(cases(RELATIONAL))
def test_the_engine_answers_as_the_oracle(case: Case) -> None:
    check(case)


@settings(max_examples=60)
@given(cases(LONG))
def test_state_lasts_over_many_windows(case: Case) -> None:
    """Enough elements and time for rows to expire, segments to be merged and expiry groups to be dropped."""
    check(case)


@pytest.mark.slow
@settings(max_examples=5000)
@given(cases(RELATIONAL))
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case) -> None:
    check(case)
