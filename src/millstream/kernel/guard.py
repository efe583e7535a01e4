"""What can fail is tried as rows come, where it is computed only when a query is asked (mode LAZY).

    Guard(R) = { }, and it fails where an expression does on a row (r, t_1, .., t_k) that is in all its windows at once

Matches are kept without windows, so that there are more of them than the query ever sees: of these it says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.kernel.batch import END, START, Batch, empty_batch, value_column, value_columns
from millstream.kernel.distribution import Distribution, anywhere
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.scalar.evaluate import evaluate
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.segments import numbers, only
from millstream.kernel.window import TimeSpecification
from millstream.types import Schema


class Guard(Operator):
    """The last values of its input, of so many columns, are the instants of elements, each in a window of its own."""

    schema: Schema = ()

    def __init__(self, width: int, windows: Sequence[TimeSpecification], expressions: Sequence[Expression]) -> None:
        self.width = width
        self.windows = tuple(windows)
        self.expressions = tuple(expressions)

    @property
    def distribution(self) -> Distribution:
        return anywhere(())

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch, first = inputs[0], self.width - len(self.windows)
        spans = [w.interval(pl.col(value_column(first + place))) for place, w in enumerate(self.windows)]
        held = batch.select(
            pl.max_horizontal(START, *(start for start, _ in spans)).alias(START),
            pl.min_horizontal(END, *(end for _, end in spans)).alias(END),
        )
        evaluate(
            only(batch, numbers(held, START) < numbers(held, END)),
            self.expressions,
            value_columns(len(self.expressions)),
        )
        return empty_batch(()), NO_STATE
