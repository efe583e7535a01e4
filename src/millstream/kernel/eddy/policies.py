"""Policies: which of several modules, filters or SteMs, a chunk of rows goes to next.

A policy sees its eddy's modules through one interface, `Prospects`: how many lottery tickets each one holds, and the
next number that is drawn. What tickets are is the eddy's own (`filters`, `stems`). They follow from what was counted
and never from a clock, so that the same rows take the same way wherever a step is run.

No answer depends on any of this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import Protocol

import numpy as np

from millstream.errors import InputError
from millstream.kernel.hashing import mix


class Prospects(Protocol):
    """What an eddy knows of the modules that rows could go to next."""

    def tickets(self, options: Sequence[int]) -> Sequence[float]:
        """The weight of each option in the lottery; not all of them are 0."""

    def draw(self) -> float:
        """The next random number in [0, 1)."""

    def leaving(self, option: int) -> int:
        """How many rows would need no other module after this one: looked up, at the price of looking."""


class Policy(ABC):
    """Chooses among the modules that rows still have to go to. A steady policy chooses otherwise only when something
    was learnt; one that explores may choose what is known to be bad."""

    is_steady = True
    explores = False

    @abstractmethod
    def choose(self, options: Sequence[int], prospects: Prospects) -> int:
        """One of the options."""


class Ticket(Policy):
    """CACQ's lottery: mostly the best module, now and then another one, since what is known gets old."""

    explores = True

    def choose(self, options: Sequence[int], prospects: Prospects) -> int:
        reached = list(accumulate(prospects.tickets(options)))
        drawn = prospects.draw() * reached[-1]
        return next((option for option, up_to in zip(options, reached, strict=True) if drawn < up_to), options[-1])


class Fixed(Policy):
    """Always in the same order."""

    def choose(self, options: Sequence[int], prospects: Prospects) -> int:
        return options[0]


class Random(Policy):
    is_steady = False

    def choose(self, options: Sequence[int], prospects: Prospects) -> int:
        return options[int(prospects.draw() * len(options))]


class Hindsight(Policy):
    """Where most rows leave, which no eddy can know before: for comparison."""

    is_steady = False

    def choose(self, options: Sequence[int], prospects: Prospects) -> int:
        return max(options, key=prospects.leaving)


POLICIES: dict[str, Policy] = {"ticket": Ticket(), "fixed": Fixed(), "random": Random(), "hindsight": Hindsight()}


_chosen: ContextVar[str] = ContextVar("routing", default="")


@contextmanager
def routing_by(name: str) -> Iterator[None]:
    """Within the block all eddies route by a policy, whatever they were made with; by nothing, as they were."""
    before = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(before)


def policy(name: str) -> Policy:
    """The policy of an eddy that was made with this one, or the one that all route by for now."""
    name = _chosen.get() or name
    if name not in POLICIES:
        raise InputError(f'there is no routing policy "{name}"', hint=f"there are {', '.join(POLICIES)}")
    return POLICIES[name]


def drawn(number: int) -> float:
    """A random number in [0, 1) by its place in the series."""
    return float(mix(np.array([number], np.uint64))[0]) / 2.0**64
