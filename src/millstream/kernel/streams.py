"""Relation to stream.

    ISTREAM(R) at t = R(t) - R(t-1),   DSTREAM(R) at t = R(t-1) - R(t)      as bags

With d(v, t) the sum of the weights of v that start at t less those that end there, ISTREAM has max(d, 0) copies of v at
t and DSTREAM max(-d, 0): a row that leaves and comes back at the same instant cancels. RSTREAM is the identity, since a
stream is kept as the relation `S [NOW]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as OneOf

import polars as pl

from millstream.kernel.batch import END, START, WEIGHT, Batch, changes, net_changes, value_columns
from millstream.kernel.distribution import Distribution, by_value
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.segments import released
from millstream.types import Schema


class ChangeStream(Operator):
    """ISTREAM or DSTREAM. Keeps the change points beyond the frontier, and forgets each as it is said."""

    def __init__(self, schema: Schema, operator: OneOf["istream", "dstream"]) -> None:
        self.schema = schema
        self.sign = 1 if operator == "istream" else -1
        self.columns = value_columns(len(schema))

    @property
    def distribution(self) -> Distribution:
        return by_value(len(self.schema))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        arrived = changes(inputs[0], self.columns)
        due, pending = released(state.get("pending", ()), arrived, START, progress.low_before, progress.low)
        said = (
            net_changes(due, self.columns)
            .with_columns((pl.col(WEIGHT) * self.sign).alias(WEIGHT), (pl.col(START) + 1).alias(END))
            .filter(pl.col(WEIGHT) > 0)
            .select(*self.columns, START, END, WEIGHT)
            .sort(START, maintain_order=True)
        )
        return said, {"pending": pending}
