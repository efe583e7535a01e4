"""The eddy of grouped filters by itself."""

from __future__ import annotations

from itertools import count

import numpy as np
import numpy.typing as npt
from bench.workloads.shared_queries import Queries

from millstream.kernel.batch import Batch
from millstream.kernel.eddy.filters import EddyMemory
from millstream.kernel.eddy.policies import policy
from millstream.kernel.sharing.eddy import Eddy
from millstream.kernel.sharing.index import index_of
from millstream.kernel.sharing.parameters import QUERIES


class Routed:
    """The eddy alone: which filters rows enter, and who holds the tickets."""

    def __init__(self, routing: str, seed: int = 1) -> None:
        self.policy, self.seeds = policy(routing), count(seed * 1_000_000, 10_000)
        self.memory = EddyMemory()

    def step(self, queries: Queries, batch: Batch) -> dict[str, int]:
        """How many rows entered each filter."""
        index = index_of(queries.shapes, queries.state[QUERIES])
        ranks: list[npt.NDArray[np.intp]] = [axis.ranks(batch) for axis in index.axes]
        eddy = Eddy(self.policy, self.memory, next(self.seeds))
        for block in index.blocks:
            eddy.route(block, ranks, np.empty((batch.height, block.members.size), np.uint64))
        return eddy.entered
