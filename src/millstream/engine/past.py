"""What a query has of the past, which is less than all where it came after some was cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Past:
    """Of each stream the instant from which on there are elements, where that is not all; the first answerable instant
    that follows; whether the state of others is of no use, since it tells of more; what is to be told; whether there is
    an instant from which on what was cut does not matter (else the answer depends on where the past begins); and from
    which instant on what fails counts."""

    kept: Mapping[str, int] = field(default_factory=dict)
    first: int = 0
    apart: bool = False
    notices: tuple[str, ...] = ()
    covered: bool = True
    counted: int = 0
    # Where the first answerable instant is found by counting: the places of the windows that count, from which instant
    # on their elements are right, and how many came before those that they see.
    unseen: tuple[tuple[int, int, int], ...] | None = None

    def entry(self) -> dict[str, Any]:
        """For the catalog."""
        found = {"past": self.content()} if self.is_recorded else {}
        return {**found, "notices": list(self.notices)} if self.notices else found

    def content(self) -> list[Any]:
        unseen = [] if self.unseen is None else [self.unseen]
        return [self.first, dict(self.kept), self.covered, self.counted, *unseen]

    @property
    def is_recorded(self) -> bool:
        """Whether the catalog has to say it."""
        return bool(self.kept or self.counted)

    @property
    def run_with(self) -> tuple[int, tuple[tuple[str, int], ...] | None]:
        """What queries must have in common that are run over the past together: from when on what fails counts, and
        where the past begins, if no instant covers that."""
        return self.counted, None if self.covered else tuple(sorted(self.kept.items()))

    @property
    def lost(self) -> dict[str, int]:
        """The last instant of each stream of which there is nothing."""
        return {source: first - 1 for source, first in self.kept.items()}


def common(pasts: Iterable[Past]) -> Mapping[str, int]:
    """From where on queries that are run together see each stream; those that saw all of one see it from its start."""
    found = [*pasts]
    streams = set.intersection(*(set(past.kept) for past in found)) if found else set()
    return {source: min(past.kept[source] for past in found) for source in streams}


def by_beginning(pasts: Mapping[int, Past]) -> list[list[int]]:
    """Queries that can be run over the past together."""
    apart: dict[object, list[int]] = {}
    for query, past in pasts.items():
        apart.setdefault(past.run_with, []).append(query)
    return [*apart.values()]


WHOLE = Past()


class Pasts:
    """What queries have of the past that is not worked through yet. All is done under the engine's lock."""

    def __init__(self) -> None:
        # Per edge that queries of their own show: of each stream, the first instant that they see of it.
        self.firsts: dict[str, Mapping[str, int]] = {}
        self._of_groups: dict[str, dict[int, Past]] = {}  # per edge and query that waits to be admitted to a group

    def note(self, edge: str, pasts: Mapping[int, Past]) -> None:
        """What queries that wait to be admitted to a group have of the past."""
        self._of_groups.setdefault(edge, {}).update(pasts)

    def forget(self, edge: str, queries: Iterable[int]) -> None:
        """Queries of a group need nothing of the past any more."""
        known = self._of_groups.get(edge, {})
        for query in queries:
            known.pop(query, None)
        if not known:
            self._of_groups.pop(edge, None)

    def forget_all(self, edge: str) -> None:
        """Nobody waits to be admitted to a group any more."""
        self._of_groups.pop(edge, None)

    def of(self, edge: str, queries: Iterable[int]) -> dict[int, Past]:
        known = self._of_groups.get(edge, {})
        return {query: known.get(query, WHOLE) for query in queries}

    def all_of(self, edge: str) -> list[Past]:
        """Of all queries that wait to be admitted to a group."""
        return [*self._of_groups.get(edge, {}).values()]
