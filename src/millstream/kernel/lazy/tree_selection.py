"""Selection for many queries whose aggregates are answered by ranked trees (mode LAZY): data probes the query table.

    (R, Q) -> { (r, q) : r in R, q in Q, q's condition holds on r },   R's rows once, a tree over them for each q

A query has nodes of its own, so that it is answered without reading its rows, whatever its window is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.lazy.matched_selection import ROW, KeptSelection
from millstream.kernel.lazy.ranked_tree import TreeShape, build_for_many, placed, timed_rows
from millstream.kernel.relational.linear import Project
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, LINEAGE, expand, lineage_of

Int64s = npt.NDArray[np.int64]


class TreeSelection(KeptSelection):
    """`projection` makes the columns of the tree from the rows that are selected, instants being the last.

    >>> from millstream.kernel.aggregation.aggregate_calls import AggregateCall
    >>> from millstream.kernel.lazy.ranked_tree import aggregate
    >>> above = GroupedSelection(integers("v", "t"), {"above": call(">", [column(0), parameter(0)])})
    >>> project = Project(integers("v", "t"), [column(0), column(1)])
    >>> shape = TreeShape(integers("v"), keys=0, calls=(AggregateCall("sum", 0, distinct=False, type=BIGINT),))
    >>> run = Run(TreeSelection(above, project, shape, kept=None), queries(above={1: [5], 2: [8]}))
    >>> _ = run.step(batch((7, 0, 0, 1, +1), (9, 3, 3, 4, +1), (5, 4, 4, 5, +1)), to=4)
    >>> show(aggregate([run.output], shape, first=0, last=4, at=4, query=1))
    (16, [4, 5), +1)
    >>> show(aggregate([run.output], shape, first=0, last=4, at=4, query=2))
    (9, [4, 5), +1)
    """

    def __init__(
        self,
        selection: GroupedSelection | KeyedSelection,
        projection: Project,
        shape: TreeShape,
        kept: int | None,
    ) -> None:
        super().__init__(selection, projection, shape.schema)
        self.shape = shape
        self.kept = kept

    def packed(self, projected: Batch, wanted: pl.DataFrame) -> Batch:
        return build_for_many(timed_rows(projected, self.shape), self.shape, lambda order: _pairs(wanted, order))


def _pairs(wanted: pl.DataFrame, order: Int64s) -> tuple[Int64s, Int64s]:
    """(place, query) of what is wanted, by query and place, given the order of the rows."""
    row = wanted[ROW].to_numpy().astype(np.int64)
    if LINEAGE not in wanted.columns:
        return placed(row, wanted[value_column(0)].to_numpy().astype(np.int64), order)
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    block, lineage = wanted[BLOCK].to_numpy(), lineage_of(wanted)
    places, queries = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number in np.unique(block):
        own = np.flatnonzero(block == number)
        own = own[np.argsort(place[row[own]])]
        at, bit = expand(lineage[own])
        by_query = np.argsort(bit.astype(np.uint16), kind="stable")  # small numbers are sorted by counting
        places.append(place[row[own]][at[by_query]])
        queries.append(bit[by_query].astype(np.int64) + int(number) * BLOCK_SIZE)
    return np.concatenate(places), np.concatenate(queries)
