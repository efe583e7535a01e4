"""All of SQL over windows, tables and derived streams, nested, on random cases, against the oracle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.properties.cases import Case
from tests.properties.driver import check_case
from tests.properties.generate import cases
from tests.properties.queries import RELATIONAL


@settings(max_examples=500)
@given(cases(RELATIONAL))
def test_the_engine_answers_as_the_oracle(case: Case) -> None:
    check_case(case)


@pytest.mark.slow
@settings(max_examples=5000)
@given(cases(RELATIONAL))
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case) -> None:
    check_case(case)
