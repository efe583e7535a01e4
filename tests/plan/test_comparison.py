"""Which of two plans is the better one, and in which order statistics have inputs joined."""

from __future__ import annotations

import pytest
from tests.plan.joins import CHAIN, FEW_KEYS, MANY_KEYS, ON_A_KEY, SCHEMA

import millstream as ms
from millstream.language.binder import Binder
from millstream.language.statement_parser import parse_query
from millstream.plan import nodes as lo
from millstream.plan import physical as ph
from millstream.plan.comparison import burden
from millstream.plan.cost import SourceStatistics, Statistics
from millstream.plan.rewrite import rewrite
from millstream.plan.rules.context import JoinChoice

# Of S and T nearly all rows are partners, of T and U hardly any.
SKEWED = {
    "s": SourceStatistics(1, 0, (10.0, 10.0)),
    "t": SourceStatistics(1, 0, (10.0, 5_000.0)),
    "u": SourceStatistics(1, 0, (10.0, 5_000.0)),
}
USELESS = {name: SourceStatistics(rate, 0, (2_000.0, 100_000.0)) for name, rate in (("s", 20), ("t", 20), ("u", 0.02))}
TABLE = CHAIN.replace(" WHERE", ", N WHERE N.a = S.a AND")


def rewritten(cql: str, statistics: Statistics, choice: JoinChoice, *, orders_joins: bool = False) -> lo.Node:
    with ms.connect(engine="inprocess") as db:
        db.execute(SCHEMA)
        bound = Binder(db.catalog, db.settings, cql, db.session.code).bind(parse_query(cql))
    return rewrite(bound.plan, statistics, choice=choice, orders_joins=orders_joins)


TREE, STEMS, JIT = JoinChoice("tree", "off"), JoinChoice("eddy", "off"), JoinChoice("tree", "on")


@pytest.mark.parametrize(
    ("cql", "statistics", "better", "worse"),
    [
        (ON_A_KEY, FEW_KEYS, STEMS, TREE),
        (CHAIN, FEW_KEYS, STEMS, TREE),
        (CHAIN, USELESS, JIT, TREE),
    ],
)
def test_a_plan_that_holds_much_less_is_the_better_one(
    cql: str, statistics: Statistics, better: JoinChoice, worse: JoinChoice
) -> None:
    found = [burden(rewritten(cql, statistics, choice), statistics) for choice in (better, worse)]
    assert 2 * found[0] < found[1]


@pytest.mark.parametrize("statistics", [{}, FEW_KEYS, MANY_KEYS, SKEWED, USELESS])
@pytest.mark.parametrize("cql", [ON_A_KEY, CHAIN, TABLE])
def test_what_the_rules_choose_is_not_much_worse_than_what_they_do_not(cql: str, statistics: Statistics) -> None:
    """So that a query does not move to and fro between what rules choose and what is the better plan."""
    chosen = burden(rewritten(cql, statistics, JoinChoice(), orders_joins=True), statistics)
    for choice in (TREE, STEMS):
        assert chosen < 2 * burden(rewritten(cql, statistics, choice), statistics)


def sources(plan: lo.Node) -> list[str]:
    """In the order in which they are joined."""
    return [node.name for node in plan.walk() if isinstance(node, lo.StreamScan | lo.TableScan)]


def test_inputs_are_joined_in_the_order_of_least_burden() -> None:
    assert sources(rewritten(CHAIN, SKEWED, TREE)) == ["s", "t", "u"]
    assert sorted(sources(rewritten(CHAIN, SKEWED, TREE, orders_joins=True))[:2]) == ["t", "u"]
    assert sources(rewritten(CHAIN, MANY_KEYS, TREE, orders_joins=True)) == ["s", "t", "u"]


def test_a_good_order_needs_no_stems() -> None:
    by_cost = rewritten(CHAIN, SKEWED, JoinChoice("auto", "off"), orders_joins=True)
    assert any(isinstance(node, ph.StemJoin) for node in rewritten(CHAIN, SKEWED, JoinChoice("auto", "off")).walk())
    assert not any(isinstance(node, ph.StemJoin) for node in by_cost.walk())


def test_tables_that_are_met_as_of_an_instant_come_last_whatever_the_cost() -> None:
    found = sources(rewritten(TABLE, {**SKEWED, "n": SourceStatistics(0, 1, (1.0, 1.0))}, TREE, orders_joins=True))
    assert found[-1] == "n"
    assert sorted(found[:2]) == ["t", "u"]
