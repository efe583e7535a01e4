"""Windows, selections, projections, UNION ALL, views and stream operators on random cases, against the oracle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.properties.cases import Case
from tests.properties.driver import check_case
from tests.properties.generate import cases
from tests.properties.queries import LINEAR


@settings(max_examples=300)
@given(cases(LINEAR))
def test_the_engine_answers_as_the_oracle(case: Case) -> None:
    check_case(case)


@pytest.mark.slow
@settings(max_examples=2000)
@given(cases(LINEAR))
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case) -> None:
    check_case(case)
