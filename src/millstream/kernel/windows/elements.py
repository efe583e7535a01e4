"""The single elements of a derived stream, in the order in which ROWS windows count them.

    { (v, t, t+1, +1) : one for each copy of v in R(t) },  ties by value, NULL first

A derived stream comes as weighted intervals: copies as weights, RSTREAM as runs. What must count or toss a coin per
element, and windows over runs, need them one by one. Keeps the change points beyond the frontier and the rows that are
alive at it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.errors import EvaluationError
from millstream.kernel.batch import ARRIVAL, END, START, WEIGHT, Batch, changes, net_changes, value_columns
from millstream.kernel.operator import Operator, Progress, State
from millstream.kernel.storage.segments import released
from millstream.types import Schema


class Elements(Operator):
    """An element for every copy at every instant that is a multiple of `every`; at most `max_rows` of them at once.

    >>> Run(Elements(integers("v"), max_rows=100)).step(batch((7, 0, 2, +2), (8, 1, 9, +1)), to=1)
    (7, [0, 1), +1)
    (7, [0, 1), +1)
    (7, [1, 2), +1)
    (7, [1, 2), +1)
    (8, [1, 2), +1)
    """

    def __init__(self, schema: Schema, max_rows: int, every: int = 1) -> None:
        self.schema = schema
        self.max_rows = max_rows
        self.every = every
        self.columns = value_columns(len(schema))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        low = progress.low
        arrived = changes(inputs[0], self.columns)
        due, pending = released(state.get("pending", ()), arrived, START, progress.low_before, low)
        # Rows alive at the old frontier go on from the instant after it.
        alive = [
            segment.with_columns(pl.lit(progress.low_before + 1, pl.Int64).alias(START))
            for segment in state.get("alive", ())
        ]
        points = net_changes(pl.concat([*alive, due]), self.columns).sort(*self.columns, START, nulls_last=False)
        runs = points.with_columns(
            pl.col(WEIGHT).cum_sum().over(self.columns) if self.columns else pl.col(WEIGHT).cum_sum(),
            (pl.col(START).shift(-1).over(self.columns) if self.columns else pl.col(START).shift(-1)).alias("_next"),
        )
        still = runs.filter(pl.col("_next").is_null() & (pl.col(WEIGHT) > 0)).select(*self.columns, START, WEIGHT)
        runs = runs.with_columns(pl.col("_next").fill_null(low + 1).alias(END)).filter(
            (pl.col(WEIGHT) > 0) & (pl.col(START) < pl.col(END))
        )
        return self._one_by_one(runs), {"pending": pending, "alive": (still,) if still.height else ()}

    def _one_by_one(self, runs: Batch) -> Batch:
        every = self.every
        if every > 1:
            runs = runs.with_columns((pl.col(START) + every - 1) // every * every).filter(pl.col(START) < pl.col(END))
        count = runs.select((((pl.col(END) - pl.col(START) - 1) // every + 1) * pl.col(WEIGHT)).sum()).item() or 0
        if count > self.max_rows:
            raise EvaluationError(
                f"a stream of {count} elements at once",
                hint="RSTREAM repeats its rows at every tick: use a coarser TICK INTERVAL or [NOW], "
                "or raise max_rstream_rows",
            )
        ticks = runs.select(*self.columns, pl.int_ranges(START, END, every).alias(START), WEIGHT).explode(START)
        copies = (
            ticks.select(pl.exclude(WEIGHT).repeat_by(WEIGHT)).explode(*self.columns, START)
            if self._repeats(ticks)
            else ticks
        )
        ordered = copies.sort(START, *self.columns, nulls_last=False)
        return ordered.select(
            *self.columns,
            START,
            (pl.col(START) + 1).alias(END),
            pl.lit(1, pl.Int64).alias(WEIGHT),
            (pl.int_range(pl.len()).over(START) if ordered.height else pl.lit(0)).cast(pl.Int64).alias(ARRIVAL),
        )

    @staticmethod
    def _repeats(ticks: Batch) -> bool:
        return bool(ticks.height) and ticks[WEIGHT].max() != 1
