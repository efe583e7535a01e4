"""Equal queries of a group: one row of the query table with many names.

    a query comes ──no other selects the same──▶ a row of its own, with its number
                  ──one does───────────────────▶ a name for that row, which operators do not see

A row is there as long as any of its queries is. When the query goes whose words it has, it takes those of another one:
the number stays, and so does all that is kept under it. Each query keeps its own number, its own text, and its own
first answerable instant.

Who comes late has the row of one that has seen no less, where it is the same from the first answerable instant on: not
where an answer depends on where the past begins, nor where what fails counts from another instant on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from millstream.engine.past import WHOLE, Past

UNKNOWN = -1  # of a query of an earlier process


@dataclass(frozen=True)
class Departure:
    """Queries that go, the rows that are gone by it, and those that take the words of another one of their queries."""

    queries: tuple[int, ...]
    gone: frozenset[int]
    words: Mapping[int, int]  # by row: that query


@dataclass
class EqualQueries:
    """Which rows of a query table have many names; changed under the lock of commits."""

    _rows: dict[int, int] = field(default_factory=dict)  # by query without a row of its own: the row that it has
    _names: dict[int, dict[int, None]] = field(default_factory=dict)  # by row that has had others: its queries
    _words: dict[int, int] = field(default_factory=dict)  # by row that has lost its first query: whose words it has
    _pasts: dict[int, Past] = field(default_factory=dict)  # of rows that have not seen all of it
    # By what is selected and what counts of the past: the row, and the other way round. None: nobody has looked yet.
    _known: dict[Hashable, int] | None = None
    _keys: dict[int, Hashable] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many queries have no row of their own."""
        return len(self._rows)

    @property
    def without_row(self) -> int:
        """How many more queries there are than rows: a row may have the words of one that came later."""
        return len(self._rows) - len(self._words)

    def row_of(self, query: int) -> int:
        return self._rows.get(query, query)

    def number_of_names(self, row: int) -> int:
        return len(self._names[row]) if row in self._names else 1

    def words_of(self, row: int) -> int:
        """The query whose words a row has."""
        return self._words.get(row, row)

    def has_lost_its_first(self, row: int) -> bool:
        """Whether a row has the words of another query than the one whose number it has."""
        return row in self._words

    # Who comes

    @property
    def is_known(self) -> bool:
        """Whether somebody has looked what the rows select."""
        return self._known is not None

    def know(self, rows: Iterable[tuple[int, Hashable]]) -> None:
        """Rows that were there before, and what they select."""
        self._known = {}
        for row, selected in rows:
            self._note(row, _key(selected, self._pasts[row]) if row in self._pasts else selected)

    def join(
        self, queries: Sequence[int], selected: Sequence[Hashable], past: Past, is_over: Callable[[int], bool]
    ) -> list[int]:
        """Queries come that have this past; the rows that they have: their own, or those of equal ones that go on."""
        known = self._known if self._known is not None else {}
        is_plain, found = _is_plain(past), []
        for query, own in zip(queries, selected, strict=True):
            key = own if is_plain else _key(own, past)
            row = known.get(key)
            if row is None or is_over(row) or not _has_seen_no_less(self._pasts.get(row, WHOLE), past):
                row = query
                self.note_past(row, past)
                self._note(row, key)
            else:
                self._add(query, row)
            found.append(row)
        return found

    def note_past(self, row: int, past: Past) -> None:
        """What the query of a row has of the past."""
        if past.is_recorded:
            self._pasts[row] = past

    def recover(self, rows: Mapping[int, int], nameless: Iterable[int]) -> None:
        """Queries that have rows of others, by what an earlier process kept, and rows that lost their first query."""
        for row in nameless:
            self._names[row] = {}
            self._words[row] = UNKNOWN
        for query, row in rows.items():
            self._add(query, row)

    def _add(self, query: int, row: int) -> None:
        self._rows[query] = row
        self._names.setdefault(row, {row: None})[query] = None

    def _note(self, row: int, key: Hashable) -> None:
        if self._known is not None:
            self._known[key] = row
            self._keys[row] = key

    # Who goes

    def withdraw(self, queries: Iterable[int]) -> None:
        """Queries have not come after all."""
        self.leave(replace(self.departure(queries), words={}))

    def departure(self, queries: Iterable[int]) -> Departure:
        """What it would come to if queries went."""
        left = (*dict.fromkeys(queries),)
        leaving: dict[int, set[int]] = {}
        for query in left:
            leaving.setdefault(self.row_of(query), set()).add(query)
        gone, words = {query for query in left if query in self._rows}, dict[int, int]()
        for row, names in leaving.items():
            if len(names) == self.number_of_names(row):
                gone.add(row)
            elif self.words_of(row) in (*names, UNKNOWN):
                # The last that came: where they go in the order in which they came, it stays to the end.
                words[row] = next(name for name in reversed(self._names[row]) if name not in names)
        return Departure(left, frozenset(gone), words)

    def leave(self, departure: Departure) -> None:
        """They are gone."""
        self._words.update(departure.words)
        for query in departure.queries:
            row = self._rows.pop(query, query)
            if row in self._names:
                del self._names[row][query]
        for row in departure.gone:
            self._names.pop(row, None)
            self._words.pop(row, None)
            self._pasts.pop(row, None)
            key = self._keys.pop(row, None)
            if self._known is not None and self._known.get(key) == row:
                del self._known[key]


def _key(selected: Hashable, past: Past) -> Hashable:
    """Queries of which the keys are equal may have one row."""
    return selected if _is_plain(past) else (selected, past.run_with)


def _is_plain(past: Past) -> bool:
    return past.run_with == WHOLE.run_with


def _has_seen_no_less(one: Past, other: Past) -> bool:
    return all(first <= other.kept.get(source, 0) for source, first in one.kept.items())
