"""The cost of an element against the window's size, where the output does not grow with it.

The window is filled first, and measured while it is filled anew, with all merges that takes: a join with as many keys
as elements in a window, so that an element finds one partner on average; MAX; COUNT. Logarithmic growth adds the same
to the cost with every tenfold window; linear growth multiplies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING

import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial
from bench.harness.operators import Alternative, trial
from bench.harness.pictures import lines
from bench.workloads import grouped_values, keyed_elements
from bench.workloads.keyed_elements import WIDE

from millstream.kernel.aggregation.aggregate import Aggregate
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.operator import Operator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH = 10_000
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
LEAST_STEPS = 20


def trials(settings: Settings) -> list[Trial]:
    windows = WINDOWS[:2] if settings.quick else WINDOWS
    return [_trial(case, window, settings) for window in windows for case in ("join", "MAX", "COUNT")]


def _trial(case: str, window: int, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        # Made when it is needed: all streams together would fill the memory.
        filling = -(-window // BATCH)
        elements = (filling + max(filling, LEAST_STEPS)) * BATCH
        operator, inputs = _operator(case, elements, window)
        return trial(case, window, {case: Alternative(operator, inputs, BATCH, filling)}, settings).measure()

    return Trial(f"{case}, window {window:,}", measure)


def _operator(case: str, elements: int, window: int) -> tuple[Operator, list[pl.DataFrame]]:
    if case == "join":
        inputs = [keyed_elements.stream(WIDE, elements, window, window, seed) for seed in (1, 2)]
        return InnerJoin(WIDE, WIDE, ((0, 0),)), inputs
    call = grouped_values.call("max", 1) if case == "MAX" else grouped_values.call("count")
    aggregate = Aggregate(grouped_values.SCHEMA, (), (call,), retractions=False)
    return aggregate, [grouped_values.stream(elements, 1, window)]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    """How much faster than the logarithm of the window's size the cost has grown, from the smallest to the largest."""
    found = []
    for case in dict.fromkeys(m.case for m in measurements):
        some = sorted((m for m in measurements if m.case == case), key=lambda m: m.size)
        growth = some[-1].nanoseconds / some[0].nanoseconds
        allowed = log2(some[-1].size) / log2(some[0].size)
        found.append(Bar(f"{case}: growth of the cost, {some[0].size:,} to {some[-1].size:,}", growth, allowed, True))
    return found


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.subplots()
    lines(axes, measurements, lambda m: m.nanoseconds)
    axes.set_yscale("linear")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("elements in the window", fontsize=8)
    axes.set_ylabel("ns per element", fontsize=8)
    axes.legend(fontsize=8, frameon=False)


EXPERIMENT = Experiment("window_sizes", "cost of an element against the window's size", trials, bars, draw)
