"""What an eddy knows of its SteMs.

What is known of a SteM is how many rows it gave back per row that probed it, f, and how much work that was, c (segments
searched and pairs looked at, so that routes are the same wherever they are chosen). Probing SteM 1 before SteM 2 costs
c1 + f1 c2, the other way c2 + f2 c1. So

    tickets(m) = ((least T) / T(m))²,   T(m) = c(m) + f(m) * sum of c over the other SteMs that could be next

and a lottery among the tickets decides: mostly for the best, now and then for another one, since what is known gets
old. It fades with every chunk, back to a guess where it is not renewed. It is kept apart for each input that rows came
in by, as it depends on whose keys are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.eddy.policies import drawn
from millstream.kernel.operator import Segment

_DECAY = 0.9  # per chunk
_GUESSED = 16.0  # rows that the guess counts as much as: each gives one row and costs two
_COLUMNS = ("probes", "returned", "work")
_DRAWS = "draws"

Numbers = npt.NDArray[np.float64]


@dataclass
class StemExperience:
    """What an operator has seen of its SteMs: for each pair (input that rows came in by, SteM) rows that probed, rows
    that came back, work; and how many lotteries there were."""

    probes: Numbers
    returned: Numbers
    work: Numbers
    draws: int
    is_new: bool = False

    @classmethod
    def of(cls, inputs: int, kept: Sequence[Segment]) -> StemExperience:
        if not kept:
            probes, returned, work = np.zeros((3, inputs, inputs))
            return cls(probes, returned, work, 0)
        probes, returned, work = (kept[0][name].to_numpy().reshape(inputs, inputs).copy() for name in _COLUMNS)
        return cls(probes, returned, work, int(kept[0][_DRAWS][0]))

    def segment(self) -> Segment:
        columns = [pl.Series(name, getattr(self, name).ravel()) for name in _COLUMNS]
        return pl.DataFrame([*columns, pl.Series(_DRAWS, np.full(self.probes.size, self.draws, np.int64))])

    def add(self, origin: int, stem: int, probes: int, returned: int, work: int) -> None:
        self.probes[origin, stem] += probes
        self.returned[origin, stem] += returned
        self.work[origin, stem] += work
        self.is_new = True

    def knows(self, origin: int) -> bool:
        """Whether there is anything to know for rows from there, and something is known."""
        return self.probes.shape[0] < 3 or bool(self.probes[origin].any())

    def fade(self, origin: int) -> None:
        for known in (self.probes, self.returned, self.work):
            known[origin] *= _DECAY

    def draw(self) -> float:
        """The next random number in [0, 1): the same wherever the step is run."""
        self.draws += 1
        return drawn(self.draws)

    def costs(self, origin: int, options: Sequence[int]) -> Numbers:
        """T of each option."""
        chosen = list(options)
        probes = self.probes[origin, chosen] + _GUESSED
        factor = (self.returned[origin, chosen] + _GUESSED) / probes
        work = (self.work[origin, chosen] + 2 * _GUESSED) / probes
        costs: Numbers = work + factor * (work.sum() - work)
        return costs


_MUCH_WORSE = 1.25


@dataclass(frozen=True)
class StemProspects:
    """The SteMs for rows that came in by one input."""

    experience: StemExperience
    origin: int

    def tickets(self, options: Sequence[int]) -> list[float]:
        costs = self.experience.costs(self.origin, options)
        return list((costs.min() / costs) ** 2)

    def draw(self) -> float:
        return self.experience.draw()

    def leaving(self, option: int) -> int:
        raise NotImplementedError("a SteM would have to be probed to know what it gives")

    def usual(self, chosen: int, options: Sequence[int]) -> int:
        """The SteM for most rows where one that seems much worse than the best is to be tried with a few."""
        costs = self.experience.costs(self.origin, options)
        best = int(costs.argmin())
        return options[best] if costs[options.index(chosen)] > _MUCH_WORSE * costs[best] else chosen
