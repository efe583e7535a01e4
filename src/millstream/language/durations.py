"""Intervals of the text as microseconds or ticks."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from millstream.bounds import MAX_MICROSECONDS
from millstream.errors import BindError, SyntaxError, did_you_mean
from millstream.language.statements import Duration
from millstream.language.syntax import place_of

MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


def duration(size: exp.Expr, text: str) -> Duration:
    """The duration that a literal (ticks) or an interval stands for."""
    place = place_of(size, text)
    if isinstance(size, exp.Literal) and not size.is_string:
        try:
            return Duration(int(size.name), True, place)
        except ValueError:
            raise SyntaxError(
                f"{size.name} is not a whole number of ticks",
                place=place,
                hint="give a unit, as in 1.5 SECONDS",
            ) from None
    if isinstance(size, exp.Interval) and isinstance(size.args.get("unit"), exp.Var):
        unit = size.args["unit"].name.upper()
        unit = unit if unit in MICROSECONDS else unit.removesuffix("S")
        if unit not in MICROSECONDS:
            raise SyntaxError(
                f'unknown unit of time "{size.args["unit"].name}"',
                place=place,
                hint=did_you_mean(unit, [f"{name}S" for name in MICROSECONDS]),
            )
        amount, sign = size.this, 1
        if isinstance(amount, exp.Neg):
            amount, sign = amount.this, -1
        if not isinstance(amount, exp.Literal):
            raise SyntaxError("the length of an interval is a constant", place=place)
        try:
            microseconds = sign * Decimal(amount.name) * MICROSECONDS[unit]
        except InvalidOperation:
            raise SyntaxError(f"{amount.name!r} is not a number", place=place) from None
        if not microseconds.is_finite():
            raise SyntaxError(f"{amount.name!r} is not a number", place=place)
        if abs(microseconds) > MAX_MICROSECONDS:
            raise BindError(
                f"{amount.name} {unit} is too long", hint="an interval is at most 2^62 microseconds", place=place
            )
        if microseconds != int(microseconds):
            raise SyntaxError("an interval finer than a microsecond", place=place)
        return Duration(int(microseconds), False, place)
    raise SyntaxError(
        "cannot read this interval",
        place=place,
        hint="write 30 SECONDS, INTERVAL '1' HOUR, or a number of ticks",
    )
