"""Set operations of two windows, by counting and foretold; DISTINCT by counting and by δ*."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, find
from bench.harness.operators import Alternative, trial
from bench.harness.pictures import bars as draw_bars
from bench.workloads.keyed_elements import BATCH, ELEMENTS, KEYS, NARROW, WINDOW, stream

from millstream.kernel.relational.multiplicity import DirectMultiplicity, DistinctStar, Multiplicity, SetOperation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPERATIONS = (SetOperation.EXCEPT, SetOperation.EXCEPT_ALL, SetOperation.INTERSECT)


def trials(settings: Settings) -> list[Trial]:
    elements = ELEMENTS // 5 if settings.quick else ELEMENTS
    inputs = [stream(NARROW, elements, KEYS, WINDOW, seed) for seed in (1, 2)]
    found = [
        trial(
            operation.value,
            WINDOW,
            {
                "by counting": Alternative(Multiplicity(NARROW, operation), inputs, BATCH),
                "foretold": Alternative(DirectMultiplicity(NARROW, operation), inputs, BATCH),
            },
            settings,
        )
        for operation in OPERATIONS
    ]
    one = [stream(NARROW, 2 * elements, KEYS, WINDOW, 1)]
    counting, star = Multiplicity(NARROW, SetOperation.DISTINCT), DistinctStar(NARROW)
    alternatives = {"by counting": Alternative(counting, one, BATCH), "δ*": Alternative(star, one, BATCH)}
    return [*found, trial("DISTINCT", WINDOW, alternatives, settings)]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = find(measurements, "EXCEPT", "by counting")
    return [Bar("EXCEPT of two windows, M elements/s", found.rate / 1e6, 0.7)] if found else []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.rate / 1e6, "M elements/s")


EXPERIMENT = Experiment("set_operations", "set operations of two windows, 50 k values", trials, bars, draw)
