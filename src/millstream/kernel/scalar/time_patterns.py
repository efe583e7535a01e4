"""Patterns of dates and times, as in `yyyy-MM-dd HH:mm:ss`: the letters are Java's, and so Spark's.

A pattern is cut into fields once. To write a time, each field is an expression over it, and these are put together; to
read one, the fields become a regular expression whose groups are the parts of a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from millstream import errors
from millstream.kernel.scalar.calendar import DAY, days_of

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_MOST = {"y": 6, "M": 4, "L": 4, "d": 2, "D": 3, "E": 4, "a": 1, "h": 2, "H": 2, "K": 2, "k": 2, "m": 2, "s": 2}
_MOST |= {"S": 9, "Q": 4, "q": 4, "G": 4, "V": 2, "z": 3, "X": 3, "x": 3, "Z": 3}
_ZONE_LETTERS = "VzXxZ"
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
_LETTER = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|[^A-Za-z']")


@dataclass(frozen=True)
class PatternField:
    """A run of one letter, or a text that stands for itself (without a letter)."""

    letter: str
    count: int
    text: str = ""


@lru_cache(maxsize=1000)
def fields(pattern: str) -> tuple[PatternField, ...]:
    found: list[PatternField] = []
    at = 0
    while at < len(pattern):
        match = _LETTER.match(pattern, at)
        if match is None:
            raise errors.TypeError(f"the pattern {pattern!r} has a quote that is not closed")
        at = match.end()
        if match[1] is not None:
            found.append(_checked(match[1], len(match[0]), pattern))
        elif match[2] is not None:
            found.append(PatternField("", 0, match[2].replace("''", "'") or "'"))
        elif match[0] in "[]{}#":
            raise errors.TypeError(f"{match[0]} in the pattern {pattern!r} is not supported", hint="put it in quotes")
        else:
            found.append(PatternField("", 0, match[0]))
    return tuple(found)


def _checked(letter: str, count: int, pattern: str) -> PatternField:
    if letter not in _MOST or count > _MOST[letter] or (letter == "V" and count != 2):
        raise errors.TypeError(
            f"{letter * count} in the pattern {pattern!r} is not supported",
            hint=f"the letters are {', '.join(_MOST)}, as in yyyy-MM-dd HH:mm:ss.SSS; others stand in quotes",
        )
    return PatternField(letter, count)


def has_zone(pattern: str) -> bool:
    return any(field.letter and field.letter in _ZONE_LETTERS for field in fields(pattern))


def written(clock: pl.Expr, pattern: str) -> pl.Expr:
    """Times as texts; letters of zones are those of UTC."""
    parts = [
        pl.lit(field.text) if not field.letter else _WRITERS[field.letter](clock, field.count)
        for field in fields(pattern)
    ]
    # A pattern without fields is the same text for all times but NULL.
    return pl.concat_str([*parts, pl.when(clock.is_not_null()).then(pl.lit(""))])


def _number(value: pl.Expr, count: int) -> pl.Expr:
    text = value.cast(pl.String)
    return text if count == 1 else text.str.zfill(count)


def _year(clock: pl.Expr, count: int) -> pl.Expr:
    year = clock.dt.year()
    year = pl.when(year <= 0).then(1 - year).otherwise(year)
    if count == 2:
        return _number(year % 100, 2)
    plus = pl.when(year >= 10**count).then(pl.lit("+")).otherwise(pl.lit("")) if count >= 4 else pl.lit("")
    return pl.concat_str(plus, _number(year, count))


def _named(value: pl.Expr, count: int, names: tuple[str, ...], first: int = 1) -> pl.Expr:
    shown = names if count == 4 else tuple(name[:3] for name in names)
    return value.replace_strict(range(first, first + len(names)), shown, return_dtype=pl.String)


def _month(clock: pl.Expr, count: int) -> pl.Expr:
    month = clock.dt.month()
    return _number(month, count) if count < 3 else _named(month, count, _MONTHS)


def _quarter(clock: pl.Expr, count: int) -> pl.Expr:
    quarter = clock.dt.quarter()
    if count < 3:
        return _number(quarter, count)
    return pl.concat_str(pl.lit("Q"), quarter.cast(pl.String)) if count == 3 else _named(quarter, 4, _QUARTERS)


def _era(clock: pl.Expr, count: int) -> pl.Expr:
    names = ("BC", "AD") if count < 4 else ("Before Christ", "Anno Domini")
    return pl.when(clock.dt.year() <= 0).then(pl.lit(names[0])).otherwise(pl.lit(names[1]))


def _fraction(clock: pl.Expr, count: int) -> pl.Expr:
    digits = (clock.to_physical() % _SECOND).cast(pl.String).str.zfill(6).str.pad_end(9, "0")
    return digits.str.slice(0, count)


_WRITERS: dict[str, Callable[[pl.Expr, int], pl.Expr]] = {
    "y": _year,
    "M": _month,
    "L": _month,
    "d": lambda clock, count: _number(clock.dt.day(), count),
    "D": lambda clock, count: _number(clock.dt.ordinal_day(), count),
    "E": lambda clock, count: _named(clock.dt.weekday(), count, _DAYS),
    "a": lambda clock, _: pl.when(clock.dt.hour() < 12).then(pl.lit("AM")).otherwise(pl.lit("PM")),
    "h": lambda clock, count: _number((clock.dt.hour() + 11) % 12 + 1, count),
    "K": lambda clock, count: _number(clock.dt.hour() % 12, count),
    "k": lambda clock, count: _number((clock.dt.hour() + 23) % 24 + 1, count),
    "H": lambda clock, count: _number(clock.dt.hour(), count),
    "m": lambda clock, count: _number(clock.dt.minute(), count),
    "s": lambda clock, count: _number(clock.dt.second(), count),
    "S": _fraction,
    "Q": _quarter,
    "q": _quarter,
    "G": _era,
    "V": lambda clock, _: pl.lit("UTC"),
    "z": lambda clock, _: pl.lit("UTC"),
    "X": lambda clock, _: pl.lit("Z"),
    "x": lambda clock, count: pl.lit(("+00", "+0000", "+00:00")[count - 1]),
    "Z": lambda clock, _: pl.lit("+0000"),
}

# What a field is in a text; names are read in whatever case.
_SHORT_MONTHS, _SHORT_DAYS = ("|".join(name[:3] for name in names) for names in (_MONTHS, _DAYS))


def _reader(field: PatternField, pattern: str) -> str:
    letter, count = field.letter, field.count
    if letter == "y":
        return {1: "[0-9]{1,4}", 2: "[0-9]{2}", 3: "[0-9]{3,4}", 4: "[0-9]{4}"}.get(count, f"[0-9]{{{count}}}")
    if letter in "ML" and count >= 3:
        return f"(?i:{_SHORT_MONTHS if count == 3 else '|'.join(_MONTHS)})"
    if letter in "dhHKkmsML":
        return "[0-9]{1,2}" if count == 1 else "[0-9]{2}"
    if letter == "D":
        return {1: "[0-9]{1,3}", 2: "[0-9]{2,3}", 3: "[0-9]{3}"}[count]
    if letter == "S":
        return f"[0-9]{{{count}}}"
    if letter == "a":
        return "(?i:AM|PM)"
    if letter in "Xx" and count < 4:
        zero = "Z|" if letter == "X" else ""
        return zero + {1: "[+-][0-9]{2}(?:[0-9]{2})?", 2: "[+-][0-9]{4}", 3: "[+-][0-9]{2}:[0-9]{2}"}[count]
    if letter == "Z":
        return "[+-][0-9]{4}"
    raise errors.TypeError(f"{letter * count} in the pattern {pattern!r} is not supported in reading")


_PARTS = {"L": "M", "x": "X", "Z": "X"}


@lru_cache(maxsize=1000)
def reader(pattern: str) -> tuple[str, tuple[PatternField, ...]]:
    """The regular expression of a pattern, and the fields that its groups are."""
    expression, read = "", list[PatternField]()
    for field in fields(pattern):
        if not field.letter:
            expression += re.escape(field.text)
            continue
        part = _PARTS.get(field.letter, field.letter)
        if any(_PARTS.get(other.letter, other.letter) == part for other in read):
            raise errors.TypeError(f"the pattern {pattern!r} has two fields for one part of a time")
        expression += f"({_reader(field, pattern)})"
        read.append(field)
    return f"^{expression}$", tuple(read)


def read_times(texts: pl.Series, pattern: str) -> pl.Series:
    """Texts as microseconds since 1970 on the clock that they show, or in UTC where they have an offset; NULL where one
    is not of the pattern, or there is no such time."""
    expression, read = reader(pattern)
    if not read:  # nothing but text: 1970, where it is that
        return pl.select(pl.when(texts.str.contains(expression)).then(pl.lit(0, pl.Int64))).to_series()
    groups = texts.str.extract_groups(expression).struct.unnest()
    groups.columns = [_PARTS.get(field.letter, field.letter) for field in read]
    columns = [_value(field).alias(_PARTS.get(field.letter, field.letter)) for field in read]
    parts = groups.select(columns)
    return parts.select(_ticks(parts.columns)).to_series()


def _value(field: PatternField) -> pl.Expr:
    """The number that a group of a text is."""
    part = pl.col(_PARTS.get(field.letter, field.letter))
    if field.letter in "ML" and field.count >= 3:
        names = [name[:3].lower() for name in _MONTHS]
        return part.str.slice(0, 3).str.to_lowercase().replace_strict(names, range(1, 13), return_dtype=pl.Int64)
    if field.letter == "a":
        return (part.str.to_lowercase() == "pm").cast(pl.Int64)
    if field.letter in "XxZ":
        digits = part.str.replace_all(r"[^0-9]", "").str.pad_end(4, "0")
        size = digits.str.slice(0, 2).cast(pl.Int64) * _HOUR + digits.str.slice(2, 2).cast(pl.Int64) * _MINUTE
        return pl.when(part.str.starts_with("-")).then(-size).otherwise(size)
    number = part.cast(pl.Int64)
    if field.letter == "S":
        return part.str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64)
    return number + 2000 if (field.letter, field.count) == ("y", 2) else number


def _ticks(known: list[str]) -> pl.Expr:
    def part(letter: str, missing: int) -> pl.Expr:
        return pl.col(letter) if letter in known else pl.lit(missing, pl.Int64)

    if "D" in known:
        first = days_of(part("y", 1970), pl.lit(1, pl.Int64), pl.lit(1, pl.Int64))
        next_year = days_of(part("y", 1970) + 1, pl.lit(1, pl.Int64), pl.lit(1, pl.Int64))
        days: pl.Expr = pl.when((part("D", 1) >= 1) & (part("D", 1) <= next_year - first)).then(
            first + part("D", 1) - 1
        )
    else:
        days = days_of(part("y", 1970), part("M", 1), part("d", 1))
    hour, valid = part("H", 0), part("H", 0) < 24
    if "k" in known:
        hour, valid = part("k", 0) % 24, (part("k", 0) >= 1) & (part("k", 0) <= 24)
    if "h" in known or "K" in known:
        twelve = part("h", 12) if "h" in known else part("K", 0)
        valid = (twelve >= 1) & (twelve <= 12) if "h" in known else twelve < 12
        hour = twelve % 12 + 12 * part("a", 0)
    minute, second = part("m", 0), part("s", 0)
    valid = valid & (minute < 60) & (second < 60)
    clock = hour * _HOUR + minute * _MINUTE + second * _SECOND + part("S", 0)
    return pl.when(valid).then(days * DAY + clock - part("X", 0))
