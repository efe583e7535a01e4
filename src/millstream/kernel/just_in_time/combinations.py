"""Holding combinations back: rows of a join that all its inputs' rows were admitted for, but that a join above has no
partner for as they are (the paper's sub-tuples of Type II: either part is needed, but not the two together).

Of the columns that joins above look at, a combination has values J. All combinations of equal J are made, or none is:
one is made when there are partners for J, or if J has been made before and is still stored. Otherwise it is withheld,
and nothing is kept of it. When a partner comes for J, all combinations with J that were not made are found by going
from the partner to the rows of one side and on to those of the other.

So nothing may be judged differently at different times but by rows that come: J is compared by value, and rows that are
taken back, which would make J go while its parts are there, are not held back. Where most combinations turn out to be
needed, nothing is withheld for a while; what was before is made then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.joins.graph import Access, JoinGraph
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.look_ahead import Usual
from millstream.kernel.just_in_time.partners import Link, Stored, rows_at, words_of
from millstream.kernel.just_in_time.surroundings import Surroundings
from millstream.kernel.just_in_time.tree_shape import Demand, TreeJoin, inputs_of
from millstream.kernel.keys import Positions, mixed, word_of
from millstream.kernel.operator import Segment, State
from millstream.kernel.scalar.expressions import TRUE
from millstream.kernel.storage.segments import gather

Found = tuple[Segment, Positions, Segment, Positions]  # pairs of rows of either side


@dataclass(frozen=True)
class _CombinationCheck:
    """A demand for combinations: whether partners are there, and the way from a new one to both sides."""

    demand: Demand
    to_opposite: Link
    left_first: bool
    to_first: Link
    to_second: Link
    like: Link  # to combinations that were made, by the columns that are asked for

    @classmethod
    def of(cls, graph: JoinGraph, join: TreeJoin, demand: Demand, usual: Usual) -> _CombinationCheck | None:
        """None where it is not equality alone that connects them, or where it says no more than for single rows."""
        to_opposite = Link.between(graph, demand.inputs, join.inputs, usual[demand.opposite])
        links = [Link.between(graph, inputs_of(side), demand.inputs, usual[side]) for side in join.sides]
        left_first = len(links[0].access.probing) >= len(links[1].access.probing)
        first, second = join.sides if left_first else join.sides[::-1]
        known = demand.inputs | inputs_of(first)
        to_second = Link.between(graph, inputs_of(second), known, usual[second])
        to_first = links[0 if left_first else 1]
        if not (to_opposite.by_code and to_first.by_code and to_second.by_code):
            return None
        if demand.kind == "arrived" and not all(link.access.probing for link in links):
            return None
        columns = to_opposite.access.probing
        like = Link(Access(columns, columns), usual[join], TRUE)
        return cls(demand, to_opposite, left_first, to_first, to_second, like)

    def stored(self, around: Surroundings) -> list[Stored]:
        if self.demand.kind == "arrived" and isinstance(self.demand.opposite, int):
            return around.arrived_rows(self.demand.opposite)
        return around.stored(self.demand.opposite)

    def new_partners(self, around: Surroundings) -> Segment:
        if self.demand.kind == "arrived" and isinstance(self.demand.opposite, int):
            return around.arrived[self.demand.opposite]
        return around.new(self.demand.opposite)

    def found(self, around: Surroundings, left: Sequence[Stored], right: Sequence[Stored]) -> Iterator[Found]:
        """Pairs of stored rows that new partners are there for, by code."""
        new = self.new_partners(around)
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

    def __init__(self, graph: JoinGraph, join: TreeJoin, demands: Sequence[Demand], usual: Usual) -> None:
        found = [_CombinationCheck.of(graph, join, one, usual) for demand in demands for one in _looked_through(demand)]
        self.checks = [check for check in found if check is not None]
        columns = tuple(dict.fromkeys(name for a in self.checks for name in a.to_opposite.access.probing))
        self.alike, self.usual = Access(columns, columns), usual[join]

    def begun(self, state: State) -> CombinationGate:
        """The gate for one step."""
        return self

    def prepare(self, around: Surroundings, *, given_up: bool) -> None:
        """When all that is asked is settled, before combinations are made: all of them, if it is given up."""

    @property
    def looks_through(self) -> bool:
        """Whether inputs of a join are asked that is not made yet."""
        return any(check.demand.kind == "arrived" for check in self.checks)

    def may_be_needed(self, pairs: Found, made: Sequence[Segment], around: Surroundings) -> Flags:
        """For pairs of rows of either side whether their combination may be needed, without making it."""
        rows, i, others, j = pairs
        flags = np.ones(i.size, np.bool_)
        for number in range(len(self.checks)):
            left = np.flatnonzero(flags)
            if not left.size:
                break
            flags[left] = self.may_meet(number, (rows, i[left], others, j[left]), made, around)
        return flags

    def may_meet(self, number: int, pairs: Found, made: Sequence[Segment], around: Surroundings) -> Flags:
        """The same for one demand: for which of the pairs there is a partner, or a combination like it."""
        rows, i, others, j = pairs
        check = self.checks[number]
        words = {}
        for name in check.to_opposite.access.probing:
            frame, positions = (rows, i) if name in rows.columns else (others, j)
            words[name] = word_of(frame.get_column(name))[positions]
        met = check.to_opposite.has_partner(words, check.stored(around))
        if not met.all():
            unmet = np.flatnonzero(~met)
            met[unmet] = check.like.has_partner(rows_at(words, unmet), [(segment, None) for segment in made])
        return met

    def is_needed(self, rows: pl.DataFrame, made: Sequence[Segment], around: Surroundings) -> Flags:
        """Which of the combinations have partners in all joins above, or are like one that was made."""
        flags = self.is_met(rows, around)
        left = np.flatnonzero(~flags)
        if left.size:
            flags[left] = self.is_made(_at(rows, left), made)
        return flags

    def is_due(self, rows: pl.DataFrame, made: Sequence[Segment], around: Surroundings) -> Flags:
        """Which of the combinations from before are needed now, and were not made."""
        flags = self.is_met(rows, around)
        left = np.flatnonzero(flags)
        if left.size:
            flags[left] = ~self.is_made(_at(rows, left), made)
        return flags

    def new_partners(self, around: Surroundings) -> int:
        """How many rows came that combinations may have waited for."""
        return sum(check.new_partners(around).height for check in self.checks)

    def found(self, around: Surroundings, left: Sequence[Stored], right: Sequence[Stored]) -> list[Found]:
        """Pairs of stored rows that a partner came for; some of them more than once."""
        return [each for check in self.checks for each in check.found(around, left, right)]

    def is_met(self, rows: pl.DataFrame, around: Surroundings) -> Flags:
        flags = np.ones(rows.height, np.bool_)
        for check in self.checks:
            stored = check.stored(around)
            # By value: one that only has the code of a partner is not found from it, unlike others with the same keys.
            flags = _among(check.to_opposite, rows, np.flatnonzero(flags), stored)
        return flags

    def is_made(self, rows: pl.DataFrame, made: Sequence[Segment]) -> Flags:
        like = Link(self.alike, self.usual, TRUE)
        return _among(like, rows, np.arange(rows.height), [(segment, None) for segment in made])


def _at(rows: pl.DataFrame, positions: Positions) -> pl.DataFrame:
    return pl.DataFrame(gather(rows, rows.columns, positions))


def _among(link: Link, rows: pl.DataFrame, checked: Positions, stored: Sequence[Stored]) -> Flags:
    """Which of the rows asked for have the values of one that is stored."""
    found = np.zeros(rows.height, np.bool_)
    for segment, flags in stored:
        if checked.size and segment.height:
            own = rows if checked.size == rows.height else _at(rows, checked)
            there = link.equal(own, segment, flags)
            found[checked[there]] = True
            checked = checked[~there]
    return found


def _looked_through(demand: Demand) -> list[Demand]:
    """A join that is not made yet is asked input by input."""
    return [Demand(source, "arrived") for source in sorted(demand.inputs)] if demand.kind == "foreseen" else [demand]


def distinct_pairs(found: Sequence[Found]) -> Iterator[Found]:
    """Every pair once."""
    by_segments: dict[tuple[int, int], tuple[Segment, Segment, list[npt.NDArray[np.int64]]]] = {}
    for left, i, right, j in found:
        by_segments.setdefault((id(left), id(right)), (left, right, []))[2].append(i.astype(np.int64) << 32 | j)
    for left, right, packed in by_segments.values():
        pairs = np.unique(np.concatenate(packed))
        yield left, (pairs >> 32).astype(np.intp), right, (pairs & 0xFFFFFFFF).astype(np.intp)
