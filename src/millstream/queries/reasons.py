"""Elements as texts, and why a window has no place for them: for people, a whole column at a time."""

from __future__ import annotations

import polars as pl
from polars.datatypes import DataTypeClass

from millstream.plan.definitions import TimeDomain


def as_texts(rows: pl.DataFrame) -> pl.Series:
    """Each row as JSON."""
    if not rows.width:
        return pl.Series("raw", ["{}"]).new_from_index(0, rows.height)
    shown = rows.select(_without_bytes(pl.col(name), kind) for name, kind in rows.schema.items())
    return shown.select(pl.struct(pl.all()).struct.json_encode().alias("raw")).to_series()


def _without_bytes(values: pl.Expr, kind: pl.DataType | DataTypeClass) -> pl.Expr:
    """JSON has none: they are written as digits, also in lists."""
    if isinstance(kind, pl.List):
        return values.list.eval(_without_bytes(pl.element(), kind.inner))
    return values.bin.encode("hex") if kind == pl.Binary else values


def reasons(
    name: str, values: pl.Series, greatest: pl.Series, ticks: pl.Series, domain: TimeDomain, window: str
) -> pl.Series:
    """What is wrong with the values of a column that must not fall, at these instants."""
    frame = pl.DataFrame([_shown(values, "value"), _shown(greatest, "greatest"), _instants(ticks, domain)])
    said = "at {}: {} is {}, "
    falls = pl.format(
        f"{said}after {{}}; in {{}} it must not fall", "at", pl.lit(name), "value", "greatest", pl.lit(window)
    )
    is_none = pl.format(f"{said}which has no place in {{}}", "at", pl.lit(name), "value", pl.lit(window))
    wrong = ~values.is_finite().fill_null(False) if values.dtype.is_float() else values.is_null()
    return frame.select(pl.when(wrong).then(is_none).otherwise(falls).alias("reason")).to_series()


def _shown(values: pl.Series, name: str) -> pl.Series:
    if isinstance(values.dtype, pl.Datetime):
        return _clock(values).alias(name)
    return values.cast(pl.String).fill_null("NULL").alias(name)


def _instants(ticks: pl.Series, domain: TimeDomain) -> pl.Series:
    if not domain.type.is_temporal:
        return ticks.cast(pl.String).alias("at")
    return _clock((ticks * (domain.tick or 1)).cast(pl.Datetime("us"))).alias("at")


def _clock(values: pl.Series) -> pl.Series:
    """Without what a fraction of a second does not need."""
    return values.dt.strftime("%Y-%m-%d %H:%M:%S%.6f").str.replace(r"\.?0+$", "").fill_null("NULL")
