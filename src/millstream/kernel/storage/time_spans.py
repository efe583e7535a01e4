"""Of the rows of a key those that can be there while a row that looks for partners is.

    [s1, e1) meets [s2, e2)   iff   s1 - longest < s2 < e1     where no e2 - s2 is more than `longest`

Rows of a key come in order of time, and mostly lie so in their segment. Then those of a span of time are found by
halving, in the logarithm of how many a key has: a join of windows that are short beside what is kept would look at
nearly all of them in vain otherwise.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from millstream.kernel.batch import END, START
from millstream.kernel.keys import Codes, Positions, Ticks
from millstream.kernel.operator import Segment
from millstream.kernel.storage.segments import codes_of, numbers

Runs = tuple[Positions, Positions]
_LONG = 1 << 62  # ticks: as good as no end, and what can be taken from an instant


@dataclass(frozen=True)
class TimeOrder:
    """The rows of a segment stand in order of their starts, those of each code; none lasts longer than `longest`."""

    longest: int


@dataclass(frozen=True)
class Span:
    """For each row that looks for partners, where these may start: from `low` (None: anywhere) to `high`."""

    low: Ticks | None
    high: Ticks


_orders: dict[int, TimeOrder | None] = {}


def time_order_of(segment: Segment) -> TimeOrder | None:
    """None where rows of a code are in no order of time. Known as long as the segment."""
    if id(segment) not in _orders:
        _orders[id(segment)] = _time_order(segment)
        weakref.finalize(segment, _orders.pop, id(segment), None)
    return _orders[id(segment)]


def _time_order(segment: Segment) -> TimeOrder | None:
    codes, starts = codes_of(segment), numbers(segment, START)
    if not codes.size or int(starts.min()) < 0:
        return None
    if ((starts[1:] < starts[:-1]) & (codes[1:] == codes[:-1])).any():
        return None
    return TimeOrder(int((numbers(segment, END) - starts).max()))


def span(starts: Ticks, ends: Ticks, longest: int) -> Span:
    """Where partners of rows [start, end) may start that last no longer than `longest`."""
    return Span(None if longest >= _LONG else starts - (longest - 1), ends - 1)


def runs_of_codes(codes: Codes, probes: Codes, runs: Runs) -> Runs:
    """Where exactly the codes of the probes stand, within runs that may have others as well."""
    first, past = runs
    first, past = first.copy(), past.copy()
    (some,) = (past > first).nonzero()
    are_mixed = (codes[first[some]] != probes[some]) | (codes[past[some] - 1] != probes[some])
    mixed = some[are_mixed]
    first[mixed] = codes.searchsorted(probes[mixed])
    past[mixed] = codes.searchsorted(probes[mixed], side="right")
    return first, past


def within(starts: Ticks, runs: Runs, when: Span) -> Runs:
    """The part of each run, in which rows stand by their starts, that lies in the span."""
    first, past = runs
    past = _halved(starts, first, past, when.high, inclusive=True)
    return (first if when.low is None else _halved(starts, first, past, when.low, inclusive=False)), past


def _halved(starts: Ticks, first: Positions, past: Positions, instants: Ticks, *, inclusive: bool) -> Positions:
    """How far rows start before an instant, or at it (`inclusive`)."""
    low, high = first.copy(), past.copy()
    last = max(starts.size - 1, 0)
    for _ in range(int((past - first).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        there = starts[np.minimum(middle, last)]
        is_before = (there <= instants if inclusive else there < instants) & (low < high)
        low, high = np.where(is_before, middle + 1, low), np.where(is_before, high, middle)
    return low
