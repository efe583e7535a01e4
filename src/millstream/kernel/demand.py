"""Letting rows of an input into a join tree just in time (Yang and Papadias, Just-In-Time Processing).

A row that a join above has no partner for is suspended as it arrives: it goes to the blacklist, and nothing is made of
it. Rows that become partners look for those that wait for them, and resume the ones for which all demands are met by
then. In the paper a consumer speaks of the sub-tuples that it was sent, and a producer looks for them among its rows;
here, where a step brings many rows, they are asked for before anything is made of them.

A row that was let in stays in, though its partners may leave: it is active from then on, and a resumed row has met none
of the rows that are. So every pair is made once, when the later of the two is let in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.blacklist import Blacklist, Flags
from millstream.kernel.foresight import Foreseen, Path, Usual
from millstream.kernel.join_graph import Access, Inputs, JoinGraph
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.partners import Link, Rows, Stored, rows_at, words_of
from millstream.kernel.scalar.expressions import TRUE
from millstream.kernel.segments import gather, only
from millstream.kernel.synopsis import merged
from millstream.kernel.tree_shape import Demand, Join, demands_of, inputs_of

COUNTS, KNOWN = "counts", "demands"  # synopses: the tally, and what is known of the demands
_DECAY = 0.9  # per step, of what is known of a demand
_ENOUGH = 200.0  # rows to have asked for before a demand is judged
_EVERY = 32  # steps after which a demand that was given up is tried again
_MOST_MET = {"input": 0.8, "made": 0.8, "foreseen": 0.6}  # the part of the rows from which on asking is not worth it


@dataclass(frozen=True)
class JustInTime:
    """How rows are held back: whether partners are looked for in Bloom filters instead of indexes, whether joins are
    looked through that are not made yet, whether combinations are held back too, and whether demands that nearly all
    rows meet are given up for a while."""

    bloom: bool = False
    foreseen: bool = True
    combinations: bool = True
    adaptive: bool = True


class Surroundings(Protocol):
    """What a gate can ask about the rest of the tree during a step."""

    def stored(self, side: Join | int) -> list[Stored]:
        """The rows of an input that are in, or of a join, with the new ones."""
        ...

    def new(self, side: Join | int) -> Segment: ...

    def all_rows(self, source: int) -> list[Segment]:
        """Those of an input, in or not."""
        ...

    def foreseen(self, join: Join, view: Foreseen) -> Rows:
        """The new combinations."""
        ...


@dataclass
class Experience:
    """How many rows asked, and how many of them were let pass; whether the demand is given up."""

    asked: float = 0.0
    met: float = 0.0
    steps: int = 0
    given_up: bool = False

    def judge(self, kind: str) -> None:
        """Now and then a demand that was given up is tried again."""
        self.steps += 1
        is_met = self.asked >= _ENOUGH and self.met > _MOST_MET[kind] * self.asked
        self.given_up = is_met and self.steps % _EVERY != 0
        if not is_met or not self.given_up:
            self.asked, self.met = self.asked * _DECAY, self.met * _DECAY

    def add(self, met: Flags) -> None:
        self.asked += met.size
        self.met += int(np.count_nonzero(met))


@dataclass(frozen=True)
class Asking:
    """One demand, as an input asks for it: links to what stands opposite and from there back; or, where that is a join
    that is looked through, the path through its inputs and what of them is looked at."""

    kind: str
    opposite: Join | int
    to_opposite: Link
    to_own: Link
    path: Path | None = None
    view: Foreseen | None = None

    @cached_property
    def by_code(self) -> bool:
        """Whether all that is asked for is equality."""
        return self.path.by_code if self.path is not None else self.to_opposite.by_code

    @cached_property
    def own_columns(self) -> tuple[str, ...]:
        """Those of the rows that ask."""
        read = self.path.read if self.path is not None else self.to_opposite.access.probing
        return tuple(dict.fromkeys((*self.to_own.access.stored, *read)))

    def is_met(self, rows: Rows, around: Surroundings, jit: JustInTime) -> Flags:
        """Which of the rows have partners by now."""
        if self.path is not None:
            return self.path.exists(rows, around.all_rows, bloom=jit.bloom)
        return self.to_opposite.has_partner(rows, around.stored(self.opposite), bloom=jit.bloom)

    def new_partners(self, around: Surroundings) -> Rows:
        if self.view is not None and isinstance(self.opposite, Join):
            return around.foreseen(self.opposite, self.view)
        return around.new(self.opposite)


class Gate:
    """Decides which rows of an input are let in. `columns` are those of an input whose rows may be taken back."""

    def __init__(
        self, asking: Sequence[Asking], jit: JustInTime, usual: Access, columns: Sequence[str] | None = None
    ) -> None:
        self.asking, self.jit = tuple(asking), jit
        alike = Access(tuple(columns), tuple(columns)) if columns is not None else None
        self.alike = Link(alike, usual, TRUE) if alike is not None else None

    @property
    def is_open(self) -> bool:
        """Whether all rows are let in."""
        return not self.asking

    def let_in(
        self, arrived: Segment, waiting: Blacklist, around: Surroundings, known: Sequence[Experience]
    ) -> tuple[Flags, Segment]:
        """Which of the rows that arrived are let in, and all rows that are by now and were not before."""
        gave_up = [experience.given_up for experience in known]
        if self.jit.adaptive:
            for asking, experience in zip(self.asking, known, strict=True):
                experience.judge(asking.kind)
        flags = self._all_met(arrived, around, known)
        if self.alike is not None and not flags.all():
            # A row and its retraction must be in both or not at all, or they would never cancel.
            left = np.flatnonzero(~flags)
            stored = [(part.rows, part.let_in) for part in waiting.parts]
            flags[left] = self.alike.has_partner(pl.DataFrame(gather(arrived, arrived.columns, left)), stored)
        given_up_now = any(e.given_up and not before for e, before in zip(known, gave_up, strict=True))
        resumed = self._resumed(waiting, around, known, everyone=given_up_now)
        let_in = [rows for rows in (only(arrived, flags), *resumed) if rows.height]
        return flags, merged(let_in) if let_in else arrived.clear()

    def _all_met(
        self,
        rows: pl.DataFrame,
        around: Surroundings,
        known: Sequence[Experience],
        *,
        found: Sequence[Flags] | None = None,
    ) -> Flags:
        """Which rows have all partners they need; for each demand some may be known to have `found` theirs."""
        flags = np.ones(rows.height, np.bool_)
        asked = self._asked(rows)
        for number, (asking, experience) in enumerate(zip(self.asking, known, strict=True)):
            if experience.given_up:
                continue
            left = np.flatnonzero(flags if found is None else flags & ~found[number])
            if not left.size:
                continue
            some = asked if left.size == rows.height else rows_at(asked, left)
            met = asking.is_met(some, around, self.jit)
            if found is None:
                experience.add(met)
            flags[left] = met
        return flags

    def _asked(self, rows: pl.DataFrame) -> Rows:
        """What of the rows is needed to ask."""
        if not self.asking or not all(asking.by_code for asking in self.asking):
            return rows
        read = dict.fromkeys(name for asking in self.asking for name in asking.own_columns)
        own = [name for name in read if name in rows.columns]
        return dict(zip(own, words_of(rows, own), strict=True)) if own else rows

    def _resumed(
        self, waiting: Blacklist, around: Surroundings, known: Sequence[Experience], *, everyone: bool
    ) -> list[Segment]:
        """The rows that waited and are let in now: those that found a partner at last, if all demands are met."""
        parts = list(waiting.waiting())
        if not parts:
            return []
        segments = [rows for _, rows, _ in parts]
        partners = [asking.to_own.partners(asking.new_partners(around), segments) for asking in self.asking]
        candidates: list[tuple[int, Positions]] = []
        found: list[list[Flags]] = [[] for _ in self.asking]
        for place, (number, rows, flags) in enumerate(parts):
            awaited = np.zeros((len(self.asking), rows.height), np.bool_)
            for own, found_at in zip(awaited, partners, strict=True):
                own[found_at[place]] = True
            positions = np.flatnonzero((awaited.any(axis=0) | everyone) & ~flags)
            if positions.size:
                candidates.append((number, positions))
                for each, own in zip(found, awaited, strict=True):
                    each.append(own[positions])
        if not candidates:
            return []
        together = [np.concatenate(each) for each in found]
        chosen = [at for _, at in candidates]
        if not all(flags.all() or experience.given_up for flags, experience in zip(together, known, strict=True)):
            asked = pl.concat([_rows_at(waiting.parts[number].rows, at) for number, at in candidates])
            met = self._all_met(asked, around, known, found=together)
            apart = np.split(met, np.cumsum([at.size for at in chosen])[:-1])
            chosen = [at[flags] for at, flags in zip(chosen, apart, strict=True)]
        return [waiting.let_in(number, at) for (number, _), at in zip(candidates, chosen, strict=True) if at.size]


def _rows_at(segment: Segment, positions: Positions) -> Segment:
    return pl.DataFrame(gather(segment, segment.columns, positions))


def tree_gates(graph: JoinGraph, root: Join, usual: Usual, jit: JustInTime, retracting: Inputs) -> list[Gate]:
    """For each input of a tree, by what the joins above ask of it."""
    views: dict[Join, Foreseen | None] = {}
    for join in root.walk() if jit.foreseen else ():
        for side in join.sides:
            if isinstance(side, Join):
                views[side] = Foreseen.of(graph, side, inputs_of(join.beside(side)), usual)

    def asking(source: int, demand: Demand) -> Asking | None:
        own, opposite = frozenset({source}), demand.opposite
        to_own = Link.between(graph, own, demand.inputs, usual[source])
        to_opposite = Link.between(graph, demand.inputs, own, usual[opposite])
        if demand.kind != "foreseen":
            return Asking(demand.kind, opposite, to_opposite, to_own)
        view = views.get(opposite) if isinstance(opposite, Join) else None
        path = Path.of(graph, own, demand.inputs, usual)
        return Asking(demand.kind, opposite, to_opposite, to_own, path, view) if view is not None else None

    gates = []
    by_side = demands_of(root)
    for source in range(len(graph.widths)):
        demands = by_side[source]
        asked = [found for demand in demands if (found := asking(source, demand)) is not None]
        start = graph.starts[source]
        columns = [value_column(start + index) for index in range(graph.widths[source])]
        gates.append(Gate(asked, jit, usual[source], columns if source in retracting else None))
    return gates


def stem_gates(graph: JoinGraph, usual: Sequence[Access], jit: JustInTime, retracting: Inputs) -> list[Gate]:
    """For each input of a join by SteMs: every SteM that it is connected with must have something for a row."""
    gates = []
    everyone = range(len(graph.widths))
    for source in everyone:
        asked = []
        for other in everyone:
            shared = [c for c in graph.classes if {source, other} <= c.inputs] if other != source else []
            own, others = (tuple(value_column(c.column_of(one)) for c in shared) for one in (source, other))
            if shared:
                links = Link(Access(others, own), usual[other], TRUE), Link(Access(own, others), usual[source], TRUE)
                asked.append(Asking("input", other, *links))
        columns = [value_column(index) for index in range(graph.widths[source])]
        gates.append(Gate(asked, jit, usual[source], columns if source in retracting else None))
    return gates


def experiences(gates: Sequence[Gate], kept: Sequence[Segment]) -> list[list[Experience]]:
    """What is known of the demands of each input, as it was kept."""
    known = [Experience(*row) for row in kept[0].rows()] if kept else []
    counts = [len(gate.asking) for gate in gates]
    known += [Experience() for _ in range(sum(counts) - len(known))]
    ends = list(accumulate(counts))
    return [known[end - count : end] for end, count in zip(ends, counts, strict=True)]


def kept_experiences(known: Sequence[Sequence[Experience]]) -> Segment:
    return pl.DataFrame([asdict(each) for one in known for each in one])


@dataclass
class Tally:
    """What a tree did so far: rows its inner joins made, rows suspended as they arrived, rows resumed, combinations
    withheld; and how many rows wait."""

    made: int = 0
    suspended: int = 0
    resumed: int = 0
    withheld: int = 0
    waiting: int = 0

    @classmethod
    def of(cls, kept: Sequence[Segment]) -> Tally:
        return cls(*kept[0].row(0)) if kept else cls()

    def segment(self) -> Segment:
        return pl.DataFrame([asdict(self)])
