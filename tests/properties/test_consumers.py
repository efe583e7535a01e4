"""Trees that hold back what nothing above them needs: random joins below semi, anti and outer joins, read at several
places, and below NON RETROACTIVE tables, against the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.cases import Case, in_large_batches, in_single_rows
from tests.properties.dice import HypothesisDice
from tests.properties.driver import check_case, outcome
from tests.properties.generate import make_world, switches
from tests.properties.inputs import Source, TimeScale, changes, inserted
from tests.properties.kinds import Column, Kind
from tests.properties.queries import LONG, RELATIONAL, Profile
from tests.properties.variants import just_in_time, on_shards

FORMS = ("exists", "exists", "not exists", "asking", "left", "right", "full", "twice", "twice")
_TABLE = Source("N", (Column("a", Kind.INTEGER), Column("b", Kind.INTEGER)), False, "")


@st.composite
def asked(draw: Callable[[st.SearchStrategy[Any]], Any], profile: Profile) -> Case:
    dice = HypothesisDice(draw)
    world = make_world(dice, profile)
    inputs, form = dice.number(2, 3), dice.pick(FORMS)
    if form == "twice":
        one, other = world.maker.joins_read_twice(inputs)
        together = f"({one}) UNION ALL ({other})"
        case = world.case(*dice.pick(((together,), (one, other), (one, together, other))))
    else:
        case = world.case(world.maker.asked_joins(inputs, form).text)
    definitions = (*case.definitions, *switches(dice), *just_in_time(dice))
    return replace(case, definitions=definitions, probes=(dice.number(0, 30), dice.number(0, 30)))


@st.composite
def asked_as_of(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    """Of windows on streams, and a table whose changes do not act back."""
    dice = HypothesisDice(draw)
    world = make_world(dice, RELATIONAL)
    world.maker.sources = [source for source in world.maker.sources if source.name in ("S", "T", "U")]
    case = world.case(world.maker.joins_as_of(dice.number(2, 3), _TABLE).text)
    actions = list(case.actions)
    for change in changes(dice, [_TABLE], TimeScale(timestamps=False)):
        actions.insert(dice.number(0, len(actions)), change)
    actions.insert(0, inserted(dice, _TABLE))
    definitions = (*case.definitions, "CREATE TABLE N (a INT, b INT) NON RETROACTIVE", *just_in_time(dice))
    return replace(case, definitions=definitions, actions=tuple(actions), probes=(dice.number(0, 30),))


@settings(max_examples=30)
@given(asked(RELATIONAL), st.integers(1, 3))
def test_the_engine_answers_as_the_oracle(case: Case, shards: int) -> None:
    check_case(case, partial(on_shards, shards))


@settings(max_examples=8)
@given(asked(LONG))
def test_state_lasts_over_many_windows(case: Case) -> None:
    check_case(case)


@settings(max_examples=15)
@given(asked_as_of())
def test_tables_as_of_an_instant_get_what_they_got_from_everything(case: Case) -> None:
    """The oracle has no NON RETROACTIVE tables; those have tests of their own, without holding back."""
    everything = replace(case, definitions=(*case.definitions, "SET jit = off"))
    assert outcome(case) == outcome(everything)
    assert outcome(in_single_rows(case)) == outcome(in_large_batches(case))


@pytest.mark.slow
@settings(max_examples=2000)
@given(asked(RELATIONAL), st.integers(1, 3))
def test_the_engine_answers_as_the_oracle_in_many_cases(case: Case, shards: int) -> None:
    check_case(case, partial(on_shards, shards))
