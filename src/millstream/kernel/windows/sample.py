"""SAMPLE: a seeded coin toss per element.

    keep (r, t)  iff  mix(key ^ mix(seed)) < p% of 2^64

The key is the element's arrival number, or for a derived stream its place among the elements of its instant together
with the instant, so that the outcome never depends on how the input was cut into batches. `mix` is splitmix64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from millstream.kernel.batch import ARRIVAL, START, Batch
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.hashing import mix
from millstream.kernel.operator import NO_STATE, Operator, Progress, State
from millstream.types import Schema


class Sample(Operator):
    """Keeps nothing; `derived` says that the input's arrival numbers count within each instant only.

    >>> run = Run(Sample(integers("v"), percent=50, seed=4, derived=False))
    >>> run.step(stream((1, 0), (2, 0), (3, 0), (4, 0), (5, 0)), to=0)
    (3, [0, 1), +1)
    (4, [0, 1), +1)
    (5, [0, 1), +1)
    """

    def __init__(self, schema: Schema, percent: float, seed: int, *, derived: bool) -> None:
        self.schema = schema
        self.threshold = int(percent / 100 * 2**64)
        self.seed = mix(np.array([seed % 2**64], dtype=np.uint64))[0]
        self.derived = derived

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        batch = inputs[0]
        key = batch[ARRIVAL].to_numpy().astype(np.uint64)
        if self.derived:
            key = key + mix(batch[START].to_numpy().astype(np.uint64))
        if self.threshold >= 2**64:
            return batch, NO_STATE
        kept = mix(key ^ self.seed) < np.uint64(self.threshold)
        return batch.filter(pl.Series(kept)), NO_STATE
