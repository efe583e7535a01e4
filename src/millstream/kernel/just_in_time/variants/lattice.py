"""Which sub-tuples of combinations a join above has no partner for: the lattice of Yang and Papadias (Figures 7 and 8).

A combination is a pair of rows, of the left and of the right side of a join. Its components are those inputs of the
join that a demand looks at, and a sub-tuple is a set of components (a `LatticeNode`) with the code of their keys. It is
demanded if a row opposite has equal keys, or if a combination with it has been made; a part of it is demanded then too.

    level 3        abc                 Of a combination that is not demanded, the minimal sub-tuples that are not are
    level 2     ab  ac  bc             asked for level by level, each distinct one once, and only if all its parts are
    level 1      a   b   c             demanded: in the paper's line 14, a node that was matched is no MNS either.
    level 0          ∅                 ∅ is for whoever asks to know: that there is nothing opposite at all.

A sub-tuple that lies on one side of the join is carried by rows of that side, one that does not by pairs only. Pairs of
which a row carries one are not needed whatever else they are, so that they are not asked for across.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Protocol

import numpy as np
import numpy.typing as npt

from millstream.kernel.batch import END
from millstream.kernel.joins.graph import Access, InputSet, JoinGraph
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.partners import Link, WordsByColumn
from millstream.kernel.just_in_time.tree_shape import TreeJoin, inputs_of
from millstream.kernel.just_in_time.variants.bloom import BloomLink
from millstream.kernel.keys import Codes, Positions, mixed, word_of
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.expressions import TRUE
from millstream.kernel.storage.segments import gather, numbers

_MOST_IN_FULL = 4  # components up to which every set of them is a node; of more, the single ones, pairs, and all
_WIDEST_TABLE = 16  # places in a table, for each pair, up to which it is quicker than sorting
ColumnNames = tuple[str, ...]
Ends = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LatticeNode:
    """A set of components: their columns, those on either side, and how partners and combinations are found by them."""

    components: InputSet
    columns: ColumnNames
    sides: tuple[ColumnNames, ColumnNames]
    to_opposite: Link
    like: Link
    is_whole: bool

    @property
    def side(self) -> int | None:
        """The side on which all of it lies."""
        return None if all(self.sides) else 0 if self.sides[0] else 1

    @property
    def number(self) -> int:
        """Its name in the state, which says the components."""
        return sum(1 << component for component in self.components)


def nodes_of(
    graph: JoinGraph, join: TreeJoin, to_opposite: Link, like: Link, link: type[Link] = Link
) -> tuple[LatticeNode, ...]:
    """All nodes for the combinations of a join that look for partners as `to_opposite` does, the smaller ones first.

    What is asked of a whole combination is as it is without a lattice; that a part of it seems to be demanded that is
    not, by its `link`, only costs asking for more.
    """
    access = to_opposite.access
    owner = {name: graph.places[name][0] for name in access.probing}
    components = sorted(set(owner.values()))
    count = len(components)
    sizes = [size for size in range(1, count + 1) if count <= _MOST_IN_FULL or size <= 2 or size == count]
    left = inputs_of(join.left)
    nodes = []
    for chosen in (frozenset(some) for size in sizes for some in combinations(components, size)):
        both = [pair for pair in zip(access.stored, access.probing, strict=True) if owner[pair[1]] in chosen]
        own = tuple(name for _, name in both)
        is_whole = len(chosen) == count
        there, alike = (Link, Link) if is_whole else (link, BloomLink)
        sides = (
            tuple(name for name in own if owner[name] in left),
            tuple(name for name in own if owner[name] not in left),
        )
        ways = (
            there(Access(tuple(name for name, _ in both), own), to_opposite.usual, TRUE),
            alike(Access(own, own), like.usual, TRUE),
        )
        nodes.append(LatticeNode(chosen, own, sides, *ways, is_whole))
    return tuple(nodes)


@dataclass(frozen=True)
class Parts:
    """The distinct keys among rows: their codes, a row that has each, and which one each row has."""

    codes: Codes
    rows: Positions
    of_rows: Positions


class SideOfPairs:
    """The rows of a side that are in any of the pairs."""

    def __init__(self, rows: Segment, positions: Positions) -> None:
        self.segment = rows
        if rows.height <= 4 * positions.size:
            there = np.zeros(rows.height, np.bool_)
            there[positions] = True
            self.rows = np.flatnonzero(there)
            places = np.empty(rows.height, np.int32)  # of those that are there
            places[self.rows] = np.arange(self.rows.size)
            self.of_pairs: Positions = places[positions].astype(np.intp)
        else:
            self.rows, self.of_pairs = np.unique(positions, return_inverse=True)
        self._words: dict[str, Codes] = {}
        self._parts: dict[ColumnNames, Parts] = {}
        self._of_pairs: dict[ColumnNames, Positions] = {}

    def word(self, name: str) -> Codes:
        if name not in self._words:
            self._words[name] = word_of(gather(self.segment, [name], self.rows)[0])
        return self._words[name]

    def codes(self, columns: ColumnNames) -> Codes:
        return mixed([self.word(name) for name in columns])

    @cached_property
    def ends(self) -> Ends:
        return numbers(self.segment, END)[self.rows]

    def parts(self, columns: ColumnNames) -> Parts:
        if columns not in self._parts:
            self._parts[columns] = Parts(*np.unique(self.codes(columns), return_index=True, return_inverse=True))
        return self._parts[columns]

    def parts_of_pairs(self, columns: ColumnNames, pairs: Positions) -> Positions:
        """The number of the part in each of these pairs."""
        if columns not in self._of_pairs:
            self._of_pairs[columns] = self.parts(columns).of_rows[self.of_pairs]
        every = self._of_pairs[columns]
        return every if pairs.size == every.size else every[pairs]


class Opposite(Protocol):
    """What stands opposite, and what is remembered of it."""

    def remembers(self, node: LatticeNode) -> bool:
        """Whether any sub-tuples of a node are known not to be demanded."""
        ...

    def knows(self, node: LatticeNode, codes: Codes) -> Flags:
        """Which are."""
        ...

    def marks(self, node: LatticeNode, side: int, codes: Codes) -> Flags:
        """Which parts of sub-tuples belong to such a one."""
        ...

    def is_checked(self, node: LatticeNode) -> bool:
        """Whether it is worth while to ask for sub-tuples of a node; of the whole, to ask for each once and to remember
        it, since the pairs must be asked for anyway."""
        ...

    def demands(self, node: LatticeNode, words: WordsByColumn) -> Flags:
        """Which sub-tuples are demanded."""
        ...

    def note(self, node: LatticeNode, codes: Codes, parts: tuple[Codes, Codes], ends: Ends) -> int:
        """Sub-tuples that are not; how many of them, from the first on, will be remembered."""
        ...

    def count(self, node: LatticeNode, pairs: int, checked: int) -> None:
        """For so many pairs there were so many sub-tuples to ask for."""
        ...


def carrying(nodes: Sequence[LatticeNode], left: SideOfPairs, right: SideOfPairs, opposite: Opposite) -> Flags:
    """Which of the pairs have a minimal sub-tuple that is not demanded."""
    flags = np.zeros(left.of_pairs.size, np.bool_)
    for number, side in enumerate((left, right)):
        of_rows = _within([node for node in nodes if node.side == number], number, side, opposite)
        if of_rows is not None:
            flags |= of_rows[side.of_pairs]
    across = [node for node in nodes if node.side is None]
    pairs = np.flatnonzero(~flags) if across else np.zeros(0, np.intp)
    if pairs.size:
        flags[pairs] = _across(across, pairs, left, right, opposite)
    return flags


def _within(nodes: Sequence[LatticeNode], number: int, side: SideOfPairs, opposite: Opposite) -> Flags | None:
    """The same for the rows of a side; None where there are no nodes."""
    carried: dict[InputSet, Flags] = {}
    for node in nodes:
        is_checked = node.is_whole or opposite.is_checked(node)
        if not is_checked:
            if opposite.remembers(node):
                carried[node.components] = opposite.knows(node, side.codes(node.columns))
            continue
        parts = side.parts(node.columns)
        known = opposite.knows(node, parts.codes)
        checked = ~known
        below = [flags for components, flags in carried.items() if components < node.components]
        if below:
            alive = np.zeros(checked.size, np.bool_)
            alive[parts.of_rows[~np.logical_or.reduce(below)]] = True
            checked &= alive
        checked_parts = np.flatnonzero(checked)
        if checked_parts.size:
            at = parts.rows[checked_parts]
            new = checked_parts[~opposite.demands(node, {name: side.word(name)[at] for name in node.columns})]
            if new.size:
                nothing = np.zeros(new.size, np.uint64)
                codes = parts.codes[new]
                both = (codes, nothing) if number == 0 else (nothing, codes)
                noted = opposite.note(node, codes, both, side.ends[parts.rows[new]])
                known[new if node.is_whole else new[:noted]] = True
        carried[node.components] = known[parts.of_rows]
    return np.logical_or.reduce(list(carried.values())) if carried else None


def _across(
    nodes: Sequence[LatticeNode], pairs: Positions, left: SideOfPairs, right: SideOfPairs, opposite: Opposite
) -> Flags:
    """For the pairs, none of whose rows carries one."""
    carried: dict[InputSet, Flags] = {}
    carry_any = np.zeros(pairs.size, np.bool_)
    for node in nodes:
        if not (node.is_whole or opposite.is_checked(node) or opposite.remembers(node)):
            continue
        below = [flags for components, flags in carried.items() if components < node.components]
        alive = np.flatnonzero(~np.logical_or.reduce(below)) if below else np.arange(pairs.size)
        if alive.size:
            flags = np.zeros(pairs.size, np.bool_)
            flags[alive] = _carry(node, pairs[alive], left, right, opposite)
            carried[node.components] = flags
            carry_any |= flags
    return carry_any


def _carry(node: LatticeNode, pairs: Positions, left: SideOfPairs, right: SideOfPairs, opposite: Opposite) -> Flags:
    """Which of the pairs have a sub-tuple of a node that is not demanded, if its parts are."""
    if node.is_whole and not opposite.is_checked(node):
        at = left.of_pairs[pairs], right.of_pairs[pairs]
        words = {
            name: side.word(name)[i] for own, side, i in zip(node.sides, (left, right), at, strict=True) for name in own
        }
        return ~opposite.demands(node, words)
    parts = left.parts(node.sides[0]), right.parts(node.sides[1])
    one, other, which = _distinct(left.parts_of_pairs(node.sides[0], pairs), right.parts_of_pairs(node.sides[1], pairs))
    words = _words(node, parts, (one, other), left, right)
    codes = mixed([words[name] for name in node.columns])
    flags = opposite.marks(node, 0, parts[0].codes)[one] & opposite.marks(node, 1, parts[1].codes)[other]
    marked = np.flatnonzero(flags)
    flags[marked] = opposite.knows(node, codes[marked])
    checked = np.flatnonzero(~flags)
    if checked.size and opposite.is_checked(node):
        new = checked[~opposite.demands(node, {name: word[checked] for name, word in words.items()})]
        if new.size:
            ends = np.minimum(left.ends[parts[0].rows[one[new]]], right.ends[parts[1].rows[other[new]]])
            noted = opposite.note(node, codes[new], (parts[0].codes[one[new]], parts[1].codes[other[new]]), ends)
            flags[new if node.is_whole else new[:noted]] = True
    if node.is_whole:
        opposite.count(node, pairs.size, checked.size)
    return flags[which]


def _words(
    node: LatticeNode,
    parts: tuple[Parts, Parts],
    of: tuple[Positions, Positions],
    left: SideOfPairs,
    right: SideOfPairs,
) -> dict[str, Codes]:
    """Of pairs of parts."""
    words: dict[str, Codes] = {}
    for columns, part, numbers_of, side in zip(node.sides, parts, of, (left, right), strict=True):
        at = part.rows[numbers_of]
        words |= {name: side.word(name)[at] for name in columns}
    return words


def _distinct(one: Positions, other: Positions) -> tuple[Positions, Positions, Positions]:
    """The distinct pairs of numbers, and which of them each pair is."""
    width = int(other.max(initial=0)) + 1
    together = one * width + other
    size = (int(one.max(initial=0)) + 1) * width
    if size <= _WIDEST_TABLE * together.size:
        there = np.zeros(size, np.bool_)
        there[together] = True
        found = np.flatnonzero(there)
        places = np.empty(size, np.int32)  # of those that are there
        places[found] = np.arange(found.size)
        which: Positions = places[together].astype(np.intp)
    else:
        found, which = np.unique(together, return_inverse=True)
    return found // width, found % width, which
