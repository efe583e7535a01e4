"""Rows, once for each element of a list in them, or of several lists side by side.

    { (r, x, s, e, w) : (r l, s, e, w) in R, x in l },   of each list the elements in their order
    { (r, l_i, m_i, s, e, w) : (r l m, s, e, w) in R, i up to the longer of both },   NULL beyond the shorter one

It keeps nothing, and passes on every column that is not a value (interval, weight, arrival, lineage) as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.columns import frame_of, taken
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.keys import Positions
from millstream.kernel.lists import Lengths, elements, lengths
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.step_limits import unfold
from millstream.types import Schema


class Unnest(Operator):
    """The last columns are lists, and elements stand in their places; with `position`, their number from 0 on comes
    behind. `outer` keeps rows whose lists have no elements, or are NULL, with NULL for all.

    >>> of_lists = batch((7, [1, 2], 0, 10, +1), (8, [], 2, 4, +1))
    >>> Run(Unnest(integers("v", "x", "n"), position=True)).step(of_lists, to=5)
    (7, 1, 0, [0, 10), +1)
    (7, 2, 1, [0, 10), +1)
    """

    def __init__(self, schema: Schema, *, position: bool = False, outer: bool = False, lists: int = 1) -> None:
        self.schema = schema
        self.position = position
        self.outer = outer
        self.lists = lists

    @property
    def _first(self) -> int:
        """The place of the first list."""
        return len(self.schema) - self.lists - self.position

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(self._first))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, names = inputs[0], [value_column(self._first + place) for place in range(self.lists)]
        values = [batch.get_column(name) for name in names]
        sizes = [lengths(each) for each in values]
        longest = np.maximum.reduce(sizes)
        made = np.maximum(longest, 1) if self.outer else longest  # without elements there is one that is NULL
        unfold(int(made.sum()))
        row = np.repeat(np.arange(len(longest)), made)
        number = np.arange(len(row)) - np.repeat(np.cumsum(made) - made, made)
        kept = {c.name: c for c in taken([c for c in batch.get_columns() if c.name not in names], row)}
        columns = [kept[value_column(index)] for index in range(self._first)]
        columns += [_elements(each, size, row, number) for each, size in zip(values, sizes, strict=True)]
        if self.position:
            missing = pl.Series(longest[row] == 0)
            numbers = pl.Series(value_column(self._first + self.lists), number.astype(np.int32))
            columns.append(numbers.set(missing, None) if missing.any() else numbers)
        return frame_of([*columns, *(kept[n] for n in kept if n.startswith("_"))]), NO_STATE


def _elements(lists: pl.Series, sizes: Lengths, row: Positions, number: Positions) -> pl.Series:
    """Of the lists of rows the elements of some numbers, NULL beyond their ends."""
    found = elements(lists)
    beyond = number >= sizes[row]
    if not beyond.any() and len(found) == len(row):
        return found.alias(lists.name)
    place = np.where(beyond, len(found), (np.cumsum(sizes) - sizes)[row] + number)
    return found.extend_constant(None, 1)[place].alias(lists.name)
