"""[RANGE v ON c], separately for each value of the partition columns: by the values of a column that does not fall.

Let the elements of a partition be r_1, r_2, .. in timestamp order, ties by arrival, without those whose c is NULL, or
less than that of one before: c(1) <= c(2) <= .. Then

    S [RANGE v ON c] = { (r_i, t(i), t(j), +1) },   j the first with c(j) - v > c(i)

where what is still to come is INF, and an end that comes later is said by (r_i, t(j), INF, -1). Half open, it is the
first with c(j) - v >= c(i). A c that is no finite number is like NULL. The elements that are left out are

    { ((r, g), t, t+1, +1) },   g the greatest c before r, NULL where there is none

Keeps the elements beyond the frontier, and those that are in the window at it; the last of these has the greatest c.
To say what is left out, only that one is kept of each partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import ARRIVAL, BORN, END, INF, START, WEIGHT, Batch, value_column
from millstream.kernel.columns import frame_of, only, take
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Progress, State
from millstream.kernel.storage.segments import numbers
from millstream.kernel.windows.partitions import PartitionedWindow
from millstream.kernel.windows.time import RangeOn
from millstream.types import Schema

_HELD = "held"
_LEAST = np.iinfo(np.int64).min
Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class RisingElements(PartitionedWindow):
    """Elements by a column that must not fall."""

    def __init__(self, schema: Schema, window: RangeOn, width: int) -> None:
        super().__init__(schema, window.partition, width)
        self.window = window

    def _values(self, elements: Batch) -> tuple[Values, Bools]:
        """What c is, as a number, and whether it is one."""
        column = elements.get_column(value_column(self.window.column))
        known = column.is_not_null()
        if column.dtype.is_float():
            known = column.is_finite().fill_null(False)
            return column.fill_null(0.0).cast(pl.Float64).to_numpy(), known.to_numpy()
        if isinstance(column.dtype, pl.Decimal):
            column = column.reinterpret(dtype=pl.Int128)
        return column.to_physical().fill_null(0).cast(pl.Int64).to_numpy(), known.to_numpy()

    def _rising(self, elements: Batch, partition: Positions) -> Bools:
        """The elements, in order, whose c is not less than that of one before."""
        values, known = self._values(elements)
        least = -np.inf if values.dtype == np.float64 else _LEAST
        frame = pl.DataFrame({"c": np.where(known, values, least), "partition": partition})
        greatest = frame.select(pl.col("c").cum_max().over("partition")).to_series().to_numpy()
        return known & (values >= greatest)


class ValueWindow(RisingElements):
    """The window of a stream whose elements have arrival numbers; `born` adds the instants at which rows entered.

    >>> run = Run(ValueWindow(integers("c"), RangeOn(0, 2)))
    >>> run.step(stream((10, 3), (12, 4)), to=4)
    (10, [3, INF), +1)
    (12, [4, INF), +1)
    >>> run.step(stream((11, 5), (13, 6)), to=6)
    (10, [6, INF), -1)
    (13, [6, INF), +1)
    """

    def __init__(self, schema: Schema, window: RangeOn, *, born: bool = False) -> None:
        super().__init__(schema, window, len(schema))
        self.born = born

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        taken = self._taken(inputs[0], state, progress, _HELD)
        elements, pending = taken.elements, taken.pending
        if elements.height == taken.held:
            nothing = elements.clear()
            return self._rows(nothing, np.zeros(0, np.int64), np.zeros(0, np.bool_)), {**state, "pending": pending}
        order, partition = self._in_order(elements)
        old = order < taken.held
        rising = self._rising(take(elements, order), partition)
        elements, partition, old = take(elements, order[rising]), partition[rising], old[rising]
        leaves = self._leaving(elements, partition)
        instants = numbers(elements, START)
        ends = np.where(leaves < len(instants), instants[np.minimum(leaves, len(instants) - 1)], INF)
        held = only(elements, ends == INF)
        return self._rows(elements, ends, old), {"pending": pending, _HELD: (held,)}

    def _leaving(self, elements: Batch, partition: Positions) -> Positions:
        """For each element the place of the one at which it leaves; past the end where that is still to come."""
        values, _ = self._values(elements)
        within = self.window.within
        if values.dtype == np.float64:
            bounds = values - within
        else:
            bounds = np.where(values < _LEAST + within, _LEAST, values - within)
        ranks = np.unique(np.concatenate((bounds, values)), return_inverse=True)[1].astype(np.int64)
        span = int(ranks.max(initial=0)) + 1
        of_bounds, of_values = ranks[: len(values)] + partition * span, ranks[len(values) :] + partition * span
        side: OneOf["left", "right"] = "left" if self.window.half_open else "right"
        places = np.searchsorted(of_bounds, of_values, side=side).astype(np.int64)
        same = partition[np.minimum(places, len(values) - 1)] == partition
        return np.where((places < len(values)) & same, places, len(values))

    def _rows(self, elements: Batch, ends: npt.NDArray[np.int64], old: Bools) -> Batch:
        instants = numbers(elements, START)
        enters, leaves = np.flatnonzero(~old & (instants < ends)), np.flatnonzero(old & (ends < INF))
        rows = take(elements, np.concatenate([enters, leaves]))
        starts = np.concatenate([instants[enters], ends[leaves]])
        made = [rows.get_column(name) for name in self.columns]
        made.append(pl.Series(START, starts))
        made.append(pl.Series(END, np.concatenate([ends[enters], np.full(leaves.size, INF)])))
        made.append(pl.Series(WEIGHT, np.repeat([1, -1], [enters.size, leaves.size])))
        if self.born:
            made.append(rows.get_column(START).alias(BORN))
        return frame_of([*made, rows.get_column(ARRIVAL)])


class ElementsLeftOut(RisingElements):
    """The elements that such a window leaves out, each at its instant, with the greatest c before it.

    >>> run = Run(ElementsLeftOut(integers("c", "greatest"), RangeOn(0, 0, left_out=True)))
    >>> run.step(stream((10, 3), (8, 4), (12, 5)), to=5)
    (8, 10, [4, 5), +1)
    >>> run.step(stream((11, 6), (12, 7)), to=7)
    (11, 12, [6, 7), +1)
    """

    def __init__(self, schema: Schema, window: RangeOn) -> None:
        super().__init__(schema, window, len(schema) - 1)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        taken = self._taken(inputs[0], state, progress, _HELD)
        order, partition = self._in_order(taken.elements)
        elements = take(taken.elements, order)
        rising = self._rising(elements, partition)
        c = elements.get_column(value_column(self.window.column))
        seen = pl.DataFrame([c.alias("c"), pl.Series("rising", rising), pl.Series("partition", partition)])
        # Those that rise come in order: the last of them before an element is the greatest.
        rises = pl.when("rising").then("c").forward_fill().over("partition")
        greatest = seen.select(rises.alias(value_column(len(self.columns)))).to_series()
        rows = only(elements.with_columns(greatest), ~rising)
        made = [*rows.select(*self.columns, greatest.name, START).get_columns()]
        made += [(rows.get_column(START) + 1).alias(END), pl.Series(WEIGHT, np.ones(rows.height, np.int64))]
        return frame_of(made), {"pending": taken.pending, **self._last_rising(elements, partition, rising)}

    @staticmethod
    def _last_rising(elements: Batch, partition: Positions, rising: Bools) -> State:
        """Of each partition the last one that was not left out."""
        places = np.flatnonzero(rising)
        last = np.append(np.diff(partition[places]) != 0, np.ones(min(places.size, 1), np.bool_))
        return {_HELD: (take(elements, places[last]),)} if places.size else {}
