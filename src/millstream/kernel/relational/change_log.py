"""A table fed by rows that say what they do: `+` one copy in, `-` one copy out, update all copies of a key by one.

    R(t) = what applying all changes up to t, in the order of (timestamp, arrival), leaves

A `-` without a copy to remove is malformed: it changes nothing and is told apart. Keeps the changes beyond the frontier
and how many copies of each row there are.

Vectorised: an update of a key begins a new life of that key. Within a life, the copies of a value after its i-th change
are S_i + L_i, with S_i the sum of its changes and L_i = max(0, max_{j<=i} -S_j) the malformed ones among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream.kernel.batch import ARRIVAL, END, INF, START, WEIGHT, Batch, value_column, value_columns
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.storage.segments import released
from millstream.types import Schema

INSERTS, DELETES, UPDATES = ("+", "insert"), ("-", "delete"), ("update",)
_LIFE, _ORDER, _SUM, _LOST, _NEXT = "_life", "_order", "_sum", "_lost", "_next"


class ChangesOfTable(Operator):
    """The input's last value column is the operation. `malformed` asks for the rejected changes instead: their rows
    and operations, from their instants on."""

    def __init__(self, schema: Schema, key: tuple[int, ...], hashed: Sequence[int], *, malformed: bool = False) -> None:
        self.schema = schema
        self.malformed = malformed
        self.width = len(schema) - 1 if malformed else len(schema)
        self.columns = value_columns(self.width)
        self.operation = value_column(self.width)
        self.key = [value_column(index) for index in key]
        self._hashed = tuple(hashed)

    @property
    def distribution(self) -> Distribution:
        return by_key([self._hashed], same_columns(self.width))

    def _due(self, arrived: Batch, state: State, progress: Progress) -> tuple[Batch, tuple[Segment, ...]]:
        """The changes up to the frontier, and those beyond it."""
        read = arrived.select(*self.columns, self.operation, START, ARRIVAL)
        return released(state.get("pending", ()), read, START, progress.low_before, progress.low)

    def _nothing(self, due: Batch) -> Batch:
        """What comes of no changes."""
        return self._rows(due.with_columns(pl.lit(0, pl.Int64).alias(WEIGHT)))

    def _rows(self, rows: pl.DataFrame) -> Batch:
        columns = [*self.columns, self.operation] if self.malformed else self.columns
        return rows.select(*columns, START, pl.lit(INF, pl.Int64).alias(END), WEIGHT)


class ChangeLog(ChangesOfTable):
    """The copies of each row are counted.

    >>> run = Run(ChangeLog(integers("k", "v"), key=(0,)))
    >>> run.step(stream((1, 10, "+", 0), (2, 20, "+", 0), (1, 11, "update", 5)), to=5)
    (1, 10, [0, INF), +1)
    (2, 20, [0, INF), +1)
    (1, 10, [5, INF), -1)
    (1, 11, [5, INF), +1)
    >>> run.step(stream((2, 20, "-", 7), (3, 30, "-", 7)), to=7)
    (2, 20, [7, INF), -1)
    """

    def __init__(self, schema: Schema, key: tuple[int, ...], *, malformed: bool = False) -> None:
        hashed = key or range(len(schema) - 1 if malformed else len(schema))
        super().__init__(schema, key, hashed, malformed=malformed)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        due, pending = self._due(inputs[0], state, progress)
        copies = state.get("copies", ())
        if not due.height:
            return self._nothing(due), {"pending": pending, "copies": copies}
        counted = self._count(due, copies)
        ended = self._ends_of_lives(counted)
        left = ended.filter(pl.col(_NEXT).is_null()).select(*self.columns, pl.col(WEIGHT))
        lost = pl.col(_LOST) > pl.col(_LOST).shift(1, fill_value=0).over(*self.columns, _LIFE)
        changes = counted.filter(pl.col(ARRIVAL).is_not_null())
        if self.malformed:
            shown = changes.filter(lost).with_columns(pl.lit(1, pl.Int64).alias(WEIGHT))
        else:
            replaced = ended.filter(pl.col(_NEXT).is_not_null()).select(
                *self.columns, pl.col(_NEXT).alias(START), -pl.col(WEIGHT)
            )
            kept_rows = counted.filter(~lost & pl.col(ARRIVAL).is_not_null()).select(*self.columns, START, WEIGHT)
            shown = pl.concat([kept_rows, replaced])
        return self._rows(shown), {"pending": pending, "copies": (left,) if left.height else ()}

    def _count(self, due: Batch, copies: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """All changes and the copies before them, with sums and losses so far per value and life."""
        operation = pl.col(self.operation)
        ordered = due.sort(START, ARRIVAL).with_columns(
            pl.when(operation.is_in(DELETES)).then(-1).otherwise(1).cast(pl.Int64).alias(WEIGHT),
            pl.int_range(pl.len(), dtype=pl.Int64).alias(_ORDER),
        )
        is_update = operation.is_in(UPDATES).cast(pl.Int64)
        life = is_update.cum_sum().over(self.key) if self.key else pl.lit(0, pl.Int64)
        ordered = ordered.with_columns(life.alias(_LIFE))
        before = [
            segment.with_columns(
                pl.lit(None, pl.String).alias(self.operation),
                pl.lit(-1, pl.Int64).alias(START),
                pl.lit(None, pl.Int64).alias(ARRIVAL),
                pl.lit(-1, pl.Int64).alias(_ORDER),
                pl.lit(0, pl.Int64).alias(_LIFE),
            ).select(ordered.columns)
            for segment in copies
        ]
        group = [*self.columns, _LIFE]
        summed = pl.concat([*before, ordered]).sort(_ORDER, maintain_order=True)
        summed = summed.with_columns(pl.col(WEIGHT).cum_sum().over(group).alias(_SUM))
        return summed.with_columns((-pl.col(_SUM)).clip(lower_bound=0).cum_max().over(group).alias(_LOST))

    def _ends_of_lives(self, counted: pl.DataFrame) -> pl.DataFrame:
        """The copies that each life leaves, and the instant of the update that ends it."""
        final = (pl.col(_SUM) + pl.col(_LOST)).last().alias(WEIGHT)
        ended = counted.group_by(*self.columns, _LIFE, maintain_order=True).agg(final).filter(pl.col(WEIGHT) > 0)
        if not self.key:
            return ended.with_columns(pl.lit(None, pl.Int64).alias(_NEXT))
        updates = counted.filter(pl.col(self.operation).is_in(UPDATES)).select(
            *self.key, (pl.col(_LIFE) - 1).alias(_LIFE), pl.col(START).alias(_NEXT)
        )
        return ended.join(updates, on=[*self.key, _LIFE], how="left", nulls_equal=True)
