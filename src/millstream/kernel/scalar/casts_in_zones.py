"""Casts that read or write a clock, in a session whose zone is not UTC."""

from __future__ import annotations

import polars as pl

from millstream.kernel.scalar.casts import cast_column, unreadable
from millstream.kernel.scalar.casts_text import has_offset
from millstream.kernel.scalar.outcome import Outcome
from millstream.kernel.scalar.zones import clock_of, instant_of
from millstream.types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType

_CLOCKS = (DATE, TIMESTAMP_NTZ, STRING)


def needs_zone(source: DataType, target: DataType) -> bool:
    """Whether a cast is another one in another zone."""
    return (source == TIMESTAMP and target in _CLOCKS) or (target == TIMESTAMP and source in _CLOCKS)


def cast_in_zone(column: pl.Expr, source: DataType, target: DataType, zone: str) -> Outcome:
    if source == TIMESTAMP:
        return cast_column(clock_of(column, zone), source, target)
    plain = cast_column(column, source, target).value
    instant = instant_of(plain, zone)
    if source != STRING:
        return Outcome(instant)
    # A text that says its offset means an instant, wherever it is read.
    value = pl.when(has_offset(column)).then(plain).otherwise(instant)
    return Outcome(value, (unreadable(column, target),))
