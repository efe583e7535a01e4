"""A table fed by rows that say what they do, whose key is kept: at every instant at most one row has it.

    R(t) = what applying all changes up to t, in the order of (timestamp, arrival), leaves

`+` of a key that is there and `-` of a row that is not are malformed: they change nothing and are told apart. Keeps the
changes beyond the frontier, and the row of each key.

Vectorised: what a key has after a change that was applied is known from the change itself, so that the next one that
can be applied is known too: after `+ v` or `update v` the next `- v` or update of the key, after `-` its next `+` or
update. Those that are applied are the ones that are reached so from the first, found by doubling the jumps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import ARRIVAL, START, WEIGHT, Batch
from millstream.kernel.keys import Positions, Ticks, first_of_equal
from millstream.kernel.operator import Progress, State
from millstream.kernel.relational.change_log import DELETES, UPDATES, ChangesOfTable
from millstream.types import Schema

_KEY, _OLD = "_key", "_old"


class KeyedChangeLog(ChangesOfTable):
    """At most one row has a key.

    >>> run = Run(KeyedChangeLog(integers("k", "v"), key=(0,)))
    >>> run.step(stream((1, 10, "+", 0), (1, 11, "+", 0), (2, 20, "update", 0), (1, 12, "update", 5)), to=5)
    (1, 10, [0, INF), +1)
    (2, 20, [0, INF), +1)
    (1, 10, [5, INF), -1)
    (1, 12, [5, INF), +1)
    >>> run.step(stream((1, 10, "-", 7), (2, 20, "-", 7), (2, 21, "+", 8)), to=8)
    (2, 20, [7, INF), -1)
    (2, 21, [8, INF), +1)
    """

    def __init__(self, schema: Schema, key: tuple[int, ...], *, malformed: bool = False) -> None:
        super().__init__(schema, key, key, malformed=malformed)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        due, pending = self._due(inputs[0], state, progress)
        kept = state.get("rows", ())
        if not due.height:
            return self._nothing(due), {"pending": pending, "rows": kept}
        changes = self._in_order(due, kept)
        applied = self._applied(changes)
        if self.malformed:
            refused = pl.Series(~applied) & changes[ARRIVAL].is_not_null()
            return self._rows(changes.filter(refused).with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))), {
                "pending": pending,
                "rows": self._left(changes.filter(pl.Series(applied))),
            }
        done = changes.filter(pl.Series(applied))
        return self._rows(self._shown(done)), {"pending": pending, "rows": self._left(done)}

    def _in_order(self, due: Batch, kept: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The rows of keys as changes before all others, and the changes: by key, in the order in which they act."""
        before = [
            rows.with_columns(
                pl.lit("+").alias(self.operation),
                pl.lit(-1, pl.Int64).alias(START),
                pl.lit(None, pl.Int64).alias(ARRIVAL),
            ).select(due.columns)
            for rows in kept
        ]
        changes = pl.concat([*before, due.sort(START, ARRIVAL)])
        keys = pl.Series(_KEY, first_of_equal(changes, self.key).astype(np.int64))
        return changes.with_columns(keys).sort(_KEY, maintain_order=True)

    def _applied(self, changes: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Which changes are applied, given all of them by key and in order."""
        count, keys = changes.height, changes[_KEY].to_numpy()
        values = first_of_equal(changes, self.columns).astype(np.int64)
        deletes = changes[self.operation].is_in(DELETES).to_numpy()
        updates = changes[self.operation].is_in(UPDATES).to_numpy()
        places = np.arange(count)
        # Where there is nothing, and where there is a row.
        on_nothing = _next(~deletes, keys, keys, places + 1)
        on_row = np.minimum(_next(deletes, values, values, places + 1), _next(updates, keys, keys, places + 1))
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        reached = np.zeros(count + 1, np.bool_)
        reached[_next(~deletes, keys, keys[first], first)] = True
        jump = np.append(np.where(deletes, on_nothing, on_row), count)
        while (jump < count).any():
            reached[jump[np.flatnonzero(reached)]] = True
            jump = jump[jump]
        return reached[:count]

    def _shown(self, done: pl.DataFrame) -> pl.DataFrame:
        """What changes that are applied do: a row goes or comes, or both."""
        operation, is_new = pl.col(self.operation), pl.col(ARRIVAL).is_not_null()
        comes = done.filter(is_new & ~operation.is_in(DELETES)).with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))
        # An update takes away what the change before it has left.
        shifted = [pl.col(name).shift(1).over(_KEY).alias(name) for name in self.columns]
        had = (pl.col(_KEY).shift(1) == pl.col(_KEY)) & ~operation.shift(1).is_in(DELETES)
        replaced = done.with_columns(*shifted, had.fill_null(False).alias(_OLD))
        replaced = replaced.filter(is_new & operation.is_in(UPDATES) & pl.col(_OLD)).drop(_OLD)
        deleted = done.filter(is_new & operation.is_in(DELETES))
        goes = pl.concat([replaced, deleted]).with_columns(pl.lit(-1, pl.Int64).alias(WEIGHT))
        return pl.concat([goes, comes])

    def _left(self, done: pl.DataFrame) -> tuple[pl.DataFrame, ...]:
        """The row of each key after all."""
        last = done.unique(_KEY, keep="last", maintain_order=True).filter(~pl.col(self.operation).is_in(DELETES))
        return (last.select(self.columns),) if last.height else ()


def _next(chosen: npt.NDArray[np.bool_], groups: Ticks, wanted: Ticks, since: Positions) -> Positions:
    """The first place from some place on that is chosen and of a group; the number of places where there is none."""
    count = np.int64(chosen.size)
    places = np.flatnonzero(chosen)
    known = np.sort(groups[places] * (count + 1) + places)
    found = np.searchsorted(known, wanted * (count + 1) + since)
    there = np.append(known, -1)[found]
    return np.where(there // (count + 1) == wanted, there % (count + 1), count)
