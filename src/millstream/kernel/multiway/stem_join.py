"""Joins of several inputs at once, by SteMs and an eddy (CACQ, section 3.3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import chain

import numpy as np
import polars as pl

from millstream.kernel.batch import (
    ARRIVAL,
    BORN,
    INF,
    Batch,
    batch_schema,
    concat,
    value_column,
    value_columns,
)
from millstream.kernel.columns import frame_of, numbered, only
from millstream.kernel.distribution import Distribution, by_key
from millstream.kernel.eddy.stems import StemExperience
from millstream.kernel.joins.graph import InputSet, JoinGraph
from millstream.kernel.joins.stem import Arrangement, arranged, arranged_by
from millstream.kernel.just_in_time.blacklist import IN, Blacklist
from millstream.kernel.just_in_time.consumers import Alternatives, ConsumerDemand
from millstream.kernel.just_in_time.gates import (
    KNOWN,
    MOST_MET,
    Gate,
    JustInTime,
    demand_experiences,
    kept_experiences,
    stem_gates,
)
from millstream.kernel.just_in_time.look_ahead import LookAhead
from millstream.kernel.just_in_time.partners import RowValues, Stored
from millstream.kernel.just_in_time.producers import OTHER, Producer, admit_alike
from millstream.kernel.just_in_time.resuspension import Resuspension, ResuspensionRange, waits_of
from millstream.kernel.just_in_time.tally import COUNTS, Tally
from millstream.kernel.just_in_time.tree_shape import TreeJoin
from millstream.kernel.multiway.joined_rows import JoinedRows
from millstream.kernel.multiway.stem_eddy import StemEddy
from millstream.kernel.operator import Horizons, KeptInput, Progress, Segment, State
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.kernel.sharing.input_lineage import InputSelections
from millstream.kernel.sharing.signature_classes import SIGNATURE
from millstream.kernel.storage.identified import Identified, completed
from millstream.kernel.storage.segments import horizon_of
from millstream.kernel.storage.synopsis import Consolidated, Synopsis, lets_go, merged, retained
from millstream.kernel.windows.imposed import Imposed, imposing
from millstream.types import Schema

CHUNK = 8192  # rows that one route is chosen for
_WORTH_TAKING = 1 / 8  # of the rows that come, those that must be wanted for their pairs to be taken from another join
ROUTING, _RESUSPENSION = "routing", "turns"  # synopses


class StemJoin(Producer):
    """A1 join ... join An = {(a1 ... an, [max si, min ei), product of wi) : ai in Ai, the condition true}

        change(A1 join ... join An) = sum over i of (A1 .. A(i-1))_after join change(Ai) join (A(i+1) .. An)_before.

    Keeps the rows of every input in a SteM, and no intermediate result. Inputs that are one edge have one SteM, where
    they are hashed alike and lack no other values. New rows of an input are routed in chunks
    through the SteMs of all others, in an order that is chosen for each chunk by what was met before (`eddy`).
    A SteM that nothing connects with what is joined comes last. What was met is kept as well: it decides how soon an
    answer is found, and never which.

    A row is forgotten once the frontiers of all other inputs have reached its end - 1: no partner can start in time any
    more, whichever input it would come from. Rows that lack a value which an equality or a comparison needs are not
    kept. With `jit`, rows that another SteM has nothing for are kept, but neither sent nor met until it has. With the
    `selections` of a group's queries only combinations are made that one of these may want (`input_lineage`). Where
    `windows` are imposed on inputs, these come and are kept as elements of streams. Where rows that leave an input come
    without some columns (`found`), these are found in its SteM.

    Where another join makes the pairs of two of the inputs, its new pairs may be an input as well (`taken`): they go on
    to the other SteMs, and the rows of those two are not routed.

        change = change(A1 join A2) join (A3 .. An)_before + (A1 join A2)_after join change(A3) join ... + ...

    `_born` of a result is the greatest of its components; an input without the column has no say in it.

    >>> equal = call("and", [call("=", [column(0), column(1)]), call("=", [column(1), column(2)])])
    >>> run = Run(StemJoin([integers("k")] * 3, equal))
    >>> run.step(batch((1, 0, 9, +1)), batch((1, 2, 7, +1)), batch((2, 0, 9, +1)), to=2)
    nothing
    >>> run.step(None, None, batch((1, 3, 5, +2)), to=3)
    (1, 1, 1, [3, 5), +2)
    """

    def __init__(
        self,
        schemas: Sequence[Schema],
        condition: Expression = TRUE,
        synopses: Sequence[Synopsis] | None = None,
        policy: str = "ticket",
        chunk: int = CHUNK,
        edges: Sequence[str] | None = None,
        jit: JustInTime | None = None,
        retracting: InputSet = frozenset(),
        alternatives: Alternatives | None = None,
        selections: InputSelections | None = None,
        windows: Sequence[Imposed] = (),
        found: Sequence[Collection[int]] = (),
    ) -> None:
        if alternatives is not None and jit is None:
            raise AssertionError("consumers of a join that makes everything")
        self.schemas, self.jit, self.retracting = tuple(schemas), jit, retracting
        self.schema = tuple(chain(*schemas))
        self.condition, self.selections = condition, selections
        given = tuple(synopses or [Consolidated()] * len(schemas))
        self._found = [[value_column(index) for index in sorted(columns)] for columns in found or [()] * len(schemas)]
        self.synopses = tuple(Identified() if f else own for f, own in zip(self._found, given, strict=True))
        self.windows = imposing(windows, len(schemas))
        self.policy, self.chunk = policy, chunk
        self.graph = JoinGraph([len(schema) for schema in schemas], condition)
        self.columns = [value_columns(len(schema)) for schema in schemas]
        # Rows of one SteM for several inputs would have to be held back for some and not for others.
        self.stem_of = self._stems(edges if edges and jit is None else [str(source) for source in range(len(schemas))])
        self.usual = [self.graph.usual_access(stem) for stem in self.stem_of]
        self.consumer_demand = ConsumerDemand(self.graph, alternatives) if alternatives is not None else None
        self.gates = self._gates(jit, retracting) if jit is not None else []
        self.again = self._again(jit)
        self.is_adaptive = jit is not None and jit.adaptive
        self.taken: tuple[int, ...] = ()
        self.base: StemJoin | None = None  # which this is with pairs as an input

    def taking(self, inputs: tuple[int, int]) -> StemJoin:
        """The same where the new pairs of two inputs, which another join makes, are a further input."""
        join = copy(self)
        join.taken, join.base = inputs, self
        return join

    @property
    def distribution(self) -> Distribution:
        usual = super().distribution
        if not self.taken or usual.keys is None:
            return usual
        return by_key([*usual.keys, usual.keys[self.taken[0]]], *usual.copies, ())

    def _gates(self, jit: JustInTime, retracting: InputSet) -> list[Gate]:
        inputs = range(len(self.schemas))
        checked, link = self.consumer_demand, jit.detection.link
        more = {n: checked.check(n, self.usual[n], 0, link) for n in inputs} if checked is not None else {}
        return stem_gates(self.graph, self.usual, jit, retracting, more)

    def for_consumers(self, alternatives: Alternatives) -> StemJoin:
        return StemJoin(
            self.schemas,
            self.condition,
            self.synopses,
            self.policy,
            self.chunk,
            jit=self.jit,
            retracting=self.retracting,
            alternatives=alternatives,
        )

    def _again(self, jit: JustInTime | None) -> list[int]:
        """The inputs whose rows may be suspended again: not where they may be taken back (`resuspension`), and not of
        two, where whoever meets a row is a partner; nor where rows that are resumed are sent, and would meet some
        twice."""
        if jit is None or not jit.again or len(self.schemas) == 2 or self.consumer_demand is not None:
            return []
        return [source for source, gate in enumerate(self.gates) if not gate.is_open and gate.alike is None]

    def _stems(self, edges: Sequence[str]) -> list[int]:
        """For each input whose SteM has its rows: the first one that has the same."""
        keys = self.graph.common_keys()
        kept = [(edge, keys[source], self.graph.never_null(source)) for source, edge in enumerate(edges)]
        return [kept.index(same) for same in kept]

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        everyone = range(len(self.schemas))
        progress = self._own(progress)
        before = [state.get(f"stem {stem}", ()) for stem in self.stem_of]
        new = {i: self._whole(i, arranged_by(inputs[i], self._arrangement(i)), before[i]) for i in set(self.stem_of)}
        arrived = [new[stem] for stem in self.stem_of]
        routing = state.get(ROUTING, ())
        experience = StemExperience.of(len(everyone), routing)
        for one in self.consumer_inputs:
            arrived.append(arranged(inputs[one.source], one.columns, [], one.usual))
            before.append(state.get(one.synopsis, ()))
        held = _HeldBack(self, before, arrived, state, progress) if self.gates else None
        admitted = arrived if held is None else held.admitted
        stored: list[list[Stored]] = [[(segment, None) for segment in stem] for stem in before]
        stored = stored if held is None else held.stored_rows
        lineage = self.selections.of(state) if self.selections is not None else None
        if lineage is not None:
            admitted = [lineage.wanted(i, rows) for i, rows in enumerate(admitted)]
        if lineage is not None and any(rows.height for rows in (*admitted, *inputs[len(everyone) :])):
            stored = [[(lineage.wanted(i, rows), None) for rows, _ in stem] for i, stem in enumerate(stored)]
        pieces: list[Batch] = []
        # Where few of the rows are wanted here, most pairs are for others only, and the own ones are found again.
        came, sent = (sum(rows[i].height for i in self.taken) for rows in (arrived, admitted))
        taken = self.taken if sent >= _WORTH_TAKING * came else ()
        if taken:
            eddy = StemEddy(self, taken[0], stored, experience, lineage)
            pieces += (self._side_by_side(found) for found in eddy.go_on(inputs[-1], taken))
        for origin in (i for i in everyone if i not in taken):
            there = {*range(origin), *taken}
            stems = [[*stored[i], (admitted[i], None)] if i in there else stored[i] for i in everyone]
            eddy, rows = StemEddy(self, origin, stems, experience, lineage), admitted[origin]
            pieces += (self._side_by_side(found) for found in eddy.run(rows))
        after = {} if held is None else held.after()
        for i, kept in self.kept_inputs(progress).items():
            shared = progress.shared.get(i)
            after[kept.synopsis] = retained(self.synopses[i], before[i], arrived[i], kept, shared)
        after[ROUTING] = (experience.segment(),) if experience.is_new else routing
        return concat(pieces, self._empty(any(BORN in rows.columns for rows in arrived[: len(everyone)]))), after

    def is_idle(self, state: State, progress: Progress) -> bool:
        """Where rows are held back, time alone may resume some."""
        return not self.gates and not any(
            lets_go(self.synopses[i], state.get(kept.synopsis, ()), kept, progress.shared.get(i))
            for i, kept in self.kept_inputs(progress).items()
        )

    def _own(self, progress: Progress) -> Progress:
        """How far the inputs are, without pairs of them."""
        if not self.taken:
            return progress
        count = len(self.schemas)
        return replace(progress, before=progress.before[:count], after=progress.after[:count])

    def _arrangement(self, source: int) -> Arrangement:
        required = tuple(self.graph.never_null(source))
        numbered_by = (ARRIVAL,) if self._found[source] else ()
        return Arrangement((*self.columns[source], *numbered_by), required, self.usual[source].order)

    @property
    def rows_come_whole(self) -> bool:
        """Whether rows that leave an input come with all their columns."""
        return not any(self._found)

    def _whole(self, source: int, arrived: Segment, stored: Sequence[Segment]) -> Segment:
        return completed(arrived, stored, self._found[source]) if self._found[source] else arrived

    def kept_inputs(self, progress: Progress) -> dict[int, KeptInput]:
        """Not where rows are held back: others have no use for what is wanted here."""
        progress = self._own(progress)
        return {
            i: KeptInput(f"stem {i}", (self._arrangement(i), self.synopses[i]), self._horizons(i, progress))
            for i in (set(self.stem_of) if not self.gates else ())
        }

    def _horizons(self, stem: int, progress: Progress) -> Horizons:
        """Of a SteM: those of the inputs that it is for."""
        inputs = [source for source, own in enumerate(self.stem_of) if own == stem]
        each = [Horizons(_horizon(progress.before, i), _horizon(progress.after, i)) for i in inputs]
        return reduce(Horizons.least, (self.windows[i].horizons(own) for i, own in zip(inputs, each, strict=True)))

    def _side_by_side(self, found: JoinedRows) -> Batch:
        """The values of all inputs, in their order."""
        columns = [
            series.alias(value_column(start + number))
            for source, start in enumerate(self.graph.starts)
            for number, series in enumerate(found.values(source, self.columns[source]))
        ]
        measures = {name: measure for name, measure in found.measures.items() if not name.startswith(SIGNATURE)}
        return frame_of([*columns, *numbered(measures)])

    def _empty(self, born: bool) -> Batch:
        return pl.DataFrame(schema=batch_schema(self.schema) | ({BORN: pl.Int64()} if born else {}))


def _horizon(frontiers: Sequence[int], source: int) -> int:
    """The first instant that any other input can still reach."""
    return min(horizon_of(frontier) for other, frontier in enumerate(frontiers) if other != source)


def _blacklist(state: State, source: int, kept: str = "") -> Blacklist:
    return Blacklist.of(state.get(f"{kept}stem {source}", ()), state.get(f"{kept}waits {source}", ()))


class _HeldBack:
    """The rows of all SteMs, those left out that some other SteM has nothing for (`demand`).

    A row that is resumed had no part in any combination before, and has now only by the rows that it was waiting for:
    their own way through the SteMs finds it there, so it need not be sent on its own. Unless it waited for a consumer,
    whose rows go no way: where there are some, rows that are resumed are sent like those that arrive.
    """

    def __init__(
        self,
        join: StemJoin,
        before: Sequence[Sequence[Segment]],
        arrived: Sequence[Segment],
        state: State,
        progress: Progress,
    ) -> None:
        self.join, self.before, self.arrived, self.progress = join, list(before), arrived, progress
        self.tally = Tally.of(state.get(COUNTS, ()))
        counts = [*(len(gate.checks) for gate in join.gates), len(join.gates)]
        self.known = demand_experiences(counts, state.get(KNOWN, ()))
        made_of = range(len(join.gates))
        self.blacklists = [_blacklist(state, i) for i in made_of]
        # What is in at the start, here and at the one to be united with.
        ever_in = [(self.blacklists[i], _blacklist(state, i, OTHER)) for i in made_of] if join.admitting else []
        for i in made_of if join.admitting else ():
            self.blacklists[i] = self.blacklists[i].without_ended(_horizon(progress.before, i))
            self.before[i] = tuple(part.rows for part in self.blacklists[i].parts)
        self.waits = []
        for i, (gate, blacklist) in enumerate(zip(join.gates, self.blacklists, strict=True)):
            waits = gate.admit(arrived[i], blacklist, self, self.known[i])
            if join.admitting:
                admit_alike(blacklist, join.admitting, *ever_in[i])
            self.tally.suspended += int(np.count_nonzero(waits))
            self.tally.resumed += sum(resumed.height for resumed, _ in blacklist.resumed)
            self.waits.append(waits)
        self.resuspension = Resuspension.of(len(arrived), state.get(_RESUSPENSION, ()))
        count, stored = sum(rows.height for rows in arrived), [sum(s.height for s in stem) for stem in before]
        among = [source for source in join.again if stored[source]] if count else []
        if among:
            self._resuspend(self.resuspension.take(among, stored, count))

    def _resuspend(self, chosen: ResuspensionRange) -> None:
        """Suspends those of the rows whose turn it is that some SteM has nothing for any more."""
        gate, blacklist = self.join.gates[chosen.stem], self.blacklists[chosen.stem]
        known, experience = self.known[chosen.stem], self.known[-1][chosen.stem]
        if self.join.is_adaptive:
            experience.judge(MOST_MET["again"])
        if experience.given_up:
            return
        for number, part in enumerate(blacklist.parts):
            positions = chosen.positions(part)
            waits = waits_of(gate, part.rows, positions, known, self._living)
            experience.add(waits == IN)
            left = waits != IN
            if left.any():
                blacklist.suspend(number, positions[left], waits[left])
                self.tally.suspended += int(np.count_nonzero(left))

    def _living(self, source: int) -> list[tuple[Segment, int]]:
        """The rows of a SteM, and the first instant at which rows that arrive can meet them. Those that arrived are
        sent themselves, and meet whatever is there."""
        horizon = _horizon(self.progress.before, source)
        return [*((segment, horizon) for segment in self.before[source]), (self.arrived[source], -INF)]

    @property
    def admitted(self) -> list[Segment]:
        """The rows that are sent."""
        arrived = [only(rows, waits == IN) for rows, waits in zip(self.arrived, self.waits, strict=False)]
        if self.join.consumer_demand is None:
            return arrived
        resumed = [[rows for rows, _ in blacklist.resumed if rows.height] for blacklist in self.blacklists]
        return [merged([rows, *more]) if more else rows for rows, more in zip(arrived, resumed, strict=True)]

    @property
    def stored_rows(self) -> list[list[Stored]]:
        """The rows that are found."""
        if self.join.consumer_demand is None:
            return [blacklist.rows_in() for blacklist in self.blacklists]
        return [[part.rows_in for part in blacklist.before if part.number_in] for blacklist in self.blacklists]

    def after(self) -> dict[str, tuple[Segment, ...]]:
        kept: dict[str, tuple[Segment, ...]] = {KNOWN: (kept_experiences(self.known),)} if any(self.known) else {}
        self.tally.waiting = 0
        for i, blacklist in enumerate(self.blacklists):
            parts = blacklist.retain(self.arrived[i], self.waits[i], _horizon(self.progress.after, i))
            kept[f"stem {i}"] = tuple(part.rows for part in parts)
            kept[f"waits {i}"] = tuple(part.stored for part in parts)
            self.tally.waiting += Blacklist(parts).size
        for one in self.join.consumer_inputs:
            before, after = (_horizon(to, one.source) for to in (self.progress.before, self.progress.after))
            kept[one.synopsis] = Consolidated().retain(
                list(self.before[one.source]), self.arrived[one.source], after, before
            )
        if self.join.again:
            kept[_RESUSPENSION] = (self.resuspension.segment(),)
        return kept | {COUNTS: (self.tally.segment(),)}

    # What gates ask: all rows count, since those that wait must not be waited for in turn

    def stored(self, side: TreeJoin | int) -> list[Stored]:
        return [(segment, None) for segment in self.all_rows(_number(side))]

    def new(self, side: TreeJoin | int) -> Segment:
        return self.arrived[_number(side)]

    def all_rows(self, source: int) -> list[Segment]:
        return [*self.before[source], self.arrived[source]]

    def arrived_rows(self, source: int) -> list[Stored]:
        return self.stored(source)

    def look_ahead(self, join: TreeJoin, view: LookAhead) -> RowValues:
        raise AssertionError("SteMs are asked one by one")

    @property
    def open_from(self) -> int:
        return horizon_of(self.progress.low_before)


def _number(side: TreeJoin | int) -> int:
    if not isinstance(side, int):
        raise AssertionError("a SteM is of an input")
    return side
