"""Which SteM a chunk of rows probes next.

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
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.hashing import mix
from millstream.kernel.operator import Segment

_DECAY = 0.9  # per chunk
_GUESSED = 16.0  # rows that the guess counts as much as: each gives one row and costs two
_COLUMNS = ("probes", "returned", "work")
_DRAWS = "draws"

Numbers = npt.NDArray[np.float64]


@dataclass
class Experience:
    """What an operator has seen of its SteMs: for each pair (input that rows came in by, SteM) rows that probed, rows
    that came back, work; and how many lotteries there were."""

    probes: Numbers
    returned: Numbers
    work: Numbers
    draws: int
    is_new: bool = False

    @classmethod
    def of(cls, inputs: int, kept: Sequence[Segment]) -> Experience:
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
        return float(mix(np.array([self.draws], np.uint64))[0]) / 2.0**64

    def costs(self, origin: int, options: Sequence[int]) -> Numbers:
        """T of each option."""
        chosen = list(options)
        probes = self.probes[origin, chosen] + _GUESSED
        factor = (self.returned[origin, chosen] + _GUESSED) / probes
        work = (self.work[origin, chosen] + 2 * _GUESSED) / probes
        costs: Numbers = work + factor * (work.sum() - work)
        return costs


@dataclass(frozen=True)
class Route:
    """The SteM to probe; where that is an experiment, also the best one known, for all rows but a few."""

    stem: int
    best: int


class Policy(Protocol):
    def choose(self, options: Sequence[int], origin: int, experience: Experience) -> Route: ...


class Fixed:
    """The inputs in the order in which they were written, as far as they are connected."""

    def choose(self, options: Sequence[int], origin: int, experience: Experience) -> Route:
        return Route(options[0], options[0])


class Random:
    def choose(self, options: Sequence[int], origin: int, experience: Experience) -> Route:
        stem = options[int(experience.draw() * len(options))]
        return Route(stem, stem)


class Ticket:
    """A lottery by what was seen. A SteM that seems much worse than the best is tried with a few rows only."""

    def choose(self, options: Sequence[int], origin: int, experience: Experience) -> Route:
        costs = experience.costs(origin, options)
        tickets = (costs.min() / costs) ** 2
        drawn = int(np.searchsorted(tickets.cumsum(), experience.draw() * tickets.sum(), side="right"))
        drawn = min(drawn, len(options) - 1)
        best = int(costs.argmin())
        return Route(options[drawn], options[best if costs[drawn] > _MUCH_WORSE * costs[best] else drawn])


_MUCH_WORSE = 1.25

POLICIES: dict[str, Policy] = {"ticket": Ticket(), "fixed": Fixed(), "random": Random()}
