"""Whether rows have partners at all, without making the pairs.

What is asked for is a superset: rows whose keys have equal codes count as partners, and so do rows that do not live at
the same time. Whoever takes a row for needed that is not makes too much, and nothing wrong.

Rows that ask are a frame, or only the words of some of its columns (`keys.word_of`), which is all that equality needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from millstream.kernel.batch import concat, value_column
from millstream.kernel.joins.graph import Access, InputSet, JoinGraph
from millstream.kernel.joins.stem import Probe
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.crossing import Crossing, holds
from millstream.kernel.keys import Codes, Positions, mixed, word_of
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.expressions import TRUE, Expression, columns_used, conjunction
from millstream.kernel.storage.bloom import bloom_of
from millstream.kernel.storage.code_index import CodeIndex, code_index
from millstream.kernel.storage.probing import Pairs, equal_values
from millstream.kernel.storage.segments import gather

_MANY = 2_000  # rows above which a Bloom filter is asked first
Stored = tuple[Segment, Flags | None]  # a segment, and which of its rows count (None: all of them)
WordsByColumn = Mapping[str, Codes]
RowValues = pl.DataFrame | WordsByColumn


def words_of(rows: RowValues, columns: Sequence[str]) -> list[Codes]:
    if isinstance(rows, pl.DataFrame):
        return [word_of(rows.get_column(name)) for name in columns]
    return [rows[name] for name in columns]


def rows_at(rows: RowValues, positions: Positions) -> RowValues:
    if isinstance(rows, pl.DataFrame):
        return pl.DataFrame(gather(rows, rows.columns, positions))
    return {name: word[positions] for name, word in rows.items()}


def number_of(rows: RowValues) -> int:
    return rows.height if isinstance(rows, pl.DataFrame) else next(iter(rows.values())).size


@dataclass(frozen=True)
class Link:
    """How rows find partners among stored rows of other inputs, which are sorted by `usual`."""

    access: Access
    usual: Access
    condition: Expression

    @classmethod
    def between(cls, graph: JoinGraph, stored: InputSet, probing: InputSet, usual: Access) -> Link:
        both = stored | probing
        conditions = [
            c.expression
            for c in graph.conditions
            if c.inputs <= both and c.inputs & stored and c.inputs & probing and len(both) < len(graph.widths)
        ]
        return cls(graph.between(stored, probing), usual, conjunction(conditions))

    @cached_property
    def is_unconditional(self) -> bool:
        """Whether all rows are partners."""
        return not self.access.order[1] and self.condition == TRUE

    @cached_property
    def by_code(self) -> bool:
        return bool(self.access.probing) and self.condition == TRUE

    @cached_property
    def read(self) -> tuple[str, ...]:
        """The columns needed to find partners, of either side."""
        return tuple(dict.fromkeys((*self.access.read, *self.access.stored, *self._compared)))

    @cached_property
    def _compared(self) -> tuple[str, ...]:
        return tuple(value_column(index) for index in sorted(columns_used(self.condition)))

    def codes(self, rows: RowValues) -> Codes:
        return mixed(words_of(rows, self.access.probing))

    def has_partner(self, rows: RowValues, stored: Sequence[Stored]) -> Flags:
        """Which of the rows find one."""
        count = number_of(rows)
        found = np.zeros(count, np.bool_)
        filled = [(segment, flags) for segment, flags in stored if segment.height]
        if not count or not filled:
            return found
        if self.is_unconditional:
            found[:] = any(flags is None or flags.any() for _, flags in filled)
            return found
        codes = self.codes(rows) if self.by_code else None
        left = np.arange(count)
        for segment, flags in filled:
            if codes is not None:
                there = self.has_code(segment, flags, codes[left])
            else:
                assert isinstance(rows, pl.DataFrame)
                checked = rows if left.size == count else pl.DataFrame(gather(rows, rows.columns, left))
                there = self._is_probing(checked, segment, flags)
            found[left[there]] = True
            left = left[~there]
        return found

    def has_living(self, codes: Codes, stored: Iterable[tuple[Segment, int]]) -> Flags:
        """Which of the codes are those of rows that last beyond the horizon of their segment."""
        found = np.zeros(codes.size, np.bool_)
        left = np.arange(codes.size)
        for segment, horizon in stored:
            if segment.height and left.size:
                there = self._index(segment).lasts_beyond(horizon, codes[left])
                found[left[there]] = True
                left = left[~there]
        return found

    def partners(self, rows: RowValues, segments: Sequence[Segment]) -> list[Positions]:
        """For each segment the positions of its rows that are partners of any of the rows, some perhaps repeatedly."""
        if not number_of(rows):
            return [np.zeros(0, np.intp) for _ in segments]
        if self.is_unconditional:
            return [np.arange(segment.height) for segment in segments]
        if self.by_code:
            codes = self.codes(rows)
            return [self._with_code(segment, codes) for segment in segments]
        assert isinstance(rows, pl.DataFrame)
        nothing = np.zeros(0, np.intp)
        return [np.concatenate([nothing, *(j for _, j in self._pairs(rows, one, None))]) for one in segments]

    def _with_code(self, segment: Segment, codes: Codes) -> Positions:
        if codes.size > _MANY:
            codes = codes[bloom_of(segment, self.access.stored).may_have(codes)]
        found = [j for _, j in self._index(segment).pairs(codes)]
        return np.concatenate(found) if found else np.zeros(0, np.intp)

    def pairs(self, segment: Segment, flags: Flags | None, codes: Codes) -> Iterator[Pairs]:
        """(number of the code, position in the segment) of rows that count and have one of the codes."""
        if not segment.height:
            return
        checked = None
        if codes.size > _MANY:
            checked = np.flatnonzero(bloom_of(segment, self.access.stored).may_have(codes))
            codes = codes[checked]
        for i, j in self._index(segment).pairs(codes):
            kept = np.arange(j.size) if flags is None else np.flatnonzero(flags[j])
            yield i[kept] if checked is None else checked[i[kept]], j[kept]

    def equal(self, rows: pl.DataFrame, segment: Segment, flags: Flags | None = None) -> Flags:
        """Which of the rows have the values of a stored one that counts: not only its code."""
        found = np.zeros(rows.height, np.bool_)
        if not segment.height or not rows.height:
            return found
        # One of equal code is like nearly all others that have it, of which there may be many.
        first = self._first(segment, self.codes(rows), flags)
        left = np.flatnonzero(first >= 0)
        equal = equal_values(rows, segment, left, first[left], self.access.probing, self.access.stored)
        found[left[equal]] = True
        others = left[~equal]
        if others.size:
            probe = Probe(pl.DataFrame(gather(rows, rows.columns, others)), self.access, self.usual)
            for i, j in probe.candidates(segment):
                kept = np.arange(i.size) if flags is None else np.flatnonzero(flags[j])
                found[others[i[probe.agreeing(segment, i, j, kept)]]] = True
        return found

    def _first(self, segment: Segment, codes: Codes, flags: Flags | None) -> Positions:
        """For each code the position of one row that counts and has it, or -1."""
        index = self._index(segment)
        at: Positions = index.codes.searchsorted(codes)
        if flags is not None:
            counting = np.flatnonzero(flags if index.places is None else flags[index.places])
            at = np.append(counting, index.codes.size)[counting.searchsorted(at)]
        there = np.minimum(at, index.codes.size - 1)
        positions = there if index.places is None else index.places[there].astype(np.intp)
        return np.where((at < index.codes.size) & (index.codes[there] == codes), positions, -1)

    def _index(self, segment: Segment) -> CodeIndex:
        by_value, columns = self.usual.order
        return code_index(segment, self.access.stored, () if by_value else columns)

    def has_code(self, segment: Segment, flags: Flags | None, codes: Codes) -> Flags:
        """Which of the codes are those of rows that count."""
        found = np.ones(codes.size, np.bool_)
        if codes.size > _MANY:
            found = bloom_of(segment, self.access.stored).may_have(codes)
        checked = np.flatnonzero(found)
        if not checked.size:
            return found
        index, codes = self._index(segment), codes[checked]
        first = index.codes.searchsorted(codes)
        there: Flags = index.codes[np.minimum(first, index.codes.size - 1)] == codes
        if flags is not None and not flags.all() and there.any():
            # Of those that are there it counts whether one of them is in: the number of these up to each place tells.
            order = flags if index.places is None else flags[index.places]
            upto = np.concatenate([[0], order.cumsum()])
            rows = np.flatnonzero(there)
            past = index.codes.searchsorted(codes[rows], side="right")
            there[rows] = upto[past] > upto[first[rows]]
        found[checked] = there
        return found

    def _is_probing(self, rows: pl.DataFrame, segment: Segment, flags: Flags | None) -> Flags:
        found = np.zeros(rows.height, np.bool_)
        for i, _ in self._pairs(rows, segment, flags):
            found[i] = True
        return found

    @cached_property
    def _crossing(self) -> Crossing | None:
        """How pairs are found that nothing but the condition connects."""
        return Crossing.of(self.condition) if not self.access.order[1] and self.condition != TRUE else None

    def _pairs(self, rows: pl.DataFrame, segment: Segment, flags: Flags | None) -> Iterator[Pairs]:
        """(row, position in the segment) that the condition holds for."""
        if self._crossing is not None:
            yield from self._crossing.pairs(rows, segment, flags)
            return
        for i, j in Probe(rows, self.access, self.usual).candidates(segment):
            if flags is not None:
                kept = flags[j]
                i, j = i[kept], j[kept]
            if self.condition != TRUE:
                kept = holds(self.condition, (rows, i), (segment, j))
                i, j = i[kept], j[kept]
            yield i, j

    def extended(self, rows: pl.DataFrame, segments: Sequence[Segment], kept: Sequence[str]) -> pl.DataFrame:
        """The rows with the columns of their partners, of which some are kept: one row for each pair."""
        of_rows = [name for name in kept if name in rows.columns]
        of_stored = [name for name in kept if name not in rows.columns]
        sides = (rows, of_rows), (segments[0], of_stored)
        like = pl.DataFrame([frame.get_column(name).clear() for frame, names in sides for name in names])
        pieces = [like]
        for segment in segments:
            for i, j in self._pairs(rows, segment, None) if segment.height and rows.height else ():
                pieces.append(pl.DataFrame([*gather(rows, of_rows, i), *gather(segment, of_stored, j)]))
        return concat(pieces, like)

    def extended_words(self, rows: WordsByColumn, segments: Sequence[Segment], kept: Sequence[str]) -> WordsByColumn:
        """The same for words, where partners are found by code."""
        codes = self.codes(rows)
        pieces: dict[str, list[Codes]] = {name: [codes[:0]] for name in kept}
        for segment in segments:
            if not segment.height:
                continue
            for i, at in self._index(segment).pairs(codes):
                for name, found in pieces.items():
                    found.append(rows[name][i] if name in rows else word_of(segment.get_column(name))[at])
        return {name: np.concatenate(found) for name, found in pieces.items()}
