"""Holding combinations back: rows of a join that all its inputs' rows were let in for, but that a join above has no
partner for as they are (the paper's sub-tuples of Type II: either part is needed, but not the two together).

Of the columns that joins above look at, a combination has values J. All combinations of equal J are made, or none is:
one is made when there are partners for J, or if J has been made before and is still stored. Otherwise it is withheld,
and nothing is kept of it. When a partner comes for J, all combinations with J that were not made are found by going
from the partner to the rows of one side and on to those of the other.

So nothing may be judged differently at different times but by rows that come: J is compared by value, demands are never
given up, and rows that are taken back, which would make J go while its parts are there, are not held back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.blacklist import Flags
from millstream.kernel.demand import Surroundings
from millstream.kernel.foresight import Usual
from millstream.kernel.join_graph import Access, JoinGraph
from millstream.kernel.keys import Positions, mixed
from millstream.kernel.operator import Segment
from millstream.kernel.partners import Link, Stored, words_of
from millstream.kernel.segments import gather
from millstream.kernel.stem import Probe
from millstream.kernel.tree_shape import Demand, Join, inputs_of

Found = tuple[Segment, Positions, Segment, Positions]  # pairs of rows of the left side and of the right


@dataclass(frozen=True)
class _Asking:
    """A demand for combinations: whether partners are there, and the way from a new one to both sides."""

    opposite: Join | int
    to_opposite: Link
    left_first: bool
    to_first: Link
    to_second: Link

    @classmethod
    def of(cls, graph: JoinGraph, join: Join, demand: Demand, usual: Usual) -> _Asking | None:
        """None where it is not equality alone that connects them."""
        to_opposite = Link.between(graph, demand.inputs, join.inputs, usual[demand.opposite])
        links = [Link.between(graph, inputs_of(side), demand.inputs, usual[side]) for side in join.sides]
        left_first = len(links[0].access.probing) >= len(links[1].access.probing)
        first, second = join.sides if left_first else join.sides[::-1]
        known = demand.inputs | inputs_of(first)
        to_second = Link.between(graph, inputs_of(second), known, usual[second])
        to_first = links[0 if left_first else 1]
        if not (to_opposite.by_code and to_first.by_code and to_second.by_code):
            return None
        return cls(demand.opposite, to_opposite, left_first, to_first, to_second)

    def found(self, around: Surroundings, left: Sequence[Stored], right: Sequence[Stored]) -> Iterator[Found]:
        """Pairs of stored rows that new partners are there for, by code."""
        new = around.new(self.opposite)
        if not new.height:
            return
        first, second = (left, right) if self.left_first else (right, left)
        codes = self.to_first.codes(new)
        for one, flags in first:
            for t, i in self.to_first.pairs(one, flags, codes):
                of_one = [name for name in self.to_second.access.probing if name in one.columns]
                of_new = [name for name in self.to_second.access.probing if name not in one.columns]
                words = dict(zip(of_one, (word[i] for word in words_of(one, of_one)), strict=True))
                words |= dict(zip(of_new, (word[t] for word in words_of(new, of_new)), strict=True))
                both = mixed([words[name] for name in self.to_second.access.probing])
                for other, other_flags in second:
                    for p, j in self.to_second.pairs(other, other_flags, both):
                        yield (one, i[p], other, j) if self.left_first else (other, j, one, i[p])


class CombinationGate:
    """Decides which combinations of a join are made."""

    def __init__(self, graph: JoinGraph, join: Join, demands: Sequence[Demand], usual: Usual) -> None:
        found = [_Asking.of(graph, join, demand, usual) for demand in demands if demand.kind != "foreseen"]
        self.asking = [asking for asking in found if asking is not None]
        columns = tuple(dict.fromkeys(name for a in self.asking for name in a.to_opposite.access.probing))
        self.alike, self.usual = Access(columns, columns), usual[join]

    def is_needed(self, rows: pl.DataFrame, made: Sequence[Segment], around: Surroundings) -> Flags:
        """Which of the combinations have partners in all joins above, or are like one that was made."""
        flags = self._is_met(rows, around)
        left = np.flatnonzero(~flags)
        if left.size:
            flags[left] = self._is_made(rows[left], made)
        return flags

    def is_due(self, rows: pl.DataFrame, made: Sequence[Segment], around: Surroundings) -> Flags:
        """Which of the combinations from before are needed now, and were not made."""
        flags = self._is_met(rows, around)
        left = np.flatnonzero(flags)
        if left.size:
            flags[left] = ~self._is_made(rows[left], made)
        return flags

    def found(self, around: Surroundings, left: Sequence[Stored], right: Sequence[Stored]) -> list[Found]:
        """Pairs of stored rows that a partner came for; some of them more than once."""
        return [each for asking in self.asking for each in asking.found(around, left, right)]

    def _is_met(self, rows: pl.DataFrame, around: Surroundings) -> Flags:
        flags = np.ones(rows.height, np.bool_)
        for asking in self.asking:
            left = np.flatnonzero(flags)
            if left.size:
                asked = rows if left.size == rows.height else rows[left]
                flags[left] = asking.to_opposite.has_partner(asked, around.stored(asking.opposite))
        return flags

    def _is_made(self, rows: pl.DataFrame, made: Sequence[Segment]) -> Flags:
        found = np.zeros(rows.height, np.bool_)
        probe = Probe(rows, self.alike, self.usual)
        for segment in made:
            for i, j in probe.candidates(segment):
                found[i[probe.agreeing(segment, i, j, np.arange(i.size))]] = True
        return found


def distinct_pairs(found: Sequence[Found]) -> Iterator[tuple[pl.DataFrame, Segment, Positions]]:
    """The rows of the left side, each with a row of a segment of the right side, every pair once."""
    by_segments: dict[tuple[int, int], tuple[Segment, Segment, list[npt.NDArray[np.int64]]]] = {}
    for left, i, right, j in found:
        by_segments.setdefault((id(left), id(right)), (left, right, []))[2].append(i.astype(np.int64) << 32 | j)
    for left, right, packed in by_segments.values():
        pairs = np.unique(np.concatenate(packed))
        of_left = pl.DataFrame(gather(left, left.columns, (pairs >> 32).astype(np.intp)))
        yield of_left, right, (pairs & 0xFFFFFFFF).astype(np.intp)
