"""Rows, once for each element of a list in them.

    { (r, x, s, e, w) : (r l, s, e, w) in R, x in l },   of each list the elements in their order

It keeps nothing, and passes on every column that is not a value (interval, weight, arrival, lineage) as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch, value_column
from millstream.kernel.columns import frame_of, taken
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.lists import elements, lengths
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.types import Schema


class Unnest(Operator):
    """The last column is a list, and an element stands in its place; with `position`, its number from 0 on comes
    behind. `outer` keeps rows whose list has no elements, or is NULL, with NULL for both.

    >>> of_lists = batch((7, [1, 2], 0, 10, +1), (8, [], 2, 4, +1))
    >>> Run(Unnest(integers("v", "x", "n"), position=True)).step(of_lists, to=5)
    (7, 1, 0, [0, 10), +1)
    (7, 2, 1, [0, 10), +1)
    """

    def __init__(self, schema: Schema, *, position: bool = False, outer: bool = False) -> None:
        self.schema = schema
        self.position = position
        self.outer = outer

    @property
    def _list(self) -> int:
        return len(self.schema) - 1 - self.position

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(self._list))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, name = inputs[0], value_column(self._list)
        values = batch.get_column(name)
        sizes, found = lengths(values), elements(values)
        made = np.maximum(sizes, 1) if self.outer else sizes  # a list without elements has one that is NULL
        row = np.repeat(np.arange(len(sizes)), made)
        number = np.arange(len(row)) - np.repeat(np.cumsum(made) - made, made)
        missing = pl.Series(sizes[row] == 0)
        if missing.any():
            place = np.where(missing.to_numpy(), len(found), (np.cumsum(sizes) - sizes)[row] + number)
            found = found.extend_constant(None, 1)[place]
        own = [column for column in batch.get_columns() if column.name != name]
        kept = {column.name: column for column in taken(own, row)}
        columns = [*(kept[value_column(index)] for index in range(self._list)), found.alias(name)]
        if self.position:
            numbers = pl.Series(value_column(self._list + 1), number.astype(np.int32))
            columns.append(numbers.set(missing, None) if missing.any() else numbers)
        return frame_of([*columns, *(kept[n] for n in kept if n.startswith("_"))]), NO_STATE
