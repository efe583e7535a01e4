"""How a negation is run follows from what is known of its inputs' keys."""

from __future__ import annotations

import pytest

import millstream as ms
from millstream.kernel.joins.existence import ExistenceJoin
from millstream.kernel.relational.multiplicity import DistinctStar, Multiplicity
from millstream.language.binder import Binder
from millstream.language.statement_parser import parse_query
from millstream.plan import nodes as lo
from millstream.plan.cost import SourceStatistics, Statistics
from millstream.plan.lowering.lower import Lowering
from millstream.plan.lowering.options import Options
from millstream.plan.rewrite import rewrite

ALIKE = {"s": SourceStatistics(1, 10_000, (1_000,)), "t": SourceStatistics(1, 10_000, (1_000,))}
FEW_IN_COMMON = {"s": SourceStatistics(1, 10_000, (5_000,)), "t": SourceStatistics(1, 10_000, (100,))}
SELDOM_MET = {"s": SourceStatistics(0.1, 10_000, (1_000,)), "t": SourceStatistics(9, 10_000, (1_000,))}


def rewritten(statistics: Statistics, right: str = "T [RANGE 5000]") -> lo.Node:
    cql = f"SELECT a FROM S [RANGE 5000] WHERE NOT EXISTS (SELECT 1 FROM {right} WHERE T.a = S.a)"
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT) TIMESTAMP BY ts; CREATE STREAM T (a INT) TIMESTAMP BY ts;")
        bound = Binder(db.catalog, db.settings, cql, db.session.code).bind(parse_query(cql))
    return rewrite(bound.plan, statistics)


def presence(plan: lo.Node, strategy: str = "upa") -> type:
    """How the anti join of a plan knows its partners."""
    steps = Lowering(plan, Options(strategy)).steps.values()
    return next(type(step.operator.presence) for step in steps if isinstance(step.operator, ExistenceJoin))


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [({}, Multiplicity), (ALIKE, Multiplicity), (FEW_IN_COMMON, DistinctStar), (SELDOM_MET, DistinctStar)],
)
def test_rows_are_said_ahead_where_few_are_expected_to_be_taken_back(statistics: Statistics, expected: type) -> None:
    assert presence(rewritten(statistics)) is expected


@pytest.mark.parametrize("right", ["T [ROWS 5]", "(SELECT a FROM T [RANGE 5000] GROUP BY a) AS T"])
def test_partners_that_are_taken_back_are_counted(right: str) -> None:
    plan = rewritten(FEW_IN_COMMON, right)
    assert not any(node.foretold for node in plan.walk() if isinstance(node, lo.Join))
    assert presence(plan) is Multiplicity


def test_negative_tuples_are_counted() -> None:
    assert presence(rewritten(FEW_IN_COMMON), "negative") is Multiplicity
