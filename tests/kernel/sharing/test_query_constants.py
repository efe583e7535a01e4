"""Constants of queries beside their rows."""

from __future__ import annotations

from millstream.kernel.examples import BIGINT, Run, batch, integers, queries
from millstream.kernel.sharing.query_constants import QueryConstants
from millstream.types import Field


def test_constants_are_those_of_the_query_of_each_row() -> None:
    both = QueryConstants(integers("query", "v"), {0: Field("?1", BIGINT), 2: Field("?3", BIGINT)})
    run = Run(both, queries(of={9: [1, 2, 3], 4: [10, 20, 30]}, others={6: [100, 200, 300]}))
    run.step(batch((4, 7, 0, 9, +1), (6, 8, 2, 3, -1), (9, 7, 0, 9, +1), (4, 5, 1, 9, +2)), to=1)
    assert [row[:4] for row in run.output.rows()] == [(4, 7, 10, 30), (6, 8, 100, 300), (9, 7, 1, 3), (4, 5, 10, 30)]
    assert run.output["_weight"].to_list() == [1, -1, 1, 2]


def test_rows_of_queries_that_are_gone_go() -> None:
    operator = QueryConstants(integers("query", "v"), {0: Field("?1", BIGINT)})
    run = Run(operator, queries(of={1: [5], 2: [6]}))
    run.step(batch((1, 7, 0, 9, +1), (2, 7, 0, 9, +1)), to=1)
    assert run.output.height == 2
    run.tables = queries(of={2: [6]})
    run.step(batch((1, 7, 2, 9, +1), (2, 7, 2, 9, +1), (3, 7, 2, 9, +1)), to=3)
    assert [row[:3] for row in run.output.rows()] == [(2, 7, 6)]
    run.tables = {}
    run.step(batch((2, 7, 4, 9, +1)), to=5)
    assert not run.output.height
