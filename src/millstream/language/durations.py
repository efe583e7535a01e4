"""Intervals of the text as microseconds, ticks or months."""

from __future__ import annotations

import re
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
MONTHS = {"MONTH": 1, "YEAR": 12}
_YEAR_TO_MONTH = re.compile(r"\s*([+-]?)(\d+)-(\d+)\s*")
_SPAN_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


def months(size: exp.Interval, text: str) -> int | None:
    """The months that an interval of years or months stands for; None for one of other units."""
    unit, amount = size.args.get("unit"), size.this
    place = place_of(size, text)
    if isinstance(unit, exp.IntervalSpan):
        if (unit.this.name.upper(), unit.expression.name.upper()) != ("YEAR", "MONTH"):
            return None
        found = _YEAR_TO_MONTH.fullmatch(amount.name) if isinstance(amount, exp.Literal) else None
        if found is None or int(found[3]) > 11:
            raise SyntaxError(
                "cannot read this interval",
                place=place,
                hint="write INTERVAL '1-6' YEAR TO MONTH, with months up to 11",
            )
        count = (int(found[2]) * 12 + int(found[3])) * (-1 if found[1] == "-" else 1)
    else:
        name = unit.name.upper() if isinstance(unit, exp.Var) else ""
        each = MONTHS.get(name, MONTHS.get(name.removesuffix("S")))
        if each is None:
            return None
        sign, amount = (-1, amount.this) if isinstance(amount, exp.Neg) else (1, amount)
        if not isinstance(amount, exp.Literal) or not re.fullmatch(r"\s*[+-]?\d+\s*", amount.name):
            hint = "multiply: i * INTERVAL '1' MONTH"
            raise SyntaxError("the length of an interval is a whole number of months", place=place, hint=hint)
        count = sign * each * int(amount.name)
    if abs(count) >= 1 << 31:
        raise BindError("an interval of more than 2^31 months", place=place)
    return count


def span(size: exp.Interval, text: str) -> int | None:
    """The microseconds of INTERVAL '1 02:03:04.5' DAY TO SECOND and the like; None for an interval of another form."""
    unit, amount, place = size.args.get("unit"), size.this, place_of(size, text)
    if not isinstance(unit, exp.IntervalSpan):
        return None
    names = [part.name.upper() for part in (unit.this, unit.expression)]
    if not all(name in _SPAN_UNITS for name in names) or not isinstance(amount, exp.Literal):
        raise SyntaxError("cannot read this interval", place=place, hint="write INTERVAL '1 02:03:04' DAY TO SECOND")
    units = _SPAN_UNITS[_SPAN_UNITS.index(names[0]) : _SPAN_UNITS.index(names[1]) + 1]
    forms = {"DAY": r"(\d{1,9})", "HOUR": r"(\d{1,9})", "MINUTE": r"(\d{1,9})", "SECOND": r"(\d{1,9}(?:\.\d{1,6})?)"}
    pattern = ":".join(forms[name] for name in units).replace(r"{1,9})" + ":", r"{1,9}) ", int("DAY" in units))
    found = re.fullmatch(rf"\s*([+-]?){pattern}\s*", amount.name) if len(units) > 1 else None
    if found is None:
        shown = f"INTERVAL '{amount.name}' {names[0]} TO {names[1]}"
        raise SyntaxError(f"cannot read {shown}", place=place, hint="write INTERVAL '1 02:03:04' DAY TO SECOND")
    limits = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}
    total = Decimal(0)
    for number, (name, part) in enumerate(zip(units, found.groups()[1:], strict=True)):
        if number and Decimal(part) >= limits[name]:
            raise SyntaxError(f"{part} is too many for a {name} behind another unit", place=place)
        total += Decimal(part) * MICROSECONDS[name]
    if total > MAX_MICROSECONDS:
        raise BindError("the interval is too long", hint="an interval is at most 2^62 microseconds", place=place)
    return int(total) * (-1 if found[1] == "-" else 1)


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
        if unit in MONTHS:
            raise SyntaxError(
                "months and years are not all of one length", place=place, hint="give days, as in 30 DAYS"
            )
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


def written_microseconds(microseconds: int) -> exp.Interval:
    """A span of time as one would write it."""
    unit = max((name for name, size in MICROSECONDS.items() if microseconds % size == 0), key=MICROSECONDS.__getitem__)
    count = microseconds // MICROSECONDS[unit]
    plural = unit if count == 1 else f"{unit}S"
    return exp.Interval(this=exp.Literal.number(count), unit=exp.Var(this=plural))
