"""Joins of two bags of weighted intervals.

    (a, [s1, e1), w1) joins (b, [s2, e2), w2)  gives  (a b, [max(s1, s2), min(e1, e2)), w1 * w2)

Stored rows lie in segments sorted by a 64-bit key, where rows find their partners by a directory or a binary search
(`probing`). How the segments are kept is the synopsis' choice (`synopsis`), by the update pattern of each input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import polars as pl

from millstream.kernel.batch import (
    ARRIVAL,
    BORN,
    END,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    concat,
    empty_batch,
    value_column,
    value_columns,
)
from millstream.kernel.columns import chosen, frame_of, is_plain, is_small, numbered, positions, stacked, with_columns
from millstream.kernel.distribution import Distribution, by_key, same_columns
from millstream.kernel.joins.stem import Arrangement, arranged_by
from millstream.kernel.joins.unwanted import FEW, parted_by_queries, retained_as_they_came
from millstream.kernel.keys import Positions, Ticks, are_codes_exact
from millstream.kernel.operator import Horizons, KeptInput, Operator, Progress, Segment, State
from millstream.kernel.scalar.evaluate import select_attempted
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.kernel.sharing.input_lineage import InputLineage, InputSelections
from millstream.kernel.sharing.signature_classes import SIGNATURE
from millstream.kernel.step_limits import make_rows
from millstream.kernel.storage.identified import Identified, completed
from millstream.kernel.storage.probing import Pairs, equal_pairs, equal_values, find_band, pairs_of_runs
from millstream.kernel.storage.segments import codes_of, gather, horizon_of, numbers, released, summed
from millstream.kernel.storage.synopsis import Consolidated, Synopsis, is_over, lets_go, retain, retained
from millstream.kernel.storage.time_queue import is_due
from millstream.kernel.storage.time_spans import Span, span, time_order_of
from millstream.kernel.windows.imposed import Imposed, imposing
from millstream.types import Schema

_ROW = "_row"
_SIDES, _UNWANTED = ("left", "right"), " unwanted"  # synopses


class KeyedJoin(Operator):
    """What joins share: finding the pairs that satisfy the condition, whatever their intervals."""

    def __init__(
        self,
        left_schema: Schema,
        right_schema: Schema,
        keys: tuple[tuple[int, int], ...],
        residual: Expression = TRUE,
        null_safe: bool = False,
    ) -> None:
        self.schema = left_schema + right_schema
        self.schemas = (left_schema, right_schema)
        self.keys = keys
        self.residual = residual
        self.null_safe = null_safe
        self._columns = (value_columns(len(left_schema)), value_columns(len(right_schema)))
        self._key_columns = [[value_column(key[side]) for key in keys] for side in (0, 1)]
        self._bands = [None if keys else find_band(residual, len(left_schema), side) for side in (0, 1)]
        self._arrangements = [self._arrangement(side) for side in (0, 1)]
        self._is_restricted = residual != TRUE

    @property
    def distribution(self) -> Distribution:
        width, other = (len(schema) for schema in self.schemas)
        of_right = tuple((index, width + index) for index in range(other))
        keys = [tuple(key[side] for key in self.keys) for side in (0, 1)]
        return by_key(keys, same_columns(width), of_right)

    def _arrange(self, batch: Batch, side: int) -> Segment:
        """The rows that can match at all, sorted by key."""
        return arranged_by(batch, self._arrangements[side])

    def _arrangement(self, side: int) -> Arrangement:
        keys, band = tuple(self._key_columns[side]), self._bands[side]
        if band is not None:
            compared = (value_column(band.column),)
            return Arrangement(tuple(self._columns[side]), compared, (True, compared))
        return Arrangement(tuple(self._columns[side]), () if self.null_safe else keys, (False, keys))

    def _candidates(
        self, probe: Segment, stored: Segment, side: int, when: Callable[[], Span | None] | None = None
    ) -> Iterator[Pairs]:
        """(row of the probe, row of what is stored of that side) in chunks: a superset of what matches, of which those
        may be left out that do not start `when` they would have to."""
        band = self._bands[side]
        if self.keys:
            return equal_pairs(stored, codes_of(probe), when)
        if band is not None:
            return pairs_of_runs(*band.runs(codes_of(stored), probe))
        return pairs_of_runs(np.zeros(probe.height, np.intp), np.full(probe.height, stored.height, np.intp))

    def _agreeing(
        self, left: pl.DataFrame, right: pl.DataFrame, i: Positions, j: Positions, pairs: Positions
    ) -> Positions:
        """Those of the pairs (i, j) whose keys are equal, where equal codes do not say so already."""
        if are_codes_exact(left, self._key_columns[0]) and are_codes_exact(right, self._key_columns[1]):
            return pairs
        return pairs[equal_values(left, right, i[pairs], j[pairs], *self._key_columns)]

    def _empty(self, born: bool) -> Batch:
        nothing = empty_batch(self.schema)
        return with_columns(nothing, pl.Series(BORN, [], pl.Int64)) if born else nothing

    def _values(self, left: pl.DataFrame, right: pl.DataFrame, i: Positions, j: Positions) -> list[pl.Series]:
        """The columns of the concatenated rows."""
        width, (of_left, of_right) = len(self._columns[0]), positions(i, j)
        found = gather(right, self._columns[1], of_right)
        renamed = [series.alias(value_column(width + number)) for number, series in enumerate(found)]
        return gather(left, self._columns[0], of_left) + renamed

    def _satisfying(self, frame: Batch) -> Batch:
        return select_attempted(frame, self.residual) if self._is_restricted and frame.height else frame


class InnerJoin(KeyedJoin):
    """A join B = {(a b, [max(s1, s2), min(e1, e2)), w1 * w2) : a in A, b in B, keys equal, residual true}

        change(A join B) = change(A) join B_before + A_after join change(B).

    Keeps the rows of both sides. A row is forgotten once the other side's frontier has reached its end - 1,
    since no partner can start in time any more; a row and its retraction are forgotten together once the
    other side's frontier has passed the start of the retraction. Rows whose key is NULL are not kept unless
    keys are null-safe.

    With the `selections` of a group's queries only pairs are made that one of these may want (`input_lineage`). Rows of
    inputs that are `lasting`, never taken back, lie apart while no query wants them (`unwanted`).

    `_born` of a result is the greatest of its components; a side without the column has no say in it. Where rows that
    leave a side come without some columns (`found`), these are found in what is kept of it, by the arrival numbers.
    Where `windows` are imposed on sides, these come and are kept as elements of streams.

    >>> run = Run(InnerJoin(integers("k", "a"), integers("k", "b"), keys=((0, 0),)))
    >>> run.step(batch((1, 10, 0, 9, +1)), batch((1, 20, 4, 12, +1), (2, 30, 0, 9, +1)), to=4)
    (1, 10, 1, 20, [4, 9), +1)
    >>> run.step(batch((1, 10, 6, 9, -1)), None, to=6)
    (1, 10, 1, 20, [6, 9), -1)
    """

    def __init__(
        self,
        left_schema: Schema,
        right_schema: Schema,
        keys: tuple[tuple[int, int], ...],
        residual: Expression = TRUE,
        null_safe: bool = False,
        synopses: tuple[Synopsis, Synopsis] = (Consolidated(), Consolidated()),
        selections: InputSelections | None = None,
        found: tuple[Collection[int], Collection[int]] = ((), ()),
        windows: Sequence[Imposed] = (),
        lasting: tuple[bool, bool] = (False, False),
    ) -> None:
        self._found = [[value_column(index) for index in sorted(columns)] for columns in found]
        super().__init__(left_schema, right_schema, keys, residual, null_safe)
        self.synopses = tuple(Identified() if found[side] else synopses[side] for side in (0, 1))
        self.selections = selections
        self.windows = imposing(windows, 2)
        self._lasting = [lasting[side] and isinstance(self.synopses[side], Consolidated) for side in (0, 1)]
        self.base: InnerJoin | None = None  # which this is for other queries

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        lineage = self.selections.of(state) if self.selections is not None else None
        before = [state.get(name, ()) for name in _SIDES]
        unwanted = [state.get(f"{name}{_UNWANTED}", ()) for name in _SIDES]
        for side in (0, 1):
            if unwanted[side] and (lineage is None or side in progress.shared):
                before[side] += tuple(self._arrange(segment, side) for segment in unwanted[side])
                unwanted[side] = ()
        came = [self._arrived(inputs[side], side, before[side], lineage, progress) for side in (0, 1)]
        (left, sent_left, _), (right, sent_right, _) = came
        pieces: list[Batch] = []
        classes: list[Positions] = []
        for stored in self._found_by(
            sent_left, 1, (*before[1], *([right] if right.height else [])), unwanted[1], lineage
        ):
            pieces += self._product(sent_left, stored, 1, lineage, classes)
        for stored in self._found_by(sent_right, 0, before[0], unwanted[0], lineage):
            pieces += self._product(stored, sent_right, 0, lineage, classes)
        after: dict[str, tuple[Segment, ...]] = {}
        for side, kept in self.kept_inputs(progress).items():
            arrived, _, apart = came[side]
            after[kept.synopsis] = retained(self.synopses[side], before[side], arrived, kept, progress.shared.get(side))
            if lineage is not None and (unwanted[side] or apart is not None):
                after[f"{kept.synopsis}{_UNWANTED}"] = retained_as_they_came(
                    unwanted[side], apart, kept.horizons.after, side, lineage
                )
        made = concat(pieces, self._empty(BORN in left.columns or BORN in right.columns))
        if lineage is not None and made.height and made.height == sum(places.size for places in classes):
            lineage.note_pairs(made, classes)
        return made, after

    def _arrived(
        self, batch: Batch, side: int, stored: Sequence[Segment], lineage: InputLineage | None, progress: Progress
    ) -> tuple[Segment, Segment, Segment | None]:
        """The rows that came, sorted by key, those of them that are sent, and those apart that no query wants. What
        others keep as well is sorted whole."""
        if lineage is None:
            arrived = self._whole(self._arrange(batch, side), stored, side)
            return arrived, arrived, None
        if self._lasting[side] and batch.height > FEW and side not in progress.shared:
            parts = parted_by_queries(batch, side, lineage, self._arrangements[side])
            if parts is not None:
                sent = self._arrange_signed(parts.wanted, side)
                return chosen(sent, [name for name in sent.columns if name != SIGNATURE]), sent, parts.others
        arrived = self._whole(self._arrange(batch, side), stored, side)
        return arrived, lineage.wanted(side, arrived), None

    def _found_by(
        self,
        probe: Segment,
        side: int,
        stored: Sequence[Segment],
        unwanted: Sequence[Segment],
        lineage: InputLineage | None,
    ) -> Iterator[Segment]:
        """What is stored of a side as far as the rows that came may meet it, and some query may want it."""
        if not probe.height:
            return
        first, window = int(numbers(probe, START).min()), self.windows[side]
        reached = (segment for segment in stored if window.reaches(segment, first))
        if lineage is None:
            yield from reached
            return
        for segment in reached:
            yield lineage.wanted(side, segment)
        for segment in unwanted:
            if window.reaches(segment, first):
                yield lineage.wanted(side, segment, lambda rows: self._arrange_signed(rows, side))

    def _arrange_signed(self, rows: Segment, side: int) -> Segment:
        how = self._arrangements[side]
        signed = (SIGNATURE,) if SIGNATURE in rows.columns else ()
        return arranged_by(rows, replace(how, columns=(*how.columns, *signed)))

    def for_selections(self, selections: InputSelections) -> InnerJoin:
        """The same for other queries."""
        join = copy(self)
        join.selections, join.base = selections, self
        return join

    @property
    def is_plain(self) -> bool:
        """Whether all that pairs have in common are keys, none of them NULL, and rows come whole."""
        return not self._is_restricted and not self.null_safe and bool(self.keys) and not any(self._found)

    @property
    def rows_come_whole(self) -> bool:
        """Whether rows that leave an input come with all their columns."""
        return not any(self._found)

    def _whole(self, arrived: Segment, stored: Sequence[Segment], side: int) -> Segment:
        return completed(arrived, stored, self._found[side]) if self._found[side] else arrived

    def _arrangement(self, side: int) -> Arrangement:
        usual = super()._arrangement(side)
        return replace(usual, columns=(*usual.columns, ARRIVAL)) if self._found[side] else usual

    def is_idle(self, state: State, progress: Progress) -> bool:
        return not any(
            lets_go(self.synopses[side], state.get(kept.synopsis, ()), kept, progress.shared.get(side))
            or any(is_over(rows, kept.horizons.after) for rows in state.get(f"{kept.synopsis}{_UNWANTED}", ()))
            for side, kept in self.kept_inputs(progress).items()
        )

    def kept_inputs(self, progress: Progress) -> dict[int, KeptInput]:
        """A row is of use as long as the other input may still bring partners for it."""
        return {
            side: KeptInput(
                _SIDES[side],
                (self._arrangements[side], self.synopses[side]),
                self.windows[side].horizons(
                    Horizons(horizon_of(progress.before[1 - side]), horizon_of(progress.after[1 - side]))
                ),
            )
            for side in (0, 1)
        }

    def _product(
        self, left: Segment, right: Segment, stored_side: int, lineage: InputLineage | None, classes: list[Positions]
    ) -> Iterator[Batch]:
        """The pairs of rows; of what classes they are is added to those, where this is known."""
        probe, stored = (left, right) if stored_side == 1 else (right, left)
        if not stored.height:
            return
        when = partial(self._span, probe, stored, stored_side)
        classed = lineage.candidates(probe, stored, stored_side, when) if lineage is not None and self.keys else None
        paired = lineage if classed is None and SIGNATURE in left.columns else None
        for probing, found, *places in classed or self._candidates(probe, stored, stored_side, when):
            i, j = (probing, found) if stored_side == 1 else (found, probing)
            start = np.maximum(numbers(left, START)[i], numbers(right, START)[j])
            end = np.minimum(self.windows[0].ends(left, i), self.windows[1].ends(right, j))
            kept = self._agreeing(left, right, i, j, (start < end).nonzero()[0])
            if paired is not None and kept.size:
                both = numbers(left, SIGNATURE)[i[kept]], numbers(right, SIGNATURE)[j[kept]]
                wanted = paired.together(dict(enumerate(both)))
                kept = kept if wanted is None else kept[wanted]
            if not kept.size:
                continue
            if kept.size < i.size:
                i, j, start, end = i[kept], j[kept], start[kept], end[kept]
            intervals = {START: start, END: end, WEIGHT: _weights(left, right, i, j)}
            sides = ((left, i), (right, j))
            if born := [numbers(side, BORN)[rows] for side, rows in sides if BORN in side.columns]:
                intervals[BORN] = reduce(np.maximum, born)
            classes += (each if i.size == each.size else each[kept] for each in places)
            made = self._satisfying(self._side_by_side(left, right, i, j, intervals))
            make_rows(made.height, made.width)
            yield made

    def _span(self, probe: Segment, stored: Segment, stored_side: int) -> Span | None:
        """When the partners of rows may start; None where what is stored is in no order of time."""
        order, window = time_order_of(stored), self.windows[stored_side]
        if order is None:
            return None
        longest = order.longest if window.ticks is None else window.ticks
        return span(numbers(probe, START), self.windows[1 - stored_side].ends(probe), longest)

    def _side_by_side(
        self, left: Segment, right: Segment, i: Positions, j: Positions, intervals: Mapping[str, Ticks]
    ) -> Batch:
        """The concatenated rows with their intervals."""
        columns = [(left.get_column(name), i) for name in self._columns[0]]
        columns += [(right.get_column(name), j) for name in self._columns[1]]
        are_plain = all(is_plain(column) for column, _ in columns)
        if not is_small(i.size) or not are_plain:
            return frame_of([*self._values(left, right, i, j), *numbered(intervals)])
        # Integers are made together with the intervals: to make a series of an array is what costs most.
        values = {value_column(place): column.to_numpy()[rows] for place, (column, rows) in enumerate(columns)}
        made = numbered({**values, **intervals})
        for place, (column, _) in enumerate(columns):
            made[place] = made[place].cast(column.dtype)
        return frame_of(made)


def _weights(left: Segment, right: Segment, i: Positions, j: Positions) -> Ticks:
    """Of pairs of rows; mostly it is 1 for all."""
    one, other = numbers(left, WEIGHT), numbers(right, WEIGHT)
    if i.size > one.size + other.size and (one == 1).all() and (other == 1).all():
        return np.ones(i.size, np.int64)
    return one[i] * other[j]


class NonRetroactiveJoin(KeyedJoin):
    """A join T = {(a b, [s1, e1), w1 * w2) : a in A, b in T, s2 <= born(a) < e2, keys equal, residual true},

    where born(a) is `_born` of a, or s1 without that column: a row of the stream side meets the table as of
    the instant at which it was generated, and later changes of the table do not act on it. A retraction
    carries the `_born` of what it retracts, and so meets the same version.

    Keeps the table's versions, and rows of the stream side born after the table's frontier, until that
    reaches them. A version is forgotten when nothing can be born into it any more: `lag` says that no row
    starts more than so many ticks after it was born. It is 0 without `_born`; where it is not known (None),
    all versions are kept.

    >>> run = Run(NonRetroactiveJoin(integers("k"), integers("k", "v"), keys=((0, 0),)))
    >>> run.step(batch((1, 2, 9, +1)), batch((1, 10, 0, INF, +1)), to=2)
    (1, 1, 10, [2, 9), +1)
    >>> run.step(batch((1, 5, 9, +1)), batch((1, 10, 4, INF, -1), (1, 11, 4, INF, +1)), to=5)
    (1, 1, 11, [5, 9), +1)
    """

    def __init__(
        self,
        left_schema: Schema,
        right_schema: Schema,
        keys: tuple[tuple[int, int], ...],
        residual: Expression = TRUE,
        null_safe: bool = False,
        lag: int | None = None,
    ) -> None:
        super().__init__(left_schema, right_schema, keys, residual, null_safe)
        self.lag = lag

    def is_idle(self, state: State, progress: Progress) -> bool:
        reached = horizon_of(progress.low)  # versions are kept until then at least
        waits = not is_due(state.get("waiting", ()), progress.before[1], progress.after[1])
        return waits and not any(is_over(segment, reached) for segment in state.get("table", ()))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        has_born = BORN in inputs[0].columns
        born, after = BORN if has_born else START, progress.after[1]
        names = [*self._columns[0], *INTERVAL_COLUMNS, *([BORN] if has_born else [])]
        arrived = frame_of([inputs[0].get_column(name) for name in names])
        ready, waiting = released(state.get("waiting", ()), arrived, born, progress.before[1], after)
        left = self._arrange(ready, 0)
        versions = inputs[1].drop(BORN) if BORN in inputs[1].columns else inputs[1]
        changed = self._arrange(versions, 1)
        table = state.get("table", ())
        output = self._as_of(left, (*table, changed), born)
        lag = self.lag if has_born else 0
        reached = -1 if lag is None else min(progress.after[0] - lag, after)
        return output, {"waiting": waiting, "table": retain(table, changed, max(horizon_of(reached), 0))}

    def _as_of(self, left: Segment, table: Sequence[Segment], born: str) -> Batch:
        """The rows joined with the versions of the table they were born into."""
        instants = numbers(left, born)
        found = []
        for version in table if left.height else ():
            starts, ends = numbers(version, START), numbers(version, END)
            for i, j in self._candidates(left, version, 1):
                pairs = np.flatnonzero((starts[j] <= instants[i]) & (instants[i] < ends[j]))
                pairs = self._agreeing(left, version, i, j, pairs)
                rows = pl.Series(_ROW, i[pairs].astype(np.int64))
                make_rows(pairs.size, version.width)
                found.append(frame_of([*gather(version, [*self._columns[1], WEIGHT], j[pairs]), rows]))
        if not any(part.height for part in found):
            return self._empty(BORN in left.columns)
        matches = stacked(found)
        if (numbers(matches, WEIGHT) < 0).any():
            # What the table took back before the row was born is no match, not one that is taken back.
            matches = summed(matches)
        i = numbers(matches, _ROW).astype(np.intp)
        columns = self._values(left, matches, i, np.arange(i.size))
        columns += gather(left, [START, END], i)
        columns.append(pl.Series(WEIGHT, numbers(left, WEIGHT)[i] * numbers(matches, WEIGHT)))
        columns += gather(left, [BORN] if BORN in left.columns else [], i)
        return self._satisfying(frame_of(columns))
