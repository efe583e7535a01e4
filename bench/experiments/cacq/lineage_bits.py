"""CACQ's Figure 4: five queries over S, against the bits of lineage that an element carries.

The bits are those up to the last query's: the five are numbered further and further apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, in_turns, sampled
from bench.harness.operators import Stepping
from bench.harness.pictures import lines
from bench.workloads.shared_queries import fixed_queries, stream

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 200_000
BITS = (15, 64, 250, 500, 1_000, 2_000, 3_000)


def trials(settings: Settings) -> list[Trial]:
    return [_trial(bits, settings) for bits in (BITS[:3] if settings.quick else BITS)]


def _trial(bits: int, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        predicates = {i * (bits - 1) // 4: [(i, ">", 50)] for i in range(5)}
        queries, batch = fixed_queries(predicates), stream(ROWS)
        selection = Stepping(queries.operator(), queries.state)
        selection.step(batch)
        best = in_turns({"shared": lambda: sampled(lambda: selection.step(batch), ROWS)}, settings.repetitions)
        return [Measurement("five queries", "grouped filters", bits, best["shared"])]

    return Trial(f"{bits:,} bits", measure)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    figure.set_size_inches(6, 4)
    axes = figure.subplots()
    lines(axes, measurements, lambda m: m.rate / 1e6)
    axes.set_xlabel("bits of lineage", fontsize=8)
    axes.set_ylabel("M elements/s", fontsize=8)


EXPERIMENT = Experiment("lineage_bits", "five queries against the bits of lineage (CACQ, Figure 4)", trials, bars, draw)
