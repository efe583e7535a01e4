"""Admitting rows of an input to a join tree just in time (Yang and Papadias, Just-In-Time Processing).

A row that a join above has no partner for is suspended as it arrives: it goes to the blacklist, and nothing is made of
it. Rows that become partners look for those that wait for them, and resume the ones for which all demands are met by
then. In the paper a consumer speaks of the sub-tuples that it was sent, and a producer looks for them among its rows;
here, where a step brings many rows, they are asked for before anything is made of them.

A row that was admitted stays in while its partners are there. When they have left, it is suspended again as soon as
something would be made of it. A pair of rows is made when both are active for the first time (`spans`), and so once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from millstream.kernel.batch import value_column
from millstream.kernel.joins.graph import Access, InputSet, JoinGraph
from millstream.kernel.just_in_time.blacklist import ANY, IN, Blacklist, Flags, Waits
from millstream.kernel.just_in_time.detection import ALL, Detection
from millstream.kernel.just_in_time.look_ahead import LookAhead, Path, Usual
from millstream.kernel.just_in_time.partners import Link, RowValues, Stored, rows_at, words_of
from millstream.kernel.just_in_time.surroundings import Surroundings
from millstream.kernel.just_in_time.tree_shape import Demand, TreeJoin, demands_of, inputs_of
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Segment
from millstream.kernel.scalar.expressions import TRUE
from millstream.kernel.storage.segments import gather

KNOWN = "demands"  # synopsis: what is known of the demands
_DECAY = 0.9  # per step, of what is known of a demand
_ENOUGH = 200.0  # rows to have asked for before a demand is judged
_EVERY = 32  # steps after which a demand that was given up is tried again
# The part of the rows from which on asking is not worth it
MOST_MET = {
    "input": 0.8,
    "made": 0.8,
    "foreseen": 0.6,
    "arrived": 0.6,
    "consumers": 0.8,
    "combinations": 0.7,
    "again": 0.9,
}


@dataclass(frozen=True)
class JustInTime:
    """How rows are held back: what detects that they are not demanded, whether joins are looked through that are not
    made yet, whether demands that nearly all rows meet are given up for a while, and whether rows are suspended again
    when their partners have left."""

    detection: Detection = ALL
    look_ahead: bool = True
    adaptive: bool = True
    again: bool = True


@dataclass
class DemandExperience:
    """How many rows asked, and how many of them were let pass; whether the demand is given up."""

    asked: float = 0.0
    met: float = 0.0
    steps: int = 0
    given_up: bool = False

    def judge(self, most: float) -> None:
        """Given up from this part of the rows on; now and then a demand that was given up is tried again."""
        self.steps += 1
        self.given_up = self.is_met_mostly(most) and self.steps % _EVERY != 0
        if not self.given_up:
            self.asked, self.met = self.asked * _DECAY, self.met * _DECAY

    @property
    def part_met(self) -> float:
        return self.met / self.asked if self.asked else 1.0

    def is_met_mostly(self, most: float) -> bool:
        return self.asked >= _ENOUGH and self.met > most * self.asked

    def add(self, met: Flags, more: int = 0) -> None:
        """`more` are questions that cost as much and save nothing."""
        self.asked += met.size + more
        self.met += int(np.count_nonzero(met)) + more


class DemandCheck(Protocol):
    """A demand, as the rows of an input ask for it."""

    @property
    def kind(self) -> str: ...

    @property
    def by_code(self) -> bool:
        """Whether all that is asked for is equality."""
        ...

    @property
    def is_cheap(self) -> bool:
        """Whether all that is asked for is equality, or that there is anything at all."""
        ...

    @property
    def own_columns(self) -> Sequence[str]:
        """Those of the rows that ask."""
        ...

    def is_met(self, rows: RowValues, around: Surroundings) -> Flags:
        """Which of the rows have partners by now."""
        ...

    def answered(self, around: Surroundings, segments: Sequence[Segment]) -> list[Positions]:
        """For each segment the positions of its rows that what is new may have an answer for."""
        ...


@dataclass(frozen=True)
class PartnerCheck:
    """One demand, as an input asks for it: links to what stands opposite and from there back; or, where that is a join
    that is looked through, the path through its inputs and what of them is looked at."""

    kind: str
    opposite: TreeJoin | int
    to_opposite: Link
    to_own: Link
    path: Path | None = None
    view: LookAhead | None = None

    @cached_property
    def by_code(self) -> bool:
        return self.path.by_code if self.path is not None else self.to_opposite.by_code

    @property
    def is_cheap(self) -> bool:
        return self.by_code or self.to_opposite.is_unconditional

    @cached_property
    def own_columns(self) -> tuple[str, ...]:
        read = self.path.read if self.path is not None else self.to_opposite.access.probing
        return tuple(dict.fromkeys((*self.to_own.access.stored, *read)))

    def is_met(self, rows: RowValues, around: Surroundings) -> Flags:
        if self.path is not None:
            return self.path.exists(rows, around.all_rows)
        return self.to_opposite.has_partner(rows, self._stored(around))

    def _stored(self, around: Surroundings) -> list[Stored]:
        if self.kind == "arrived" and isinstance(self.opposite, int):
            return around.arrived_rows(self.opposite)
        return around.stored(self.opposite)

    def answered(self, around: Surroundings, segments: Sequence[Segment]) -> list[Positions]:
        return self.to_own.partners(self._new_partners(around), segments)

    def _new_partners(self, around: Surroundings) -> RowValues:
        if self.view is not None and isinstance(self.opposite, TreeJoin):
            return around.look_ahead(self.opposite, self.view)
        if self.kind == "arrived" and isinstance(self.opposite, int):
            return around.arrived[self.opposite]
        return around.new(self.opposite)


class Gate:
    """Decides which rows of an input are admitted. `columns` are those of an input whose rows may be taken back."""

    def __init__(
        self, checks: Sequence[DemandCheck], jit: JustInTime, usual: Access, columns: Sequence[str] | None = None
    ) -> None:
        self.checks, self.is_adaptive = tuple(checks), jit.adaptive
        alike = Access(tuple(columns), tuple(columns)) if columns is not None else None
        self.alike = Link(alike, usual, TRUE) if alike is not None else None
        read = dict.fromkeys(name for one in self.checks for name in one.own_columns)
        self._read = list(read) if all(one.by_code for one in self.checks) else []

    @property
    def is_cheap(self) -> bool:
        return all(check.is_cheap for check in self.checks)

    @property
    def is_open(self) -> bool:
        """Whether all rows are admitted."""
        return not self.checks

    def admit(
        self, arrived: Segment, blacklist: Blacklist, around: Surroundings, known: Sequence[DemandExperience]
    ) -> Waits:
        """What the rows that arrived wait for; rows that waited and are admitted now are resumed."""
        if self.is_adaptive:
            for check, experience in zip(self.checks, known, strict=True):
                experience.judge(MOST_MET[check.kind])
        waits = self._unmet(self._words(arrived, None), arrived.height, around, known)
        if self.alike is not None and waits.any():
            # A row and its retraction must be in both or not at all, or they would never cancel.
            left = np.flatnonzero(waits)
            stored = [(part.rows, part.admitted) for part in blacklist.parts]
            found = self.alike.has_partner(pl.DataFrame(gather(arrived, arrived.columns, left)), stored)
            waits[left] = np.where(found, IN, ANY)
        self._resume(blacklist, around, known)
        return waits

    def check_again(
        self, rows: Segment, positions: Positions, around: Surroundings, known: Sequence[DemandExperience]
    ) -> Waits:
        """What rows would wait for by now."""
        nothing = [np.zeros(positions.size, np.bool_) for _ in self.checks]
        return self._unmet(self._words(rows, positions), positions.size, around, known, nothing)

    def _unmet(
        self,
        rows: RowValues,
        count: int,
        around: Surroundings,
        known: Sequence[DemandExperience],
        found: Sequence[Flags] | None = None,
    ) -> Waits:
        """A demand that is not met for each row; of each demand some may be known to have `found` theirs."""
        waits = np.zeros(count, np.uint8)
        # Those first that the fewest rows meet: the others need not be asked then.
        for number in sorted(range(len(known)), key=lambda number: known[number].part_met):
            check, experience = self.checks[number], known[number]
            if experience.given_up:
                continue
            left = np.flatnonzero(waits == IN if found is None else (waits == IN) & ~found[number])
            if not left.size:
                continue
            met = check.is_met(rows if left.size == count else rows_at(rows, left), around)
            if found is None:
                experience.add(met)
            waits[left[~met]] = number + 1
        return waits

    def _words(self, rows: pl.DataFrame, positions: Positions | None) -> RowValues:
        """What of the rows at the positions, or of all, is needed to ask."""
        own = [name for name in self._read if name in rows.columns]
        if own:
            words = dict(zip(own, words_of(rows, own), strict=True))
            return words if positions is None else rows_at(words, positions)
        return rows if positions is None else rows_at(rows, positions)

    def _resume(self, blacklist: Blacklist, around: Surroundings, known: Sequence[DemandExperience]) -> None:
        """Admits rows that found a partner at last, if all demands are met."""
        parts = list(blacklist.waiting())
        found = [np.zeros((len(self.checks), part.rows.height), np.bool_) for _, part in parts]
        for number, (check, experience) in enumerate(zip(self.checks, known, strict=True)):
            awaiting = [(part.waits == number + 1) | (part.waits == ANY) for _, part in parts]
            some = [place for place, flags in enumerate(awaiting) if flags.any()]
            if experience.given_up:
                for place in some:
                    found[place][number] = awaiting[place]
            elif some:
                segments = [parts[place][1].rows for place in some]
                for place, positions in zip(some, check.answered(around, segments), strict=True):
                    found[place][number][positions] = awaiting[place][positions]
        candidates = [(*part, flags, at) for part, flags in zip(parts, found, strict=True) if (at := _any(flags)).size]
        if not candidates:
            return
        words = _together([self._words(part.rows, at) for _, part, _, at in candidates])
        together = np.concatenate([flags[:, at] for _, _, flags, at in candidates], axis=1)
        waits = self._unmet(words, together.shape[1], around, known, list(together))
        if self.alike is not None:
            waits[waits != IN] = ANY
        ends = np.cumsum([at.size for _, _, _, at in candidates])
        for (number, _, _, at), own in zip(candidates, np.split(waits, ends[:-1]), strict=True):
            blacklist.resume(number, at, own)


def _any(flags: npt.NDArray[np.bool_]) -> Positions:
    return np.flatnonzero(flags.any(axis=0))


def _together(rows: Sequence[RowValues]) -> RowValues:
    if len(rows) == 1:
        return rows[0]
    frames = [one for one in rows if isinstance(one, pl.DataFrame)]
    if frames:
        return pl.concat(frames)
    return {str(name): np.concatenate([words_of(one, [str(name)])[0] for one in rows]) for name in rows[0]}


def tree_gates(
    graph: JoinGraph,
    root: TreeJoin,
    usual: Usual,
    jit: JustInTime,
    retracting: InputSet,
    looked_through: InputSet,
    more: Mapping[int, DemandCheck],
) -> list[Gate]:
    """For each input of a tree, by what the joins above ask of it, and `more` at last. Joins that are not made yet are
    not looked through for some of the inputs: that is done for their combinations, of which far fewer pass."""
    link = jit.detection.link
    views: dict[TreeJoin, LookAhead | None] = {}
    for join in root.walk() if jit.look_ahead else ():
        for side in join.sides:
            if isinstance(side, TreeJoin):
                views[side] = LookAhead.of(graph, side, inputs_of(join.sibling(side)), usual)

    def check(source: int, demand: Demand) -> PartnerCheck | None:
        own, opposite = frozenset({source}), demand.opposite
        to_own = Link.between(graph, own, demand.inputs, usual[source])
        to_opposite = link.between(graph, demand.inputs, own, usual[opposite])
        if demand.kind == "arrived" and not to_opposite.by_code:
            return None
        if demand.kind == "foreseen" and source in looked_through:
            return None
        if demand.kind != "foreseen":
            return PartnerCheck(demand.kind, opposite, to_opposite, to_own)
        view = views.get(opposite) if isinstance(opposite, TreeJoin) else None
        path = Path.of(graph, own, demand.inputs, usual, link=link)
        return PartnerCheck(demand.kind, opposite, to_opposite, to_own, path, view) if view is not None else None

    gates = []
    by_side = demands_of(root)
    for source in range(len(graph.widths)):
        checks: list[DemandCheck] = [found for d in by_side[source] if (found := check(source, d)) is not None]
        checks += [more[source]] if source in more else []
        start = graph.starts[source]
        columns = [value_column(start + index) for index in range(graph.widths[source])]
        gates.append(Gate(checks, jit, usual[source], columns if source in retracting else None))
    return gates


def stem_gates(
    graph: JoinGraph,
    usual: Sequence[Access],
    jit: JustInTime,
    retracting: InputSet,
    more: Mapping[int, DemandCheck],
) -> list[Gate]:
    """For each input of a join by SteMs: every SteM that it is connected with must have something for a row; and what
    `more` asks."""
    gates = []
    everyone = range(len(graph.widths))
    for source in everyone:
        checks: list[DemandCheck] = []
        for other in everyone:
            shared = [c for c in graph.classes if {source, other} <= c.inputs] if other != source else []
            own, others = (tuple(value_column(c.column_of(one)) for c in shared) for one in (source, other))
            if shared:
                to_other = jit.detection.link(Access(others, own), usual[other], TRUE)
                to_own = Link(Access(own, others), usual[source], TRUE)
                checks.append(PartnerCheck("input", other, to_other, to_own))
        checks += [more[source]] if source in more else []
        columns = [value_column(index) for index in range(graph.widths[source])]
        gates.append(Gate(checks, jit, usual[source], columns if source in retracting else None))
    return gates


def demand_experiences(counts: Sequence[int], kept: Sequence[Segment]) -> list[list[DemandExperience]]:
    """What is known of so many demands of each gate, as it was kept."""
    known = [DemandExperience(*row) for row in kept[0].rows()] if kept else []
    known += [DemandExperience() for _ in range(sum(counts) - len(known))]
    ends = list(accumulate(counts))
    return [known[end - count : end] for end, count in zip(ends, counts, strict=True)]


def kept_experiences(known: Sequence[Sequence[DemandExperience]]) -> Segment:
    every = [each for one in known for each in one]
    return pl.DataFrame(
        [pl.Series(f.name, [getattr(each, f.name) for each in every]) for f in fields(DemandExperience)]
    )
