"""Cells: which rows a query wants is found again from the sets of queries that rows carry."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from millstream.kernel.batch import END, INTERVAL_COLUMNS, START, WEIGHT, value_column
from millstream.kernel.examples import Run, call, column, integers, parameter, queries
from millstream.kernel.relational.linear import Project
from millstream.kernel.sharing.cells import SPAN, CellSelection, bitmaps_of, cells_of
from millstream.kernel.sharing.grouped_selection import GroupedSelection


@pytest.mark.parametrize("numbers", [range(70), range(0, 5000, 7), [0, SPAN - 1, SPAN, 3 * SPAN + 5]])
def test_each_query_finds_its_rows(numbers: range | list[int]) -> None:
    random = np.random.default_rng(1)
    bounds = {number: int(random.integers(0, 120)) for number in numbers}
    values = random.integers(0, 100, 500)
    batch = pl.DataFrame({value_column(0): values, START: 0, END: 9, WEIGHT: 1}).cast(pl.Int64)
    selection = GroupedSelection(integers("v"), {"above": call(">", [column(0), parameter(0)])})
    run = Run(
        CellSelection(selection, Project(integers("v"), [column(0)])),
        queries(above={number: [bound] for number, bound in bounds.items()}),
    )
    run.step(batch, to=0)
    rows = run.output
    for number, bound in bounds.items():
        found = rows[cells_of(rows, number).tolist()]
        assert sorted(found[value_column(2)]) == sorted(int(value) for value in values if value > bound)
        assert found.select(INTERVAL_COLUMNS).unique().rows() in ([], [(0, 9, 1)])
    assert not cells_of(rows, max(bounds) + 1).size
    assert bitmaps_of(rows).any(axis=1).all()


def test_rows_that_nobody_wants_are_in_no_cell() -> None:
    selection = GroupedSelection(integers("v"), {"above": call(">", [column(0), parameter(0)])})
    run = Run(CellSelection(selection, Project(integers("v"), [column(0)])), queries(above={1: [50]}))
    batch = pl.DataFrame({value_column(0): [1, 2], START: 0, END: 9, WEIGHT: 1}).cast(pl.Int64)
    run.step(batch, to=0)
    assert not run.output.height
    assert not cells_of(run.output, 1).size
