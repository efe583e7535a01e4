"""Synopses: what an operator keeps of an input.

A synopsis is a tuple of segments, each sorted by key. `retain` takes the segments, the rows that arrived, and the
horizon before which nothing matters any more, and gives the segments to keep. They are consolidated: merged by size,
so that a row and its retraction cancel. `expiry_groups` has other ways, for experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.columns import frame_of, is_small, joined, taken, with_columns
from millstream.kernel.keys import KEY, Ticks
from millstream.kernel.operator import Horizons, KeptInput, Segment
from millstream.kernel.storage.expiries import note_gone
from millstream.kernel.storage.memory import can_merge
from millstream.kernel.storage.segments import alive, codes_of, numbers, summed
from millstream.kernel.storage.shared_work import once

_SAMPLE = 64  # rows of a segment looked at to judge how much of it has expired
_SMALLEST_CLASS = 12  # segments below 2**13 rows are of one size class


class Synopsis(Protocol):
    """How the rows of an input are kept."""

    def retain(self, segments: Sequence[Segment], arrived: Segment, horizon: int, before: int) -> tuple[Segment, ...]:
        """The segments after a step that moved the horizon from `before`; `arrived` is sorted by key."""
        ...

    def lets_go(self, segments: Sequence[Segment], horizon: int, before: int) -> bool:
        """Whether a step without rows keeps others than these."""
        ...


@runtime_checkable
class TidiedSynopsis(Protocol):
    """One that may forget more as time passes."""

    def tidied(self, segments: Sequence[Segment], horizon: int) -> tuple[Segment, ...]: ...


def retained(
    synopsis: Synopsis, segments: Sequence[Segment], arrived: Segment, kept_input: KeptInput, shared: Horizons | None
) -> tuple[Segment, ...]:
    """What an operator keeps of an input; what others keep as well, for as long as the last of them needs it, and such
    that all who keep the same do the same to it whenever rows come."""
    horizons = shared or kept_input.horizons
    if shared is None and not arrived.height and isinstance(synopsis, TidiedSynopsis):
        kept = synopsis.tidied(segments, horizons.after)
    else:
        kept = synopsis.retain(segments, arrived, horizons.after, horizons.before)
    note_gone(segments, arrived.height, kept)
    return kept


def lets_go(synopsis: Synopsis, segments: Sequence[Segment], kept_input: KeptInput, shared: Horizons | None) -> bool:
    """Whether an operator keeps less of an input after a step without rows."""
    horizons = shared or kept_input.horizons
    return synopsis.lets_go(segments, horizons.after, horizons.before)


@dataclass(frozen=True)
class Consolidated:
    """A log-structured merge tree: O(log N) segments, every row rewritten O(log N) times."""

    def retain(self, segments: Sequence[Segment], arrived: Segment, horizon: int, before: int) -> tuple[Segment, ...]:
        return retain(segments, arrived, horizon)

    def lets_go(self, segments: Sequence[Segment], horizon: int, before: int) -> bool:
        return any(is_over(segment, horizon) for segment in segments)


def have_same_rows(some: Sequence[Segment], others: Sequence[Segment], horizon: int) -> bool:
    """Whether two lists of segments mean the same from the horizon on, however their rows are spread over them."""
    if not some or not others:
        return False  # nothing to be gained
    parts = [_signed(segment, horizon, sign) for sign, side in ((1, some), (-1, others)) for segment in side]
    return summed(pl.concat(parts)).is_empty()


def _signed(segment: Segment, horizon: int, sign: int) -> Segment:
    live = alive(segment, horizon)
    starts, weights = np.maximum(numbers(live, START), horizon), sign * numbers(live, WEIGHT)
    return live.with_columns(pl.Series(START, starts), pl.Series(WEIGHT, weights))


def merged(parts: Sequence[Segment]) -> Segment:
    """Rows of all parts by key. A stable sort finds the sorted parts and merges them; a column at a time, since the
    memory of the last one is used again."""
    return parts[0] if len(parts) == 1 else once(lambda: _merged(parts), parts, "merged")


def _merged(parts: Sequence[Segment]) -> Segment:
    order = pl.Series(np.argsort(np.concatenate([codes_of(part) for part in parts]), kind="stable").astype(np.uint32))
    columns = (joined([part.get_column(name) for part in parts]) for name in parts[0].columns)
    return frame_of([column[order] for column in columns])


def merged_by_size(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    kept, merging = size_classes_to_merge(segments)
    return (*kept, merged(merging)) if merging else tuple(kept)


def size_classes_to_merge(segments: Sequence[Segment], fan: int = 2) -> tuple[list[Segment], list[Segment]]:
    """Segments to keep, and those to merge: all from the largest size class that so many of them share, but for the
    largest of them where there is no room for all."""
    by_size = sorted(segments, key=lambda segment: -segment.height)
    shared = None
    for one, members in groupby(by_size, key=lambda segment: size_class(segment.height)):
        if shared is None and len(list(members)) >= fan:
            shared = one
    if shared is None:
        return by_size, []
    kept = sum(size_class(segment.height) > shared for segment in by_size)
    while kept < len(by_size) - 1 and not can_merge(by_size[kept:]):
        kept += 1
    return (by_size[:kept], by_size[kept:]) if kept < len(by_size) - 1 else (by_size, [])


def size_class(height: int) -> int:
    """Classes are a factor of four apart: half the segments to search of a factor of two, equal rewriting."""
    return max(height.bit_length(), _SMALLEST_CLASS) // 2


def retain(segments: Sequence[Segment], arrived: Segment, horizon: int) -> tuple[Segment, ...]:
    """The segments and the rows that arrived, of which only the instants from the horizon on matter.

    Segments are rewritten only when rows come: then all who keep the same are there to do the same.
    """
    if not arrived.height:
        return tuple(segment for segment in segments if not is_over(segment, horizon))
    parts = [*segments, arrived]
    if is_small(*(part.height for part in parts)) and can_merge(parts):
        # To search in several costs more than to rewrite a few rows.
        together = once(lambda: _rewritten(parts, horizon), parts, "rewritten", horizon)
        return (together,) if together.height else ()
    live = [part for segment in segments if (part := without_expired(segment, horizon)).height]
    new = alive(arrived, horizon)
    if new.height:
        live.append(new)
    # Three of a class instead of two are more to search, but fewer rows to rewrite. Retractions do not wait: what they
    # cancel finds partners until they have met.
    fan = 2 if (numbers(arrived, WEIGHT) < 0).any() else 3
    kept, merging = size_classes_to_merge(live, fan)
    if not merging:
        return tuple(kept)
    together = merged([alive(segment, horizon) for segment in merging])
    if (numbers(together, WEIGHT) < 0).any():
        together = once(lambda: _cancelled(together, horizon), [together], "cancelled", horizon)
    return (*kept, together) if together.height else tuple(kept)


def _rewritten(parts: Sequence[Segment], horizon: int) -> Segment:
    """What is alive of all parts, by key."""
    ends, codes = (np.concatenate([of(part) for part in parts]) for of in (_ends, codes_of))
    places = np.flatnonzero(ends > horizon)
    columns = (joined([part.get_column(name) for part in parts]) for name in parts[0].columns)
    together = frame_of(taken([*columns], places[np.argsort(codes[places], kind="stable")]))
    return _cancelled(together, horizon) if (numbers(together, WEIGHT) < 0).any() else together


def _cancelled(together: Segment, horizon: int) -> Segment:
    """Starts before the horizon no longer matter: with them cut off, a row and its retraction differ by nothing but
    their weights."""
    starts = np.maximum(numbers(together, START), horizon)
    left = summed(with_columns(together, pl.Series(START, starts)))
    codes = codes_of(left)
    return left.sort(KEY) if (codes[1:] < codes[:-1]).any() else left


def _ends(segment: Segment) -> Ticks:
    return numbers(segment, END)


def is_over(segment: Segment, horizon: int) -> bool:
    """Whether all rows have ended before the horizon."""
    ends = _ends(segment)
    if ends.size and ends[-1] > horizon:
        return False  # as it is nearly always
    return not (ends[:: max(1, ends.size // _SAMPLE)] > horizon).any() and not (ends > horizon).any()


def without_expired(segment: Segment, horizon: int) -> Segment:
    """The segment itself as long as a good part of it lives: it is rewritten as seldom as it can be."""
    ends = _ends(segment)
    ends = ends[:: max(1, ends.size // _SAMPLE)]
    if 4 * np.count_nonzero(ends <= horizon) < 3 * ends.size:
        return segment
    live = alive(segment, horizon)
    return live if 2 * live.height <= segment.height else segment
