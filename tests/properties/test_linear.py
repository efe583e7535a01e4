"""Windows, selections, projections, UNION ALL, views and stream operators on random cases, against the oracle."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from tests.properties.cases import Case
from tests.properties.driver import check_case
from tests.properties.generate import cases
from tests.properties.queries import LINEAR
from tests.properties.shapes import shapes_of


def check(case: Case) -> None:
    for shape in shapes_of(case):
        event(shape)
    check_case(case)


@settings(max_examples=150)
@given(cases(LINEAR))
def test_the_engine_answers_as_the_oracle(case: Case) -> None:
    check(case)


@pytest.mark.slow
@settings(max_examples=2000)
@given(cases(LINEAR))
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case) -> None:
    check(case)
