"""The bounds of sliding windows as columns: window_start and window_end.

At an instant t the window that slides by L ends at e = floor(t / L) L, and began T ticks before. So a row is another at
every slide, and is cut there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import BORN, END, START, Batch, value_column, value_columns
from millstream.kernel.columns import frame_of, take, with_columns
from millstream.kernel.distribution import Distribution, anywhere, by_value, same_columns
from millstream.kernel.keys import Ticks
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.storage.segments import numbers
from millstream.kernel.windows.time import by_negative_tuples
from millstream.types import Schema, to_polars


class WindowBounds(Operator):
    """β(R) = { (r (e - T) e, max(s, e), min(end, e + L), w) : (r, s, end, w) in R, e = k L, e < end, s < e + L }

    for a relation all of whose rows end. The bounds have the type of their columns, in which a tick
    counts `unit`. Linear: keeps nothing.

    >>> run = Run(WindowBounds(integers("v", "window_start", "window_end"), size=10, slide=5))
    >>> run.step(batch((7, 5, 15, +1)), to=5)
    (7, -5, 5, [5, 10), +1)
    (7, 0, 10, [10, 15), +1)
    """

    def __init__(self, schema: Schema, size: int, slide: int, unit: int = 1) -> None:
        self.schema = schema
        self.size = size
        self.slide = slide
        self.unit = unit

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema) - 2))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return self._cut(inputs[0]), NO_STATE

    def _cut(self, batch: Batch) -> Batch:
        starts, ends = numbers(batch, START), numbers(batch, END)
        first = starts // self.slide
        counts = np.maximum((ends - 1) // self.slide - first + 1, 0)
        rows = np.repeat(np.arange(batch.height), counts)
        number = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        slides = (first[rows] + number) * self.slide
        pieces = take(batch, rows)
        began = np.maximum(starts[rows], slides)
        made = {START: began, END: np.minimum(ends[rows], slides + self.slide)}
        if BORN in batch.columns:
            made[BORN] = began  # a row with other bounds is generated when its window is
        width = len(self.schema) - 2
        pieces = with_columns(pieces, *(pl.Series(name, values) for name, values in made.items()))
        bounds = [self._as_column(slides - self.size, width), self._as_column(slides, width + 1)]
        rest = [pieces[name] for name in pieces.columns if name.startswith("_")]
        return frame_of([*pieces[value_columns(width)], *bounds, *rest])

    def _as_column(self, instants: Ticks, place: int) -> pl.Series:
        return pl.Series(value_column(place), instants * self.unit).cast(to_polars(self.schema[place].type))


class NegativeWindowBounds(WindowBounds):
    """The same relation by negative tuples, for the strategy of that name.

    >>> run = Run(NegativeWindowBounds(integers("v", "window_start", "window_end"), size=5, slide=5))
    >>> run.step(batch((7, 5, 10, +1)), to=5)
    (7, 0, 5, [5, INF), +1)
    >>> run.wait(to=10)
    (7, 0, 5, [10, INF), -1)
    """

    @property
    def distribution(self) -> Distribution:
        return by_value(len(self.schema) - 2)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        return by_negative_tuples(self._cut(inputs[0]), state, progress)
