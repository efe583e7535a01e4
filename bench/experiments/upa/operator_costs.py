"""What the terms of the cost model (`millstream.plan.cost`) cost in nanoseconds: its constants are read off here.

Each operator runs alone over a full window; the time of an element is divided by how many units of its term the model
says it has. Negations run both ways, by counts and foretold, over keys of which a part is common to both inputs: that
part decides how many rows end prematurely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log2
from typing import TYPE_CHECKING

import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Settings, Trial, with_more
from bench.harness.operators import Alternative, trial
from bench.harness.pictures import bars as draw_bars
from bench.workloads import grouped_values
from bench.workloads.keyed_elements import NARROW, WIDE, stream

from millstream.kernel.aggregation.aggregate import Aggregate
from millstream.kernel.joins.existence import ExistenceJoin
from millstream.kernel.joins.pairwise import InnerJoin
from millstream.kernel.operator import Operator
from millstream.kernel.relational import linear
from millstream.kernel.relational.multiplicity import DirectMultiplicity, DistinctStar, Multiplicity, SetOperation
from millstream.kernel.scalar.expressions import Call, Column, Literal
from millstream.kernel.storage.synopsis import Consolidated
from millstream.types import BIGINT, BOOLEAN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH, WINDOW, KEYS, STEPS = 10_000, 100_000, 20_000, 20
COMMON = (0, 1, 10, 100)  # percent of the keys
FILLING = WINDOW // BATCH


def trials(settings: Settings) -> list[Trial]:
    found = [_priced(name, operator, inputs, units, settings) for name, (operator, inputs, units) in _terms().items()]
    return [*found, *(_negation(name, percent, settings) for name in ("anti join", "EXCEPT") for percent in COMMON)]


def _terms() -> Mapping[str, tuple[Operator, list[pl.DataFrame], float]]:
    """Operators, their inputs, and the units of the model's term that an element has."""
    elements = (FILLING + STEPS) * BATCH
    wide = [stream(WIDE, elements, WINDOW, WINDOW, seed) for seed in (1, 2)]
    narrow = [stream(NARROW, elements, KEYS, WINDOW, seed) for seed in (1, 2)]
    condition = Call(BOOLEAN, ">=", (Column(BIGINT, 1, "value"), Literal(BIGINT, 0)))
    count = Aggregate(grouped_values.SCHEMA, (0,), (grouped_values.call("count"),), retractions=False)
    return {
        "ROW: selection": (linear.Filter(WIDE, condition), wide[:1], 1.0),
        "PROBE: join": (InnerJoin(WIDE, WIDE, ((0, 0),)), wide, log2(WINDOW)),
        "DISTINCT: δ*": (DistinctStar(NARROW), narrow[:1], log2(KEYS)),
        "GROUP: group-by": (count, [grouped_values.stream(elements, 100, WINDOW)], 2.0),
        "COUNT: EXCEPT": (Multiplicity(NARROW, SetOperation.EXCEPT), narrow, 2 * log2(KEYS)),
    }


def _priced(name: str, operator: Operator, inputs: Sequence[pl.DataFrame], units: float, settings: Settings) -> Trial:
    measured = trial(name, WINDOW, {name: Alternative(operator, inputs, BATCH, FILLING)}, settings)

    def measure() -> list[Measurement]:
        return [replace(m, sample=with_more(m.sample, ns_per_unit=m.nanoseconds / units)) for m in measured.measure()]

    return Trial(name, measure)


def _negation(name: str, percent: int, settings: Settings) -> Trial:
    elements = (FILLING + STEPS) * BATCH
    left, right = (stream(NARROW, elements, KEYS, WINDOW, seed) for seed in (1, 2))
    right = right.with_columns(pl.col("c0") + KEYS * (100 - percent) // 100)
    ways: dict[str, Operator] = {
        "by counts": Multiplicity(NARROW, SetOperation.EXCEPT),
        "foretold": DirectMultiplicity(NARROW, SetOperation.EXCEPT),
    }
    if name == "anti join":
        presence: dict[str, Multiplicity | DistinctStar] = {
            "by counts": Multiplicity(NARROW, SetOperation.DISTINCT),
            "foretold": DistinctStar(NARROW),
        }
        ways = {
            way: ExistenceJoin(NARROW, known, (0,), (False,), Consolidated(), negated=True)
            for way, known in presence.items()
        }
    alternatives = {way: Alternative(operator, [left, right], BATCH, FILLING) for way, operator in ways.items()}
    return trial(f"{name}, {percent} % of the keys common", WINDOW, alternatives, settings)


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.nanoseconds, "ns per element")


EXPERIMENT = Experiment(
    "operator_costs", "the cost model's terms, and negation both ways", trials, bars, draw, shown=("ns_per_unit",)
)
