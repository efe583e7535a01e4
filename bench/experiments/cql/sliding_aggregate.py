"""AVG and COUNT by 100 groups over RANGE 5 MINUTES, 2 M elements at one per millisecond.

With SLIDE 1 MINUTE, and without, where every element and every expiry is a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find
from bench.harness.operators import Alternative, trial
from bench.harness.pictures import bars as draw_bars
from bench.workloads.grouped_values import AVERAGE, BATCH, ELEMENTS, GROUPS, MINUTE, SCHEMA, WINDOW, stream

from millstream.kernel.aggregation.aggregate import Aggregate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def trials(settings: Settings) -> list[Trial]:
    elements = ELEMENTS // 4 if settings.quick else ELEMENTS
    aggregate = Aggregate(SCHEMA, (0,), AVERAGE)
    alternatives = {
        "slide 1 minute": Alternative(aggregate, [stream(elements, GROUPS, WINDOW, MINUTE)], BATCH),
        "every element": Alternative(aggregate, [stream(elements, GROUPS, WINDOW)], BATCH),
    }
    return [trial("AVG, COUNT", WINDOW, alternatives, settings)]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    slide = find(measurements, "AVG, COUNT", "slide 1 minute")
    every = find(measurements, "AVG, COUNT", "every element")
    found = [(slide, "AVG and COUNT, SLIDE 1 MINUTE", 3.0), (every, "AVG and COUNT, every element", 0.7)]
    return [Bar(f"{name}, M elements/s", m.rate / 1e6, target) for m, name, target in found if m]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.rate / 1e6, "M elements/s")


EXPERIMENT = Experiment("sliding_aggregate", "AVG and COUNT by 100 groups over 5 minutes", trials, bars, draw)
