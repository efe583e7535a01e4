"""Selection for many queries whose aggregates are answered by ranked trees (mode LAZY): data probes the query table.

    (R, Q) -> { (r, q) : r in R, q in Q, q's condition holds on r },   R's rows once, a tree over them for each q

Trees are of cells of queries that want the same rows, or of a query each, whichever is less: in either case a query is
answered without reading its rows, whatever its window is.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.lazy.matched_selection import ROW, KeptSelection
from millstream.kernel.lazy.owners import Owned, owned_by_lineage
from millstream.kernel.lazy.ranked_tree import build_for_many, timed_rows
from millstream.kernel.lazy.tree_segments import TreeShape
from millstream.kernel.relational.linear import Project
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.lineage import BLOCK, LINEAGE, lineage_of


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
        return build_for_many(timed_rows(projected, self.shape), self.shape, _owned(wanted))


def _owned(wanted: pl.DataFrame) -> Owned:
    row = wanted[ROW].to_numpy().astype(np.int64)
    if LINEAGE not in wanted.columns:
        return Owned(row, wanted[value_column(0)].to_numpy().astype(np.int64))
    return owned_by_lineage(row, wanted[BLOCK].to_numpy().astype(np.int64), lineage_of(wanted))
