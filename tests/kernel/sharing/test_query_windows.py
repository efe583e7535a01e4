"""Windows of many queries on one stream, each of a size of its own."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from millstream.kernel.batch import INTERVAL_COLUMNS
from millstream.kernel.examples import Run, batch, integers, queries
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, lineage_series, wanted_by
from millstream.kernel.sharing.query_windows import QueryWindows, SizedWindow
from millstream.kernel.windows.time import Range, Tumble

SIZES = {1: [5, 1], 2: [8, 1], 3: [5, 1], 64: [5, 3], 70: [8, 1], BLOCK_SIZE + 2: [2, 2]}


def windows(half_open: bool) -> dict[int, Range]:
    return {query: Range(size, slide, half_open) for query, (size, slide) in SIZES.items()}


@pytest.mark.parametrize("half_open", [False, True])
def test_rows_of_queries_have_the_intervals_of_their_own_windows(half_open: bool) -> None:
    operator = QueryWindows(integers("query", "v"), SizedWindow("range", half_open, (0, 1)), expanded=True)
    run = Run(operator, queries(of=SIZES))
    rows = [(query, 7, t, t + 1, 1) for query in (*SIZES, 5) for t in (0, 1, 4, 9)]
    run.step(batch(*rows), to=9)
    expected = []
    for query, value, t, _, weight in rows:
        if query in SIZES:
            start, end = windows(half_open)[query].interval(np.array([t]))
            expected += [(query, value, int(start[0]), int(end[0]), weight)] if start[0] < end[0] else []
    assert run.output.rows() == expected


@pytest.mark.parametrize("wanting", [[[1], [2, 70], [64], []], [[1, 2, 3, 64, 70]] * 4])
def test_rows_that_many_want_are_there_once_for_each_window(wanting: list[list[int]]) -> None:
    """Whether few queries want them, or most."""
    operator = QueryWindows(integers("v"), SizedWindow("range", False, (0, 1)), expanded=False)
    bits = np.zeros((5, 2), np.uint64)
    for row, of_row in enumerate([*wanting, [2]]):
        for query in of_row:
            bits[row, query // 64] |= np.uint64(1) << np.uint64(query % 64)
    rows = batch(*((row, row, row + 1, 1) for row in range(5))).with_columns(
        pl.Series(BLOCK, [0, 0, 0, 0, 1], pl.UInt32()), lineage_series(bits)
    )
    run = Run(operator, queries(of=SIZES))
    run.step(rows, to=5)
    found = set()
    for query in SIZES:
        own = run.output.filter(pl.Series(wanted_by(run.output, query)))
        found |= {(query, *row) for row in own.select("c0", *INTERVAL_COLUMNS).rows()}
    expected = set()
    for row, of_row in enumerate([*wanting, [BLOCK_SIZE + 2]]):
        for query in of_row:
            start, end = windows(False)[query].interval(np.array([row]))
            expected.add((query, row, int(start[0]), int(end[0]), 1))
    assert found == expected
    assert run.output.height == len({(row, *SIZES[query]) for query, row, *_ in expected})


def test_tumbling_windows() -> None:
    operator = QueryWindows(integers("query", "v"), SizedWindow("tumble", True, (0,)), expanded=True)
    run = Run(operator, queries(of={1: [5], 2: [3]}))
    run.step(batch((1, 7, 4, 5, 1), (2, 7, 4, 5, 1)), to=5)
    expected = [
        (query, 7, *(int(t[0]) for t in Tumble(size).interval(np.array([4]))), 1) for query, size in ((1, 5), (2, 3))
    ]
    assert run.output.rows() == expected
