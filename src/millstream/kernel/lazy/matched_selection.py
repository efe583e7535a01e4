"""Selection for many queries whose matches are kept (mode LAZY): data probes the query table.

    (R, Q) -> { (r, q) : r in R, q in Q, q's condition holds on r },   R's rows once, q's as postings

What is selected is packed (`postings`): the rows that some query wants in the order of their oldest element, and of
each query where its rows are. A query that comes later probes the data that is kept in the same way, with its own
condition alone; what it finds is a segment beside the others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.postings import pack, pack_lineage
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.relational.linear import Project
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.lineage import BLOCK, LINEAGE, lineage_of, of_equal_width
from millstream.types import Schema

ROW = "_row"
_PIECE = 1 << 15  # rows selected at a time, since lineage is wide


class KeptSelection(Operator):
    """Keeps the rows of a batch once, as `projection` makes them, and for each query which of them it wants; what holds
    on a row is found wherever the row is. How both are packed is the subclass's."""

    def __init__(self, selection: GroupedSelection | KeyedSelection, projection: Project, schema: Schema) -> None:
        self.schema = schema
        self.selection = selection
        self.projection = projection

    @property
    def distribution(self) -> Distribution:
        return anywhere(())

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        wanted, learned = _wanted_rows(self.selection, inputs[0], state, progress)
        projected, _ = self.projection.step(inputs, {}, progress)
        return self.packed(projected, wanted), learned

    @abstractmethod
    def packed(self, projected: Batch, wanted: pl.DataFrame) -> Batch:
        """The rows, and who wants them: by their places (`ROW`), with the lineage of each block, or the query."""


class MatchedSelection(KeptSelection):
    """`projection` makes the columns of the matches from the rows that are selected, `matches` says which of them are
    instants.

    >>> from millstream.kernel.lazy.postings import Postings
    >>> above = GroupedSelection(integers("v", "t"), {"above": call(">", [column(0), parameter(0)])})
    >>> matches = Matches(integers("v", "t"), instants=1, kept=None, timed=False)
    >>> project = Project(integers("v", "t"), [column(0), column(1)])
    >>> run = Run(MatchedSelection(above, project, matches), queries(above={1: [5], 2: [8]}))
    >>> _ = run.step(batch((7, 0, 0, 1, +1), (9, 3, 3, 4, +1)), to=3)
    >>> show(Postings(run.output).rows_of(1, 0, 9))
    (7, t0 0)
    (9, t0 3)
    >>> show(Postings(run.output).rows_of(2, 0, 9))
    (9, t0 3)
    """

    def __init__(self, selection: GroupedSelection | KeyedSelection, projection: Project, matches: Matches) -> None:
        super().__init__(selection, projection, matches.schema)
        self.matches = matches
        self.kept = matches.kept

    def packed(self, projected: Batch, wanted: pl.DataFrame) -> Batch:
        rows, row = self.matches.timed_rows(projected), wanted[ROW].to_numpy().astype(np.intp)
        if LINEAGE in wanted.columns:
            return pack_lineage(rows, row, wanted[BLOCK].to_numpy(), lineage_of(wanted))
        return pack(rows, row, wanted[value_column(0)].to_numpy().astype(np.int64))


def _wanted_rows(
    selection: GroupedSelection | KeyedSelection, batch: Batch, state: State, progress: Progress
) -> tuple[pl.DataFrame, State]:
    """Which rows of a batch a selection wants, by their places in it: with the lineage of each block, or the query."""
    if isinstance(selection, GroupedSelection):
        return _with_lineage(selection, batch, state, progress)
    numbered = pl.DataFrame([*batch.get_columns(), pl.Series(ROW, np.arange(batch.height))])
    return selection.step([numbered], state, progress)


def _with_lineage(
    selection: GroupedSelection, batch: Batch, state: State, progress: Progress
) -> tuple[pl.DataFrame, State]:
    learned: State = {}
    errors, selected = list[Batch](), list[Batch]()
    for first in range(0, max(batch.height, 1), _PIECE):
        piece = batch[first : first + _PIECE]
        # Of the selection only which rows it wants is needed, and not their values for each block.
        numbered = pl.DataFrame(pl.Series(ROW, np.arange(first, first + piece.height)))
        found, own = selection.select(piece, {**state, **learned}, errors, carried=numbered)
        learned = {**learned, **own}
        selected.append(found)
    return pl.concat(of_equal_width(selected)), {**learned, **selection.awaited(state, errors, progress)}
