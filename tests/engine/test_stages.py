"""Where steps run: how many shuffles plans need, and by which columns rows travel. Counted by hand."""

from __future__ import annotations

import pytest

import millstream as ms
from millstream.engine.epochs.stages import StagePlan, StagePlanner

SETUP = """
CREATE STREAM S (k INT, a INT, b STRING) TIMESTAMP BY ts;
CREATE STREAM T (k BIGINT, c INT) TIMESTAMP BY ts;
CREATE STREAM U (k INT, d INT) TIMESTAMP BY ts;
CREATE TABLE R (k INT, e INT)
"""
SHUFFLES = {
    # Row by row: no state, no shuffle.
    "SELECT a AS x FROM S [NOW] WHERE k > 3": 0,
    "SELECT k FROM S [RANGE 10] UNION ALL SELECT d FROM U [RANGE 5]": 0,
    "RSTREAM(SELECT * FROM S [RANGE 10 SLIDE 5])": 0,
    "SELECT k FROM S [NOW] UNION ALL SELECT 1 AS k": 0,  # constants are said once, by the first task
    # One exchange, by whatever brings rows together.
    "SELECT k, COUNT(*) AS n FROM S [RANGE 10] GROUP BY k": 1,
    "SELECT COUNT(*) AS n FROM S [RANGE 10]": 1,
    "SELECT DISTINCT k, a FROM S [RANGE 10]": 1,
    "ISTREAM(SELECT k FROM S [RANGE 10])": 1,
    "SELECT * FROM S [ROWS 3]": 1,
    "SELECT * FROM S [PARTITION BY k ROWS 3]": 1,
    "SELECT S.a, U.d FROM S [RANGE 5], U [RANGE 5] WHERE S.k = U.k": 1,
    "SELECT S.a, U.d FROM S [RANGE 5], U [RANGE 5] WHERE S.a < U.d": 1,
    # An expression that fails on a row fails for good where rows are never taken back, and on the row's own shard.
    "SELECT a + 1 AS x FROM S [NOW] WHERE k > 3": 0,
    "SELECT a + 1 AS x FROM S [ROWS 3]": 1,
    "SELECT k, COUNT(*) + 1 AS n FROM S [RANGE 10] GROUP BY k": 1,
    # What lies by some of the columns already does not travel again.
    "SELECT S.k, COUNT(*) AS n FROM S [RANGE 5], U [RANGE 5] WHERE S.k = U.k GROUP BY S.k": 1,
    "SELECT U.k, d, COUNT(*) AS n FROM S [RANGE 5], U [RANGE 5] WHERE S.k = U.k GROUP BY U.k, d": 1,
    "ISTREAM(SELECT k, COUNT(*) AS n FROM S [RANGE 10] GROUP BY k)": 1,
    "SELECT k, COUNT(*) AS n FROM S [PARTITION BY k ROWS 3] GROUP BY k": 1,
    "SELECT S.a FROM S [RANGE 5], U [RANGE 5], R WHERE S.k = U.k AND U.k = R.k": 1,
    "SELECT a FROM S [RANGE 9] EXCEPT SELECT d FROM U [RANGE 9]": 1,
    "SELECT * FROM (SELECT k, SUM(a) AS s FROM S [RANGE 5] GROUP BY k) x, U [RANGE 5] WHERE x.k = U.k": 1,
    # Two levels of bringing together are two shuffles, and not more than the plan is deep.
    "SELECT d, COUNT(*) AS n FROM S [RANGE 5], U [RANGE 5] WHERE S.k = U.k GROUP BY d": 2,
    "SELECT n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM S [RANGE 5] GROUP BY k) GROUP BY n": 2,
    "SELECT S.a FROM S [RANGE 5], U [RANGE 5], R WHERE S.k = U.k AND U.d = R.e": 2,
    "SELECT COUNT(*) AS m FROM (SELECT DISTINCT k FROM S [RANGE 5])": 2,
    "SELECT m, COUNT(*) AS l FROM (SELECT n, COUNT(*) AS m FROM "
    "(SELECT k, COUNT(*) AS n FROM S [RANGE 5] GROUP BY k) GROUP BY n) GROUP BY m": 3,
}


def planned(*queries: str, shards: int = 4, speaking: set[str] | None = None) -> StagePlan:
    """The stages of an epoch in which the given sources, or all of them, have rows; queries have plans of their own."""
    with ms.connect(engine="inprocess") as db:
        db.execute(f"{SETUP}; SET sharing = 'off'")
        for query in queries:
            db.register(query)
        pipeline = db.engine.pipeline
        sources = {edge for step in pipeline.steps for edge in step.inputs} - {step.name for step in pipeline.steps}
        empty = {source: db.engine.sources.history(source) for source in sources}
        steps = frozenset(step.name for step in pipeline.steps)
        return StagePlanner(shards).plan(pipeline, empty, steps, sources if speaking is None else speaking)


@pytest.mark.parametrize("query", SHUFFLES)
def test_shuffles(query: str) -> None:
    assert planned(query).shuffles == SHUFFLES[query]


@pytest.mark.parametrize("query", SHUFFLES)
def test_one_shard_needs_no_shuffle(query: str) -> None:
    assert planned(query, shards=1).shuffles == 0


def test_all_queries_together_are_as_deep_as_the_deepest() -> None:
    assert planned(*SHUFFLES).shuffles == max(SHUFFLES.values())


def test_an_edge_travels_once_for_all_that_want_it_alike() -> None:
    queries = [
        f"SELECT S.k, COUNT(*) AS n FROM S [RANGE 5], U [RANGE 5] WHERE S.k = U.k AND d > {x} GROUP BY S.k"
        for x in (1, 2)
    ]
    sent = [(send.edge, send.columns) for stage in planned(*queries).stages for send in stage.sends]
    assert len(sent) == len(set(sent)) == 3  # S once, U for either selection


def test_silent_sources_do_not_deepen_an_epoch() -> None:
    query = (
        "SELECT * FROM R, (SELECT n, COUNT(*) AS m FROM "
        "(SELECT k, COUNT(*) AS n FROM S [RANGE 5] GROUP BY k) GROUP BY n) x WHERE R.k = x.n"
    )
    assert planned(query, speaking={"s"}).shuffles == 2
    plan = planned(query, speaking={"r"})
    assert all(send.edge != "s" for stage in plan.stages for send in stage.sends)


def test_a_step_is_placed_alike_whatever_else_is_in_the_pipeline() -> None:
    """State stays where it is while queries come and go."""

    def wanted(plan: StagePlan) -> dict[str, tuple[str, ...]]:
        return {step.name: step.inputs for stage in plan.stages for step in stage.steps}

    together, compared = wanted(planned(*SHUFFLES)), 0
    for query in SHUFFLES:
        # A join may keep more columns beside others, and is another step then, as is all below it that is for it only.
        own = {name: inputs for name, inputs in wanted(planned(query)).items() if name in together}
        assert own.items() <= together.items()
        compared += bool(own)
    assert compared >= len(SHUFFLES) - 1
