"""How objects were called, and which columns they had, when a text was said.

    the catalog as of n  =  the catalog of now, with what ALTER has done since then undone, the last first

A text that reads streams and tables keeps the number of alterations that it knew. It is read by these whenever it is
read again, so that whoever alters what it reads changes neither its columns nor its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from millstream.catalog.entries import Entry
from millstream.catalog.objects import CatalogOfObjects
from millstream.plan.definitions import Definition, StreamDefinition, TableDefinition

NUMBERS = "numbers"  # in the entry of a stream or table: those of its alterations, 0 of what no text depends on
AS_OF = "as_of"  # in the entry of a text: the last alteration that it knew


@dataclass(frozen=True)
class Alteration:
    """One of an object, and what was there before: it, and the tables that come with it, by their keys."""

    number: int
    before: Mapping[str, Definition]


@dataclass
class Alterations:
    """Those of a database, in the order in which they were made."""

    catalog: CatalogOfObjects
    last: int = 0
    _made: list[Alteration] = field(default_factory=list)
    _known: tuple[object, dict[int, dict[str, Definition]]] = None, {}

    def note(self, number: int, before: Iterable[Definition]) -> None:
        self.last = max(self.last, number)
        self._made = sorted(
            [*self._made, Alteration(number, {each.name.lower(): each for each in before})], key=lambda one: one.number
        )
        self._known = None, {}

    def note_all(self, entries: Iterable[Entry]) -> None:
        """The numbers that entries know: another one must be greater."""
        known = (number for entry in entries for number in (entry.get(AS_OF, 0), *entry.get(NUMBERS, ())))
        self.last = max([self.last, *known])

    def entry(self, as_of: int | None = None) -> dict[str, int]:
        """What the entry of a text says of what it knew."""
        number = self.last if as_of is None else as_of
        return {AS_OF: number} if number else {}

    def definitions(self, as_of: int | None) -> Mapping[str, Definition]:
        """What names meant; those of a text that knows all of it mean what they do now."""
        since = [one for one in self._made if as_of is not None and one.number > as_of]
        if not since or as_of is None:
            return self.catalog
        now = self.catalog.all
        if self._known[0] is not now:
            self._known = now, {}
        known = self._known[1]
        if as_of not in known:
            known[as_of] = _undone(now, since)
        return known[as_of]


def _undone(now: Mapping[str, Definition], since: list[Alteration]) -> dict[str, Definition]:
    found = dict(now)
    names = {definition.edge: key for key, definition in now.items()}
    for alteration in reversed(since):
        there = [(each, names[each.edge]) for each in alteration.before.values() if each.edge in names]
        for each, key in there:
            if found.get(key) is not None and found[key].edge == each.edge:
                del found[key]
        for each, _ in there:
            key = each.name.lower()
            found[key] = _called_now(each, now)
            names[each.edge] = key
    return found


def _called_now(then: Definition, now: Mapping[str, Definition]) -> Definition:
    """Columns of then, under the name of now, by which people know it."""
    if not isinstance(then, StreamDefinition | TableDefinition):
        raise AssertionError(f"{then.name} is no stream or table")
    called = next(each.name for each in now.values() if each.edge == then.edge)
    return replace(then, name=called, identity=then.edge)
