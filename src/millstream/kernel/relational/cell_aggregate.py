"""Totals of rows with their cells: what is kept of an aggregate of many queries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import polars as pl

from millstream.kernel.aggregation.accumulators import Totals
from millstream.kernel.aggregation.aggregate import Aggregate, Bools
from millstream.kernel.aggregation.combined import are_some
from millstream.kernel.batch import Batch
from millstream.kernel.columns import stacked
from millstream.kernel.operator import Combiner, Progress, State
from millstream.kernel.relational.cells_apart import TotalsOfQueries
from millstream.kernel.sharing.cells import CELL


class CellAggregate(Aggregate):
    """The aggregate of each cell, by which rows of many queries are grouped: its state is no single query's.

    A cell is there as long as a total of it is not 0. Totals may be negative: a row that is taken back lies in another
    cell than when it came where queries have come or gone meanwhile, and only in the sum over the cells of a query that
    was there all along, or has its past, it is 0.

    Where the first two columns have the cell, and cells are about as many as rows, these become totals of queries.

    >>> from millstream.kernel.aggregation.aggregate_calls import AggregateCall
    >>> from millstream.types import BIGINT
    >>> total = AggregateCall("partial_sum", 1, False, BIGINT)
    >>> run = Run(CellAggregate(integers("cell", "v"), keys=(0,), calls=(total,)))
    >>> run.step(batch((6, 10, 0, 9, +1), (6, 20, 3, 6, +1)), to=4)
    (6, 10, [0, 3), +1)
    (6, 30, [3, INF), +1)
    """

    def _presence(self, totals: Totals, present: Bools) -> Bools:
        return are_some(totals, len(present))

    @property
    def combiner(self) -> Combiner | None:
        """Cells are made for many queries, and are few rows each; or else rows are summed for the queries apart."""
        return self._apart

    @cached_property
    def _apart(self) -> TotalsOfQueries | None:
        return TotalsOfQueries(self.plan, self.keys, self.groups) if self.schema[: len(CELL)] == CELL else None

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, *sums = inputs
        apart = None if self._apart is None else self._apart.sums(batch)
        return super().step(inputs if apart is None else [batch.clear(), stacked([apart, *sums])], state, progress)

    def of_queries(self, state: State, queries: pl.Series) -> State:
        """All of it: queries that are gone, or not asked for, are in cells that do no harm."""
        return state
