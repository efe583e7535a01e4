"""Selection for many queries whose matches are kept (mode LAZY): data probes the query table.

    (R, Q) -> { (r, q) : r in R, q in Q, q's condition holds on r },   R's rows once, q's as postings

What is selected is packed (`postings`): the rows that some query wants in the order of their oldest element, and of
each query where its rows are. A query that comes later probes the data that is kept in the same way, with its own
condition alone; what it finds is a segment beside the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.keys import Positions
from millstream.kernel.linear import Project
from millstream.kernel.matches import Matches
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, expand, lineage_of
from millstream.kernel.sharing.postings import Queries, pack

_ROW = "_row"
_PIECE = 1 << 15  # rows selected at a time, since lineage is wide


class MatchedSelection(Operator):
    """`projection` makes the columns of the matches from the rows that are selected, `matches` says which of them are
    instants."""

    def __init__(self, selection: GroupedSelection | KeyedSelection, projection: Project, matches: Matches) -> None:
        self.schema = matches.schema
        self.selection = selection
        self.projection = projection
        self.matches = matches
        self.kept = matches.kept

    @property
    def distribution(self) -> Distribution:
        return anywhere(())

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        learned: State = {}
        rows, queries = [np.empty(0, np.intp)], [np.empty(0, np.int64)]
        for first in range(0, batch.height, _PIECE):
            piece = batch[first : first + _PIECE]
            numbered = piece.with_columns(pl.Series(_ROW, np.arange(first, first + piece.height)))
            selected, own = self.selection.step([numbered], {**state, **learned}, progress)
            learned = {**learned, **own}
            row, query = _pairs(selected)
            rows.append(row)
            queries.append(query)
        projected, _ = self.projection.step([batch], {}, progress)
        return pack(self.matches.timed_rows(projected), np.concatenate(rows), np.concatenate(queries)), learned


def _pairs(selected: Batch) -> tuple[Positions, Queries]:
    """(row, query) of what was selected: with the query in front, or with bits."""
    row = selected[_ROW].to_numpy().astype(np.intp)
    if BLOCK not in selected.columns:
        return row, selected[value_column(0)].to_numpy().astype(np.int64)
    at, bit = expand(lineage_of(selected))
    return row[at], selected[BLOCK].to_numpy()[at].astype(np.int64) * BLOCK_SIZE + bit
