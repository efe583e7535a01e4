"""Functions of time zones, and what needs one: times of their parts, and casts in a session that is not in UTC."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from millstream import errors
from millstream.kernel.scalar import decimals
from millstream.kernel.scalar.calendar import DAY as DAY_LENGTH
from millstream.kernel.scalar.calendar import days_of
from millstream.kernel.scalar.casts import truncated_quotient
from millstream.kernel.scalar.casts_in_zones import cast_in_zone
from millstream.kernel.scalar.coercion import CAST_IN_ZONE, TRY_CAST_IN_ZONE, can_cast, cast
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.outcome import Failure, Outcome, fails_where_null, null_where_failed
from millstream.kernel.scalar.signature import (
    ANY,
    INSTANT,
    TEXT,
    WHOLE,
    Function,
    Rewrite,
    Signature,
    Slot,
    TypeRule,
    row,
)
from millstream.kernel.scalar.time_patterns import fields
from millstream.kernel.scalar.zones import checked_zone, clock_of, instant_of, session_zone
from millstream.types import (
    DATE,
    INT,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    decimal,
)

_STAMP = pl.Datetime("us", "UTC")
_SECONDS = decimal(16, 6)
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
ADD_IN_ZONE = "add_in_zone"


def constant_text(argument: Expression, what: str) -> str:
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise errors.TypeError(f"the {what} must be a constant text, not {argument}")
    return argument.value


def with_constant(rule: TypeRule, position: int, what: str) -> TypeRule:
    """A rule one of whose arguments is a pattern or zone, which is checked when the text is read."""

    def bind(arguments: Sequence[Expression]) -> Signature | None:
        signature = rule.bind(arguments)
        if signature is not None and position < len(arguments):
            text = constant_text(arguments[position], what)
            if what == "pattern":
                fields(text)
            else:
                checked_zone(text)
        return signature

    return TypeRule(rule.takes, bind)


def constant_of(node: Call, position: int) -> str:
    return constant_text(node.arguments[position], "constant")


def on_clock(stamp: Expression, zone: str) -> Expression:
    return Call(TIMESTAMP, "from_utc_timestamp", (stamp, Literal(STRING, zone)))


def at_clock(clock: Expression, zone: str) -> Expression:
    return Call(TIMESTAMP, "to_utc_timestamp", (clock, Literal(STRING, zone)))


def _make_timestamp(node: Call, *parts: pl.Expr) -> Outcome:
    year, month, day, hour, minute = (part.cast(pl.Int64) for part in parts[:5])
    ticks = decimals.unscaled(parts[5])
    valid = (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (ticks >= 0) & (ticks <= 60 * _SECOND)
    clock = hour * _HOUR + minute * _MINUTE + ticks.cast(pl.Int64, strict=False)
    total = days_of(year, month, day).cast(pl.Int128) * DAY_LENGTH + clock.cast(pl.Int128)
    value = pl.when(valid).then(total).cast(pl.Int64, strict=False).cast(_STAMP)
    return Outcome(value, (fails_where_null(parts, "no such time"),))


def _timestamp_of_parts(arguments: Sequence[Expression]) -> Expression | None:
    """make_timestamp(year, month, day, hour, minute, second, [zone])."""
    if len(arguments) not in (6, 7):
        return None
    if not all(WHOLE.accept(part.type) for part in arguments[:5]) or not can_cast(arguments[5].type, _SECONDS):
        return None
    parts = (*(cast(part, INT) for part in arguments[:5]), cast(arguments[5], _SECONDS))
    zone = checked_zone(constant_text(arguments[6], "time zone")) if len(arguments) == 7 else session_zone()
    clock = Call(TIMESTAMP, "time_of_parts", parts)
    return clock if zone is None else at_clock(clock, zone)


def _clock_of_parts(arguments: Sequence[Expression]) -> Expression | None:
    if len(arguments) != 6:
        return None
    with_zone = _timestamp_of_parts([*arguments, Literal(STRING, "UTC")])
    clock = with_zone.children[0] if with_zone is not None else None
    return None if clock is None else in_zone(clock, "UTC")


def in_zone(value: Expression, zone: str) -> Expression:
    """`value AT TIME ZONE zone`: what the zone's clock shows at an instant, or the instant at which it shows a time."""
    name = Literal(STRING, checked_zone(zone))
    if value.type == TIMESTAMP_NTZ:
        return Call(TIMESTAMP, "instant_in_zone", (value, name))
    return Call(TIMESTAMP_NTZ, "clock_in_zone", (cast(value, TIMESTAMP), name))


def at_time_zone(value: Expression, zone: Expression) -> Expression:
    if not (value.type.is_temporal or value.type in (STRING, NULL)):
        raise errors.TypeError(f"AT TIME ZONE takes a timestamp, not a {value.type}")
    return in_zone(value, constant_text(zone, "time zone"))


def _convert_timezone(arguments: Sequence[Expression]) -> Expression | None:
    """convert_timezone([from,] to, time): what a clock elsewhere shows."""
    if len(arguments) not in (2, 3) or arguments[-1].type not in (TIMESTAMP, TIMESTAMP_NTZ, DATE, STRING, NULL):
        return None
    zones = [constant_text(argument, "time zone") for argument in arguments[:-1]]
    source = zones[0] if len(zones) == 2 else session_zone() or "UTC"
    return in_zone(in_zone(cast(arguments[-1], TIMESTAMP_NTZ), source), zones[-1])


def _instant_in_zone(node: Call, clock: pl.Expr, zone: pl.Expr) -> pl.Expr:
    return instant_of(clock.dt.replace_time_zone("UTC"), constant_of(node, 1))


def _clock_in_zone(node: Call, stamp: pl.Expr, zone: pl.Expr) -> pl.Expr:
    return clock_of(stamp, constant_of(node, 1)).dt.replace_time_zone(None)


def _cast(node: Call, value: pl.Expr, zone: pl.Expr) -> Outcome:
    return cast_in_zone(value, node.arguments[0].type, node.type, constant_of(node, 1))


def _try_cast(node: Call, value: pl.Expr, zone: pl.Expr) -> pl.Expr:
    return null_where_failed(_cast(node, value, zone))


def _add_in_zone(node: Call, stamp: pl.Expr, span: pl.Expr, zone: pl.Expr) -> Outcome:
    """Days by the clock of the zone, which may be of 23 or 25 hours, and then the rest."""
    name, ticks = constant_of(node, 2), span.to_physical()
    days = truncated_quotient(ticks, DAY_LENGTH) * DAY_LENGTH
    later = instant_of((clock_of(stamp, name).to_physical() + days).cast(_STAMP), name)
    total = later.to_physical().cast(pl.Int128) + (ticks - days).cast(pl.Int128)
    sum_of_all = stamp.to_physical().cast(pl.Int128) + ticks.cast(pl.Int128)

    def overflows(_: pl.Expr) -> pl.Expr:
        return sum_of_all.cast(pl.Int64, strict=False).is_null() & stamp.is_not_null() & span.is_not_null()

    value = total.cast(pl.Int64, strict=False).cast(_STAMP)
    return Outcome(value, (Failure(overflows, "TIMESTAMP overflow"),))


def localised(call: Call, zone: str) -> Expression:
    """A call that reads or writes clocks, in a session of another zone than UTC."""
    kinds = [argument.type for argument in call.arguments]
    if TIMESTAMP not in (*kinds, call.type):
        return call
    if call.function in ("+", "-") and INTERVAL in kinds:
        stamp, span = call.arguments if kinds[1] == INTERVAL else call.arguments[::-1]
        span = span if call.function == "+" else Call(INTERVAL, "negative", (span,))
        return Call(TIMESTAMP, ADD_IN_ZONE, (stamp, span, Literal(STRING, zone)))
    clocks = tuple(on_clock(part, zone) if part.type == TIMESTAMP else part for part in call.arguments)
    local = Call(call.type, call.function, clocks)
    return at_clock(local, zone) if call.type == TIMESTAMP else local


_ZONE = "time zone"
_ZONED = with_constant(row(INSTANT, TEXT, result=TIMESTAMP), 1, _ZONE)
_CLOCK = Slot("timestamp_ntz", lambda kind: TIMESTAMP_NTZ if kind == TIMESTAMP_NTZ else None)
_PARTS = row(WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, Slot("number", lambda kind: _SECONDS), result=TIMESTAMP)
_SPAN = Slot("interval", lambda kind: kind if kind == INTERVAL else None)
_TAKES = "(year, month, day, hour, minute, second, [constant string])"

FUNCTIONS = (
    Function("from_utc_timestamp", _ZONED, lambda node, stamp, _: clock_of(stamp, constant_of(node, 1))),
    Function("to_utc_timestamp", _ZONED, lambda node, clock, _: instant_of(clock, constant_of(node, 1))),
    Function("clock_in_zone", with_constant(row(INSTANT, TEXT, result=TIMESTAMP_NTZ), 1, _ZONE), _clock_in_zone),
    Function("instant_in_zone", with_constant(row(_CLOCK, TEXT, result=TIMESTAMP), 1, _ZONE), _instant_in_zone),
    Function("time_of_parts", _PARTS, _make_timestamp),
    Function(CAST_IN_ZONE, row(ANY, TEXT, result=TIMESTAMP), _cast),
    Function(TRY_CAST_IN_ZONE, row(ANY, TEXT, result=TIMESTAMP), _try_cast),
    Function(ADD_IN_ZONE, row(INSTANT, _SPAN, TEXT, result=TIMESTAMP), _add_in_zone),
)
REWRITES = (
    Rewrite("make_timestamp", _TAKES, _timestamp_of_parts),
    Rewrite("make_timestamp_ltz", _TAKES, _timestamp_of_parts),
    Rewrite("make_timestamp_ntz", "(year, month, day, hour, minute, second)", _clock_of_parts),
    Rewrite("convert_timezone", "([constant string], constant string, timestamp)", _convert_timezone),
)
INTERNAL = {"clock_in_zone", "instant_in_zone", "time_of_parts", CAST_IN_ZONE, TRY_CAST_IN_ZONE, ADD_IN_ZONE}
