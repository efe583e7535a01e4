"""Elements with random keys, one per tick: what joins and set operations of windows are measured over."""

from __future__ import annotations

import numpy as np
import polars as pl

from millstream.kernel.batch import END, START, WEIGHT
from millstream.types import BIGINT, Field, Schema

WIDE: Schema = (Field("key", BIGINT), Field("value", BIGINT))
NARROW: Schema = (Field("key", BIGINT),)
ELEMENTS, KEYS, WINDOW, BATCH = 500_000, 50_000, 60_000, 50_000


def stream(schema: Schema, elements: int, keys: int, window: int, seed: int) -> pl.DataFrame:
    """One element per tick, its key chosen at random, with the interval that RANGE gives it."""
    ticks = np.arange(elements)
    columns = {"c0": np.random.default_rng(seed).integers(0, keys, elements)}
    if len(schema) > 1:
        columns["c1"] = ticks
    return pl.DataFrame(columns | {START: ticks, END: ticks + window + 1, WEIGHT: np.ones_like(ticks)})
