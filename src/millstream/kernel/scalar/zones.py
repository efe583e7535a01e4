"""Time zones: the clock of a zone at an instant, and the instant at which a zone's clock shows a time.

TIMESTAMP is an instant, kept in UTC; TIMESTAMP_NTZ is what a clock shows. Between them stands a zone: that of the
session, which is a property of the database (`SET timezone`), or one that is named. In a session that is not in UTC,
casts and functions that read clocks are bound with the zone as a constant in them, so that a plan means the same
wherever and whenever it is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import polars as pl

from millstream import errors
from millstream.kernel.scalar.outcome import by_column

UTC = "UTC"
_STAMP, _CLOCK = pl.Datetime("us", "UTC"), pl.Datetime("us")
_MINUTE, _DAY = 60_000_000, 86_400_000_000
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_session: ContextVar[str] = ContextVar("_session", default=UTC)


@contextmanager
def session_in(zone: str) -> Iterator[None]:
    """What is bound within is of a session in this zone."""
    token = _session.set(zone)
    try:
        yield
    finally:
        _session.reset(token)


def session_zone() -> str | None:
    """The session's zone; None for UTC, which changes nothing."""
    return None if (zone := _session.get()) == UTC else zone


@lru_cache(maxsize=1000)
def checked_zone(name: str) -> str:
    """The zone's name; one that means UTC becomes that."""
    if name.strip().upper() in ("UTC", "GMT", "UT", "Z", "ETC/UTC"):
        return UTC
    if (found := _OFFSET.fullmatch(name.strip())) is not None:
        hours, minutes = int(found[2]), int(found[3] or 0)
        if hours < 18 or (hours == 18 and minutes == 0):
            return UTC if minutes > 59 or hours == minutes == 0 else f"{found[1]}{hours:02}:{minutes:02}"
    try:
        pl.Series([0]).cast(_STAMP).dt.convert_time_zone(name)
    except pl.exceptions.ComputeError:
        hint = "names are those of the IANA database, such as Europe/Paris, or offsets, such as +05:30"
        raise errors.TypeError(f'unknown time zone "{name}"', hint=hint) from None
    return name


def _fixed(zone: str) -> int | None:
    """The microseconds by which a zone that is an offset is ahead of UTC."""
    found = _OFFSET.fullmatch(zone)
    if zone == UTC or found is None:
        return 0 if zone == UTC else None
    return (int(found[2]) * 60 + int(found[3] or 0)) * _MINUTE * (-1 if found[1] == "-" else 1)


def clock_of(stamp: pl.Expr, zone: str) -> pl.Expr:
    """What the zone's clock shows at an instant, as a TIMESTAMP that shows the same in UTC."""
    if (offset := _fixed(zone)) is not None:
        return stamp if offset == 0 else (stamp.to_physical() + offset).cast(_STAMP)
    return stamp.dt.convert_time_zone(zone).dt.replace_time_zone(None).dt.replace_time_zone(UTC)


def instant_of(clock: pl.Expr, zone: str) -> pl.Expr:
    """The instant at which the zone's clock shows a time, which is given as a TIMESTAMP that shows it in UTC.

    Of two such instants it is the earlier one. A time that is left out when clocks are put forward is as much later as
    they are put forward. Both are as in Java.
    """
    if (offset := _fixed(zone)) is not None:
        return clock if offset == 0 else (clock.to_physical() - offset).cast(_STAMP)
    return by_column(lambda column: _instants(column, zone), [clock], _STAMP)


def _instants(clock: pl.Series, zone: str) -> pl.Series:
    shown = clock.dt.replace_time_zone(None)
    found = shown.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").dt.convert_time_zone(UTC)
    if found.null_count() == clock.null_count():
        return found
    # Left out: the offset is that of before the clocks were put forward.
    before = (clock.to_physical() - _DAY).cast(_STAMP)
    offset = before.dt.convert_time_zone(zone).dt.replace_time_zone(None).to_physical() - before.to_physical()
    return found.fill_null((clock.to_physical() - offset).cast(_STAMP))
