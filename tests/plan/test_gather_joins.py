"""Which joins become one by SteMs: by setting, or by the sizes that statistics let expect."""

from __future__ import annotations

import pytest
from tests.plan.joins import CHAIN, FEW_KEYS, MANY_KEYS, ON_A_KEY, SCHEMA

import millstream as ms
from millstream.language.binder import Binder
from millstream.language.statement_parser import parse_query
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.cost import SourceStatistics, Statistics, estimate
from millstream.plan.just_in_time import is_just_in_time_cheaper
from millstream.plan.rewrite import rewrite
from millstream.plan.rules.context import JoinChoice


def rewritten(
    cql: str, join_plan: str = "auto", statistics: Statistics | None = None, shards: int = 1, jit: str = "off"
) -> lo.Node:
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        bound = Binder(db.catalog, db.settings, cql, db.session.code).bind(parse_query(cql))
    return rewrite(bound.plan, statistics, choice=JoinChoice(join_plan, jit), shards=shards)


def widths(plan: lo.Node) -> list[int]:
    """How many inputs each join by SteMs has."""
    return [len(node.inputs) for node in plan.walk() if isinstance(node, ph.StemJoin)]


@pytest.mark.parametrize(
    ("cql", "statistics", "shards", "expected"),
    [
        (ON_A_KEY, MANY_KEYS, 1, []),
        (ON_A_KEY, FEW_KEYS, 1, [3]),
        (ON_A_KEY, FEW_KEYS, 2, [3]),
        (CHAIN, MANY_KEYS, 1, []),
        (CHAIN, FEW_KEYS, 1, [3]),
        (CHAIN, FEW_KEYS, 2, []),
    ],
)
def test_stems_are_chosen_where_an_inner_join_would_be_large_and_rows_can_be_spread(
    cql: str, statistics: Statistics, shards: int, expected: list[int]
) -> None:
    assert widths(rewritten(cql, statistics=statistics, shards=shards)) == expected


def test_a_join_of_two_is_left_to_the_tree_unless_asked_for() -> None:
    cql = "SELECT S.b FROM S [RANGE 5000], T [RANGE 5000] WHERE S.a = T.a"
    assert widths(rewritten(cql, statistics=FEW_KEYS)) == []
    assert widths(rewritten(cql, "eddy")) == [2]
    assert widths(rewritten(ON_A_KEY, "tree", FEW_KEYS)) == []


def test_joins_are_gathered_through_views_and_outer_joins_are_inputs() -> None:
    cql = """SELECT x.b, U.b FROM (SELECT T.a, S.b FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a) AS x,
        (SELECT U.a, U.b FROM U [RANGE 5] LEFT JOIN S [RANGE 5] ON S.a = U.b) AS U WHERE x.a = U.a"""
    plan = rewritten(cql, "eddy")
    assert widths(plan) == [3]
    assert sum(isinstance(node, lo.Join) and node.join == "left" for node in plan.walk()) == 1


def test_non_retroactive_tables_meet_whole_combinations() -> None:
    cql = "SELECT S.b, name FROM S [RANGE 5], N, T [RANGE 5] WHERE S.a = N.a AND S.a = T.a"
    plan = rewritten(cql, "eddy")
    (above,) = [node for node in plan.walk() if isinstance(node, lo.Join)]
    assert widths(above.left) == [2]
    assert not widths(above.right)


def test_widened_integers_need_no_column_of_their_own() -> None:
    (join,) = [node for node in rewritten(ON_A_KEY, "eddy").walk() if isinstance(node, ph.StemJoin)]
    assert [len(child.schema) for child in join.inputs] == [2, 2, 2]


def of_values(values: float) -> Statistics:
    return {name: SourceStatistics(rate=10, distinct=(values, values)) for name in "stu"}


# Windows of 50,000 rows, where every row of S has 25 partners in T; but U has only 500 of the values of T.b.
WASTEFUL = {
    "s": SourceStatistics(rate=10, distinct=(2_000.0, 2_000.0)),
    "t": SourceStatistics(rate=10, distinct=(2_000.0, 50_000.0)),
    "u": SourceStatistics(rate=0.1, distinct=(2_000.0, 500.0)),
}

# Windows of 500 rows, where every row of S has 10 partners in T; but most values of U are found nowhere else.
ASLEEP = {
    "s": SourceStatistics(rate=0.1, distinct=(50.0, 50.0)),
    "t": SourceStatistics(rate=0.1, distinct=(50.0, 50.0)),
    "u": SourceStatistics(rate=0.1, distinct=(5_000.0, 5_000.0)),
}


@pytest.mark.parametrize(
    ("jit", "statistics", "shards", "expected"),
    [
        ("on", FEW_KEYS, 1, True),
        ("off", WASTEFUL, 1, False),
        ("auto", WASTEFUL, 1, True),
        ("auto", WASTEFUL, 2, False),  # as one step all its rows would be on one shard
        ("auto", of_values(2_000), 1, False),  # most rows of the inner join have partners
        ("auto", of_values(50_000), 1, False),  # it has hardly more rows than the inputs
    ],
)
def test_a_tree_works_just_in_time_where_most_of_what_it_would_make_is_useless(
    jit: str, statistics: Statistics, shards: int, expected: bool
) -> None:
    plan = rewritten(CHAIN, "tree", statistics, shards, jit)
    assert [node.shape for node in plan.walk() if isinstance(node, ph.JoinTree)] == [((0, 1), 2)] * expected


def test_a_small_tree_works_just_in_time_if_it_sleeps() -> None:
    pair = "(S [RANGE 5000] JOIN T [RANGE 5000] ON S.a = T.a)"
    cql = f"SELECT S.b FROM {pair} JOIN U [RANGE 5000] ON T.b = U.b AND S.b = U.a"
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        plan = Binder(db.catalog, db.settings, cql, db.session.code).bind(parse_query(cql)).plan
    joins = sorted((node for node in plan.walk() if isinstance(node, lo.Join)), key=lambda join: -len(join.schema))
    assert is_just_in_time_cheaper(joins, ASLEEP)
    common = {**ASLEEP, "u": SourceStatistics(rate=0.1, distinct=(50.0, 50.0))}
    assert not is_just_in_time_cheaper(joins, common)


@pytest.mark.parametrize("join_plan", ["eddy", "tree"])
def test_joins_of_several_inputs_are_as_large_as_their_pairs(join_plan: str) -> None:
    for statistics in (FEW_KEYS, MANY_KEYS):
        expected = estimate(rewritten(CHAIN, "tree", jit="off"), statistics)
        found = estimate(rewritten(CHAIN, join_plan, jit="on"), statistics)
        assert (found.size, len(found.distinct)) == (expected.size, 2)
        (many,) = [n for n in rewritten(CHAIN, join_plan, jit="on").walk() if isinstance(n, ph.ManyJoin)]
        assert len(estimate(many, statistics).distinct) == len(many.schema)
