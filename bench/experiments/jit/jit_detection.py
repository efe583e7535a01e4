"""How joins just in time find out what is not needed: whole combinations, minimal sub-tuples of them that are
remembered, Bloom filters, and rows of single inputs only.

Cliques of the just-in-time paper, where keys of combinations hardly recur; cliques of three of which A and B meet
often, by few or by many keys that C looks at; and a clique of four whose last window is a tenth of the others', so that
partners leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from bench.harness.experiment import Bar, Experiment, Measurement, Sample, Settings, Trial, in_turns
from bench.harness.operators import run_clique
from bench.harness.pictures import bars as bar_of_each
from bench.workloads.cliques import Clique

from millstream.kernel.batch import END, START, WEIGHT
from millstream.kernel.just_in_time.detection import Detection
from millstream.kernel.just_in_time.gates import JustInTime
from millstream.kernel.multiway.join_tree import JoinTree
from millstream.plan.lowering.variants import DETECTIONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Skewed(Clique):
    """The last source has fewer elements, which live for a part of the window, and other columns for others to look
    at: of so many values, `within` being those of the columns by which the others meet."""

    within: int = 0
    last_rate: float = 1.0
    last_life: float = 1.0

    def _input(self, source: int) -> pl.DataFrame:
        last = self.sources - 1
        rate, life = (self.last_rate, self.last_life) if source == last else (self.rate, 1.0)
        rng, count = np.random.default_rng(source), round(2 * rate * self.seconds)
        starts = np.sort(rng.integers(0, 2 * self.seconds * 1000, count))
        others = [other for other in range(self.sources) if other != source]
        columns = {
            f"c{n}": rng.integers(1, (self.values if last in (source, other) else self.within) + 1, count)
            for n, other in enumerate(others)
        }
        ends = starts + round(life * self.seconds * 1000)
        return pl.DataFrame(columns | {START: starts, END: ends, WEIGHT: np.ones(count, np.int64)})


CASES: dict[str, Clique] = {
    "bushy, 6 sources, 10/s": Clique(True, 6, 20, 10, 928),
    "left-deep, 4 sources, 10/s": Clique(False, 4, 15, 10, 232),
    "keys recur: 50 x 50": Skewed(False, 3, 10, 10, 50, within=20, last_rate=0.5),
    "keys recur: 300 x 300": Skewed(False, 3, 10, 10, 300, within=100, last_rate=0.5),
    "partners leave": Skewed(False, 4, 10, 5, 200, within=40, last_rate=5, last_life=0.1),
}


def trials(settings: Settings) -> list[Trial]:
    chosen = list(CASES)[2:3] if settings.quick else list(CASES)
    return [Trial(case, partial(_measured, case, settings)) for case in chosen]


def _measured(case: str, settings: Settings) -> list[Measurement]:
    clique = CASES[case]
    inputs, everyone = clique.inputs(), range(clique.sources)
    condition = clique.condition(everyone, combinations(everyone, 2))

    def sample(detection: Detection) -> Sample:
        return run_clique(JoinTree(clique.schemas, clique.shape, condition, jit=JustInTime(detection)), clique, inputs)

    best = in_turns({name: partial(sample, detection) for name, detection in DETECTIONS.items()}, settings.repetitions)
    results = {found.rows_out for found in best.values()}
    if len(results) != 1:
        raise AssertionError(f"{case}: the results differ: {results}")
    return [Measurement(case, name, 0, found) for name, found in best.items()]


def bars(measurements: Sequence[Measurement]) -> list[Bar]:
    return []


def draw(figure: Figure, measurements: Sequence[Measurement]) -> None:
    base = {m.case: m.sample.cpu for m in measurements if m.variant == "all"}
    bar_of_each(figure, measurements, lambda m: m.sample.cpu / base[m.case], "CPU time, of that of 'all'")


EXPERIMENT = Experiment(
    "jit_detection", "how joins just in time find out what is not needed", trials, bars, draw, shown=("made", "MiB")
)
