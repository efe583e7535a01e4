"""The groups of an aggregation: their keys, their numbers, and what is kept for each.

A group is numbered when its first row arrives, and everything else an aggregate keeps refers to the number. Two
synopses of sorted runs hold this: the directory finds the number of a key, the table holds one record per
number, of which the newest counts. A group is forgotten when it has no copies and nothing of it is still to
come; numbers are not used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from millstream.kernel.aggregation.ordinals import ordinals
from millstream.kernel.aggregation.sorted_runs import SortedRuns, add_run, find
from millstream.kernel.batch import Batch
from millstream.kernel.columns import (
    ascending,
    constant,
    frame_of,
    nulls,
    one_zero,
    only,
    stacked,
    stacked_diagonally,
    take,
    taken,
    with_columns,
)
from millstream.kernel.keys import first_of_equal
from millstream.kernel.operator import Segment, State, own

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

GROUP = "_group"
UNTIL = "_until"  # the last instant at which something known of the group still changes
EXISTS = "_exists"  # whether the group's row is in the output at the frontier
DEAD = "_dead"  # a record that only hides older ones of the same group
TABLE, DIRECTORY, NEXT = "groups", "directory", "next_group"


def key_column(index: int) -> str:
    return f"k{index}"


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The groups of the rows of a batch."""

    owner: Int64s  # of each row: the place of its group in `number`
    number: Int64s
    fresh: pl.DataFrame  # the keys and numbers of those that were not there


def _close_integers(keys: pl.DataFrame) -> tuple[Int64s, pl.DataFrame] | None:
    """Of each row the place of its key among the distinct ones, and those, where it is one integer and there are no
    more between the least and the greatest than there are rows: counting them is faster than hashing."""
    column = keys.to_series(0)
    if keys.width > 1 or not column.dtype.is_signed_integer() or column.null_count():
        return None
    values = column.to_numpy()
    least, greatest = int(values.min()), int(values.max())
    if greatest - least >= keys.height:
        return None
    codes = values.astype(np.int64, copy=False) - least
    there = np.flatnonzero(np.bincount(codes))
    place = np.zeros(greatest - least + 1, np.int64)
    place[there] = np.arange(len(there))
    return place[codes], pl.DataFrame({column.name: pl.Series(there + least, dtype=column.dtype)})


class GroupTable:
    """Finds, reads and writes groups; `columns` are what a record holds beside its key."""

    def __init__(self, keys: Sequence[tuple[str, pl.DataType]], columns: Mapping[str, pl.DataType]) -> None:
        self.inputs = [name for name, _ in keys]
        self.keys = [key_column(index) for index in range(len(keys))]
        kinds = dict(zip(self.keys, (kind for _, kind in keys), strict=True))
        fixed = {UNTIL: pl.Int64(), EXISTS: pl.Boolean(), DEAD: pl.Boolean()}
        self.directory = pl.DataFrame(schema={**kinds, GROUP: pl.Int64()})
        self.record = pl.DataFrame(schema={GROUP: pl.Int64(), **kinds, **fixed, **columns})

    def identify(self, rows: Batch, state: State) -> Arrivals:
        """Number the groups of a batch."""
        none = self.directory
        if not self.keys:
            return Arrivals(np.zeros(rows.height, np.int64), np.zeros(min(rows.height, 1), np.int64), none)
        if not rows.height:
            return Arrivals(np.zeros(0, np.int64), np.zeros(0, np.int64), none)
        keys = frame_of(
            [one_zero(rows.get_column(name)).alias(key) for name, key in zip(self.inputs, self.keys, strict=True)]
        )
        owner, distinct = _close_integers(keys) or self._distinct(keys)
        number = self._numbers(distinct, state)
        unknown = np.flatnonzero(number < 0)
        following = self._next(state)
        number[unknown] = following + np.arange(len(unknown))
        if not len(unknown):
            return Arrivals(owner, number, none)
        fresh = with_columns(take(distinct, unknown), pl.Series(GROUP, number[unknown]))
        return Arrivals(owner, number, fresh)

    def _distinct(self, keys: pl.DataFrame) -> tuple[Int64s, pl.DataFrame]:
        """Of each row the place of its key among the distinct ones, and those."""
        representative = first_of_equal(keys, self.keys)
        is_first = representative == np.arange(keys.height)
        return (np.cumsum(is_first) - 1)[representative], take(keys, np.flatnonzero(is_first))

    def _numbers(self, distinct: pl.DataFrame, state: State) -> Int64s:
        number = np.full(distinct.height, -1, np.int64)
        for run in reversed(state.get(DIRECTORY, ())):
            missing = np.flatnonzero(number < 0)
            if not len(missing):
                break
            place = find(run, self.keys, take(distinct, missing) if len(missing) < len(number) else distinct)
            found = place >= 0
            number[missing[found]] = run.get_column(GROUP).to_numpy()[place[found]]
        known = np.flatnonzero(number >= 0)
        alive = self._alive(state.get(TABLE, ()), number[known])
        number[known[~alive]] = -1
        return number

    def _by_key(self, entries: pl.DataFrame) -> pl.DataFrame:
        return take(entries, ascending(ordinals(entries, self.keys)[0]))

    def _next(self, state: State) -> int:
        counter = state.get(NEXT, ())
        return int(counter[0].item()) if counter else 0

    def renumbered(self, state: State, before: State) -> State:
        """A state with groups whose numbers follow those of another one."""
        after = pl.col(GROUP) + self._next(before)
        return {
            name: tuple(segment.with_columns(after) if GROUP in segment.columns else segment for segment in segments)
            for name, segments in state.items()
        }

    def counted(self, *states: State) -> dict[str, SortedRuns]:
        """How many numbers states have used together."""
        return {NEXT: (pl.DataFrame({NEXT: [sum(map(self._next, states))]}),)}

    def numbers_of_first_key(self, state: State, values: pl.Series) -> pl.Series:
        """The numbers of the groups whose first key is one of some values."""
        found = [own(run, self.keys[0], values)[GROUP] for run in state.get(DIRECTORY, ())]
        return pl.concat([pl.Series(GROUP, [], pl.Int64), *found])

    def _alive(self, table: SortedRuns, number: Int64s) -> Bools:
        alive = np.zeros(len(number), np.bool_)
        missing = np.arange(len(number))
        for run in reversed(table):
            place, found = _search(run, number[missing])
            alive[missing[found]] = ~run.get_column(DEAD).to_numpy()[place[found]]
            missing = missing[~found]
        return alive

    def fetch(self, number: Int64s, state: State, fresh: pl.DataFrame) -> pl.DataFrame:
        """The records of groups, numbers ascending; those that are new begin empty."""
        pieces, places = list[pl.DataFrame](), list[Int64s]()
        missing = np.arange(len(number))
        for run in reversed(state.get(TABLE, ())):
            if not len(missing):
                break
            place, found = _search(run, number[missing])
            pieces.append(run if found.all() and found.size == run.height else take(run, place[found]))
            places.append(missing[found])
            missing = missing[~found]
        if len(missing):
            pieces.append(self._new(number[missing], fresh))
            places.append(missing)
        records = stacked_diagonally(pieces) if pieces else self.record
        if len(places) <= 1:
            return records
        order = np.empty(len(number), np.int64)
        order[np.concatenate(places)] = np.arange(len(number))
        return take(records, order)

    def all_records(self, state: State) -> pl.DataFrame:
        """The records of all groups that are there."""
        runs = state.get(TABLE, ())
        return _newest(runs, True) if runs else self.record

    def rebuilt(self, records: pl.DataFrame, state: State) -> dict[str, SortedRuns]:
        """The synopses with these records in the place of all others; those at the end without a number get one."""
        number = records.get_column(GROUP).to_numpy(writable=True)
        fresh = np.flatnonzero(number < 0)
        following = self._next(state)
        number[fresh] = following + np.arange(len(fresh))
        records = with_columns(records, pl.Series(GROUP, number))
        entries = self._by_key(records[self.directory.columns])
        counter = pl.DataFrame({NEXT: [following + len(fresh)]})
        if not records.height:
            return {TABLE: (), DIRECTORY: (), NEXT: (counter,)}
        return {TABLE: (records,), DIRECTORY: (entries,), NEXT: (counter,)}

    def _new(self, number: Int64s, fresh: pl.DataFrame) -> pl.DataFrame:
        """Records of groups that were not there; `fresh` has their keys, numbers ascending."""
        count = len(number)
        places = np.searchsorted(fresh.get_column(GROUP).to_numpy(), number)
        keys = taken([fresh.get_column(key) for key in self.keys], places)
        flags = (pl.Series(name, np.zeros(count, np.bool_)) for name in (EXISTS, DEAD))
        known = [pl.Series(GROUP, number), *keys, constant(UNTIL, -1, count), *flags]
        rest = self.record.columns[len(known) :]
        return frame_of([*known, *(nulls(name, self.record.schema[name], count) for name in rest)])

    def store(self, records: pl.DataFrame, fresh: pl.DataFrame, state: State) -> dict[str, SortedRuns]:
        """The synopses with records written anew; records marked dead hide their group."""
        written = records
        if fresh.height:
            # A group that came and went within the step leaves no trace.
            known = np.isin(records.get_column(GROUP).to_numpy(), fresh.get_column(GROUP).to_numpy(), invert=True)
            written = only(records, known | ~records.get_column(DEAD).to_numpy())
        table = add_run(tuple(state.get(TABLE, ())), written, _newest)
        result: dict[str, SortedRuns] = {TABLE: table} if table else {}
        if not self.keys:
            return result
        result[NEXT] = tuple(state.get(NEXT, ()))
        if fresh.height:
            result[NEXT] = (pl.DataFrame({NEXT: [self._next(state) + fresh.height]}),)
        if not table:
            return result
        directory = tuple(state.get(DIRECTORY, ()))
        if not fresh.height:
            return {**result, DIRECTORY: directory}
        lasting = only(fresh, np.isin(fresh.get_column(GROUP).to_numpy(), written.get_column(GROUP).to_numpy()))

        def merge(runs: Sequence[Segment], oldest: bool) -> Segment:
            entries = stacked(runs)
            alive = self._alive(table, entries.get_column(GROUP).to_numpy())
            return self._by_key(only(entries, alive))

        result[DIRECTORY] = add_run(directory, self._by_key(lasting[self.directory.columns]), merge)
        return result


def _search(run: Segment, number: Int64s) -> tuple[Int64s, Bools]:
    """Where group numbers are in a run of the table, and whether they are."""
    known = run.get_column(GROUP).to_numpy()
    place = np.minimum(np.searchsorted(known, number), len(known) - 1)
    return place, known[place] == number


def _newest(runs: Sequence[Segment], oldest: bool) -> Segment:
    """One record per group, that of the newest run; the dead are needed only while older runs may have the group."""
    groups = [run.get_column(GROUP).to_numpy() for run in runs]
    if all(len(group) == len(groups[-1]) and (group == groups[-1]).all() for group in groups[:-1]):
        return only(runs[-1], ~runs[-1].get_column(DEAD).to_numpy()) if oldest else runs[-1]
    records = stacked_diagonally([*reversed(runs)])
    _, first = np.unique(records.get_column(GROUP).to_numpy(), return_index=True)
    if oldest:
        first = first[~records.get_column(DEAD).to_numpy()[first]]
    return take(records, first)
