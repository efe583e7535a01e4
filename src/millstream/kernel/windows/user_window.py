"""Windows that users define: a Python function from elements to the intervals during which they are in.

    S [w] = { (r, s, e, +1) : (s, e) in w(r, t), (r, t) in S },    t <= s

The function is called with whole columns: a Polars frame of the elements' values, by their names, and a series of their
instants in ticks. It gives columns `start` and `end`, one interval for each element in order; or also `row`, the place
of the element that each interval is of, so that an element may have several or none. Equal elements must have equal
intervals, whatever comes with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import BORN, END, START, Batch
from millstream.kernel.columns import only, take, with_columns
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.keys import Positions, Ticks
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.kernel.storage.segments import numbers
from millstream.kernel.windows.time import UserWindow
from millstream.types import Schema


class DefinedWindow(Operator):
    """The window of a stream by a user's function. Linear: keeps nothing.

    >>> def later(values, instants):
    ...     return {"start": instants + values["v"], "end": instants + 10}
    >>> Run(DefinedWindow(integers("v"), UserWindow("later", later))).step(stream((2, 4), (20, 6)), to=6)
    (2, [6, 14), +1)
    """

    def __init__(self, schema: Schema, window: UserWindow, *, born: bool = False) -> None:
        self.schema = schema
        self.window = window
        self.born = born

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        rows, starts, ends = self._intervals(batch) if batch.height else (np.empty(0, np.intp), *_NONE)
        made = {START: starts, END: ends} | ({BORN: starts} if self.born else {})
        shown = with_columns(take(batch, rows), *(pl.Series(name, values) for name, values in made.items()))
        return only(shown, starts < ends), NO_STATE

    def _intervals(self, batch: Batch) -> tuple[Positions, Ticks, Ticks]:
        names = _unique([column.name for column in self.schema])
        values = pl.DataFrame([batch[f"c{place}"].alias(name) for place, name in enumerate(names)])
        instants = batch[START].alias("t")
        try:
            given = self.window.body(values, instants)
        except (MemoryError, OSError):
            raise  # the machine's, not the rows'
        except Exception as error:
            raise EvaluationError(f"window {self.window.name} raised {type(error).__name__}: {error}") from error
        found = self._columns(given)
        starts, ends = (found[name].to_numpy() for name in ("start", "end"))
        rows = found["row"].to_numpy().astype(np.intp) if "row" in found else np.arange(starts.size)
        self._check(rows, starts, numbers(batch, START), counted="row" in found)
        return rows, starts, ends

    def _columns(self, given: Any) -> pl.DataFrame:
        try:
            found = given if isinstance(given, pl.DataFrame) else pl.DataFrame(given)
            names = [name for name in ("row", "start", "end") if name in found.columns]
            found = found.select(pl.col(names).cast(pl.Int64))
        except Exception as error:  # what a user's function gives can be anything
            raise self._wrong(f"gave {type(given).__name__}: {str(error).partition(chr(10))[0]}") from error
        if names[-2:] != ["start", "end"] or any(found[name].null_count() for name in names):
            raise self._wrong("gave no columns start and end without NULL")
        return found

    def _check(self, rows: Positions, starts: Ticks, instants: Ticks, *, counted: bool) -> None:
        if not counted and starts.size != instants.size:
            raise self._wrong(f"gave {starts.size} intervals for {instants.size} elements")
        if rows.size and (rows.min() < 0 or rows.max() >= instants.size):
            raise self._wrong(f"gave an interval for element {rows.max()} of {instants.size}")
        early = starts < instants[rows]
        if early.any():
            place = int(early.argmax())
            raise self._wrong(f"has an element of {instants[rows[place]]} begin at {starts[place]}, before it came")

    def _wrong(self, what: str) -> EvaluationError:
        return EvaluationError(
            f"window {self.window.name} {what}",
            hint="it gives columns start and end (and row, where an element has not one interval), in ticks, "
            "none of which starts before its element",
        )


_NONE = np.empty(0, np.int64), np.empty(0, np.int64)


def _unique(names: Sequence[str]) -> list[str]:
    """A frame takes no name twice: columns of that kind are known by their places."""
    return [name if names.index(name) == place else f"{name}_{place}" for place, name in enumerate(names)]
