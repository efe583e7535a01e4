"""The eddy's memory and its policies: which module a chunk of rows goes to next.

By lottery, as in CACQ: a module gains a ticket for every predicate that it applies to a row, and gives it back if the
row comes back from it still wanted by that query. So it holds tickets for what it decided: for how many queries it
speaks, and how often they say no. Tickets fade, so that the eddy follows changes. One ticket is never taken away; among
modules that have no more than this, the cheapest goes first. A module that takes more than its share of the time is
held back, which is what full input queues do to a slow module in an eddy of single rows.

No answer depends on any of this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from random import Random

import polars as pl

from millstream.errors import InputError
from millstream.kernel.operator import Segment

FLOOR = 1.0
_FADING = 0.5  # what one lesson leaves of those before
# The lottery is held on tickets to this power: a module ten times as good goes first a hundred times as often.
_SHARPNESS = 2.0
_MODULE = "module"
_SCHEMA = {_MODULE: pl.String, "tickets": pl.Float64, "cost": pl.Float64, "time": pl.Float64, "leaving": pl.Float64}


@dataclass
class Experience:
    """What the eddy remembers of a module: its tickets, seconds per row and per chunk, and the part of its rows that
    need not go further."""

    tickets: float = FLOOR
    cost: float = 0.0
    time: float = 0.0
    leaving: float = 0.0

    def learn(self, entered: int, decided: float, leaving: float, seconds: float) -> None:
        """From one chunk: the rows, how many pairs of a row and a query were decided, and what that took."""
        kept = _FADING if self.cost else 0.0  # the first lesson is all there is to go by
        self.tickets = max(FLOOR, self.tickets * kept + decided * (1 - kept))
        self.time = self.time * kept + seconds * (1 - kept)
        if entered:
            self.cost = self.cost * kept + seconds / entered * (1 - kept)
            self.leaving = self.leaving * kept + leaving * (1 - kept)


Leaving = Callable[[int], int]  # how many rows would leave the eddy if they went to a module, by its place


class Policy(ABC):
    """Chooses among the places of modules that rows still have to go to; steady ones only when something was learnt."""

    is_steady = True

    @abstractmethod
    def choose(self, places: Sequence[int], known: Sequence[Experience], leaving: Leaving) -> int:
        """One of `places`; `known` has the experience of each module by place."""


class Ticket(Policy):
    def __init__(self, random: Random) -> None:
        self.random = random

    def choose(self, places: Sequence[int], known: Sequence[Experience], leaving: Leaving) -> int:
        rich = [place for place in places if known[place].tickets > FLOOR]
        if not rich:
            return min(places, key=lambda place: known[place].cost)
        if len(rich) == 1:
            return rich[0]
        fair = sum(each.time for each in known) / len(known)
        weights = [known[place].tickets ** _SHARPNESS / max(1.0, known[place].time / fair) for place in rich]
        return self.random.choices(rich, weights)[0]


class Fixed(Policy):
    """Always in the same order."""

    def choose(self, places: Sequence[int], known: Sequence[Experience], leaving: Leaving) -> int:
        return places[0]


class AtRandom(Policy):
    is_steady = False

    def __init__(self, random: Random) -> None:
        self.random = random

    def choose(self, places: Sequence[int], known: Sequence[Experience], leaving: Leaving) -> int:
        return self.random.choice(places)


class Hindsight(Policy):
    """Where most rows leave, which no eddy can know before: looked up for comparison, at the price of looking."""

    is_steady = False

    def choose(self, places: Sequence[int], known: Sequence[Experience], leaving: Leaving) -> int:
        return max(places, key=leaving)


_POLICIES: dict[str, Callable[[Random], Policy]] = {
    "ticket": Ticket,
    "fixed": lambda _: Fixed(),
    "random": AtRandom,
    "hindsight": lambda _: Hindsight(),
}


def policy(name: str, seed: int | None = None) -> Policy:
    """A policy by its name; without a seed it draws other lots every time."""
    if name not in _POLICIES:
        raise InputError(f'there is no routing policy "{name}"', hint=f"there are {', '.join(_POLICIES)}")
    return _POLICIES[name](Random(seed))


class Memory:
    """The experience with all modules, as it goes from one epoch to the next."""

    def __init__(self, stored: Sequence[Segment] = ()) -> None:
        self._known: dict[str, Experience] = {}
        for segment in stored:
            for module, *learnt in segment.iter_rows():
                self._known[module] = Experience(*learnt)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, module: str) -> Experience:
        return self._known.setdefault(module, Experience())

    def shares(self) -> dict[str, float]:
        """Each module's part of all tickets."""
        total = sum(each.tickets for each in self._known.values())
        return {module: each.tickets / total for module, each in self._known.items()}

    def segments(self) -> tuple[Segment, ...]:
        rows = [(module, *astuple(each)) for module, each in sorted(self._known.items())]
        return (pl.DataFrame(rows, schema=_SCHEMA, orient="row"),)
