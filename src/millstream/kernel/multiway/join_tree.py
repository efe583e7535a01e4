"""Joins of several inputs as a tree that stores what its inner joins give, and makes it just in time.

The tree is one operator, so that joins can tell each other what they need within a step (`demand`). Rows of the inputs
and of the joins have their columns by their places in the row of all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import polars as pl

from millstream.kernel.batch import (
    BORN,
    END,
    INTERVAL_COLUMNS,
    Batch,
    batch_schema,
    concat,
    value_column,
    value_columns,
)
from millstream.kernel.columns import only
from millstream.kernel.joins.graph import Access, InputSet, JoinGraph
from millstream.kernel.joins.stem import Probe, arranged
from millstream.kernel.just_in_time.active_spans import MOST_SPANS, ActiveSpans
from millstream.kernel.just_in_time.blacklist import IN, Blacklist, Flags, Waits
from millstream.kernel.just_in_time.combinations import CombinationGate, distinct_pairs
from millstream.kernel.just_in_time.consumers import Alternatives, AnyOf, ConsumerDemand
from millstream.kernel.just_in_time.gates import (
    KNOWN,
    MOST_MET,
    Gate,
    JustInTime,
    demand_experiences,
    kept_experiences,
    tree_gates,
)
from millstream.kernel.just_in_time.look_ahead import LookAhead
from millstream.kernel.just_in_time.partners import Link, RowValues, Stored
from millstream.kernel.just_in_time.producers import OTHER, Producer, admit_alike
from millstream.kernel.just_in_time.tally import COUNTS, Tally
from millstream.kernel.just_in_time.tree_shape import Nesting, TreeJoin, inputs_of, tree_of
from millstream.kernel.keys import Positions
from millstream.kernel.multiway.tree_sides import Pair, Side, StoredRows
from millstream.kernel.operator import Progress, Segment, State
from millstream.kernel.scalar.expressions import TRUE, Expression
from millstream.kernel.storage.expiries import note_gone
from millstream.kernel.storage.segments import alive, gather, horizon_of, numbers
from millstream.kernel.storage.synopsis import Consolidated, Synopsis, merged
from millstream.types import Schema

_STEP = "step"  # synopsis: how many there were
_MADE = "_made"  # the step in which a row was
_LOOKUPS = 8  # partners that look for combinations cost as much as a combination that is made


class JoinTree(Producer):
    """A1 join ... join An in pairs, as the shape says: (a1 ... an, [max si, min ei), product of wi), condition true.

        change(L join R) = change(L) join R_before + L_after join change(R)   for every pair.

    Keeps the rows of every input and of every join but the last. With `jit`, rows of inputs wait until all joins above
    the one that reads them have partners for them (`tree_shape`), and again when these have left: for the tree it is as
    if they arrived later, each pair of rows being made once (`spans`). Since they have no part in any result while they
    wait, the results of every step are the same.

    A row is forgotten once no partner can start in time any more. Without jit those are the other side's, with it all
    others': rows that waited may come from any input as late as that.

    `_born` of a result is the greatest of its components; an input without the column has no say in it.

    >>> equal = call("and", [call("=", [column(0), column(1)]), call("=", [column(1), column(2)])])
    >>> tree = JoinTree([integers("k")] * 3, ((0, 1), 2), equal, jit=JustInTime())
    >>> run = Run(tree)
    >>> run.step(batch((1, 0, 9, +1)), batch((1, 2, 7, +1)), batch((2, 0, 9, +1)), to=2)
    nothing
    >>> Tally.of(run.state[COUNTS]).waiting
    3
    >>> run.step(None, None, batch((1, 3, 5, +2)), to=3)
    (1, 1, 1, [3, 5), +2)
    """

    def __init__(
        self,
        schemas: Sequence[Schema],
        shape: Nesting,
        condition: Expression = TRUE,
        synopses: Sequence[Synopsis] | None = None,
        jit: JustInTime | None = None,
        retracting: InputSet = frozenset(),
        alternatives: Alternatives | None = None,
        static: InputSet = frozenset(),
    ) -> None:
        if alternatives is not None and jit is None:
            raise AssertionError("consumers of a tree that makes everything")
        self.schema, self.schemas = tuple(chain(*schemas)), tuple(schemas)
        self.shape, self.condition = shape, condition
        self.synopses = tuple(synopses or [Consolidated()] * len(schemas))
        self.jit, self.retracting, self.never_changing = jit, retracting, static
        self.graph = JoinGraph([len(columns) for columns in schemas], condition)
        self.root = tree_of(shape)
        self.consumer_demand = ConsumerDemand(self.graph, alternatives) if alternatives is not None else None
        starts = self.graph.starts
        self.columns = [
            [value_column(start + index) for index in range(len(columns))]
            for start, columns in zip(starts, self.schemas, strict=True)
        ]
        self.required = [
            [self.columns[source][int(name[1:])] for name in self.graph.never_null(source)]
            for source in range(len(self.schemas))
        ]
        self.pairs = {join.number: Pair.of(self.graph, join, self._batch_of(join.inputs)) for join in self.root.walk()}
        # Where the rows of each input are kept, and of what consumers ask by.
        self.kept_as = [
            *(f"rows {source}" for source in range(len(schemas))),
            *(one.synopsis for one in self.consumer_inputs),
        ]
        everyone = frozenset(range(len(self.kept_as)))
        self.usual: dict[TreeJoin | int, Access] = {}  # what the rows of each side are sorted by
        self.lasting: dict[TreeJoin | int, InputSet] = {}  # the inputs whose rows, new or late, may still meet those
        for join in self.root.walk():
            for side in join.sides:
                self.usual[side] = self.graph.between(inputs_of(side), inputs_of(join.sibling(side)))
                others = everyone if jit is not None else join.inputs
                self.lasting[side] = others - inputs_of(side)
        for one in self.consumer_inputs:
            # Others too, since several may have to need a row, and one of them may lag behind.
            self.lasting[one.source] = everyone - {one.source}
        self.static = self._static(static) if jit is not None else []
        self.combination_gates: dict[TreeJoin, CombinationGate] = {}
        if jit is not None:
            self.combination_gates = jit.detection.combination_gates(
                self.graph, self.root, self.usual, retracting, adaptive=jit.adaptive
            )
        through = (join.inputs for join, gate in self.combination_gates.items() if gate.looks_through)
        looked_through = frozenset(chain.from_iterable(through))
        self.gates = self._gates(jit, retracting, looked_through)
        self.again = self._again(jit, retracting)
        siblings = ((join, side) for join in self.root.walk() for side in join.sides if side in self.again)
        self.dated = {join.sibling(side) for join, side in siblings}  # whose rows say in which step they were made
        self.is_adaptive = jit is not None and jit.adaptive

    def for_consumers(self, alternatives: Alternatives) -> JoinTree:
        return JoinTree(
            self.schemas,
            self.shape,
            self.condition,
            self.synopses,
            self.jit,
            self.retracting,
            alternatives,
            self.never_changing,
        )

    def _static(self, static: InputSet) -> list[tuple[int, int, Link]]:
        """(input, input that never changes, how rows of the one find partners in the other)."""
        moving = sorted(self.root.inputs - static)
        pairs = ((source, never) for never in sorted(static) for source in moving)
        links = ((s, n, Link.between(self.graph, frozenset({n}), frozenset({s}), self.usual[n])) for s, n in pairs)
        found = [(source, never, link) for source, never, link in links if link.access.probing]
        if self.consumer_demand is not None:
            for source in moving:
                never_present = self.consumer_demand.never_present(
                    source, self.usual[source], self.graph.starts[source]
                )
                found += [(source, check.sources[0], check.to_keys) for check in never_present]
        return found

    def _gates(self, jit: JustInTime | None, retracting: InputSet, looked_through: InputSet) -> list[Gate]:
        if jit is None:
            return []
        more: dict[int, AnyOf] = {}
        if self.consumer_demand is not None:
            starts, link = enumerate(self.graph.starts), jit.detection.link
            more = {n: self.consumer_demand.check(n, self.usual[n], start, link) for n, start in starts}
        return tree_gates(self.graph, self.root, self.usual, jit, retracting, looked_through, more)

    def _again(self, jit: JustInTime | None, retracting: InputSet) -> InputSet:
        """The inputs whose rows may be suspended again. A row that is taken back has to wait like the row itself; what
        is beside must tell since when its rows are there; and without equalities asking costs as much as it saves."""
        if jit is None or not jit.again or retracting:
            return frozenset()
        gated = {source for source, gate in enumerate(self.gates) if not gate.is_open and gate.is_cheap}
        siblings = ((join, side) for join in self.root.walk() for side in join.sides if isinstance(side, int))
        return frozenset(
            side for join, side in siblings if side in gated and (join.sibling(side) in gated or _is_join(join, side))
        )

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        run = _Run(self, inputs, state, progress)
        output = run.output()
        return output, run.after()

    def columns_of(self, inputs: InputSet) -> list[str]:
        return [name for source in sorted(inputs) for name in self.columns[source]]

    def _batch_of(self, inputs: InputSet) -> dict[str, pl.DataType]:
        """The columns of what some inputs give together."""
        types = batch_schema(self.schema)
        return {name: types[name] for name in (*self.columns_of(inputs), *INTERVAL_COLUMNS)}


def _is_join(join: TreeJoin, side: TreeJoin | int) -> bool:
    """Whether the other side is one."""
    return isinstance(join.sibling(side), TreeJoin)


class _Run:
    """One step."""

    def __init__(self, tree: JoinTree, inputs: Sequence[Batch], state: State, progress: Progress) -> None:
        self.tree, self.progress = tree, progress
        self.step = 1 + (int(state[_STEP][0].item()) if _STEP in state else 0)
        # What was ever in before, here and at the one to be united with.
        self.ever_in = {
            source: [self._blacklist(state, source, kept) for kept in ("", OTHER)]
            for source in (tree.root.inputs if tree.admitting else ())
        }
        self.state = self._without_ended(state) if tree.admitting else state
        made_of = len(tree.schemas)
        self.arrived = [self._arranged(source, batch) for source, batch in enumerate(inputs[:made_of])]
        for one in tree.consumer_inputs:
            self.arrived.append(arranged(inputs[one.source], one.columns, [], one.usual))
        self.sides: dict[TreeJoin | int, Side] = {}
        self.combination_gates = {join: gate.begun(state) for join, gate in tree.combination_gates.items()}
        self.tally = Tally.of(state.get(COUNTS, ()))
        for source, never, link in tree.static:
            if progress.after[never] >= 0:  # all its rows start at tick 0, so they are there
                rows = [(segment, None) for segment in self.all_rows(never)]
                met = link.has_partner(self.arrived[source], rows)
                self.tally.dropped += int(np.count_nonzero(~met))
                self.arrived[source] = only(self.arrived[source], met)
        single = [*tree.combination_gates, *sorted(tree.again)]
        counts = [*(len(gate.checks) for gate in tree.gates), *(1 for _ in single)]
        self.known = demand_experiences(counts, state.get(KNOWN, ()))
        self.known_of = dict(zip(single, (one for (one,) in self.known[len(tree.gates) :]), strict=True))
        self.blacklists: dict[int, tuple[Blacklist, Waits]] = {}
        self._combinations: dict[TreeJoin, RowValues] = {}
        self._alive: dict[int, Flags | None] = {}

    def _arranged(self, source: int, batch: Batch) -> Segment:
        local = value_columns(len(self.tree.schemas[source]))
        named = dict(zip(local, self.tree.columns[source], strict=True))
        kept = [name for name in (*INTERVAL_COLUMNS, BORN) if name in batch.columns]
        frame = pl.DataFrame([batch[name].alias(named.get(name, name)) for name in (*local, *kept)])
        return arranged(frame, self.tree.columns[source], self.tree.required[source], self.tree.usual[source])

    def _blacklist(self, state: State, source: int, kept: str = "") -> Blacklist:
        step = self.step if source in self.tree.again else None
        rows, waits = state.get(f"{kept}rows {source}", ()), state.get(f"{kept}waits {source}", ())
        return Blacklist.of(rows, waits, step)

    def _without_ended(self, state: State) -> State:
        """What can still meet anything that comes."""
        found = dict(state)
        for side in self.tree.usual:
            horizon = self._horizon(side, self.progress.before)
            if isinstance(side, TreeJoin):
                name = f"join {side.number}"
                found[name] = tuple(alive(rows, horizon) for rows in state.get(name, ()))
            else:
                parts = self._blacklist(state, side).without_ended(horizon).parts
                found[f"rows {side}"] = tuple(part.rows for part in parts)
                found[f"waits {side}"] = tuple(part.stored for part in parts)
        return found

    def output(self) -> Batch:
        """What the tree makes."""
        return self.made(self.tree.root)

    # What gates ask

    @property
    def open_from(self) -> int:
        return horizon_of(self.progress.low_before)

    def stored(self, side: TreeJoin | int) -> list[Stored]:
        before = [(one.rows, self._living(side, one.rows, one.flags)) for one in self.sides[side].before]
        return [*((rows, flags) for rows, flags in before if flags is None or flags.any()), (self.new(side), None)]

    def arrived_rows(self, source: int) -> list[Stored]:
        before = [(rows, self._living(source, rows, None)) for rows in self._rows_before(source)]
        return [*before, (self.arrived[source], None)]

    def _rows_before(self, source: int) -> tuple[Segment, ...]:
        """All rows of an input from before."""
        return self.state.get(self.tree.kept_as[source], ())

    def _living(self, side: TreeJoin | int, rows: Segment, flags: Flags | None) -> Flags | None:
        """Those of the rows that new ones can meet: segments are cleared now and then only."""
        if id(rows) not in self._alive:
            living: Flags = numbers(rows, END) > self._horizon(side, self.progress.before)
            self._alive[id(rows)] = None if living.all() else living
        living_rows = self._alive[id(rows)]
        return flags if living_rows is None else living_rows if flags is None else flags & living_rows

    def new(self, side: TreeJoin | int) -> Segment:
        return self.sides[side].new

    def all_rows(self, source: int) -> list[Segment]:
        return [*self._rows_before(source), self.arrived[source]]

    def look_ahead(self, join: TreeJoin, view: LookAhead) -> RowValues:
        if join not in self._combinations:
            self._combinations[join] = view.changes(self.arrived, self.all_rows)
        return self._combinations[join]

    # Production

    def made(self, join: TreeJoin, gate: CombinationGate | None = None) -> Batch:
        """The new rows of a join, those left out that the gate knows not to be needed. Inputs are admitted before joins
        are made, and the first of two joins is made before the second, so that what a gate asks is settled by then."""
        order = sorted(join.sides, key=lambda side: (isinstance(side, TreeJoin), side != join.first))
        for side in order:
            self.sides[side] = self._joined(side) if isinstance(side, TreeJoin) else self._admit(side)
        left, right = (self.sides[side] for side in join.sides)
        pieces: list[Batch] = []
        for new in left.coming:
            for stored in (*right.before, *right.coming):
                pieces += self._product(join, 1, new, stored, gate)
        for new in right.coming:
            for stored in left.before:
                pieces += self._product(join, 0, new, stored, gate)
        return concat(pieces, self._empty(join))

    def _joined(self, join: TreeJoin) -> Side:
        segments = self.state.get(f"join {join.number}", ())
        gate = self.combination_gates.get(join)
        if gate is None:
            rows = self.made(join)
        else:
            known = self.known_of[join]
            was_given_up = known.given_up
            if self.tree.is_adaptive:
                known.judge(MOST_MET["combinations"])
            gate.prepare(self, given_up=known.given_up)
            rows = self.made(join, gate if not known.given_up and not was_given_up else None)
            rows = self._needed(join, gate, rows, segments, was_given_up=was_given_up)
        if not rows.height and not segments:
            return Side([], rows, rows)
        self.tally.made += rows.height
        new = arranged(rows, self.tree.columns_of(join.inputs), [], self.tree.usual[join])
        if join not in self.tree.dated:
            return Side([StoredRows(segment) for segment in segments], new, new)
        new = new.hstack([pl.Series(_MADE, np.full(new.height, self.step, np.int32))])
        before = [StoredRows(one, None, ActiveSpans.since(one.get_column(_MADE).to_numpy())) for one in segments]
        return Side(before, new, new)

    def _needed(
        self, join: TreeJoin, gate: CombinationGate, rows: Batch, made: Sequence[Segment], *, was_given_up: bool
    ) -> Batch:
        """Those of the new combinations that are needed, and those that were withheld and are needed by now."""
        known = self.known_of[join]
        if was_given_up:
            if not known.given_up:
                known.add(gate.is_met(rows, self), min(rows.height, gate.new_partners(self) // _LOOKUPS))
                known.given_up = known.is_met_mostly(MOST_MET["combinations"])
            return rows
        if known.given_up:
            return concat([rows, self._due(join, gate, made, self._met_before(join), everyone=True)], rows)
        late = self._due(join, gate, made, self._found(join, gate), everyone=False)
        if rows.height:
            like = list(made)
            if late.height:
                like.append(arranged(late, self.tree.pairs[join.number].columns, [], self.tree.usual[join]))
            needed = gate.is_needed(rows, like, self)
            known.add(needed, min(rows.height, gate.new_partners(self) // _LOOKUPS))
            self.tally.withheld += rows.height - int(np.count_nonzero(needed))
            rows = only(rows, needed)
        return concat([rows, late], rows)

    def _found(self, join: TreeJoin, gate: CombinationGate) -> Iterator[Batch]:
        """The combinations from before that a partner came for."""
        left, right = (self.sides[side].before for side in join.sides)
        spans = {id(one.rows): one.spans for one in (*left, *right)}
        ever = [[(one.rows, one.ever) for one in side] for side in (left, right)]
        for rows, i, stored, j in distinct_pairs(gate.found(self, *ever)):
            yield from self._before(join, rows, spans[id(rows)], stored, spans[id(stored)], i, j)

    def _met_before(self, join: TreeJoin) -> Iterator[Batch]:
        """All combinations from before."""
        left, right = (self.sides[side].before for side in join.sides)
        pair = self.tree.pairs[join.number]
        for one in left:
            probe = Probe(one.rows, pair.accesses[1], self.tree.usual[join.right])
            for other in right:
                for i, j in probe.candidates(other.rows):
                    kept = np.ones(i.size, np.bool_)
                    for flags, positions in ((one.ever, i), (other.ever, j)):
                        kept = kept if flags is None else kept & flags[positions]
                    yield from self._before(join, one.rows, one.spans, other.rows, other.spans, i[kept], j[kept])

    def _before(
        self,
        join: TreeJoin,
        rows: Segment,
        spans: ActiveSpans | None,
        stored: Segment,
        others: ActiveSpans | None,
        i: Positions,
        j: Positions,
    ) -> Iterator[Batch]:
        """Those of the pairs of rows of either side that have met."""
        if spans is not None and others is not None:
            met = spans.met(i, others, j)
            i, j = i[met], j[met]
        pair = self.tree.pairs[join.number]
        left = pl.DataFrame(gather(rows, rows.columns, i))
        probe = Probe(left, pair.accesses[1], self.tree.usual[join.right])
        yield from pair.combined(left, stored, *pair.matching(probe, left, stored, np.arange(i.size), j))

    def _due(
        self, join: TreeJoin, gate: CombinationGate, made: Sequence[Segment], found: Iterator[Batch], *, everyone: bool
    ) -> Batch:
        """Of the combinations from before those that are needed by now, or all, as far as they were not made."""
        # What has expired since it was made is no longer stored, and must not be made again.
        due = alive(concat(list(found), self._empty(join)), self._horizon(join, self.progress.before))
        if not due.height:
            return due
        return only(due, ~gate.is_made(due, made) if everyone else gate.is_due(due, made, self))

    def _admit(self, source: int) -> Side:
        arrived, segments = self.arrived[source], self.state.get(f"rows {source}", ())
        if not self.tree.gates or self.tree.gates[source].is_open:
            return Side([StoredRows(segment) for segment in segments], arrived, arrived)
        blacklist = self._blacklist(self.state, source)
        step = blacklist.step
        waits = self.tree.gates[source].admit(arrived, blacklist, self, self.known[source])
        if self.tree.admitting:
            admit_alike(blacklist, self.tree.admitting, *self.ever_in[source])
        if step is not None and self.tree.is_adaptive:
            self.known_of[source].judge(MOST_MET["again"])
        self.tally.suspended += int(np.count_nonzero(waits))
        self.tally.resumed += sum(rows.height for rows, _ in blacklist.resumed)
        self.blacklists[source] = blacklist, waits
        before = [
            StoredRows(*part.rows_in, part.spans, number if step is not None else None)
            for number, part in enumerate(blacklist.before)
            if part.number_in or (part.spans is not None and part.spans.ever.any())
        ]
        again = [(rows, spans) for rows, spans in blacklist.resumed if spans is not None]
        admitted = [only(arrived, waits == IN), *(rows for rows, spans in blacklist.resumed if spans is None)]
        first = _merged(admitted, arrived)
        return Side(before, _merged([first, *(rows for rows, _ in again)], arrived), first, again)

    def _still_in(self, source: TreeJoin | int, stored: StoredRows, positions: Positions) -> Flags | None:
        """Which of the rows, of which something would be made now, are still needed; the others are suspended again."""
        if stored.part is None or stored.spans is None or not isinstance(source, int):
            return None
        known, (blacklist, _) = self.known_of[source], self.blacklists[source]
        if known.given_up or self.tree.admitting:
            return None
        touched = np.zeros(stored.rows.height, np.bool_)
        touched[positions] = True
        checked = np.flatnonzero(touched)
        checked = checked[stored.spans.used[checked] < MOST_SPANS]
        waits = self.tree.gates[source].check_again(stored.rows, checked, self, self.known[source])
        known.add(waits == IN)
        left = waits != IN
        if not left.any():
            return None
        blacklist.suspend(stored.part, checked[left], waits[left])
        self.tally.suspended += int(np.count_nonzero(left))
        stored.flags = np.ones(stored.rows.height, np.bool_) if stored.flags is None else stored.flags.copy()
        stored.flags[checked[left]] = False
        return stored.flags[positions]

    # What is kept

    def after(self) -> State:
        kept: dict[str, tuple[Segment, ...]] = {}
        self.tally.waiting = 0
        for side, rows in self.sides.items():
            before, after = (self._horizon(side, reached) for reached in (self.progress.before, self.progress.after))
            if isinstance(side, TreeJoin):
                if not rows.before and not rows.new.height:
                    continue
                segments = [stored.rows for stored in rows.before]
                kept[f"join {side.number}"] = Consolidated().retain(segments, rows.new, after, before)
                note_gone(segments, rows.new.height, kept[f"join {side.number}"])
            elif side in self.blacklists:
                blacklist, waits = self.blacklists[side]
                parts = blacklist.retain(self.arrived[side], waits, after)
                kept[f"rows {side}"] = tuple(part.rows for part in parts)
                note_gone([part.rows for part in blacklist.parts], self.arrived[side].height, kept[f"rows {side}"])
                kept[f"waits {side}"] = tuple(part.stored for part in parts)
                self.tally.waiting += Blacklist(parts).size
            else:
                segments = list(self.state.get(f"rows {side}", ()))
                kept[f"rows {side}"] = self.tree.synopses[side].retain(segments, self.arrived[side], after, before)
                note_gone(segments, self.arrived[side].height, kept[f"rows {side}"])
        for one in self.tree.consumer_inputs:
            before, after = (self._horizon(one.source, to) for to in (self.progress.before, self.progress.after))
            stored = list(self._rows_before(one.source))
            kept[one.synopsis] = Consolidated().retain(stored, self.arrived[one.source], after, before)
        if self.tree.jit is not None:
            gates = self.combination_gates
            given_up = [join for join in gates if self.known_of[join].given_up]
            horizon = partial(self._horizon, frontiers=self.progress.after)
            self.tree.jit.detection.remember(gates, given_up, kept, horizon, self.tally)
        kept[COUNTS] = (self.tally.segment(),)
        if self.tree.again:
            kept[_STEP] = (pl.DataFrame({_STEP: [self.step]}),)
        if any(self.known):
            kept[KNOWN] = (kept_experiences(self.known),)
        return kept

    def _horizon(self, side: TreeJoin | int, frontiers: Sequence[int]) -> int:
        """The first instant that any row which can still meet those of the side may reach."""
        return min(horizon_of(frontiers[source]) for source in self.tree.lasting[side])

    def _product(
        self, join: TreeJoin, side: int, new: StoredRows, stored: StoredRows, gate: CombinationGate | None
    ) -> Iterator[Batch]:
        """The pairs of new rows and of rows of a side that are in, as far as they have not met before."""
        if not new.rows.height or not stored.rows.height:
            return
        pair = self.tree.pairs[join.number]
        probe = Probe(new.rows, pair.accesses[side], self.tree.usual[join.sides[side]])
        for i, j in probe.candidates(stored.rows):
            if stored.flags is not None:
                i, j = _kept(i, j, stored.flags[j])
            if new.spans is not None and stored.spans is not None:
                i, j = _kept(i, j, ~new.spans.met(i, stored.spans, j))
            still_in = self._still_in(join.sides[side], stored, j)
            if still_in is not None:
                i, j = _kept(i, j, still_in)
            i, j = pair.matching(probe, new.rows, stored.rows, i, j)
            if gate is not None and i.size:
                made = self.state.get(f"join {join.number}", ())
                needed = gate.may_be_needed((new.rows, i, stored.rows, j), made, self)
                self.known_of[join].add(needed[~needed])
                self.tally.withheld += int(np.count_nonzero(~needed))
                i, j = _kept(i, j, needed)
            yield from pair.combined(new.rows, stored.rows, i, j)

    def _empty(self, join: TreeJoin) -> Batch:
        born = any(BORN in self.arrived[source].columns for source in join.inputs)
        return self.tree.pairs[join.number].empty[born]


def _kept(i: Positions, j: Positions, flags: Flags) -> tuple[Positions, Positions]:
    return i[flags], j[flags]


def _merged(segments: Sequence[Segment], like: Segment) -> Segment:
    filled = [segment for segment in segments if segment.height]
    return merged(filled) if filled else like.clear()
