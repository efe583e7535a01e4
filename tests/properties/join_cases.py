"""Cases whose queries join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from tests.properties.cases import Case
from tests.properties.dice import HypothesisDice
from tests.properties.generate import make_world, switches
from tests.properties.queries import Profile
from tests.properties.variants import DETECTIONS


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
