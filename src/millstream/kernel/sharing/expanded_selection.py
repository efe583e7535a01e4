"""Selection for many queries, what is made of each row, and expansion to queries, in one go over pieces of a batch.

Lineage is wide: 128 bytes a row and block. Where it is expanded at once, it need not be there for all rows of a batch
at the same time: pieces that fit the processor's cache are selected, projected and counted one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.kernel.batch import WEIGHT, Batch, concat
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.sharing.expand import Expand
from millstream.kernel.sharing.grouped_selection import GroupedSelection
from millstream.kernel.sharing.selected import Room
from millstream.kernel.storage.segments import summed

_PIECE = 1 << 15  # rows; smaller pieces cost more calls, larger ones more memory


class ExpandedSelection(Operator):
    """`row_wise` are the operators between the selection and the expansion; they look at one row at a time.

    >>> above = GroupedSelection(integers("v"), {"above": call(">", [column(0), parameter(0)])})
    >>> run = Run(ExpandedSelection(above, [], Expand(integers("v"))), queries(above={1: [5], 2: [8]}))
    >>> run.step(batch((4, 0, 9, +1), (7, 0, 9, +1), (9, 2, 4, +1)), to=2)
    (1, 7, [0, 9), +1)
    (1, 9, [2, 4), +1)
    (2, 9, [2, 4), +1)
    """

    def __init__(self, selection: GroupedSelection, row_wise: Sequence[Operator], expand: Expand) -> None:
        self.schema = expand.schema
        self.selection = selection
        self.row_wise = tuple(row_wise)
        self.expand = expand

    @property
    def distribution(self) -> Distribution:
        copies = self.selection.distribution.copies_of(0)
        for operator in (*self.row_wise, self.expand):
            following = operator.distribution.copies_of(0)
            copies = tuple((start, end) for start, middle in copies for column, end in following if column == middle)
        return anywhere(copies)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        learned: State = {}
        pieces: list[Batch] = []
        room, errors = Room(), list[Batch]()
        for first in range(0, max(batch.height, 1), _PIECE):
            rows, own = self.selection.select(batch[first : first + _PIECE], {**state, **learned}, errors, room)
            learned = {**learned, **own}
            for operator in (*self.row_wise, self.expand):
                rows, _ = operator.step([rows], {}, progress)
            pieces.append(rows)
        found = concat(pieces, pieces[0])
        if len(pieces) > 1 and _overlap(*pieces[:2]):
            found = summed(found)
        return found, {**learned, **self.selection.awaited(state, errors, progress)}

    def of_queries(self, state: State, queries: pl.Series) -> State:
        return self.selection.of_queries(state, queries)


def _overlap(first: Batch, second: Batch) -> bool:
    """Whether many cells lie in several pieces, as those of a query's count do, so that summing them pays."""
    both = pl.concat([first, second]).drop(WEIGHT)
    return 4 * both.n_unique() < 3 * both.height
