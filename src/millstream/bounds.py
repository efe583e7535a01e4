"""How far instants, spans of time and counts may go, so that int64 arithmetic on them cannot overflow.

The furthest that is ever computed is the end of a TUMBLE window, an instant plus twice a span: 2^62 + 2^61 < 2^63 - 1,
which stands for "no end".
"""

from __future__ import annotations

MAX_TICK = 2**62  # the last instant: of elements, changes, heartbeats and bounds of windows
MAX_SPAN = 2**60  # ticks of a window, a slide, a delay or RETAIN
MAX_ROWS = 2**60  # rows of a ROWS window or its slide
MAX_MICROSECONDS = 2**62  # of an interval
# Of the year 9999, the last one that timestamps can be shown in.
MAX_TIMESTAMP = 253_402_300_799_999_999


def last_tick(microseconds_per_tick: int | None) -> int:
    """The last instant of a stream whose instants are timestamps; None where they are bare numbers."""
    if microseconds_per_tick is None:
        return MAX_TICK
    return MAX_TIMESTAMP // microseconds_per_tick
