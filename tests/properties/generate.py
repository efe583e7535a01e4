"""The strategy for whole cases: a database, its queries, and what happens to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.oracle import Oracle
from tests.properties.cases import Action, Case, Drop, Register
from tests.properties.dice import Dice, HypothesisDice, SeededDice
from tests.properties.inputs import Source, TimeScale, arrivals, changes, fed_table, inserted, stream, table
from tests.properties.queries import Profile, QueryMaker

from millstream.plan.rewrite import rule_names


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any], profile: Profile) -> Case:
    return make_case(HypothesisDice(draw), profile)


def seeded_case(seed: int, profile: Profile) -> Case:
    return make_case(SeededDice(seed), profile)


@dataclass(frozen=True)
class World:
    """A database before its queries are known, and what will happen to it."""

    definitions: list[str]
    maker: QueryMaker
    actions: list[Action]

    def case(self, *queries: str) -> Case:
        """All queries registered first, as q0, q1, ..."""
        registered = [Register(f"q{i}", text) for i, text in enumerate(queries)]
        return Case(tuple(self.definitions), (*registered, *self.actions))


@st.composite
def worlds(draw: Callable[[st.SearchStrategy[Any]], Any], profile: Profile) -> World:
    return make_world(HypothesisDice(draw), profile)


def make_case(dice: Dice, profile: Profile) -> Case:
    world = make_world(dice, profile)
    queries = [Register(f"q{i}", world.maker.query().text) for i in range(dice.pick(profile.queries))]
    _place(dice, world.actions, queries)
    definitions = [*world.definitions, *switches(dice)]
    return Case(tuple(definitions), tuple(world.actions), tuple(dice.number(0, 30) for _ in range(2)))


def make_world(dice: Dice, profile: Profile) -> World:
    scale = TimeScale(timestamps=dice.chance(10), horizon=profile.horizon)
    streams = [stream(dice, name, scale) for name in ("S", "T", "U")[: dice.pick((1, 2, 2, 3))]]
    tables = [table(dice, "D")] if dice.chance(30) else []
    fed = [fed_table(dice, "C")] if not scale.timestamps and dice.chance(15) else []
    definitions = [source.definition for source in [*streams, *tables, *fed]]
    if dice.chance(40):
        definitions.insert(0, "SET range_bounds = 'half_open'")
    maker = QueryMaker(dice, [*streams, *tables, *fed], profile)
    for name in ("V", "W")[: dice.pick((0, 0, 0, 1, 2))]:
        definitions.append(_add_view(maker, name, definitions))
    actions = arrivals(dice, [*streams, *fed], scale, profile.elements)
    for change in changes(dice, tables, scale):
        actions.insert(dice.number(0, len(actions)), change)
    if tables and not dice.chance(10):
        actions.insert(0, inserted(dice, tables[0]))
    return World(definitions, maker, actions)


def switches(dice: Dice) -> list[str]:
    """How the engine works, which must not change what it says."""
    found = []
    if dice.chance(25):
        found.append(f"SET strategy = '{dice.pick(('negative', 'direct', 'negative'))}'")
    if dice.chance(30):
        found.append(f"SET join_plan = '{dice.pick(('eddy', 'tree', 'mjoin'))}'")
        found.append(f"SET jit = '{dice.pick(('on', 'off', 'on'))}'")
    if dice.chance(20):
        found.append(f"SET expiry_groups = {dice.number(1, 3)}")
        found.append(f"SET lazy_interval = {dice.pick((0, 5, 40, 200))}")
    if dice.chance(20):
        found.append(f"SET disabled_rules = '{','.join(dict.fromkeys(dice.some(rule_names(), 1, 4)))}'")
    return found


def _add_view(maker: QueryMaker, name: str, definitions: list[str]) -> str:
    """A view that later queries may read; whether it takes windows is for the oracle to say."""
    query = maker.query()
    definition = f"CREATE VIEW {name} AS {query.text}"
    oracle = Oracle()
    oracle.execute(";".join(definitions))
    maker.sources.append(Source(name, query.columns, oracle.kind(query.text) == "stream"))
    return definition


def _place(dice: Dice, actions: list[Action], queries: list[Register]) -> None:
    """Each query is registered before everything, after everything, or in the middle, and rarely dropped again."""
    for query in queries:
        moment = dice.pick((0, 0, dice.number(0, len(actions)), len(actions)))
        actions.insert(moment, query)
    if len(queries) > 1 and dice.chance(15):
        moment = actions.index(queries[-1]) + 1
        actions.insert(dice.number(moment, len(actions)), Drop(queries[-1].query))
