"""Ticks: how the timestamps and intervals of a stream count time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from tests.oracle.errors import OracleError

from millstream import types
from millstream.language.statements import Duration
from millstream.types import DataType

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)

Instant = int | str | dt.datetime


@dataclass(frozen=True)
class Ticks:
    """A tick is `length` microseconds, or of no known length; timestamps are integers or TIMESTAMPs."""

    length: int | None = None
    timestamps: bool = False

    @staticmethod
    def declared(kind: DataType, tick: Duration | None) -> Ticks:
        is_timestamp = kind in (types.TIMESTAMP, types.TIMESTAMP_NTZ)
        if not (is_timestamp or kind.is_integer):
            raise OracleError(f"a timestamp cannot be {kind}")
        if tick is None:
            return Ticks(1 if is_timestamp else None, is_timestamp)
        if tick.in_ticks or tick.amount <= 0:
            raise OracleError("TICK takes an interval with a unit")
        return Ticks(tick.amount, is_timestamp)

    def instant(self, value: Instant | None) -> int:
        """The tick of a timestamp; integers are ticks already."""
        if value is None:
            raise OracleError("a timestamp is NULL")
        if isinstance(value, str):
            value = dt.datetime.fromisoformat(value)
        if isinstance(value, dt.datetime):
            if self.length is None:
                raise OracleError("a TIMESTAMP where ticks are counted")
            if value.tzinfo is not None:
                value = value.astimezone(dt.UTC).replace(tzinfo=None)
            value = (value - _EPOCH) // _MICROSECOND // self.length
        if isinstance(value, bool) or not isinstance(value, int):
            raise OracleError(f"{value!r} is not a timestamp")
        return value

    def span(self, duration: Duration) -> int:
        """The number of ticks that an interval lasts."""
        if duration.in_ticks:
            return duration.amount
        if self.length is None:
            raise OracleError("an interval with a unit needs TICK INTERVAL on the stream")
        ticks, rest = divmod(duration.amount, self.length)
        if rest:
            raise OracleError(f"{duration} is not a whole number of ticks")
        return ticks

    def value(self, tick: int) -> int | dt.datetime:
        """A tick as users see it: a TIMESTAMP where the stream has them."""
        return _EPOCH + tick * (self.length or 1) * _MICROSECOND if self.timestamps else tick


def shared(first: Ticks | None, second: Ticks | None) -> Ticks | None:
    """The ticks of two inputs of one query; plain tables have none of their own."""
    if first is None or second is None:
        return first or second
    if first.length != second.length:
        raise OracleError("the streams of a query must share a tick; declare TICK INTERVAL")
    return Ticks(first.length, first.timestamps or second.timestamps)
