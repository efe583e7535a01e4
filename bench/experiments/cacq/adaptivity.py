"""CACQ's Table 4 and Figure 10: who holds the tickets, while queries come one after the other; and a flip.

In the three workloads a query comes with every fifth of the stream. In `flip` there are five queries over all
attributes; in the middle of the stream S.a, which nine elements of ten fail, changes places with S.e. The eddy is
right again from the batch on in which S.e is asked of 95 elements of 100: after another filter it would be 91.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, sampled, with_more
from bench.harness.pictures import tidy
from bench.harness.routed import Routed
from bench.workloads.shared_queries import ATTRIBUTES, Predicate, Queries, fixed_queries, stream

from millstream.kernel.batch import Batch, value_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH, PHASE = 10_000, 50_000  # elements in a batch, and until the next query comes
WINDOW = 1_000_000  # of which 5 % may pass until the order is right again
FLIP = "flip"
WORKLOADS: Mapping[str, Sequence[Sequence[Predicate]]] = {
    "workload 1": [[(a, ">", constant)] for a, constant in enumerate((30, 50, 10, 40, 90))],
    "workload 2": [[(a, ">", 10) for a in range(k)] for k in range(1, 6)],
    "workload 3": [[(a, ">", 10 + 20 * a) for a in range(k)] for k in range(1, 6)],
}


def trials(settings: Settings) -> list[Trial]:
    phase = PHASE // 10 if settings.quick else PHASE
    found = [Trial(name, lambda name=name: _shares(name, phase)) for name in WORKLOADS]  # type: ignore[misc]
    return [*found, Trial(FLIP, lambda: _flip(phase))]


def _shares(name: str, phase: int) -> list[Measurement]:
    """The tickets of each filter after every batch."""
    routed, found, queries = Routed("ticket"), [], WORKLOADS[name]
    for number in range(len(queries) * phase // BATCH):
        known = fixed_queries(dict(enumerate(queries[: number * BATCH // phase + 1])))
        found += _measured(name, routed, known, number, stream(BATCH, number))
    return found


def _flip(phase: int) -> list[Measurement]:
    routed, found = Routed("ticket"), []
    queries = fixed_queries({q: [(a, ">", 49 + q) for a in range(5)] for q in range(5)})
    for number in range(2 * phase // BATCH):
        narrow, wide = (0, 55), (45, 100)
        ranges = [narrow, wide, wide, wide, wide] if number < phase // BATCH else [wide, wide, wide, wide, narrow]
        found += _measured(FLIP, routed, queries, number, stream(BATCH, number, ranges))
    return found


def _measured(name: str, routed: Routed, queries: Queries, number: int, batch: Batch) -> list[Measurement]:
    entered: dict[str, int] = {}

    def run() -> int:
        entered.update(routed.step(queries, batch))
        return 0

    sample = sampled(run, BATCH)
    shares = routed.memory.shares()
    return [
        Measurement(
            name,
            f"S.{attribute}",
            (number + 1) * BATCH,
            with_more(sample, ticket_share=shares.get(module, 0.0), entered=entered.get(module, 0) / BATCH),
        )
        for attribute, module in zip(ATTRIBUTES, value_columns(len(ATTRIBUTES) + 1)[1:], strict=True)
    ]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    """Elements after the flip until S.e comes first and stays there."""
    some = sorted((m for m in measurements if (m.case, m.variant) == (FLIP, "S.e")), key=lambda m: m.size)
    half = len(some) // 2
    wrong = [number for number, m in enumerate(some[half:]) if m.sample.more["entered"] < 0.95]
    elements = (wrong[-1] + 1 if wrong else 0) * BATCH
    return [Bar("elements until the order is right again, % of a window", 100 * elements / WINDOW, 5.0, True)]


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    cases = [*WORKLOADS, FLIP]
    figure.set_size_inches(9, 6)
    for axes, case in zip(figure.subplots(2, 2).flat, cases, strict=True):
        for attribute in ATTRIBUTES:
            some = [m for m in measurements if (m.case, m.variant) == (case, f"S.{attribute}")]
            shares = [100 * m.sample.more["ticket_share"] for m in some]
            axes.plot([m.size / 1e6 for m in some], shares, label=f"S.{attribute}")
        axes.set_title(case, loc="left", fontsize=9)
        axes.set_xlabel("M elements", fontsize=8)
        axes.set_ylabel("% of the tickets", fontsize=8)
        axes.legend(fontsize=7, frameon=False)
        tidy(axes)


EXPERIMENT = Experiment(
    "adaptivity",
    "tickets of filters over time (CACQ, Figure 10)",
    trials,
    bars,
    draw,
    shown=("ticket_share", "entered"),
)
