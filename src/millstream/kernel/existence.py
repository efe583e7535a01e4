"""Semi and anti joins: rows that have, or have not, a partner of their key.

    A ⋉ B = {a in A at t : B has a row of a's key at t},      A ▷ B = A - A ⋉ B

With P(k, t) = 1 where B has a row of key k at t, and 0 elsewhere, these are A ⋈ P and A ⋈ (1 - P). P is DISTINCT of B's
keys; of the keys that B does not have nothing is ever stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import (
    END,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    concat,
    empty_batch,
    value_column,
)
from millstream.kernel.join import KeyedJoin
from millstream.kernel.keys import KEY
from millstream.kernel.multiplicity import Multiplicity, SetOperation
from millstream.kernel.operator import Progress, Segment, State
from millstream.kernel.segments import gather, horizon_of, numbers, only, released
from millstream.kernel.synopsis import Synopsis
from millstream.types import Schema


class ExistenceJoin(KeyedJoin):
    """change(A ⋉ B) = {a in change(A) : P(a's key) = 1 before the step} + A_after ⋈ change(P)
    change(A ▷ B) = {a in change(A) : P(a's key) = 0 before the step} - A_after ⋈ change(P)

    B comes as its keys alone, A with the positions of the columns that are compared with them. Rows of A wait until the
    frontier has reached their starts; from then on they are given with their own ends, so that only what ends
    prematurely is taken back. While a key stays, or stays away, the rows of A cost a search, and stored ones nothing.

    Keeps how often each key occurs in B, and the rows of A until the frontier has reached their ends. A NULL among the
    key's columns has no partner, unless NULLs are equal there: such rows of A are not kept.
    """

    def __init__(
        self,
        schema: Schema,
        key_schema: Schema,
        positions: tuple[int, ...],
        null_safe: tuple[bool, ...],
        synopsis: Synopsis,
        *,
        negated: bool,
    ) -> None:
        super().__init__(schema, key_schema, tuple(zip(positions, range(len(positions)), strict=True)), null_safe=True)
        self.schema = schema
        self.negated = negated
        self.synopsis = synopsis
        self._presence = Multiplicity(key_schema, SetOperation.DISTINCT)
        self._required = [
            [value_column(pair[side]) for pair, safe in zip(self.keys, null_safe, strict=True) if not safe]
            for side in (0, 1)
        ]

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        low_before, low = progress.low_before, progress.low
        arrived = inputs[0][[*self._columns[0], *INTERVAL_COLUMNS]]
        rows, waiting = released(state.get("waiting", ()), arrived, START, low_before, low)
        matchable = rows.drop_nulls(self._required[0])
        left, stored = self._arrange(matchable, 0), state.get("left", ())

        keys = inputs[1].drop_nulls(self._required[1])
        changed, presence = self._presence.step([keys], state, Progress((low_before,), (low,)))
        kept = self._was_present(left, state) != self.negated
        pieces = [only(left, kept).drop(KEY)]
        if self.negated and matchable.height < rows.height:
            lacking = pl.any_horizontal(pl.col(column).is_null() for column in self._required[0])
            pieces.append(rows.filter(lacking))
        change = self._arrange(changed, 1)
        pieces += [piece for segment in (*stored, left) for piece in self._changed(segment, change)]

        stored = self.synopsis.retain(stored, left, horizon_of(low), horizon_of(low_before))
        return concat(pieces, empty_batch(self.schema)), {**presence, "waiting": waiting, "left": stored}

    def _was_present(self, left: Segment, state: State) -> np.ndarray:
        """Which of the rows had partners when the last step ended."""
        columns = zip(self._columns[1], self._key_columns[0], strict=True)
        keys = pl.DataFrame([*(left[own].alias(name) for name, own in columns), left[KEY]])
        return self._presence.counted(keys, state)[0] > 0

    def _changed(self, left: Segment, change: Segment) -> Iterator[Batch]:
        """A ⋈ change(P), or what it takes away."""
        if not left.height or not change.height:
            return
        for j, i in self._candidates(change, left, 0):
            start = np.maximum(numbers(left, START)[i], numbers(change, START)[j])
            end = np.minimum(numbers(left, END)[i], numbers(change, END)[j])
            kept = self._agreeing(left, change, i, j, np.flatnonzero(start < end))
            weight = numbers(left, WEIGHT)[i[kept]] * numbers(change, WEIGHT)[j[kept]]
            intervals = {START: start[kept], END: end[kept], WEIGHT: -weight if self.negated else weight}
            columns = [pl.Series(name, column) for name, column in intervals.items()]
            yield pl.DataFrame([*gather(left, self._columns[0], i[kept]), *columns])
