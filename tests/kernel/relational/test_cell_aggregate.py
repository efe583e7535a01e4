"""Totals of cells: for each query those of the rows that it wants, whichever way they are made."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl
import pytest

from millstream.kernel.aggregation import change_points
from millstream.kernel.aggregation.aggregate_calls import AggregateCall
from millstream.kernel.batch import END, START, WEIGHT, Batch, value_columns
from millstream.kernel.examples import Run, integers
from millstream.kernel.relational import cells_apart
from millstream.kernel.relational.cell_aggregate import CellAggregate
from millstream.kernel.sharing.cells import CELL, SPAN
from millstream.types import BIGINT

QUERIES, LAST = 70, 12  # more than a word has bits
Totals = dict[tuple[int, int, int], list[int]]  # of a query, a key and an instant: how many, and their sum


def random_rows(dice: np.random.Generator, first: int, spans: int) -> Batch:
    """Rows of two instants, many of each, in the order of time; some are taken back."""
    count = 120
    wanted = dice.random((count, QUERIES)) < 0.2
    wanted[np.arange(count), dice.integers(0, QUERIES, count)] = True
    lineages = [sum(1 << int(bit) for bit in np.flatnonzero(row)) for row in wanted]
    texts = [lineage.to_bytes(8 * ((lineage.bit_length() - 1) // 64 + 1), "little") for lineage in lineages]
    values = [dice.integers(0, spans, count), texts, dice.integers(0, 3, count), dice.integers(-9, 9, count)]
    start = first + np.arange(count) // 60
    times = {START: start, END: start + 3, WEIGHT: dice.choice([1, 1, 2, -1], count)}
    named = dict(zip(value_columns(4), values, strict=True))
    return pl.DataFrame({**named, **times})


def totals(rows: Batch) -> Totals:
    found: Totals = defaultdict(lambda: [0, 0])
    for span, lineage, key, *made, start, end, weight in rows.iter_rows():
        bits = int.from_bytes(lineage, "little")
        count, value = made if len(made) == 2 else (1, made[0])
        for query in (place for place in range(bits.bit_length()) if bits >> place & 1):
            for instant in range(start, min(end, LAST)):
                total = found[span * SPAN + query, key, instant]
                total[0] += count * weight
                total[1] += int(value) * weight
    return {place: total for place, total in found.items() if any(total)}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("spans", [1, 2])
def test_totals_of_cells_are_those_of_their_rows(seed: int, spans: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        for name, value in (("LEAST", 0), ("FAR_MORE", 0), ("_TOGETHER", 50), ("_are_few", lambda _: False)):
            monkeypatch.setattr(cells_apart, name, value)
        monkeypatch.setattr(change_points, "_ROWS_PER_PANE", 0)
    dice = np.random.default_rng(seed)
    calls = AggregateCall("count", None, False, BIGINT), AggregateCall("partial_sum", 3, False, BIGINT)
    run = Run(CellAggregate((*CELL, *integers("k", "v")), (0, 1, 2), calls))
    arrived = [random_rows(dice, 3 * step, spans) for step in range(3)]
    made = []
    for step, rows in enumerate(arrived):
        run.step(rows, to=3 * step + 2)
        made.append(run.output)
    run.wait(to=LAST)
    shown = pl.concat([*made, run.output])
    assert totals(shown) == totals(pl.concat(arrived))
    if seed % 2:
        lineages = shown.get_column(value_columns(2)[1])
        assert all(int.from_bytes(lineage, "little").bit_count() == 1 for lineage in lineages)
