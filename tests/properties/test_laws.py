"""What must not change an answer: equivalent texts, batches, other queries, the moment of registration."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from hypothesis import assume, given, settings
from tests.properties.cases import (
    Advance,
    Case,
    in_large_batches,
    in_single_rows,
    only,
    registered_first,
    registered_last,
)
from tests.properties.driver import outcome
from tests.properties.generate import World, cases, worlds
from tests.properties.laws import LAWS, Law
from tests.properties.queries import RELATIONAL

END_OF_TIME = 60  # later than anything that random cases bring


def check_law(world: World, law: Law) -> None:
    case = world.case(*law(world.maker))
    # Texts that mean the same may read different inputs: with time at an end, all are final up to the same instant.
    case = replace(case, actions=(*case.actions, Advance(stream=None, to=END_OF_TIME)))
    answers = outcome(case)
    finals = {type(cast("tuple[object, ...]", answers[name])[1]) for name in case.queries}
    assume(len(finals) == 1)  # a text that reads no stream has ticks where others have timestamps
    for name in case.queries:
        assert answers[name] == answers["q0"], f"{case}\n{name} differs from q0"


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@settings(max_examples=10)
@given(world=worlds(RELATIONAL))
def test_queries_that_mean_the_same(world: World, law: Law) -> None:
    check_law(world, law)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@settings(max_examples=250)
@given(world=worlds(RELATIONAL))
def test_queries_that_mean_the_same_in_many_worlds(world: World, law: Law) -> None:
    check_law(world, law)


@settings(max_examples=15)
@given(cases(RELATIONAL))
def test_batches_do_not_matter(case: Case) -> None:
    case = registered_first(case)
    assert outcome(in_single_rows(case)) == outcome(in_large_batches(case))


@settings(max_examples=15)
@given(cases(RELATIONAL))
def test_other_queries_do_not_matter(case: Case) -> None:
    together = outcome(case)
    for name in case.queries.keys() & together.keys():
        assert outcome(only(case, name))[name] == together[name]


@settings(max_examples=15)
@given(cases(RELATIONAL))
def test_the_moment_of_registration_does_not_matter(case: Case) -> None:
    assert outcome(registered_first(case)) == outcome(registered_last(case))
