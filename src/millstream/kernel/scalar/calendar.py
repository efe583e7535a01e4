"""Days, months and years of the proleptic Gregorian calendar, as arithmetic on whole columns."""

from __future__ import annotations

import polars as pl

DAY = 86_400_000_000  # microseconds


def days_of(year: pl.Expr, month: pl.Expr, day: pl.Expr) -> pl.Expr:
    """Days since 1970-01-01, for Int64 parts; NULL for a date that is not there.

    Counts years from March, so that the leap day is a year's last, in eras of 400 years.
    """
    shifted = pl.when(month <= 2).then(year - 1).otherwise(year)
    era = shifted // 400
    year_of_era = shifted - era * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468
    is_there = (month >= 1) & (month <= 12) & (day >= 1) & (day <= _month_length(year, month))
    return pl.when(is_there).then(days)


def _month_length(year: pl.Expr, month: pl.Expr) -> pl.Expr:
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return (
        pl.when(month == 2)
        .then(pl.when(leap).then(29).otherwise(28))
        .when(month.is_in([4, 6, 9, 11]))
        .then(30)
        .otherwise(31)
    )


def months_of(date: pl.Expr) -> pl.Expr:
    """Months since January of the year 0."""
    return date.dt.year().cast(pl.Int64) * 12 + date.dt.month().cast(pl.Int64) - 1


def days_after_months(date: pl.Expr, months: pl.Expr) -> pl.Expr:
    """Days since 1970-01-01 of the same day so many months later, or of the last one of a month that is shorter."""
    total = months_of(date) + months.cast(pl.Int64)
    year, month = total // 12, total % 12 + 1
    day = pl.min_horizontal(date.dt.day().cast(pl.Int64), _month_length(year, month).cast(pl.Int64))
    return days_of(year, month, day)


def date_after_months(date: pl.Expr, months: pl.Expr) -> pl.Expr:
    """A DATE; NULL where there is none."""
    return days_after_months(date, months).cast(pl.Int32, strict=False).cast(pl.Date)


def ticks_after_months(stamp: pl.Expr, months: pl.Expr) -> pl.Expr:
    """The microseconds of the same time of day, months later; NULL where 64 bits do not hold them."""
    clock = stamp.to_physical() % DAY
    days = days_after_months(stamp.dt.replace_time_zone(None).dt.date(), months)
    return (days.cast(pl.Int128) * DAY + clock.cast(pl.Int128)).cast(pl.Int64, strict=False)
