"""Functions of dates, timestamps and intervals. Clocks are in UTC; `functions.call` gives them those of the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from millstream import errors
from millstream.kernel.scalar.calendar import DAY as DAY_LENGTH
from millstream.kernel.scalar.calendar import date_after_months, days_of, months_of
from millstream.kernel.scalar.casts import SECOND, cast_column, truncated_quotient
from millstream.kernel.scalar.coercion import cast
from millstream.kernel.scalar.expressions import Call, Expression, Literal
from millstream.kernel.scalar.functions_time_zones import localised
from millstream.kernel.scalar.outcome import Failure, Outcome, always, fails_where_null
from millstream.kernel.scalar.signature import (
    CONDITION,
    DAY,
    DAYS,
    INSTANT,
    LONG,
    STAMP,
    TEXT,
    WHOLE,
    Evaluation,
    Function,
    Rewrite,
    Signature,
    Slot,
    TypeRule,
    row,
)
from millstream.kernel.scalar.zones import session_zone
from millstream.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    DataType,
    decimal,
)

_SECONDS = decimal(8, 6)
_TRUNCATIONS = {
    "year": "1y", "yyyy": "1y", "yy": "1y",
    "quarter": "1q",
    "month": "1mo", "mon": "1mo", "mm": "1mo",
    "week": "1w",
    "day": "1d", "dd": "1d",
    "hour": "1h",
    "minute": "1m",
    "second": "1s",
    "millisecond": "1ms",
    "microsecond": "1us",
}  # fmt: skip
_DATE_TRUNCATIONS = {name: span for name, span in _TRUNCATIONS.items() if span in ("1y", "1q", "1mo", "1w")}
_STAMP = pl.Datetime("us", "UTC")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY_NUMBERS = {name[:size]: number for number, name in enumerate(_WEEKDAYS) for size in (2, 3, len(name))}


def _field(name: str, slot: Slot, part: Callable[[pl.Expr], pl.Expr], *aliases: str) -> Function:
    """A part of a date or time, as an INT."""
    rule = row(slot, result=INT)
    return Function(
        name, rule, lambda node, value: part(value).cast(pl.Int32), aliases, reads_once=True, is_local=slot is INSTANT
    )


def _truncate(node: Call, unit: pl.Expr, value: pl.Expr) -> pl.Expr:
    span = _TRUNCATIONS.get(_unit(node.arguments[0]))
    return pl.lit(None, dtype=_STAMP) if span is None else value.dt.truncate(span)


def _truncate_date(node: Call, value: pl.Expr, unit: pl.Expr) -> pl.Expr:
    span = _DATE_TRUNCATIONS.get(_unit(node.arguments[1]))
    return pl.lit(None, dtype=pl.Date) if span is None else value.dt.truncate(span)


def _unit(argument: Expression) -> str:
    """The name of a unit, which must be constant; an unknown one makes the result NULL, as in Spark."""
    if not isinstance(argument, Literal):
        raise errors.TypeError(f"the unit must be a constant, not {argument}")
    return str(argument.value).lower()


def _with_unit(*slots: Slot, unit_at: int, result: DataType) -> TypeRule:
    plain = row(*slots, result=result)

    def bind(arguments: Sequence[Expression]) -> Signature | None:
        signature = plain.bind(arguments)
        if signature is not None:
            _unit(arguments[unit_at])
        return signature

    return TypeRule(plain.takes.replace("string", "constant string"), bind)


def _add_days(sign: int) -> Evaluation:
    def evaluate(node: Call, date: pl.Expr, days: pl.Expr) -> Outcome:
        total = date.to_physical().cast(pl.Int64) + sign * days.cast(pl.Int64)
        value = total.cast(pl.Int32, strict=False).cast(pl.Date)
        return Outcome(value, (fails_where_null((date, days), "DATE overflow"),))

    return evaluate


def _difference(node: Call, end: pl.Expr, start: pl.Expr) -> pl.Expr:
    return end.to_physical() - start.to_physical()


def _since_epoch(unit: int) -> Evaluation:
    """Whole units since 1970, rounded down."""
    return lambda node, value: value.to_physical() // unit if unit > 1 else value.to_physical()


def _unix_timestamp(node: Call, value: pl.Expr) -> Outcome:
    """Seconds since 1970, towards zero. A text must have the default format, yyyy-MM-dd HH:mm:ss, exactly."""
    if node.arguments[0].type != STRING:
        stamp = always(cast_column(value, node.arguments[0].type, TIMESTAMP))
        return Outcome(truncated_quotient(stamp.value.to_physical(), SECOND))
    strict = pl.when(value.str.contains(r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$")).then(value)
    stamp = cast_column(strict, STRING, TIMESTAMP)
    message = "a text is not a timestamp of the format yyyy-MM-dd HH:mm:ss"
    return Outcome(stamp.value.to_physical() // SECOND, (fails_where_null([value], message),))


def _from_epoch(unit: int) -> Evaluation:
    def evaluate(node: Call, value: pl.Expr) -> Outcome:
        ticks = value.cast(pl.Int128) * unit
        stamp = ticks.cast(pl.Int64, strict=False).cast(_STAMP)
        return Outcome(stamp, (fails_where_null([value], "TIMESTAMP overflow"),))

    return evaluate


def _timestamp_seconds(node: Call, value: pl.Expr) -> Outcome:
    """Fractions count down to microseconds. NaN and infinity have no timestamp: NULL, as in Spark."""
    kind = node.arguments[0].type
    if kind.is_integer:
        return always(_from_epoch(SECOND)(node, value))
    if kind.is_decimal:
        exact = cast_column(value, kind, TIMESTAMP)
        extra = 10 ** max(0, kind.scale - 6)
        finer = Failure(lambda _: value.to_physical().abs() % extra != 0, "a timestamp has no parts of a microsecond")
        return Outcome(exact.value, (*exact.failures, finer))
    return Outcome(pl.when(value.is_finite()).then(cast_column(value, kind, TIMESTAMP).value))


def _make_date(node: Call, year: pl.Expr, month: pl.Expr, day: pl.Expr) -> Outcome:
    days = days_of(*(part.cast(pl.Int64) for part in (year, month, day)))
    value = days.cast(pl.Int32, strict=False).cast(pl.Date)
    return Outcome(value, (fails_where_null((year, month, day), "no such date"),))


def _add_months(node: Call, date: pl.Expr, months: pl.Expr) -> Outcome:
    return Outcome(date_after_months(date, months), (fails_where_null((date, months), "DATE overflow"),))


def _months_between(node: Call, end: pl.Expr, start: pl.Expr, rounded: pl.Expr | None = None) -> pl.Expr:
    """Whole months between equal days of months, or last ones; else a month counts 31 days."""
    last = [stamp.dt.date().dt.month_end() == stamp.dt.date() for stamp in (end, start)]
    day = [stamp.dt.day().cast(pl.Int64) for stamp in (end, start)]
    clock = [stamp.to_physical() % DAY_LENGTH // SECOND for stamp in (end, start)]
    whole = (months_of(end) - months_of(start)).cast(pl.Float64)
    seconds = (day[0] - day[1]) * 86_400 + clock[0] - clock[1]
    exact = whole + seconds.cast(pl.Float64) / 2_678_400.0
    nearest = (exact * 1e8 + 0.5).floor() / 1e8
    fraction = nearest if rounded is None else pl.when(rounded).then(nearest).when(~rounded).then(exact)
    return pl.when((day[0] == day[1]) | (last[0] & last[1])).then(whole).otherwise(fraction)


def _next_day(node: Call, date: pl.Expr, name: pl.Expr) -> Outcome:
    wanted = (
        name.str.strip_chars().str.to_lowercase().replace_strict(_WEEKDAY_NUMBERS, default=None, return_dtype=pl.Int64)
    )
    days = date.to_physical().cast(pl.Int64)
    value = (days + 1 + (wanted - 4 - days) % 7).cast(pl.Int32, strict=False).cast(pl.Date)  # 1970 began on a Thursday
    return Outcome(value, (fails_where_null((date, name), "no day of the week has this name"),))


def _last_day(node: Call, date: pl.Expr) -> pl.Expr:
    return date.dt.month_end()


def _second_with_fraction(node: Call, value: pl.Expr) -> pl.Expr:
    """EXTRACT(SECOND ...): seconds of the minute as DECIMAL(8,6), with the sign of an interval."""
    ticks, minute = value.to_physical(), 60 * SECOND
    rest = ticks % minute
    if node.arguments[0].type == INTERVAL:
        rest = pl.when(ticks < 0).then(-(-ticks % minute)).otherwise(rest)
    return rest.cast(pl.Int128).reinterpret(dtype=pl.Decimal(8, 6))


def _interval_part(unit: int, limit: int | None, dtype: pl.DataType) -> Evaluation:
    def evaluate(node: Call, value: pl.Expr) -> pl.Expr:
        part = truncated_quotient(value.to_physical(), unit)
        if limit is not None:
            part = pl.when(part < 0).then(-(-part % limit)).otherwise(part % limit)
        return part.cast(dtype)

    return evaluate


_FIELDS = {
    "year": "year", "y": "year", "years": "year", "yr": "year", "yrs": "year",
    "yearofweek": "yearofweek",
    "quarter": "quarter", "qtr": "quarter",
    "month": "month", "mon": "month", "mons": "month", "months": "month",
    "week": "weekofyear", "w": "weekofyear", "weeks": "weekofyear",
    "day": "day", "d": "day", "days": "day",
    "dayofweek": "dayofweek", "dow": "dayofweek",
    "dayofweek_iso": "dayofweek_iso", "dow_iso": "dayofweek_iso",
    "doy": "dayofyear",
    "hour": "hour", "h": "hour", "hours": "hour", "hr": "hour", "hrs": "hour",
    "minute": "minute", "m": "minute", "min": "minute", "mins": "minute", "minutes": "minute",
    "second": "second_with_fraction", "s": "second_with_fraction", "sec": "second_with_fraction",
    "seconds": "second_with_fraction", "secs": "second_with_fraction",
}  # fmt: skip
_INTERVAL_FIELDS = {"day": INT, "hour": TINYINT, "minute": TINYINT}
_CLOCK_FIELDS = ("hour", "minute", "second_with_fraction")


def _extract(arguments: Sequence[Expression]) -> Expression | None:
    """EXTRACT(field FROM source), also DATE_PART('field', source)."""
    if len(arguments) != 2:
        return None
    unit, source = _unit(arguments[0]), arguments[1]
    field = _FIELDS.get(unit)
    if field is None:
        raise errors.NameError(f'unknown field "{unit}"', hint=errors.did_you_mean(unit, _FIELDS))
    if source.type == INTERVAL:
        if field == "second_with_fraction":
            return Call(_SECONDS, field, (source,))
        kind = _INTERVAL_FIELDS.get(field)
        return None if kind is None else Call(kind, f"interval_{field}", (source,))
    slot = INSTANT if field in _CLOCK_FIELDS else DAY
    accepted = slot.accept(source.type)
    if accepted is None:
        return None
    part = Call(_SECONDS if field == "second_with_fraction" else INT, field, (cast(source, accepted),))
    return part if (zone := session_zone()) is None else localised(part, zone)


_MOMENT = Slot(
    "timestamp, date or string",
    lambda kind: kind if kind in (DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING) else TIMESTAMP if kind == NULL else None,
)
_MONTHS = Slot("integer", lambda kind: INT if kind in (TINYINT, SMALLINT, INT, STRING, NULL) else None)
_NUMBER = Slot("number", lambda kind: kind if kind.is_numeric else BIGINT if kind == NULL else None)
_BETWEEN = row(INSTANT, INSTANT, CONDITION, optional=1, result=DOUBLE)
_INTERVALS = row(Slot("interval", lambda kind: kind if kind == INTERVAL else None), result=INT)
_SECOND_RULE = row(Slot("timestamp", lambda kind: kind if kind == INTERVAL else INSTANT.accept(kind)), result=_SECONDS)

FUNCTIONS = (
    _field("year", DAY, lambda value: value.dt.year()),
    _field("yearofweek", DAY, lambda value: value.dt.iso_year()),
    _field("quarter", DAY, lambda value: value.dt.quarter()),
    _field("month", DAY, lambda value: value.dt.month()),
    _field("weekofyear", DAY, lambda value: value.dt.week()),
    _field("day", DAY, lambda value: value.dt.day(), "dayofmonth"),
    _field("dayofweek", DAY, lambda value: value.dt.weekday() % 7 + 1),  # Sunday is 1
    _field("dayofweek_iso", DAY, lambda value: value.dt.weekday()),
    _field("weekday", DAY, lambda value: value.dt.weekday() - 1),  # Monday is 0
    _field("dayofyear", DAY, lambda value: value.dt.ordinal_day()),
    _field("hour", INSTANT, lambda value: value.dt.hour()),
    _field("minute", INSTANT, lambda value: value.dt.minute()),
    _field("second", INSTANT, lambda value: value.dt.second()),
    Function("second_with_fraction", _SECOND_RULE, _second_with_fraction, is_local=True),
    Function("interval_day", _INTERVALS, _interval_part(86_400 * SECOND, None, pl.Int32())),
    Function("interval_hour", _INTERVALS, _interval_part(3600 * SECOND, 24, pl.Int8())),
    Function("interval_minute", _INTERVALS, _interval_part(60 * SECOND, 60, pl.Int8())),
    Function(
        "date_trunc", _with_unit(TEXT, INSTANT, unit_at=0, result=TIMESTAMP), _truncate, reads_once=True, is_local=True
    ),
    Function("trunc", _with_unit(DAY, TEXT, unit_at=1, result=DATE), _truncate_date, reads_once=True),
    Function("last_day", row(DAY, result=DATE), _last_day, reads_once=True),
    Function("date_add", row(DAY, DAYS, result=DATE), _add_days(1), aliases=("dateadd",)),
    Function("date_sub", row(DAY, DAYS, result=DATE), _add_days(-1)),
    Function("add_months", row(DAY, _MONTHS, result=DATE), _add_months),
    Function("months_between", _BETWEEN, _months_between, is_local=True),
    Function("next_day", row(DAY, TEXT, result=DATE), _next_day),
    Function("datediff", row(DAY, DAY, result=INT), _difference, aliases=("date_diff",), reads_once=True),
    Function("seconds_since_1970", row(_MOMENT, result=BIGINT), _unix_timestamp),
    Function("unix_seconds", row(STAMP, result=BIGINT), _since_epoch(SECOND), reads_once=True),
    Function("unix_millis", row(STAMP, result=BIGINT), _since_epoch(1000), reads_once=True),
    Function("unix_micros", row(STAMP, result=BIGINT), _since_epoch(1), reads_once=True),
    Function("unix_date", row(DAY, result=INT), lambda node, value: value.to_physical(), reads_once=True),
    Function("timestamp_seconds", row(_NUMBER, result=TIMESTAMP), _timestamp_seconds),
    Function("timestamp_millis", row(LONG, result=TIMESTAMP), _from_epoch(1000)),
    Function("timestamp_micros", row(LONG, result=TIMESTAMP), _from_epoch(1)),
    Function("make_date", row(WHOLE, WHOLE, WHOLE, result=DATE), _make_date),
)

REWRITES = (
    Rewrite("extract", "(constant string, date, timestamp or interval)", _extract, aliases=("date_part", "datepart")),
)
