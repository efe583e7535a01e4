"""What an eddy knows of its grouped filters.

As in CACQ, a filter gains a ticket for every predicate that it applies to a row, and gives it back if the row comes
back from it still wanted by that query. So it holds tickets for what it decided: for how many queries it speaks, and
how often they say no. Tickets fade, so that the eddy follows changes. One ticket is never taken away; among filters
that have no more than this, the cheapest goes first. A filter that does more than its share of the work is held back,
which is what full input queues do to a slow module in an eddy of single rows. Work is counted in bitmaps looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.columns import frame_of, numbered
from millstream.kernel.eddy.policies import drawn
from millstream.kernel.operator import Segment

FLOOR = 1.0
_FADING = 0.5  # what one lesson leaves of those before
# The lottery is held on tickets to this power: a filter ten times as good goes first a hundred times as often.
_SHARPNESS = 2.0
_MODULE = "module"
# Two columns keep the names under which seconds were kept before.
_LEARNT = "tickets", "cost", "time", "leaving"


@dataclass
class FilterExperience:
    """What the eddy remembers of a filter: its tickets, its work per row and per chunk, and the part of its rows that
    need not go further."""

    tickets: float = FLOOR
    cost: float = 0.0
    work: float = 0.0
    leaving: float = 0.0

    @property
    def learnt(self) -> tuple[float, float, float, float]:
        """All of it, as it is kept. (`dataclasses.astuple` copies deeply, which a small step would notice.)"""
        return self.tickets, self.cost, self.work, self.leaving

    def learn(self, entered: int, decided: float, leaving: float, work: float) -> None:
        """From one chunk: the rows, how many pairs of a row and a query were decided, and the work of that."""
        kept = _FADING if self.cost else 0.0  # the first lesson is all there is to go by
        self.tickets = max(FLOOR, self.tickets * kept + decided * (1 - kept))
        self.work = self.work * kept + work * (1 - kept)
        if entered:
            self.cost = self.cost * kept + work / entered * (1 - kept)
            self.leaving = self.leaving * kept + leaving * (1 - kept)


class EddyMemory:
    """The experience with all filters, as it goes from one epoch to the next."""

    def __init__(self, stored: Sequence[Segment] = ()) -> None:
        self._known: dict[str, FilterExperience] = {}
        for segment in stored:
            for module, *learnt in segment.iter_rows():
                self._known[module] = FilterExperience(*learnt)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, module: str) -> FilterExperience:
        return self._known.setdefault(module, FilterExperience())

    def shares(self) -> dict[str, float]:
        """Each filter's part of all tickets."""
        total = sum(each.tickets for each in self._known.values())
        return {module: each.tickets / total for module, each in self._known.items()}

    def seed(self) -> int:
        """Where a series of draws begins: another place whenever something was learnt."""
        return int(np.array([each.learnt for each in self._known.values()]).view(np.uint64).sum()) >> 1

    def segments(self) -> tuple[Segment, ...]:
        modules = sorted(self._known)
        learnt = np.array([self._known[module].learnt for module in modules], np.float64).reshape(-1, len(_LEARNT))
        columns = numbered({name: learnt[:, place] for place, name in enumerate(_LEARNT)})
        return (frame_of([pl.Series(_MODULE, modules, pl.String), *columns]),)


class Draws:
    """A series of random numbers, the same wherever it is drawn."""

    def __init__(self, seed: int) -> None:
        self._last = seed

    def next(self) -> float:
        self._last += 1
        return drawn(self._last)


@dataclass(frozen=True)
class FilterProspects:
    """The filters of a block, by their places in it."""

    known: Sequence[FilterExperience]
    draws: Draws
    looked_up: Callable[[int], int]

    def tickets(self, options: Sequence[int]) -> list[float]:
        rich = [place for place in options if self.known[place].tickets > FLOOR]
        if not rich:
            cheapest = min(options, key=lambda place: self.known[place].cost)
            return [float(place == cheapest) for place in options]
        fair = sum(each.work for each in self.known) / len(self.known)
        return [self._weight(self.known[place], fair) if place in rich else 0.0 for place in options]

    def _weight(self, known: FilterExperience, fair: float) -> float:
        return float(known.tickets**_SHARPNESS / max(1.0, known.work / fair if fair else 1.0))

    def draw(self) -> float:
        return self.draws.next()

    def leaving(self, option: int) -> int:
        return self.looked_up(option)
