"""The functions of OVER, each over all rows of all lists at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

import numpy as np
import polars as pl

from millstream.kernel.aggregation.aggregate import Aggregate, AggregateCall
from millstream.kernel.batch import END, START, WEIGHT, value_column
from millstream.kernel.columns import constant, frame_of, is_null, nulls, one_zero, stacked, taken
from millstream.kernel.operator import NO_STATE, Progress
from millstream.kernel.ordering.frames import FAR, WHOLE_UP_TO_PEERS, Frame, Reach, bounds, reach_of, reach_of_aggregate
from millstream.kernel.ordering.ordered_rows import Bools, Int64s
from millstream.kernel.ordering.row_lists import RowLists
from millstream.kernel.ordering.sort_keys import SortKey
from millstream.kernel.storage.segments import numbers
from millstream.types import DataType, Field, Schema, to_polars

WindowFunction = OneOf[
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
    "aggregate",
]
_SHIFTED = ("lag", "lead")


@dataclass(frozen=True)
class WindowCall:
    """A function over a window: of a column, perhaps, and a number (of LAG, LEAD, NTH_VALUE and NTILE); `default` is
    the column of what LAG and LEAD give where there is no row. Of an aggregate, `aggregate` says which."""

    function: WindowFunction
    type: DataType
    argument: int | None = None
    number: int = 1
    default: int | None = None
    ignores_nulls: bool = False
    frame: Frame = WHOLE_UP_TO_PEERS
    aggregate: AggregateCall | None = None

    @property
    def columns(self) -> set[int]:
        """Those that it reads."""
        found = {self.argument, self.default, *(() if self.aggregate is None else _arguments(self.aggregate))}
        return {column for column in found if column is not None}

    def moved(self, places: Mapping[int, int]) -> WindowCall:
        """The same call where columns are at other places."""
        argument, default = (None if each is None else places[each] for each in (self.argument, self.default))
        aggregate = self.aggregate
        if aggregate is not None:
            aggregate = _over(aggregate, places)
        return replace(self, argument=argument, default=default, aggregate=aggregate)

    @property
    def reach(self) -> Reach:
        match self.function:
            case "row_number":
                return Reach(seen_after=FAR)
            case "rank":
                return Reach(peers=True, seen_after=FAR)
            case "dense_rank":
                return Reach(back=FAR, seen_after=FAR)
            case "percent_rank" | "cume_dist" | "ntile":
                return Reach(peers=True, seen_before=FAR, seen_after=FAR)
            case "lag" | "lead":
                back = (self.number if self.function == "lag" else -self.number) >= 0
                far = FAR if self.ignores_nulls else min(abs(self.number), FAR)
                return Reach(back=far, seen_after=far) if back else Reach(ahead=far, seen_before=far)
            case "aggregate":
                return reach_of_aggregate(self.frame)
            case _:
                return reach_of(self.frame)


@dataclass(frozen=True)
class EarlierRows:
    """Copies that stand before all rows of lists, and count for frames that begin with the first row: of the lists
    from one place to another, with weights, since they may be no longer before a later list."""

    row: Int64s
    first: Int64s
    past: Int64s
    weight: Int64s

    def only(self, kept: Bools) -> EarlierRows:
        return EarlierRows(self.row[kept], self.first[kept], self.past[kept], self.weight[kept])


_NONE = np.zeros(0, np.int64)
NOTHING_EARLIER = EarlierRows(_NONE, _NONE, _NONE, _NONE)


class WindowValues:
    """What calls give for the rows of lists. `values` are columns of the copies in the lists, and of those before."""

    def __init__(
        self,
        lists: RowLists,
        values: Mapping[int, pl.Series],
        schema: Schema,
        key: SortKey | None,
        earlier: EarlierRows,
        earlier_values: Mapping[int, pl.Series],
    ) -> None:
        self._lists, self._values, self._schema = lists, values, schema
        self._earlier, self._earlier_values = earlier, earlier_values
        self._key = None if key is None else (key, values[key.column])
        self._bounds: dict[Frame, tuple[Int64s, Int64s]] = {}

    def of(self, calls: Sequence[WindowCall]) -> list[pl.Series]:
        found: dict[int, pl.Series] = {}
        by_frame: dict[Frame, list[int]] = {}
        for place, call in enumerate(calls):
            if call.aggregate is None:
                found[place] = self._value(call)
            else:
                by_frame.setdefault(call.frame, []).append(place)
        for frame, places in by_frame.items():
            aggregates = [aggregate for place in places if (aggregate := calls[place].aggregate) is not None]
            found |= dict(zip(places, self._aggregated(frame, aggregates), strict=True))
        return [one_zero(found[place]).alias(f"o{place}") for place in range(len(calls))]

    def _value(self, call: WindowCall) -> pl.Series:
        lists = self._lists
        match call.function:
            case "row_number":
                return _typed(lists.place + 1, call.type)
            case "rank":
                return _typed(lists.place[lists.first_peer] + 1, call.type)
            case "dense_rank":
                peers: Int64s = np.cumsum(lists.starts_peers)
                return _typed(peers - peers[lists.begin] + 1, call.type)
            case "percent_rank":
                return _typed(lists.place[lists.first_peer] / np.maximum(lists.total - 1, 1), call.type)
            case "cume_dist":
                return _typed((lists.place[lists.last_peer] + 1) / lists.total, call.type)
            case "ntile":
                return _typed(_bucket(lists.place, lists.total, call.number), call.type)
            case "lag" | "lead":
                return self._shifted(call)
            case _:
                return self._of_frame(call)

    def _shifted(self, call: WindowCall) -> pl.Series:
        """The value so many rows before or after; where there is none, the default of the row itself."""
        lists, column = self._lists, self._column(call)
        distance = -call.number if call.function == "lag" else call.number
        places = np.arange(lists.size)
        if call.ignores_nulls and distance:
            known = np.flatnonzero(~is_null(column))
            # Before a row: the last known ones up to the one before it; after it: the first from the next one on.
            nearest = np.searchsorted(known, places) if distance < 0 else np.searchsorted(known, places, "right") - 1
            at = nearest + distance
            there = (at >= 0) & (at < known.size)
            found = known[np.clip(at, 0, max(known.size - 1, 0))] if known.size else places
        else:
            found = places + np.clip(distance, -lists.size, lists.size)
            there = np.ones(lists.size, np.bool_)
        there &= (found >= lists.begin) & (found < lists.past)
        value = _at(column, found, there)
        if call.default is None:
            return value
        return value.zip_with(pl.Series(there), self._values[call.default].cast(value.dtype).alias(value.name))

    def _of_frame(self, call: WindowCall) -> pl.Series:
        """FIRST_VALUE, LAST_VALUE and NTH_VALUE."""
        column, (first, last) = self._column(call), self._frame(call.frame)
        if not call.ignores_nulls:
            found = last if call.function == "last_value" else first + call.number - 1
            return _at(column, found, (found >= first) & (found <= last))
        known = np.flatnonzero(~is_null(column))
        if call.function == "last_value":
            at = np.searchsorted(known, last, "right") - 1
        else:
            at = np.searchsorted(known, first) + call.number - 1
        there = (at >= 0) & (at < known.size)
        found = known[np.clip(at, 0, max(known.size - 1, 0))] if known.size else first
        return _at(column, found, there & (found >= first) & (found <= last))

    def _aggregated(self, frame: Frame, calls: Sequence[AggregateCall]) -> list[pl.Series]:
        """A row is in the frames of a stretch of rows: with places for instants these are intervals, and the aggregate
        over time has all values in one pass. Between lists nothing is left over."""
        first, last = self._frame(frame)
        places = np.arange(self._lists.size)
        starts, ends = np.searchsorted(last, places), np.searchsorted(first, places, "right")
        seen = np.flatnonzero(starts < ends)
        used = sorted({column for call in calls for column in _arguments(call)})
        schema = tuple(self._schema[column] for column in used)
        arguments = [self._values[column].alias(value_column(place)) for place, column in enumerate(used)]
        intervals = [pl.Series(START, starts[seen]), pl.Series(END, ends[seen]), constant(WEIGHT, 1, seen.size)]
        batch = frame_of([*taken(arguments, seen), *intervals])
        retracts = False
        if frame.is_from_the_first and self._earlier.row.size:
            batch = stacked([batch, self._before_lists(used)])
            retracts = bool((self._earlier.weight < 0).any())
        places_of = {column: place for place, column in enumerate(used)}
        moved = tuple(_over(call, places_of) for call in calls)
        operator = Aggregate(schema, (), moved, retractions=retracts)
        output, _ = operator.step([batch], NO_STATE, Progress((-1,), (self._lists.size,)))
        order = np.argsort(numbers(output, START), kind="stable")
        at = order[np.searchsorted(numbers(output, START)[order], places, "right") - 1]
        return taken([output.get_column(value_column(place)) for place in range(len(calls))], at)

    def _before_lists(self, used: Sequence[int]) -> pl.DataFrame:
        earlier = self._earlier
        arguments = [self._earlier_values[column].alias(value_column(place)) for place, column in enumerate(used)]
        intervals = {START: earlier.first, END: earlier.past, WEIGHT: earlier.weight}
        return frame_of([*arguments, *(pl.Series(name, numbers) for name, numbers in intervals.items())])

    def _frame(self, frame: Frame) -> tuple[Int64s, Int64s]:
        if frame not in self._bounds:
            self._bounds[frame] = bounds(frame, self._lists, self._key)
        return self._bounds[frame]

    def _column(self, call: WindowCall) -> pl.Series:
        assert call.argument is not None, f"{call.function} of nothing"
        return self._values[call.argument]


def _arguments(call: AggregateCall) -> tuple[int, ...]:
    return () if call.argument is None else (call.argument, *call.others)


def _over(call: AggregateCall, places: Mapping[int, int]) -> AggregateCall:
    """The call where columns are at other places."""
    if call.argument is None:
        return call
    return replace(call, argument=places[call.argument], others=tuple(places[other] for other in call.others))


def _bucket(places: Int64s, total: Int64s, buckets: int) -> Int64s:
    """NTILE: the first ones have a row more where it does not come out even."""
    size, larger = total // buckets, total % buckets
    in_larger = larger * (size + 1)
    first, rest = places // (size + 1), larger + (places - in_larger) // np.maximum(size, 1)
    found: Int64s = np.where(places < in_larger, first, rest) + 1
    return found


def _typed(values: np.ndarray[tuple[int], np.dtype[np.generic]], kind: DataType) -> pl.Series:
    return pl.Series(values).cast(to_polars(kind))


def _at(column: pl.Series, places: Int64s, there: Bools) -> pl.Series:
    """The values at places, NULL where there is none."""
    if not len(column):
        return column
    if there.all():
        return taken([column], places)[0]
    chosen = taken([column], np.where(there, places, 0))[0]
    return chosen.zip_with(pl.Series(there), nulls(chosen.name, chosen.dtype, len(chosen)))


def result_fields(calls: Sequence[WindowCall], names: Sequence[str]) -> Schema:
    return tuple(Field(name, call.type) for name, call in zip(names, calls, strict=True))
