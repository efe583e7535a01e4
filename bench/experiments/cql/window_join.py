"""A sliding-window join: 500 k + 500 k elements, 50 k keys, 60 s windows at one element per millisecond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find
from bench.harness.operators import Alternative, trial
from bench.harness.pictures import bars as draw_bars
from bench.workloads.keyed_elements import BATCH, ELEMENTS, KEYS, WIDE, WINDOW, stream

from millstream.kernel.joins.pairwise import InnerJoin

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def trials(settings: Settings) -> list[Trial]:
    elements = ELEMENTS // 5 if settings.quick else ELEMENTS
    inputs = [stream(WIDE, elements, KEYS, WINDOW, seed) for seed in (1, 2)]
    texts = [rows.with_columns(pl.format("key-{}", "c0").alias("c0")) for rows in inputs]
    join = InnerJoin(WIDE, WIDE, ((0, 0),))
    alternatives = {
        "batches of 50 k": Alternative(join, inputs, BATCH),
        "batches of 5 k": Alternative(join, inputs, BATCH // 10),
        "string keys": Alternative(join, texts, BATCH),
    }
    return [trial("join", WINDOW, alternatives, settings)]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = find(measurements, "join", "batches of 50 k")
    return [Bar("window join, M elements/s", found.rate / 1e6, 1.0)] if found else []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.rate / 1e6, "M elements/s")


EXPERIMENT = Experiment("window_join", "two windows joined on a key", trials, bars, draw)
