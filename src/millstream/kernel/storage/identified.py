"""Rows that have numbers, of which each is taken back once: what joins keep of windows that count rows.

A retraction may come without columns that nobody but the join reads: it finds the row that it takes back by its number.
A row and its retraction are forgotten together, before they are many: unlike others they need not be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import ARRIVAL, INF, START, WEIGHT
from millstream.kernel.columns import Bools, frame_of, joined, only, stacked, take
from millstream.kernel.keys import Positions, Ticks
from millstream.kernel.operator import Segment
from millstream.kernel.storage.memory import can_merge
from millstream.kernel.storage.segments import alive, numbers
from millstream.kernel.storage.shared_work import once
from millstream.kernel.storage.synopsis import is_over, merged, size_classes_to_merge, without_expired

_WAITING = 16  # all are merged where more than one row in so many is a retraction


@dataclass(frozen=True)
class Identified:
    """Segments merged by size, in which rows and their retractions are found by number."""

    def retain(self, segments: Sequence[Segment], arrived: Segment, horizon: int, before: int) -> tuple[Segment, ...]:
        if not arrived.height:
            return tuple(segment for segment in segments if without_expired(segment, _reached(horizon)).height)
        live = [part for segment in segments if (part := without_expired(segment, _reached(horizon))).height]
        if (new := alive(arrived, _reached(horizon))).height:
            live.append(new)
        return _merged(live, horizon, 3)

    def lets_go(self, segments: Sequence[Segment], horizon: int, before: int) -> bool:
        return any(is_over(segment, _reached(horizon)) for segment in segments) or _are_many_due(segments, horizon)

    def tidied(self, segments: Sequence[Segment], horizon: int) -> tuple[Segment, ...]:
        """The segments after a step in which nothing arrived: what only one join keeps need not wait for more rows."""
        return _merged(segments, horizon, len(segments) + 1)


def _reached(horizon: int) -> int:
    """Rows that stay until further notice are kept even where no partner comes any more, to be found by retractions."""
    return min(horizon, INF - 1)


def _merged(segments: Sequence[Segment], horizon: int, fan: int) -> tuple[Segment, ...]:
    if _are_many_due(segments, horizon) and can_merge(segments):
        kept, merging = list[Segment](), segments
    else:
        kept, merging = size_classes_to_merge(segments, fan)
    if not merging:
        return tuple(kept)
    together = once(lambda: _without_pairs(merging, horizon), merging, "without pairs", horizon)
    return (*kept, together) if together.height else tuple(kept)


def _are_many_due(segments: Sequence[Segment], horizon: int) -> bool:
    due = sum(np.count_nonzero(_is_due(segment, horizon)) for segment in segments)
    return bool(_WAITING * due > sum(segment.height for segment in segments))


def _is_due(segment: Segment, horizon: int) -> Bools:
    """The retractions of which nothing is to be said any more."""
    return (numbers(segment, WEIGHT) < 0) & (numbers(segment, START) <= horizon)


def _without_pairs(segments: Sequence[Segment], horizon: int) -> Segment:
    """All rows by key, but for those that are taken back before the horizon, and what takes them back."""
    together = merged([alive(segment, _reached(horizon)) for segment in segments])
    number, is_due = numbers(together, ARRIVAL), _is_due(together, horizon)
    if not is_due.any():
        return together
    due = np.sort(number[is_due])
    near = np.flatnonzero((number >= due[0]) & (number <= due[-1]))
    place = _places(due, number[near])
    is_one = due[place] == number[near]
    near, place = near[is_one], place[is_one]
    stands = np.zeros(due.size, np.bool_)
    stands[place[numbers(together, WEIGHT)[near] > 0]] = True  # the row itself may lie in another segment
    kept = np.ones(together.height, np.bool_)
    kept[near[stands[place]]] = False
    return only(together, kept)


def _places(known: Ticks, wanted: Ticks) -> Positions:
    """Where numbers belong among known ones, which lie around them; these mostly follow upon each other."""
    first, last = int(known[0]), int(known[-1])
    if last - first >= 4 * (known.size + wanted.size):
        return np.searchsorted(known, wanted)
    counts = np.zeros(last - first + 1, np.intp)
    counts[known - first] = 1
    return (np.cumsum(counts) - counts)[wanted - first]


def completed(arrived: Segment, stored: Sequence[Segment], columns: Sequence[str]) -> Segment:
    """What arrived, where retractions have got some columns from the rows that they take back."""
    places = np.flatnonzero(numbers(arrived, WEIGHT) < 0)
    if not places.size:
        return arrived
    return once(lambda: _completed(arrived, stored, columns, places), [arrived, *stored], "completed", *columns)


def _completed(arrived: Segment, stored: Sequence[Segment], columns: Sequence[str], places: np.ndarray) -> Segment:
    wanted = numbers(arrived, ARRIVAL)[places]
    order = np.argsort(wanted)
    places, wanted = places[order], wanted[order]
    found = [_with_numbers(segment, wanted, columns) for segment in stored]
    rows = stacked([part for part in found if part.height] or [arrived[[*columns, ARRIVAL]].clear()])
    rows = take(rows, np.argsort(numbers(rows, ARRIVAL)))
    if not np.array_equal(numbers(rows, ARRIVAL), wanted):
        raise AssertionError("rows are taken back that are not there")
    at = np.arange(arrived.height)
    at[places] = arrived.height + np.arange(places.size)
    chosen = pl.Series(at.astype(np.uint32))
    complete = {name: joined([arrived.get_column(name), rows.get_column(name)])[chosen] for name in columns}
    return frame_of([complete.get(column.name, column) for column in arrived.get_columns()])


def _with_numbers(segment: Segment, wanted: np.ndarray, columns: Sequence[str]) -> Segment:
    """The rows of some numbers, given in order; they follow upon each other more often than not."""
    number = numbers(segment, ARRIVAL)
    near = np.flatnonzero((number >= wanted[0]) & (number <= wanted[-1]) & (numbers(segment, WEIGHT) > 0))
    at = _places(wanted, number[near])
    return take(segment[[*columns, ARRIVAL]], near[wanted[at] == number[near]])
