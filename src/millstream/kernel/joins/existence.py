"""Semi and anti joins: rows that have, or have not, a partner of their key.

    A ⋉ B = {a in A at t : B has a row of a's key at t},      A ▷ B = A - A ⋉ B

With P(k, t) = 1 where B has a row of key k at t, and 0 elsewhere, these are A ⋈ P and A ⋈ (1 - P). P is DISTINCT of B's
keys; of the keys that B does not have nothing is ever stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import ARRIVAL, BORN, END, INTERVAL_COLUMNS, START, WEIGHT, Batch, concat, value_column
from millstream.kernel.columns import frame_of, numbered, only, stacked, with_columns
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.joins.pairwise import KeyedJoin
from millstream.kernel.joins.stem import Arrangement, arranged_by
from millstream.kernel.keys import KEY
from millstream.kernel.operator import Horizons, KeptInput, Progress, Segment, State
from millstream.kernel.relational.multiplicity import DistinctStar, Multiplicity
from millstream.kernel.relational.runs import CountedRuns, ForetoldRuns
from millstream.kernel.step_limits import make_rows
from millstream.kernel.storage.identified import Identified, completed
from millstream.kernel.storage.segments import gather, horizon_of, numbers, released
from millstream.kernel.storage.synopsis import Synopsis, lets_go, retained
from millstream.kernel.storage.time_queue import is_due
from millstream.kernel.windows.imposed import AS_THEY_ARE, Imposed
from millstream.types import Schema


class ExistenceJoin(KeyedJoin):
    """change(A ⋉ B) = {a in change(A), while P(a's key) was said to be 1 before the step} + A_after ⋈ change(P)
    change(A ▷ B) = {a in change(A), while P(a's key) was said to be 0 before the step} - A_after ⋈ change(P)

    B comes as its keys alone, A with the positions of the columns that are compared with them. P is said by `presence`:
    by counts, a key stays until further notice; by δ*, until an end that is known, and may be prolonged. Rows of A wait
    until the frontier has reached their starts; from then on they are given with their own ends, so that only what ends
    prematurely is taken back. While a key stays, or stays away, rows of A cost a search, and stored ones nothing.

    Where rows of A carry `_born`, those of A ⋉ B are generated when both they and the run of their partners are there:
    then `presence` says when each run began (`runs`).

    Keeps what `presence` does of B, and the rows of A until the frontier has reached their ends. A NULL among the key's
    columns has no partner, unless NULLs are equal there: such rows of A are not kept. With `shared`, rows of A are kept
    from when they come and not from their starts on, as other joins keep them: what is kept once is kept for all. Only
    then may a `window` be imposed on them, or rows be taken back without columns that are `found` in what is kept.

    >>> from millstream.kernel.storage.synopsis import Consolidated
    >>> presence = DistinctStar(integers("k"))
    >>> run = Run(ExistenceJoin(integers("k"), presence, (0,), (False,), Consolidated(), negated=True))
    >>> run.step(batch((1, 0, 9, +1), (2, 0, 9, +1)), batch((1, 0, 4, +1)), to=1)
    (1, [0, 4), -1)
    (1, [0, 9), +1)
    (2, [0, 9), +1)
    >>> run.step(None, batch((2, 5, 7, +1)), to=5)
    (2, [5, 7), -1)
    """

    def __init__(
        self,
        schema: Schema,
        presence: Multiplicity | DistinctStar,
        positions: tuple[int, ...],
        null_safe: tuple[bool, ...],
        synopsis: Synopsis,
        *,
        negated: bool,
        shared: bool = False,
        window: Imposed = AS_THEY_ARE,
        found: Collection[int] = (),
    ) -> None:
        keys = tuple(zip(positions, range(len(positions)), strict=True))
        super().__init__(schema, presence.schema, keys, null_safe=True)
        self.schema = schema
        self.presence = presence
        self.negated = negated
        self.synopsis: Synopsis = Identified() if found else synopsis
        self.shared, self.window = shared, window
        self._required = [
            [value_column(pair[side]) for pair, safe in zip(keys, null_safe, strict=True) if not safe]
            for side in (0, 1)
        ]
        self._found = [value_column(index) for index in sorted(found)]
        # Rows without a key have no partners; but where they are taken back, they must be found.
        required = () if found and negated else tuple(self._required[0])
        columns = (*self._columns[0], *([ARRIVAL] if found else []))
        self._kept_as = Arrangement(columns, required, (False, tuple(self._key_columns[0])))

    @property
    def distribution(self) -> Distribution:
        keys = [tuple(key[side] for key in self.keys) for side in (0, 1)]
        return by_key(keys, same_columns(len(self.schema)), ())

    def is_idle(self, state: State, progress: Progress) -> bool:
        low_before, low = progress.low_before, progress.low
        return (
            not is_due(state.get("left_waiting", ()), low_before, low)
            and self.presence.is_idle(state, Progress((low_before,), (low,)))
            and not lets_go(self.synopsis, state.get("left", ()), self._kept(progress), progress.shared.get(0))
        )

    def kept_inputs(self, progress: Progress) -> dict[int, KeptInput]:
        return {0: self._kept(progress)} if self.shared else {}

    def _kept(self, progress: Progress) -> KeptInput:
        horizons = Horizons(horizon_of(progress.low_before), horizon_of(progress.low))
        return KeptInput("left", (self._kept_as, self.synopsis), self.window.horizons(horizons))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        low_before, low = progress.low_before, progress.low
        stored, queue = state.get("left", ()), state.get("left_waiting", ())
        new = self._whole(arranged_by(inputs[0], self._kept_as), stored) if self.shared else None
        born = [BORN] if BORN in inputs[0].columns else []
        arrived = self._given(inputs[0] if new is None else self._with_keyless(new, inputs[0]), born)
        rows, waiting = released(queue, arrived, START, low_before, low)
        if new is not None and not queue and not waiting and rows.height == new.height:
            left = with_columns(rows, new.get_column(KEY))
        else:
            left = self._arrange(self._matchable(rows, 0), 0)
        keys = self._matchable(inputs[1], 1)
        changed, presence = self.presence.step([keys], state, Progress((low_before,), (low,)))

        pieces = [self._as_before(left, state)] if left.height else []
        if self.negated and left.height < rows.height:
            pieces.append(rows.filter(pl.any_horizontal(pl.col(self._required[0]).is_null())))
        change = self._arrange(changed, 1)
        kept = left if new is None else new
        pieces += [piece for segment in (*stored, kept) for piece in self._changed(segment, change, low)]

        after = retained(self.synopsis, stored, kept, self._kept(progress), progress.shared.get(0))
        return concat(pieces, self._empty(bool(born))), {**presence, "left_waiting": waiting, "left": after}

    def _whole(self, arrived: Segment, stored: Sequence[Segment]) -> Segment:
        return completed(arrived, stored, self._found) if self._found else arrived

    def _given(self, rows: Batch, born: Sequence[str]) -> Batch:
        """The rows, as long as they are in the window."""
        given = frame_of([rows.get_column(name) for name in (*self._columns[0], *INTERVAL_COLUMNS, *born)])
        return given if self.window.ticks is None else with_columns(given, pl.Series(END, self.window.ends(given)))

    def _with_keyless(self, kept: Segment, arrived: Batch) -> Batch:
        """The rows that are kept, and those that are not since they lack a key, where these are given as well."""
        if not self.negated or kept.height == arrived.height:
            return kept
        names = [*self._columns[0], *INTERVAL_COLUMNS]
        lacking = arrived.filter(pl.any_horizontal(pl.col(self._kept_as.required).is_null()))
        return stacked([kept[names], lacking[names]])

    def _matchable(self, rows: Batch, side: int) -> Batch:
        required = self._required[side]
        return rows.drop_nulls(required) if any(rows[name].null_count() for name in required) else rows

    def _as_before(self, left: Segment, state: State) -> Batch:
        """The rows as far as they belong to the result by what the last step said of their keys."""
        columns = zip(self._columns[1], self._key_columns[0], strict=True)
        keys = frame_of([*(left.get_column(own).alias(name) for name, own in columns), left.get_column(KEY)])
        until = self.presence.known_until(keys, state)
        start, end = numbers(left, START), numbers(left, END)
        start, end = (np.maximum(start, until), end) if self.negated else (start, np.minimum(end, until))
        changed = {START: start, END: end}
        if BORN in left.columns and isinstance(self.presence, CountedRuns | ForetoldRuns):
            changed[BORN] = np.maximum(numbers(left, BORN), self.presence.since(keys, state))
        given = frame_of([column for column in left.get_columns() if column.name != KEY])
        return only(with_columns(given, *numbered(changed)), start < end)

    def _changed(self, left: Segment, change: Segment, low: int) -> Iterator[Batch]:
        """A ⋈ change(P), or what it takes away; of those rows of A that have been given."""
        if not left.height or not change.height:
            return
        for j, i in self._candidates(change, left, 0):
            start = np.maximum(numbers(left, START)[i], numbers(change, START)[j])
            end = np.minimum(self.window.ends(left, i), numbers(change, END)[j])
            are_there = start < end
            if self.shared:
                are_there &= numbers(left, START)[i] <= low
            kept = self._agreeing(left, change, i, j, np.flatnonzero(are_there))
            weight = numbers(left, WEIGHT)[i[kept]] * numbers(change, WEIGHT)[j[kept]]
            intervals = {START: start[kept], END: end[kept], WEIGHT: -weight if self.negated else weight}
            if BORN in left.columns:
                born = numbers(left, BORN)[i[kept]]
                since = numbers(change, BORN)[j[kept]] if BORN in change.columns else born
                intervals[BORN] = np.maximum(born, since)
            make_rows(kept.size, left.width)
            if kept.size:
                yield frame_of([*gather(left, self._columns[0], i[kept]), *numbered(intervals)])
