"""Relation to stream.

    ISTREAM(R) at t = R(t) - R(t-1),   DSTREAM(R) at t = R(t-1) - R(t)      as bags

With d(v, t) the sum of the weights of v that start at t less those that end there, ISTREAM has max(d, 0) copies of v at
t and DSTREAM max(-d, 0): a row that leaves and comes back at the same instant cancels. RSTREAM is the identity, since a
stream is kept as the relation `S [NOW]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import END, INF, START, WEIGHT, Batch, changes, net_changes, value_columns
from millstream.kernel.columns import frame_of, is_small, only, stacked, take, with_columns
from millstream.kernel.distribution import Distribution, anywhere, by_value, same_columns
from millstream.kernel.keys import Ticks, stable_order_of_ticks
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.storage.expiries import note_ended
from millstream.kernel.storage.segments import numbers, released
from millstream.kernel.storage.time_queue import is_due
from millstream.types import Schema


class ChangeStream(Operator):
    """ISTREAM or DSTREAM. Keeps the change points beyond the frontier, and forgets each as it is said.

    >>> rows = batch((7, 0, 5, +1), (7, 5, 9, +1), (8, 2, 5, +1))
    >>> Run(ChangeStream(integers("v"), "istream")).step(rows, to=5)
    (7, [0, 1), +1)
    (8, [2, 3), +1)
    >>> Run(ChangeStream(integers("v"), "dstream")).step(rows, to=5)
    (8, [5, 6), +1)
    """

    def __init__(self, schema: Schema, operator: OneOf["istream", "dstream"]) -> None:
        self.schema = schema
        self.sign = 1 if operator == "istream" else -1
        self.columns = value_columns(len(schema))

    @property
    def distribution(self) -> Distribution:
        return by_value(len(self.schema))

    def is_idle(self, state: State, progress: Progress) -> bool:
        return not is_due(state.get("pending", ()), progress.low_before, progress.low)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        arrived = changes(inputs[0], self.columns)
        due, pending = released(state.get("pending", ()), arrived, START, progress.low_before, progress.low)
        note_ended([due])
        said = self._said(due)
        ends = pl.Series(END, numbers(said, START) + 1)
        before = [said.get_column(name) for name in (*self.columns, START)]
        return frame_of([*before, ends, said.get_column(WEIGHT)]), {"pending": pending}

    def _said(self, due: Batch) -> Batch:
        """What the change points come to, in order of time. They cancel only at instants at which rows both come and
        go, so that of many all others need not be summed up."""
        if self.sign < 0:
            due = with_columns(due, pl.Series(WEIGHT, -numbers(due, WEIGHT)))
        if is_small(due.height):
            net = net_changes(due, self.columns)
            return _in_order(only(net, numbers(net, WEIGHT) > 0))
        wanted = numbers(due, WEIGHT) > 0
        coming, going = _in_order(only(due, wanted)), only(due, ~wanted)
        mixed = _is_among(numbers(coming, START), np.sort(numbers(going, START)))
        if not mixed.any():
            return coming
        against = only(going, _is_among(numbers(going, START), numbers(coming, START)[mixed]))
        net = net_changes(stacked([only(coming, mixed), against]), self.columns)
        return _in_order(stacked([only(coming, ~mixed), only(net, numbers(net, WEIGHT) > 0)]))


class EverySlide(Operator):
    """RSTREAM(R) EVERY L = { (r, ceil(s/L) L, floor((e-1)/L) L + 1, w) : (r, s, e, w) in R }, what is left of it

    A run from its first multiple of L to its last; between them it is read at multiples only (`Elements`). Linear:
    keeps nothing.

    >>> Run(EverySlide(integers("v"), every=5)).step(batch((7, 3, 12, +1), (8, 6, 9, +1), (9, 10, INF, +1)), to=20)
    (7, [5, 11), +1)
    (9, [10, INF), +1)
    """

    def __init__(self, schema: Schema, every: int) -> None:
        self.schema = schema
        self.every = every

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, every = inputs[0], self.every
        starts, ends = numbers(batch, START), numbers(batch, END)
        first = -(-starts // every) * every
        last = np.where(ends == INF, INF, (ends - 1) // every * every + 1)
        return only(with_columns(batch, pl.Series(START, first), pl.Series(END, last)), first < last), NO_STATE


def _in_order(points: Batch) -> Batch:
    instants = numbers(points, START)
    return take(points, stable_order_of_ticks(instants)) if (instants[1:] < instants[:-1]).any() else points


def _is_among(instants: Ticks, sorted_ones: Ticks) -> npt.NDArray[np.bool_]:
    if not sorted_ones.size:
        return np.zeros(instants.size, np.bool_)
    places = np.minimum(np.searchsorted(sorted_ones, instants), sorted_ones.size - 1)
    found: npt.NDArray[np.bool_] = sorted_ones[places] == instants
    return found
