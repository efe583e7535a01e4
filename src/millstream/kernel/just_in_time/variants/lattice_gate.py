"""Holding combinations back by minimal sub-tuples that are not demanded (`lattice`), which are remembered (`marks`).

What is withheld is the same as without: a combination with such a sub-tuple has no partner as a whole. But sub-tuples
are asked for once for all combinations that share them, and those that are known are not asked for again.

A sub-tuple that lies on one side of the join, which is a join itself, is one that was demanded when that side made it,
and whose partners have left since. It travels down to the join at which its parts meet, which then makes no more of
it; what is stored with it, from there up to the side, is withdrawn. That is what makes it sound: a join makes all
combinations of equal keys or none, since those that were withheld could not be told from the others when a partner
comes. Nothing further up has been made with it, or it would not be known here; so everything with it is new when it is
made again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import cast

import numpy as np

from millstream.kernel.batch import END, INF
from millstream.kernel.columns import only
from millstream.kernel.joins.graph import JoinGraph
from millstream.kernel.just_in_time.blacklist import Flags
from millstream.kernel.just_in_time.combinations import CombinationGate, Found
from millstream.kernel.just_in_time.detection import Detection, StoredSegments
from millstream.kernel.just_in_time.gates import DemandExperience, demand_experiences, kept_experiences
from millstream.kernel.just_in_time.look_ahead import Usual
from millstream.kernel.just_in_time.partners import Link, Stored, WordsByColumn, rows_at
from millstream.kernel.just_in_time.surroundings import Surroundings
from millstream.kernel.just_in_time.tally import Tally
from millstream.kernel.just_in_time.tree_shape import Demand, TreeJoin, inputs_of
from millstream.kernel.just_in_time.variants.lattice import Ends, LatticeNode, SideOfPairs, carrying, nodes_of
from millstream.kernel.just_in_time.variants.marks import Marks, NodeName, codes_over, is_in, latest_ends
from millstream.kernel.keys import Codes, Positions
from millstream.kernel.operator import Segment, State
from millstream.kernel.storage.segments import codes_of, numbers

_LEAST_ROOM = 1000  # for sub-tuples across the join; more only as long as they are no more than the rows of the sides
_WORTH_REWRITING = 8  # rows are withdrawn if they are at least one in so many
# The part of the sub-tuples from which on asking is not worth it: of parts of combinations, and of whole ones
_MOST_MET, _MOST_DISTINCT = 0.9, 0.5


@dataclass(frozen=True)
class _Descent:
    """Where a node goes: the joins that store rows with it, the one at which its parts meet first; there it is a node
    of that demand."""

    joins: tuple[TreeJoin, ...]
    number: int
    node: LatticeNode


class LatticeGate(CombinationGate):
    """For a step it is copied, with the marks of the join."""

    def __init__(
        self,
        graph: JoinGraph,
        join: TreeJoin,
        demands: Sequence[Demand],
        usual: Usual,
        link: type[Link] = Link,
        *,
        adaptive: bool,
    ) -> None:
        super().__init__(graph, join, demands, usual)
        self.join, self.is_adaptive = join, adaptive
        self.nodes = [nodes_of(graph, join, check.to_opposite, check.like, link) for check in self.checks]
        self.by_name = {(a, node.number): node for a, nodes in enumerate(self.nodes) for node in nodes}
        self.left_column = next(name for name, (source, _) in graph.places.items() if source in inputs_of(join.left))
        self.marks, self.known = Marks({}, 0), dict[NodeName, DemandExperience]()
        self.descending = set[NodeName]()

    # A step

    def begun(self, state: State) -> LatticeGate:
        step = copy(self)
        kept = {name: state[synopsis] for name in self.by_name if (synopsis := self._synopsis(name)) in state}
        rows = sum(segment.height for side in self.join.sides for segment in state.get(_synopsis_of(side), ()))
        across = (name for name in kept if self.by_name[name].side is None)
        taken = sum(segment.height for name in across for segment in kept[name])
        step.marks = Marks(kept, max(0, max(_LEAST_ROOM, rows) - taken))
        (known,) = demand_experiences([len(self.by_name)], state.get(self._experiences, ()))
        step.known = dict(zip(self.by_name, known, strict=True))
        step.descending = set()
        return step

    def prepare(self, around: Surroundings, *, given_up: bool) -> None:
        if given_up:
            self.marks.clear()
            return
        if self.is_adaptive:
            for name, experience in self.known.items():
                is_whole = self.by_name[name].is_whole
                experience.judge(_MOST_DISTINCT if is_whole else _MOST_MET)
                if experience.given_up and is_whole:
                    self.marks.forget(name)  # which is found again by asking
        for name, node in self.by_name.items():
            new = self.checks[name[0]].new_partners(around)
            if new.height and self.marks.segments.get(name):
                self.marks.remove(name, codes_over(new, node.to_opposite.access.stored))

    def may_meet(self, number: int, pairs: Found, made: Sequence[Segment], around: Surroundings) -> Flags:
        rows, i, others, j = pairs
        stored = self.checks[number].stored(around)
        names = [(number, node.number) for node in self.nodes[number]]
        if not any(segment.height for segment, _ in stored) or not any(map(self._is_used, names)):
            # ∅, which nothing is remembered of, or nothing that would save asking
            return super().may_meet(number, pairs, made, around)
        sides = SideOfPairs(rows, i), SideOfPairs(others, j)
        if self.left_column not in rows.columns:
            sides = sides[::-1]
        return ~carrying(self.nodes[number], *sides, _Opposite(self, number, stored, made))

    def _is_used(self, name: NodeName) -> bool:
        return not self.known[name].given_up or bool(self.marks.segments.get(name))

    # What travels down

    def hand_down(
        self, gates: Mapping[TreeJoin, CombinationGate], given_up: Collection[TreeJoin], kept: StoredSegments
    ) -> int:
        """Sends sub-tuples that were found within a side down, and withdraws what is kept with them: so many rows."""
        withdrawn = 0
        for name in sorted(self.descending):
            descent = self._descent(name, gates)
            if descent is None or descent.joins[0] in given_up:
                continue
            known = np.sort(np.concatenate([codes_of(segment) for segment in self.marks.segments[name]]))
            node = descent.node
            synopses = [f"join {join.number}" for join in descent.joins]
            stored = [segment for synopsis in synopses for segment in kept.get(synopsis, ())]
            count = sum(int(np.count_nonzero(is_in(known, codes_over(one, node.columns)))) for one in stored)
            if not count or count * _WORTH_REWRITING < sum(segment.height for segment in stored):
                continue
            lowest = cast(LatticeGate, gates[descent.joins[0]])
            taken = lowest._take(descent, known, kept.get(synopses[0], ()))
            for synopsis in synopses:
                left = [only(one, ~is_in(taken, codes_over(one, node.columns))) for one in kept.get(synopsis, ())]
                withdrawn += sum(one.height for one in kept.get(synopsis, ())) - sum(one.height for one in left)
                kept[synopsis] = tuple(one for one in left if one.height)
            self.marks.remove(name, taken)
        return withdrawn

    def _descent(self, name: NodeName, gates: Mapping[TreeJoin, CombinationGate]) -> _Descent | None:
        node, demand = self.by_name[name], self.checks[name[0]].demand
        side = self.join.sides[node.side] if node.side is not None else None
        joins = (
            tuple(join for join in side.walk() if node.components <= join.inputs) if isinstance(side, TreeJoin) else ()
        )
        gate = gates.get(joins[0]) if joins else None
        if not isinstance(gate, LatticeGate):
            return None
        for number, check in enumerate(gate.checks):
            there = gate.by_name.get((number, node.number))
            if check.demand == demand and there is not None and there.columns == node.columns:
                return _Descent(joins, number, there)
        return None

    def _take(self, descent: _Descent, codes: Codes, made: Sequence[Segment]) -> Codes:
        """Marks the sub-tuples with these codes that are in combinations that were made; those that there is room for,
        in order."""
        node, name = descent.node, (descent.number, descent.node.number)
        taken = [codes[:0]]
        for segment in made:
            found = codes_over(segment, node.columns)
            rows = np.flatnonzero(is_in(codes, found) & ~self.marks.knows(name, found))
            _, at = np.unique(found[rows], return_index=True)
            first = only(segment, _flags(segment.height, rows[at]))
            found = codes_over(first, node.columns)
            parts = [codes_over(first, own) if own else np.zeros(found.size, np.uint64) for own in node.sides]
            across = node.side is None
            noted = self.marks.add(name, found, (parts[0], parts[1]), numbers(first, END), across=across)
            taken.append(found[:noted])
        return np.sort(np.concatenate(taken))

    # What is kept

    def kept(self, sides: StoredSegments, horizon: int) -> StoredSegments:
        def carried(name: NodeName, side: int, codes: Codes) -> Ends:
            columns = self.by_name[name].sides[side]
            if not columns:
                return np.full(codes.size, INF)
            return latest_ends(codes, columns, sides.get(_synopsis_of(self.join.sides[side]), ()))

        kept = {self._synopsis(name): segments for name, segments in self.marks.retained(horizon, carried)}
        return kept | {self._experiences: (kept_experiences([list(self.known.values())]),)}

    def sizes(self) -> list[int]:
        """How many sub-tuples are known of one component, of two and of more."""
        counts = [0, 0, 0]
        for name, node in self.by_name.items():
            counts[min(len(node.components), 3) - 1] += sum(one.height for one in self.marks.segments.get(name, ()))
        return counts

    @property
    def _experiences(self) -> str:
        return f"lattice {self.join.number}"

    def _synopsis(self, name: NodeName) -> str:
        return f"marks {self.join.number} {name[0]} {name[1]}"


@dataclass(frozen=True)
class _Opposite:
    """Of one demand, as the lattice asks for it."""

    gate: LatticeGate
    number: int
    stored: Sequence[Stored]
    made: Sequence[Segment]

    def remembers(self, node: LatticeNode) -> bool:
        return bool(self.gate.marks.segments.get((self.number, node.number)))

    def knows(self, node: LatticeNode, codes: Codes) -> Flags:
        return self.gate.marks.knows((self.number, node.number), codes)

    def marks(self, node: LatticeNode, side: int, codes: Codes) -> Flags:
        return self.gate.marks.has_part((self.number, node.number), side, codes)

    def is_checked(self, node: LatticeNode) -> bool:
        return not self.gate.known[self.number, node.number].given_up

    def demands(self, node: LatticeNode, words: WordsByColumn) -> Flags:
        met = node.to_opposite.has_partner(words, self.stored)
        unmet = np.flatnonzero(~met)
        if unmet.size and self.made:
            made: list[Stored] = [(segment, None) for segment in self.made]
            met[unmet] = node.like.has_partner(rows_at(words, unmet), made)
        if not node.is_whole:
            self.gate.known[self.number, node.number].add(met)
        return met

    def note(self, node: LatticeNode, codes: Codes, parts: tuple[Codes, Codes], ends: Ends) -> int:
        name = self.number, node.number
        noted = self.gate.marks.add(name, codes, parts, ends, across=node.side is None)
        if noted and node.side is not None and isinstance(self.gate.join.sides[node.side], TreeJoin):
            self.gate.descending.add(name)
        return noted

    def count(self, node: LatticeNode, pairs: int, checked: int) -> None:
        experience = self.gate.known[self.number, node.number]
        experience.asked, experience.met = experience.asked + pairs, experience.met + checked


@dataclass(frozen=True)
class Lattice(Detection):
    """Combinations are held back by minimal sub-tuples, whose parts are judged by the link."""

    def combination_gate(
        self, graph: JoinGraph, join: TreeJoin, demands: Sequence[Demand], usual: Usual, *, adaptive: bool
    ) -> CombinationGate:
        return LatticeGate(graph, join, demands, usual, self.link, adaptive=adaptive)

    def remember(
        self,
        gates: Mapping[TreeJoin, CombinationGate],
        given_up: Collection[TreeJoin],
        kept: StoredSegments,
        horizon: Callable[[TreeJoin], int],
        tally: Tally,
    ) -> None:
        lattices = {join: gate for join, gate in gates.items() if isinstance(gate, LatticeGate)}
        for gate in lattices.values():
            tally.withdrawn += gate.hand_down(lattices, given_up, kept)
        for join, gate in lattices.items():
            kept |= gate.kept(kept, horizon(join))
        if lattices:
            sizes = (sum(each) for each in zip(*(gate.sizes() for gate in lattices.values()), strict=True))
            tally.marks_of_1, tally.marks_of_2, tally.marks_of_more = sizes


def _synopsis_of(side: TreeJoin | int) -> str:
    return f"rows {side}" if isinstance(side, int) else f"join {side.number}"


def _flags(size: int, rows: Positions) -> Flags:
    flags = np.zeros(size, np.bool_)
    flags[rows] = True
    return flags
