"""Inner joins of two to four inputs, nested by parentheses or not, by SteMs and by trees, just in time and not, on one
to three shards: random cases against the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Case, in_large_batches, in_single_rows, registered_first
from tests.properties.dice import HypothesisDice
from tests.properties.driver import check_case, outcome
from tests.properties.generate import make_world, switches
from tests.properties.queries import LONG, RELATIONAL, Profile
from tests.properties.variants import DETECTIONS, on_shards


@st.composite
def joins(draw: Callable[[st.SearchStrategy[Any]], Any], profile: Profile) -> Case:
    dice = HypothesisDice(draw)
    world = make_world(dice, profile)
    case = world.case(*(world.maker.inner_joins(dice.number(2, 4)).text for _ in range(dice.pick((1, 1, 2)))))
    shared = f"SET stem_window = {dice.pick((0, 0, 3, 6, 20))}"
    plan, jit = dice.pick(("eddy", "tree", "mjoin")), f"SET jit = {dice.pick(('on', 'on', 'off'))}"
    jit += f"; SET jit_detection = '{dice.pick(DETECTIONS)}'"
    definitions = (*case.definitions, *switches(dice), f"SET join_plan = '{plan}'", jit, shared)
    return replace(case, definitions=definitions, probes=(dice.number(0, 30), dice.number(0, 30)))


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
