"""Joins of three and four windows: by SteMs, and by the best and the worst left-deep tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, find, in_turns, with_more
from bench.harness.operators import run
from bench.harness.pictures import bars as draw_bars
from bench.workloads.join_trees import Equality, LeftDeepTree, condition, orders

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.multiway.stem_join import StemJoin
from millstream.kernel.operator import Operator
from millstream.types import BIGINT, Field, Schema

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WINDOW, ELEMENTS, BATCH = 20_000, 200_000, 5_000


@dataclass(frozen=True)
class Workload:
    """Inputs with one element per tick each. For every key column how many keys it draws from: one number, or two where
    it changes in the middle."""

    keys: tuple[tuple[tuple[int, ...], ...], ...]
    equalities: tuple[Equality, ...]

    @property
    def schemas(self) -> list[Schema]:
        return [tuple(Field(f"k{n}", BIGINT) for n in range(len(keys) + 1)) for keys in self.keys]

    def inputs(self, elements: int) -> list[pl.DataFrame]:
        return [self._input(source, elements) for source in range(len(self.keys))]

    def _input(self, source: int, elements: int) -> pl.DataFrame:
        rng, ticks = np.random.default_rng(source), np.arange(elements)
        drawn = [
            np.concatenate(
                [rng.integers(0, n, part.size) for n, part in zip(keys, np.array_split(ticks, len(keys)), strict=True)]
            )
            for keys in self.keys[source]
        ]
        columns = {f"c{n}": values for n, values in enumerate([*drawn, ticks])}
        return pl.DataFrame(columns | {START: ticks, END: ticks + WINDOW + 1, WEIGHT: np.ones_like(ticks)})


def one_key(*keys: tuple[int, ...] | int) -> Workload:
    """All inputs joined on one key."""
    drawn = tuple(((n,) if isinstance(n, int) else n,) for n in keys)
    return Workload(drawn, tuple(((n, 0), (n + 1, 0)) for n in range(len(keys) - 1)))


def around(*partners: tuple[int, ...] | int, center: int = WINDOW // 4) -> Workload:
    """An input with a key for each of the others, which draw theirs from so many."""
    own = tuple((center,) for _ in partners)
    drawn = tuple(((n,) if isinstance(n, int) else n,) for n in partners)
    return Workload((own, *drawn), tuple(((0, n), (n + 1, 0)) for n in range(len(partners))))


MANY, FEW = WINDOW // 4, 100 * WINDOW  # keys: four partners each, or hardly ever one
WORKLOADS = {
    "3 on a key, few partners": one_key(10 * WINDOW, 10 * WINDOW, 10 * WINDOW),
    "3 on a key, one partner": one_key(WINDOW, WINDOW, WINDOW),
    "3 on a key, four partners": one_key(MANY, MANY, MANY),
    "3 on a key, one input selective": one_key(MANY, MANY, FEW),
    "3 around one, one selective": around(MANY, FEW),
    "3 around one, selective one changes": around((MANY, FEW), (FEW, MANY)),
    "4 on a key, one input selective": one_key(MANY, MANY, MANY, FEW),
    "4 around one, one selective": around(MANY, MANY, FEW),
    "4 around one, one partner each": around(WINDOW, WINDOW, WINDOW, center=WINDOW),
}


@dataclass(frozen=True)
class _Run:
    operator: Operator
    inputs: Sequence[pl.DataFrame]

    def __call__(self) -> Sample:
        # What fills the windows is not measured.
        done = list(run(self.operator, self.inputs, BATCH))[WINDOW // BATCH :]
        sample = Sample(
            elements=len(done) * BATCH * len(self.inputs),
            cpu=sum(step.cpu for step in done),
            wall=sum(step.wall for step in done),
            rows_out=sum(step.rows_out for step in done),
            rows_held=sum(step.rows_held for step in done) / len(done),
        )
        return with_more(sample, MiB=sum(step.bytes_held for step in done) / len(done) / 2**20)


def _trial(name: str, workload: Workload, settings: Settings) -> Trial:
    def measure() -> list[Measurement]:
        elements = ELEMENTS // 4 if settings.quick else ELEMENTS
        inputs, schemas = workload.inputs(elements), workload.schemas
        joined = condition(schemas, workload.equalities)
        trees = {
            order: _Run(LeftDeepTree(schemas, workload.equalities, order), inputs)
            for order in orders(len(schemas), workload.equalities)
        }
        # All trees once, to find the best and the worst of them.
        ranked = sorted(trees, key=lambda order: trees[order]().cpu)
        runs = {
            "best tree": trees[ranked[0]],
            "worst tree": trees[ranked[-1]],
            **{
                f"stems{'' if policy == 'ticket' else f', {policy}'}": _Run(
                    StemJoin(schemas, joined, policy=policy), inputs
                )
                for policy in ("ticket", "fixed", "random")
            },
        }
        best = in_turns(runs, 1 if settings.quick else 2)
        return [Measurement(name, variant, WINDOW, sample) for variant, sample in best.items()]

    return Trial(name, measure)


def trials(settings: Settings) -> list[Trial]:
    return [_trial(name, workload, settings) for name, workload in WORKLOADS.items()]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    """SteMs need not be the fastest, but must not be far from the best tree, which nobody knows beforehand."""
    ratios = []
    for name in WORKLOADS:
        stems, tree = find(measurements, name, "stems"), find(measurements, name, "best tree")
        if stems and tree:
            ratios.append(stems.rate / tree.rate)
    return [Bar("SteMs against the best tree, least ratio", min(ratios), 0.5)] if ratios else []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    draw_bars(figure, measurements, lambda m: m.rate / 1e6, "M elements/s")


EXPERIMENT = Experiment("n_way_joins", "joins of three and four windows", trials, bars, draw, shown=("MiB",))
