"""What windows have in common that take elements one by one, separately for each value of the partition columns.

They work up to their frontier, on elements in timestamp order, ties by arrival. What came beyond the frontier waits,
and of what came before they hold what is still to be said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millstream.kernel.batch import ARRIVAL, START, Batch, value_column, value_columns
from millstream.kernel.columns import stacked
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.keys import Positions, first_of_equal
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.storage.segments import numbers, released
from millstream.types import Schema


class PartitionedWindow(Operator):
    """A window of a stream whose elements have arrival numbers, and `width` columns."""

    def __init__(self, schema: Schema, partition: tuple[int, ...], width: int) -> None:
        self.schema = schema
        self.columns = value_columns(width)
        self.partition = [value_column(index) for index in partition]
        self._hashed = partition

    @property
    def distribution(self) -> Distribution:
        return by_key([self._hashed], same_columns(len(self.columns)))

    def _taken(self, arrived: Batch, state: State, progress: Progress, held: str) -> Taken:
        kept = [*self.columns, START, ARRIVAL]
        due, pending = released(state.get("pending", ()), arrived[kept], START, progress.low_before, progress.low)
        elements = stacked([*(segment[kept] for segment in state.get(held, ())), due])
        return Taken(elements, elements.height - due.height, pending)

    def _in_order(self, elements: Batch) -> tuple[Positions, Positions]:
        """The places of elements by partition and in order, and the number of the partition of each, in that order."""
        partition = np.zeros(elements.height, np.intp)
        if self.partition:
            partition = np.unique(first_of_equal(elements, self.partition), return_inverse=True)[1]
        order = np.lexsort((numbers(elements, ARRIVAL), numbers(elements, START), partition))
        return order, partition[order]


@dataclass(frozen=True, eq=False)
class Taken:
    """The elements that are held, so many, those that are due behind them; and what waits."""

    elements: Batch
    held: int
    pending: tuple[Segment, ...]
