"""Single operators measured over whole streams: what the experiments on the kernel's operators share."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
from bench.harness.experiment import Measurement, Sample, Settings, Trial, in_turns, with_more
from bench.workloads.cliques import Clique

from millstream.kernel.batch import START, Batch
from millstream.kernel.just_in_time.tally import COUNTS, Tally
from millstream.kernel.operator import NO_STATE, Operator, Progress, State

NO_TIME = Progress((0,), (0,))
BATCHES = 5  # per window of a clique


class Step(NamedTuple):
    rows_out: int
    rows_held: int
    wall: float
    cpu: float  # of all threads: what a core of one's own would have taken, where others use the machine too
    bytes_held: int


def run(operator: Operator, inputs: Sequence[pl.DataFrame], batch: int) -> Iterator[Step]:
    state: State = NO_STATE
    for low in range(0, inputs[0].height, batch):
        parts = [rows.slice(low, batch) for rows in inputs]
        high = min(low + batch, inputs[0].height)
        progress = Progress((low - 1,) * len(inputs), (high - 1,) * len(inputs))
        wall, cpu = time.perf_counter(), time.process_time()
        output, state = operator.step(parts, state, progress)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        segments = [segment for kept in state.values() for segment in kept]
        held, size = sum(s.height for s in segments), sum(int(s.estimated_size()) for s in segments)
        yield Step(output.height, held, wall, cpu, size)


class Stepping:
    """An operator that gets one batch after the other; what it learns goes from step to step."""

    def __init__(self, operator: Operator, state: State) -> None:
        self.operator = operator
        self.state = dict(state)

    def step(self, batch: Batch) -> int:
        output, learnt = self.operator.step([batch], self.state, NO_TIME)
        self.state |= learnt
        return output.height


@dataclass(frozen=True)
class Alternative:
    """An operator and the elements it gets, so many at a time on each input; the first steps only fill its windows."""

    operator: Operator
    inputs: Sequence[pl.DataFrame]
    batch: int
    filling: int = 0

    def run(self) -> Sample:
        done = list(run(self.operator, self.inputs, self.batch))[self.filling :]
        return Sample(
            elements=sum(rows.height - self.filling * self.batch for rows in self.inputs),
            cpu=sum(step.cpu for step in done),
            wall=sum(step.wall for step in done),
            rows_out=sum(step.rows_out for step in done),
            rows_held=sum(step.rows_held for step in done) / len(done),
        )


def trial(case: str, size: int, alternatives: Mapping[str, Alternative], settings: Settings) -> Trial:
    """The alternatives in turns."""

    def measure() -> list[Measurement]:
        best = in_turns({name: one.run for name, one in alternatives.items()}, settings.repetitions)
        return [Measurement(case, name, size, sample) for name, sample in best.items()]

    return Trial(case, measure)


def run_clique(operator: Operator, clique: Clique, inputs: Sequence[pl.DataFrame]) -> Sample:
    """The second window is measured; what an inner join makes and what is held count from the beginning."""
    batch = clique.seconds * 1000 // BATCHES
    state: State = NO_STATE
    elements, spent, wall, results, peak = 0, 0.0, 0.0, 0, 0
    for number in range(2 * BATCHES):
        low, high = number * batch, (number + 1) * batch
        parts = [rows.filter(pl.col(START).is_between(low, high, closed="left")) for rows in inputs]
        progress = Progress((low - 1,) * len(inputs), (high - 1,) * len(inputs))
        began, cpu = time.perf_counter(), time.process_time()
        output, state = operator.step(parts, state, progress)
        if number >= BATCHES:
            wall, spent = wall + time.perf_counter() - began, spent + time.process_time() - cpu
            elements += sum(part.height for part in parts)
        results += output.height
        peak = max(peak, sum(int(segment.estimated_size()) for segments in state.values() for segment in segments))
    made = Tally.of(state.get(COUNTS, ())).made
    return with_more(Sample(elements, spent, wall, results), made=made, MiB=peak / 2**20)
