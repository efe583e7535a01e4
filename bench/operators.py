"""Single operators measured over whole streams: what the experiments on the kernel's operators share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from bench.experiment import Measurement, Sample, Settings, Trial, in_turns

from bench import kernel_join
from millstream.kernel.operator import Operator


@dataclass(frozen=True)
class Alternative:
    """An operator and the elements it gets, so many at a time on each input; the first steps only fill its windows."""

    operator: Operator
    inputs: Sequence[pl.DataFrame]
    batch: int
    filling: int = 0

    def run(self) -> Sample:
        done = list(kernel_join.run(self.operator, self.inputs, self.batch))[self.filling :]
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
