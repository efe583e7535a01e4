"""Whether rows have partners at all, without making the pairs.

What is asked for is a superset: rows whose keys have equal codes count as partners, and so do rows that do not live at
the same time. Whoever takes a row for needed that is not makes too much, and nothing wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.kernel.batch import concat, value_column
from millstream.kernel.blacklist import Flags
from millstream.kernel.bloom import bloom_of
from millstream.kernel.join_graph import Access, Inputs, JoinGraph
from millstream.kernel.keys import Codes, Positions, key_codes
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.evaluate import select_true
from millstream.kernel.scalar.expressions import TRUE, Expression, columns_used, conjunction
from millstream.kernel.segments import codes_of, gather
from millstream.kernel.stem import Probe, index_of, positions_of

_ROW, _POSITION = "_row", "_position"
Stored = tuple[Segment, Flags | None]  # a segment, and which of its rows count (None: all of them)


@dataclass(frozen=True)
class Link:
    """How rows find partners among stored rows of other inputs, which are sorted by `usual`."""

    access: Access
    usual: Access
    condition: Expression

    @classmethod
    def between(cls, graph: JoinGraph, stored: Inputs, probing: Inputs, usual: Access) -> Link:
        both = stored | probing
        conditions = [
            c.expression
            for c in graph.conditions
            if c.inputs <= both and c.inputs & stored and c.inputs & probing and len(both) < len(graph.widths)
        ]
        return cls(graph.between(stored, probing), usual, conjunction(conditions))

    @property
    def says_nothing(self) -> bool:
        """Whether all rows are partners."""
        return not self.access.order[1] and self.condition == TRUE

    @property
    def by_code(self) -> bool:
        return bool(self.access.probing) and self.condition == TRUE

    @property
    def read(self) -> tuple[str, ...]:
        """The columns needed to find partners, of either side."""
        more = (value_column(index) for index in sorted(columns_used(self.condition)))
        return tuple(dict.fromkeys((*self.access.read, *self.access.stored, *more)))

    def has_partner(self, rows: pl.DataFrame, stored: Sequence[Stored], *, bloom: bool = False) -> Flags:
        """Which of the rows find one."""
        found = np.zeros(rows.height, np.bool_)
        if not rows.height:
            return found
        if self.says_nothing:
            found[:] = any(segment.height if flags is None else flags.any() for segment, flags in stored)
            return found
        codes = key_codes(rows, self.access.probing) if self.by_code else None
        for segment, flags in stored:
            if not segment.height:
                continue
            left = np.flatnonzero(~found)
            if not left.size:
                break
            if codes is not None and bloom:
                found[left] = bloom_of(segment, self.access.stored).may_have(codes[left])
            elif codes is not None:
                found[left] = self._has_code(segment, flags, codes[left])
            else:
                found[left] = self._is_probing(pl.DataFrame(gather(rows, rows.columns, left)), segment, flags)
        return found

    def partners(self, rows: pl.DataFrame, segment: Segment) -> Positions:
        """The positions in the segment of rows that are partners of any of the rows, in order."""
        if not rows.height or not segment.height:
            return np.zeros(0, np.intp)
        if self.says_nothing:
            return np.arange(segment.height)
        found = np.zeros(segment.height, np.bool_)
        if self.by_code:
            index = self._index(segment)
            own, wanted = codes_of(index), np.unique(key_codes(rows, self.access.probing))
            first, past = own.searchsorted(wanted), own.searchsorted(wanted, side="right")
            there = past > first
            counts = past[there] - first[there]
            ends = counts.cumsum()
            runs = np.arange(int(ends[-1]) if ends.size else 0) + (first[there] + counts - ends).repeat(counts)
            found[runs if index is segment else positions_of(index)[runs]] = True
        else:
            for pairs in self._pairs(rows, segment, None):
                found[pairs[_POSITION].to_numpy()] = True
        return np.flatnonzero(found)

    def _index(self, segment: Segment) -> Segment:
        return segment if self.access.order == self.usual.order else index_of(segment, self.access.order)

    def _has_code(self, segment: Segment, flags: Flags | None, codes: Codes) -> Flags:
        index = self._index(segment)
        own = codes_of(index)
        first = own.searchsorted(codes)
        found: Flags = own[np.minimum(first, own.size - 1)] == codes
        if flags is None or flags.all() or not found.any():
            return found
        # Of those that are there it counts whether one of them is in: the number of such rows up to each place tells.
        order = flags if index is segment else flags[positions_of(index)]
        upto = np.concatenate([[0], order.cumsum()])
        rows = np.flatnonzero(found)
        past = own.searchsorted(codes[rows], side="right")
        found[rows] = upto[past] > upto[first[rows]]
        return found

    def _is_probing(self, rows: pl.DataFrame, segment: Segment, flags: Flags | None) -> Flags:
        found = np.zeros(rows.height, np.bool_)
        for pairs in self._pairs(rows, segment, flags):
            found[pairs[_ROW].to_numpy()] = True
        return found

    def _pairs(self, rows: pl.DataFrame, segment: Segment, flags: Flags | None) -> list[pl.DataFrame]:
        """Pairs (row, position in the segment) that the condition holds for."""
        probe = Probe(rows, self.access, self.usual)
        read = [value_column(index) for index in sorted(columns_used(self.condition))]
        of_rows = [name for name in read if name in rows.columns]
        of_stored = [name for name in read if name not in rows.columns]
        found = []
        for i, j in probe.candidates(segment):
            if flags is not None:
                kept = flags[j]
                i, j = i[kept], j[kept]
            numbered = [pl.Series(_ROW, i), pl.Series(_POSITION, j)]
            pairs = pl.DataFrame([*numbered, *gather(rows, of_rows, i), *gather(segment, of_stored, j)])
            found.append(pairs if self.condition == TRUE else select_true(pairs, self.condition))
        return found

    def extended(self, rows: pl.DataFrame, segments: Sequence[Segment], kept: Sequence[str]) -> pl.DataFrame:
        """The rows with the columns of their partners, of which some are kept: one row for each pair."""
        of_rows = [name for name in kept if name in rows.columns]
        of_stored = [name for name in kept if name not in rows.columns]
        pieces = [rows.clear().select(of_rows)]
        pieces[0] = pieces[0].with_columns(segments[0].clear().select(of_stored)) if segments else pieces[0]
        for segment in segments:
            if not segment.height:
                continue
            if self.condition != TRUE:
                pairs = [
                    (p[_ROW].to_numpy().astype(np.intp), p[_POSITION].to_numpy().astype(np.intp))
                    for p in self._pairs(rows, segment, None)
                ]
            else:
                pairs = list(Probe(rows, self.access, self.usual).candidates(segment))
            pieces += [pl.DataFrame([*gather(rows, of_rows, i), *gather(segment, of_stored, j)]) for i, j in pairs]
        return concat(pieces, pieces[0])
