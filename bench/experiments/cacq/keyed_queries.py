"""Queries that each ask for a key of their own, `user_id = ? AND amount > ?`: found by hashing.

An element comes from one of 100,000 users, so that with 100 queries hardly any is wanted, with 100,000 half of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find, in_turns, sampled
from bench.harness.operators import Stepping
from bench.harness.pictures import lines

from millstream.kernel.batch import batch_schema
from millstream.kernel.scalar.expressions import Column, Parameter
from millstream.kernel.scalar.functions import call
from millstream.kernel.sharing.keyed_selection import KeyedSelection
from millstream.kernel.sharing.parameters import QUERIES, QUERY, SHAPE
from millstream.types import BIGINT, DOUBLE, Field

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = (Field("user_id", BIGINT), Field("amount", DOUBLE))
USERS, ROWS = 100_000, 200_000
SIZES = (100, 1_000, 10_000, 100_000)
CASE, VARIANT = "user_id = ? AND amount > ?", "by key"


def trials(settings: Settings) -> list[Trial]:
    return [_trial(size, settings) for size in (SIZES[:3] if settings.quick else SIZES)]


def _trial(size: int, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        random = np.random.default_rng(1)
        columns = {"c0": random.integers(0, USERS, ROWS), "c1": random.random(ROWS), "_start": 0, "_end": 1}
        batch = pl.DataFrame(columns | {"_weight": 1}, schema=batch_schema(SCHEMA))
        asked = random.permutation(USERS)[:size]
        table = pl.DataFrame({QUERY: np.arange(size), "c0": asked, "c1": random.random(size), SHAPE: "q"})
        selection = Stepping(_operator(), {QUERIES: (table,)})
        selection.step(batch)
        best = in_turns({VARIANT: lambda: sampled(lambda: selection.step(batch), ROWS)}, settings.repetitions)
        return [Measurement(CASE, VARIANT, size, best[VARIANT])]

    return Trial(f"{size:,} queries", measure)


def _operator() -> KeyedSelection:
    user, amount = Column(BIGINT, 0, "user_id"), Column(DOUBLE, 1, "amount")
    condition = call("and", [call("=", [user, Parameter(BIGINT, 0)]), call(">", [amount, Parameter(DOUBLE, 1)])])
    return KeyedSelection(SCHEMA, user, {"q": condition})


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    few, many = (find(measurements, CASE, VARIANT, size) for size in (SIZES[0], SIZES[-1]))
    if few is None or many is None:
        return []
    return [Bar("cost of an element, 100,000 queries to 100", many.nanoseconds / few.nanoseconds, 3.0, True)]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.subplots()
    lines(axes, measurements, lambda m: m.rate / 1e6)
    axes.set_xlabel("queries", fontsize=8)
    axes.set_ylabel("M elements/s", fontsize=8)


EXPERIMENT = Experiment("keyed_queries", "queries that each ask for one key", trials, bars, draw)
