"""DISTINCT, UNION and the keys of EXISTS, with the instant at which each run of presence began.

    O(t) = {v : v occurs at t},     born(v, t) = the least s such that v occurs at every instant of [s, t]

Below a NON RETROACTIVE join rows carry the instant at which they are generated. A value that comes and goes is
generated when it comes: however often its run is prolonged, and by however many copies, it keeps that instant. Inputs
are taken in the order of time, up to the frontier, so that nothing comes later that joins two runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import BORN, END, INF, START, WEIGHT, Batch, batch_schema
from millstream.kernel.keys import KEY, Positions, Ticks
from millstream.kernel.operator import Progress, State
from millstream.kernel.relational.multiplicity import DistinctStar, Multiplicity, SetOperation, retained_by_value
from millstream.kernel.storage.segments import alive, gather, numbers, released
from millstream.types import Schema

_SINCE = "_since"


class CountedRuns(Multiplicity):
    """O by counts: (v, [s, INF), +1, born s) when a run begins, (v, [e, INF), -1, born s) when it has ended.

    Keeps beside the count of each value the start of its run: as a sum to which every step adds what it has changed, as
    counts are, and which is zero where the count is.

    >>> run = Run(CountedRuns(integers("v"), SetOperation.DISTINCT))
    >>> run.step(batch((7, 2, 5, +1), (7, 4, 8, +1)), to=7)
    (7, [2, INF), +1, born 2)
    >>> run.wait(to=8)
    (7, [8, INF), -1, born 2)
    """

    def __init__(self, schema: Schema, operation: SetOperation) -> None:
        super().__init__(schema, operation)
        if operation.counters != 1:
            raise AssertionError(f"{operation.value} has no runs")
        self._summaries = {**self._summaries, _SINCE: np.add}

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        output, state = super().step(inputs, state, progress)
        return (output if BORN in output.columns else _nothing(self.schema)), state

    def _say(
        self, points: pl.DataFrame, rows: Positions, value_of_row: Positions, level: Ticks, carried: Sequence[Ticks]
    ) -> tuple[Batch, dict[str, Ticks]]:
        said, since = self.operation.level(carried), carried[-1]
        first = np.ones(rows.size, np.bool_)
        first[1:] = value_of_row[1:] != value_of_row[:-1]
        before = np.empty_like(level)
        before[1:] = level[:-1]
        before[first] = said[value_of_row[first]]
        changed = np.flatnonzero(level != before)
        rows, value_of_row, begins = rows[changed], value_of_row[changed], level[changed] > 0
        starts = numbers(points, START)[rows]
        same = value_of_row[1:] == value_of_row[:-1]
        ends = np.full(rows.size, INF, np.int64)
        ends[:-1] = np.where(same & begins[:-1], starts[1:], INF)
        births = np.where(begins, starts, since[value_of_row])
        # The end of a run that began in this step is said with it.
        kept = begins.copy()
        kept[:1] = True
        kept[1:] |= ~same
        intervals = {START: starts, END: ends, WEIGHT: np.where(begins, 1, -1), BORN: births}
        columns = [pl.Series(name, column[kept]) for name, column in intervals.items()]
        after = since.copy()
        after[value_of_row] = np.where(begins, starts, 0)  # the last change of a value counts
        return pl.DataFrame([*gather(points, self._columns, rows[kept]), *columns]), {_SINCE: after - since}

    def since(self, values: pl.DataFrame, state: State) -> Ticks:
        """When the run began that each of the values (with their codes) is in, by what was said so far."""
        return self._carried(values, state.get("counts", ()))[-1]


class ForetoldRuns(DistinctStar):
    """O by δ*: a stay that is prolonged from E on is said as (v, [E, E'), +1, born s) with the start s of its run.

    Keeps E and s for every value until the frontier has reached E: what starts at E itself prolongs the run. Of the
    same value a later E never goes with an earlier s, so that the greatest of each belong together.

    >>> run = Run(ForetoldRuns(integers("v")))
    >>> run.step(batch((7, 2, 5, +1)), to=2)
    (7, [2, 5), +1, born 2)
    >>> run.step(batch((7, 5, 8, +1), (7, 9, 12, +1)), to=9)
    (7, [5, 8), +1, born 2)
    (7, [9, 12), +1, born 9)
    """

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        low, waiting, stays = progress.low, state.get("waiting", ()), state.get("stays", ())
        arrived = pl.concat([self._keyed(batch) for batch in inputs])
        rows, waiting = released(waiting, arrived, START, progress.low_before, low)
        lasting = self._lasting(stays, low - 1)
        if not rows.height:
            return _nothing(self.schema), {"waiting": waiting, "stays": lasting}

        rows, first_of_value = self._sorted(rows)
        firsts = np.flatnonzero(first_of_value)
        values = pl.DataFrame(gather(rows, [*self._columns, KEY], firsts))
        value_of_row, known = self._known_before(rows, first_of_value, self.known_until(values, state))
        begins = numbers(rows, START) > known
        latest = np.maximum.accumulate(np.where(begins | first_of_value, np.arange(rows.height), 0))
        births = np.where(begins[latest], numbers(rows, START)[latest], self.since(values, state)[value_of_row])
        shown, starts, ends = self._prolonged(rows, value_of_row, known)
        output = self._shown(rows, shown, starts, ends).hstack([pl.Series(BORN, births[shown])])

        kept = {END: np.maximum.reduceat(numbers(rows, END), firsts), BORN: np.maximum.reduceat(births, firsts)}
        segment = alive(values.hstack([pl.Series(name, column) for name, column in kept.items()]), low)

        def merge(rows: pl.DataFrame) -> pl.DataFrame:
            return alive(self._one_per_value(rows, {END: np.maximum, BORN: np.maximum}), low)

        return output, {"waiting": waiting, "stays": retained_by_value(lasting, segment, merge)}

    def since(self, values: pl.DataFrame, state: State) -> Ticks:
        """When the stay began that each of the values (with their codes) is in, by what was said so far."""
        return self._greatest(BORN, values, state)


Runs = CountedRuns | ForetoldRuns


def _nothing(schema: Schema) -> Batch:
    return pl.DataFrame(schema=batch_schema(schema) | {BORN: pl.Int64()})
