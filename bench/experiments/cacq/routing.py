"""CACQ's Table 3 and Figure 9: how many filters an element enters, by routing policy.

Five queries of one to five predicates, of which S.a > 90 belongs to all of them: whoever asks it first is done with
nine elements of ten. `worst order` asks this last, so that every element enters all five filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.harness.experiment import (
    Bar,
    Experiment,
    Measurement,
    Sample,
    Settings,
    Trial,
    find,
    in_turns,
    sampled,
    with_more,
)
from bench.harness.pictures import bars as draw_bars
from bench.harness.routed import Routed
from bench.workloads.shared_queries import Queries, fixed_queries, stream

from millstream.kernel.batch import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, BATCH = 1_000_000, 50_000
CONSTANTS = (90, 70, 50, 30, 10)
TICKETS, WORST = "ticket", "worst order"


def nested(attributes: Sequence[int] = range(5)) -> Queries:
    """The queries of Table 3, over the attributes in this order."""
    predicates = [(attribute, ">", constant) for attribute, constant in zip(attributes, CONSTANTS, strict=True)]
    return fixed_queries({number: predicates[: number + 1] for number in range(5)})


def trials(settings: Settings) -> list[Trial]:
    return [Trial("Table 3", lambda: _measured(settings))]


def _measured(settings: Settings) -> list[Measurement]:
    batches = [stream(BATCH, seed) for seed in range(2 if settings.quick else ROWS // BATCH)]
    straight, reverse = nested(), nested([4, 3, 2, 1, 0])  # filters in a fixed order are asked from S.a to S.e
    runs = {
        TICKETS: lambda: _run(TICKETS, straight, batches),
        "hindsight": lambda: _run("hindsight", straight, batches),
        "random": lambda: _run("random", straight, batches),
        WORST: lambda: _run("fixed", reverse, batches),
    }
    found = in_turns(runs, settings.repetitions)
    return [Measurement("Table 3", name, BATCH, sample) for name, sample in found.items()]


def _run(policy: str, queries: Queries, batches: Sequence[Batch]) -> Sample:
    routed = Routed(policy)
    entered = 0

    def run() -> int:
        nonlocal entered
        for batch in batches:
            entered += sum(routed.step(queries, batch).values())
        return 0

    elements = BATCH * len(batches)
    sample = sampled(run, elements)
    return with_more(sample, filters_per_element=entered / elements)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    found = find(measurements, "Table 3", TICKETS)
    assert found is not None
    return [Bar("filters per element, by tickets", found.sample.more["filters_per_element"], 1.20, True)]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.sample.more["filters_per_element"], "filters entered per element")


EXPERIMENT = Experiment(
    "routing", "filters entered per element (CACQ, Figure 9)", trials, bars, draw, shown=("filters_per_element",)
)
