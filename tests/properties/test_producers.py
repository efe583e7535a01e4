"""Joins that several queries ask for different rows of: queries come and go, and nobody notices the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Action, Case, Drop, Register
from tests.properties.dice import Dice, HypothesisDice
from tests.properties.driver import check_case
from tests.properties.generate import make_world, switches
from tests.properties.queries import LONG, RELATIONAL, Profile
from tests.properties.variants import just_in_time, on_shards

FORMS = ("exists", "exists", "not exists", "asking", "left", "right", "joined", "all")


def come_and_go(dice: Dice, actions: list[Action], query: str, text: str) -> None:
    """A query that is registered at any moment, perhaps dropped, and perhaps registered once more."""
    moments = sorted(dice.number(0, len(actions)) for _ in range(dice.pick((1, 1, 2, 3))))
    for number, moment in reversed(list(enumerate(moments))):
        actions.insert(moment, Drop(query) if number == 1 else Register(query, text))


@st.composite
def asked_by_many(draw: Callable[[st.SearchStrategy[Any]], Any], profile: Profile) -> Case:
    dice = HypothesisDice(draw)
    world = make_world(dice, profile)
    forms = [dice.pick(FORMS) for _ in range(dice.number(2, 4))]
    view = dice.pick(("", "J"))
    joined, texts = world.maker.joins_asked_by_many(dice.number(2, 3), forms, view)
    if view:
        world.definitions.append(f"CREATE VIEW {view} AS {joined}")
    for number, text in enumerate(texts):
        come_and_go(dice, world.actions, f"q{number}", text)
    case = world.case()
    definitions = (*case.definitions, *switches(dice), *just_in_time(dice))
    return replace(case, definitions=definitions, probes=(dice.number(0, 30), dice.number(0, 30)))


@settings(max_examples=30)
@given(asked_by_many(RELATIONAL), st.integers(1, 3))
def test_the_engine_answers_as_the_oracle(case: Case, shards: int) -> None:
    check_case(case, partial(on_shards, shards))


@settings(max_examples=8)
@given(asked_by_many(LONG))
def test_state_lasts_over_many_windows(case: Case) -> None:
    check_case(case)


@pytest.mark.slow
@settings(max_examples=2000)
@given(asked_by_many(RELATIONAL), st.integers(1, 3))
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case, shards: int) -> None:
    check_case(case, partial(on_shards, shards))


@pytest.mark.slow
@settings(max_examples=300)
@given(asked_by_many(LONG))
def test_state_lasts_over_many_windows_in_many_cases(case: Case) -> None:
    check_case(case)
