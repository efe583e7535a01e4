"""Under bounded windows, state does not grow with the stream: after 100 windows' worth, what is held is still flat."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import millstream as ms
from millstream.kernel.batch import ARRIVAL, END, START, WEIGHT
from millstream.kernel.operator import State
from millstream.kernel.pipeline import Pipeline, run
from millstream.language.binder import Binder
from millstream.language.statement_parser import parse_query
from millstream.plan.lowering.lower import Lowering
from millstream.plan.lowering.options import Options
from millstream.plan.rewrite import rewrite
from millstream.plan.rules.context import JoinChoice

WINDOW, BATCH, RATE = 100, 100, 2

QUERIES = {
    "window": "SELECT ISTREAM(a) FROM S [RANGE 100]",
    "rows": "SELECT a FROM S [ROWS 300]",
    "partition": "SELECT a FROM S [PARTITION BY a ROWS 15]",
    "join": "SELECT S.b, T.b FROM S [RANGE 100], T [RANGE 100] WHERE S.a = T.a",
    "rows_join": "SELECT S.b FROM S [ROWS 300], T [ROWS 300] WHERE S.a = T.a AND S.b < T.b",
    "band_join": "SELECT S.b FROM S [RANGE 100], T [RANGE 100] WHERE S.b BETWEEN T.b AND T.b + 2",
    "stems": "SELECT S.b, T.b FROM S [RANGE 100], T [RANGE 100], S [ROWS 50] r WHERE S.a = T.a AND T.b = r.b",
    "left_join": "SELECT S.b, T.b FROM S [RANGE 100] LEFT JOIN T [RANGE 100] ON S.b = T.b",
    "anti": "SELECT a FROM S [RANGE 100] WHERE NOT EXISTS (SELECT 1 FROM T [RANGE 100] WHERE T.b = S.b AND T.a > S.a)",
    "group_by": "SELECT a, count(*), sum(b), max(b), count(DISTINCT b), stddev(b) FROM S [RANGE 100] GROUP BY a",
    "rows_group_by": "SELECT a, avg(b), max(b) FROM S [ROWS 300] GROUP BY a",
    "group_by_fresh_keys": "SELECT b, count(*) FROM S [RANGE 100] GROUP BY b",
    "distinct": "SELECT DISTINCT b FROM S [RANGE 100]",
    "rows_distinct": "SELECT DISTINCT b FROM S [ROWS 300]",
    "except": "SELECT b FROM S [RANGE 100] EXCEPT SELECT b FROM T [RANGE 100]",
    "intersect_all": "SELECT a FROM S [RANGE 100] INTERSECT ALL SELECT a FROM T [RANGE 100]",
    "slide": "SELECT a, avg(b) FROM S [RANGE 100 SLIDE 25] GROUP BY a",
    "derived": "SELECT DISTINCT a FROM (SELECT DSTREAM(a) FROM S [RANGE 50]) [RANGE 50]",
}


def pipeline_of(text: str, strategy: str) -> Pipeline:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts; CREATE STREAM T (a INT, b INT) TIMESTAMP BY ts")
        bound = Binder(db.catalog, db.settings, text).bind(parse_query(text))
    plan = rewrite(bound.plan, choice=JoinChoice("eddy" if text == QUERIES["stems"] else "tree"))
    return Pipeline(tuple(Lowering(plan, Options(strategy)).steps.values()))


def elements(rng: np.random.Generator, first: int) -> pl.DataFrame:
    count = BATCH * RATE
    ts = np.sort(rng.integers(first, first + BATCH, count))
    return pl.DataFrame(
        {
            "c0": pl.Series(rng.integers(0, 20, count), dtype=pl.Int32),
            # Fresh values all the time: what is kept per value must go with the value.
            "c1": pl.Series(ts + rng.integers(0, 50, count), dtype=pl.Int32),
            START: ts,
            END: ts + 1,
            WEIGHT: np.ones(count, np.int64),
            ARRIVAL: np.arange(count) + first * RATE,
        }
    )


@pytest.mark.parametrize("strategy", ["upa", pytest.param("negative", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", QUERIES)
def test_state_stays_flat(name: str, strategy: str) -> None:
    pipeline, rng = pipeline_of(QUERIES[name], strategy), np.random.default_rng(1)
    states: dict[str, State] = {}
    held = []
    before = {"s": -1, "t": -1}
    for first in range(0, 100 * WINDOW, BATCH):
        arrived = {"s": elements(rng, first), "t": elements(rng, first)}
        after = {"s": first + BATCH - 1, "t": first + BATCH - 1}
        outcome = run(pipeline, arrived, states, before, after)
        assert not outcome.failures
        states, before = outcome.states, after
        held.append(sum(s.height for state in states.values() for part in state.values() for s in part))
    early, late = max(held[5:20]), max(held[-15:])
    assert late <= 1.5 * early + 100, f"{early} rows early on, {late} at the end"
