"""Joins of several inputs as a tree that stores what its inner joins give, and makes it just in time.

The tree is one operator, so that joins can tell each other what they need within a step (`demand`). Rows of the inputs
and of the joins have their columns by their places in the row of all inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

import numpy as np
import polars as pl

from millstream.kernel.batch import (
    BORN,
    END,
    INTERVAL_COLUMNS,
    START,
    WEIGHT,
    Batch,
    batch_schema,
    concat,
    value_column,
    value_columns,
)
from millstream.kernel.blacklist import Blacklist, Flags
from millstream.kernel.combinations import CombinationGate, distinct_pairs
from millstream.kernel.demand import COUNTS, KNOWN, JustInTime, Tally, experiences, kept_experiences, tree_gates
from millstream.kernel.distribution import Distribution, by_key
from millstream.kernel.foresight import Foreseen
from millstream.kernel.join_graph import Access, Inputs, JoinGraph
from millstream.kernel.keys import Positions
from millstream.kernel.operator import Operator, Progress, Segment, State
from millstream.kernel.partners import Rows, Stored
from millstream.kernel.scalar.evaluate import select_true
from millstream.kernel.scalar.expressions import TRUE, Expression, conjunction
from millstream.kernel.segments import alive, gather, horizon_of, numbers, only
from millstream.kernel.stem import Probe, arranged
from millstream.kernel.synopsis import Consolidated, Synopsis
from millstream.kernel.tree_shape import Join, Shape, demands_of, inputs_of, tree_of
from millstream.types import Schema


class JoinTree(Operator):
    """A1 join ... join An in pairs, as the shape says: (a1 ... an, [max si, min ei), product of wi), condition true.

        change(L join R) = change(L) join R_before + L_after join change(R)   for every pair.

    Keeps the rows of every input and of every join but the last. With `jit`, rows of inputs wait until all joins above
    the one that reads them have partners for them (`tree_shape`): for the tree it is as if they arrived later, and
    since they were part of no result before, the results of every step are the same.

    A row is forgotten once no partner can start in time any more. Without jit those are the other side's, with it all
    others': rows that waited may come from any input as late as that.

    `_born` of a result is the greatest of its components; an input without the column has no say in it.

    Where a class of equal columns has one of every input, rows are hashed by it. Otherwise no hash brings together all
    that may meet, and all rows go to one shard.
    """

    def __init__(
        self,
        schemas: Sequence[Schema],
        shape: Shape,
        condition: Expression = TRUE,
        synopses: Sequence[Synopsis] | None = None,
        jit: JustInTime | None = None,
        retracting: Inputs = frozenset(),
    ) -> None:
        self.schemas = tuple(schemas)
        self.schema = tuple(chain(*schemas))
        self.shape, self.condition = shape, condition
        self.synopses = tuple(synopses or [Consolidated()] * len(schemas))
        self.graph = JoinGraph([len(schema) for schema in schemas], condition)
        self.root = tree_of(shape)
        self.columns = [
            [value_column(start + index) for index in range(width)]
            for start, width in zip(self.graph.starts, self.graph.widths, strict=True)
        ]
        self.required = [
            [self.columns[source][int(name[1:])] for name in self.graph.never_null(source)]
            for source in range(len(schemas))
        ]
        self.pairs = {join.number: _Pair.of(self, join) for join in self.root.walk()}
        self.usual: dict[Join | int, Access] = {}  # what the rows of each side are sorted by
        self.lasting: dict[Join | int, Inputs] = {}  # the inputs whose rows, new or late, may still meet those
        for join in self.root.walk():
            for side in join.sides:
                self.usual[side] = self.graph.between(inputs_of(side), inputs_of(join.beside(side)))
                others = self.root.inputs if jit is not None else join.inputs
                self.lasting[side] = others - inputs_of(side)
        self.gates = tree_gates(self.graph, self.root, self.usual, jit, retracting) if jit is not None else []
        self.combination_gates: dict[Join, CombinationGate] = {}
        if jit is not None and jit.combinations:
            demands = demands_of(self.root)
            for join in self.root.walk():
                gate = CombinationGate(self.graph, join, demands[join], self.usual) if join != self.root else None
                if gate is not None and gate.asking and not join.inputs & retracting:
                    self.combination_gates[join] = gate

    @property
    def distribution(self) -> Distribution:
        copies = (
            tuple((index, start + index) for index in range(width))
            for start, width in zip(self.graph.starts, self.graph.widths, strict=True)
        )
        return by_key(self.graph.common_keys(), *copies)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        run = _Run(self, inputs, state, progress)
        output = run.made(self.root)
        return output, run.after()

    def columns_of(self, inputs: Inputs) -> list[str]:
        return [name for source in sorted(inputs) for name in self.columns[source]]


@dataclass(frozen=True)
class _Pair:
    """What joins the two sides of a join: how either finds the other's rows, and what is tested then."""

    accesses: tuple[Access, Access]  # to the left side's rows, and to the right side's
    condition: Expression
    columns: tuple[str, ...]
    empty: tuple[Batch, Batch]  # without `_born`, and with it

    @classmethod
    def of(cls, tree: JoinTree, join: Join) -> _Pair:
        left, right = (inputs_of(side) for side in join.sides)
        below = [side.inputs for side in join.sides if isinstance(side, Join)]
        conditions = [
            c.expression
            for c in tree.graph.conditions
            if c.inputs <= left | right and not any(c.inputs <= inputs for inputs in below)
        ]
        accesses = tree.graph.between(left, right), tree.graph.between(right, left)
        columns, types = tree.columns_of(left | right), batch_schema(tree.schema)
        schema = {name: types[name] for name in (*columns, *INTERVAL_COLUMNS)}
        empty = pl.DataFrame(schema=schema), pl.DataFrame(schema=schema | {BORN: pl.Int64()})
        return cls(accesses, conjunction(conditions), tuple(columns), empty)


@dataclass
class _Side:
    """The rows of an input or a join during a step: those from before, with which of them count, and the new ones."""

    before: list[Stored]
    new: Segment


class _Run:
    """One step."""

    def __init__(self, tree: JoinTree, inputs: Sequence[Batch], state: State, progress: Progress) -> None:
        self.tree, self.state, self.progress = tree, state, progress
        self.arrived = [self._arranged(source, batch) for source, batch in enumerate(inputs)]
        self.sides: dict[Join | int, _Side] = {}
        self.tally = Tally.of(state.get(COUNTS, ()))
        self.known = experiences(tree.gates, state.get(KNOWN, ()))
        self.blacklists: dict[int, tuple[Blacklist, Flags]] = {}
        self._combinations: dict[Join, Rows] = {}

    def _arranged(self, source: int, batch: Batch) -> Segment:
        local = value_columns(len(self.tree.schemas[source]))
        named = dict(zip(local, self.tree.columns[source], strict=True))
        kept = [name for name in (*INTERVAL_COLUMNS, BORN) if name in batch.columns]
        frame = pl.DataFrame([batch[name].alias(named.get(name, name)) for name in (*local, *kept)])
        return arranged(frame, self.tree.columns[source], self.tree.required[source], self.tree.usual[source])

    # What gates ask

    def stored(self, side: Join | int) -> list[Stored]:
        return [*self.sides[side].before, (self.sides[side].new, None)]

    def new(self, side: Join | int) -> Segment:
        return self.sides[side].new

    def all_rows(self, source: int) -> list[Segment]:
        return [*self.state.get(f"rows {source}", ()), self.arrived[source]]

    def foreseen(self, join: Join, view: Foreseen) -> Rows:
        if join not in self._combinations:
            self._combinations[join] = view.changes(self.arrived, self.all_rows)
        return self._combinations[join]

    # Production

    def made(self, join: Join) -> Batch:
        """The new rows of a join. Inputs are let in before joins are made, and the first of two joins is made before
        the second, so that what a gate asks is settled by then."""
        order = sorted(join.sides, key=lambda side: (isinstance(side, Join), side != join.first))
        for side in order:
            self.sides[side] = self._joined(side) if isinstance(side, Join) else self._let_in(side)
        pair = self.tree.pairs[join.number]
        left, right = (self.sides[side] for side in join.sides)
        pieces: list[Batch] = []
        for stored, flags in (*right.before, (right.new, None)):
            pieces += self._product(pair, left.new, stored, flags, join, 1)
        for stored, flags in left.before:
            pieces += self._product(pair, right.new, stored, flags, join, 0)
        return concat(pieces, self._empty(join))

    def _joined(self, join: Join) -> _Side:
        rows, segments = self.made(join), self.state.get(f"join {join.number}", ())
        gate = self.tree.combination_gates.get(join)
        if gate is not None:
            rows = self._needed(join, gate, rows, segments)
        self.tally.made += rows.height
        new = arranged(rows, self.tree.columns_of(join.inputs), [], self.tree.usual[join])
        return _Side([(segment, None) for segment in segments], new)

    def _needed(self, join: Join, gate: CombinationGate, rows: Batch, made: Sequence[Segment]) -> Batch:
        """Those of the new combinations that are needed, and those that were withheld and are needed by now."""
        pair, sides = self.tree.pairs[join.number], [self.sides[side].before for side in join.sides]
        due = [self._empty(join)]
        for left, right, positions in distinct_pairs(gate.found(self, *sides)):
            probe = Probe(left, pair.accesses[1], self.tree.usual[join.right])
            due += self._combined(pair, probe, left, right, np.arange(positions.size), positions)
        # What has expired since it was made is no longer stored, and must not be made again.
        horizon = self._horizon(join, self.progress.before)
        late = alive(concat(due, due[0]), horizon)
        if late.height:
            late = only(late, gate.is_due(late, made, self))
        if rows.height:
            needed = gate.is_needed(rows, [*made, arranged(late, list(pair.columns), [], self.tree.usual[join])], self)
            self.tally.withheld += rows.height - int(np.count_nonzero(needed))
            rows = only(rows, needed)
        return concat([rows, late], self._empty(join))

    def _let_in(self, source: int) -> _Side:
        arrived, segments = self.arrived[source], self.state.get(f"rows {source}", ())
        if not self.tree.gates or self.tree.gates[source].is_open:
            return _Side([(segment, None) for segment in segments], arrived)
        blacklist = Blacklist.of(segments, self.state.get(f"let in {source}", ()))
        flags, new = self.tree.gates[source].let_in(arrived, blacklist, self, self.known[source])
        passed = int(np.count_nonzero(flags))
        self.tally.suspended += arrived.height - passed
        self.tally.resumed += new.height - passed
        self.blacklists[source] = blacklist, flags
        return _Side(list(zip(segments, blacklist.before, strict=True)), new)

    # What is kept

    def after(self) -> State:
        kept: dict[str, tuple[Segment, ...]] = {}
        self.tally.waiting = 0
        for side, rows in self.sides.items():
            before, after = (self._horizon(side, reached) for reached in (self.progress.before, self.progress.after))
            if isinstance(side, Join):
                segments = [segment for segment, _ in rows.before]
                kept[f"join {side.number}"] = Consolidated().retain(segments, rows.new, after, before)
            elif side in self.blacklists:
                blacklist, flags = self.blacklists[side]
                parts = blacklist.retain(self.arrived[side], flags, after)
                kept[f"rows {side}"] = tuple(part.rows for part in parts)
                kept[f"let in {side}"] = tuple(part.stored for part in parts)
                self.tally.waiting += Blacklist(parts).size
            else:
                segments = list(self.state.get(f"rows {side}", ()))
                kept[f"rows {side}"] = self.tree.synopses[side].retain(segments, self.arrived[side], after, before)
        kept[COUNTS] = (self.tally.segment(),)
        if any(self.known):
            kept[KNOWN] = (kept_experiences(self.known),)
        return kept

    def _horizon(self, side: Join | int, frontiers: Sequence[int]) -> int:
        """The first instant that any row which can still meet those of the side may reach."""
        return min(horizon_of(frontiers[source]) for source in self.tree.lasting[side])

    def _product(
        self, pair: _Pair, probing: Segment, stored: Segment, flags: Flags | None, join: Join, side: int
    ) -> Iterator[Batch]:
        """The pairs of rows and of stored rows of a side, as far as these count."""
        if not probing.height or not stored.height:
            return
        probe = Probe(probing, pair.accesses[side], self.tree.usual[join.sides[side]])
        for i, j in probe.candidates(stored):
            if flags is not None:
                counting = flags[j]
                i, j = i[counting], j[counting]
            yield from self._combined(pair, probe, probing, stored, i, j)

    def _combined(
        self, pair: _Pair, probe: Probe, probing: Segment, stored: Segment, i: Positions, j: Positions
    ) -> Iterator[Batch]:
        """The rows of pairs (row, stored row), as far as they match."""
        if i.size:
            starts, ends = ([numbers(frame, name) for frame in (probing, stored)] for name in (START, END))
            start, end = np.maximum(starts[0][i], starts[1][j]), np.minimum(ends[0][i], ends[1][j])
            kept = probe.agreeing(stored, i, j, np.flatnonzero(start < end))
            if not kept.size:
                return
            i, j, start, end = i[kept], j[kept], start[kept], end[kept]
            weight = numbers(probing, WEIGHT)[i] * numbers(stored, WEIGHT)[j]
            values = {
                series.name: series
                for frame, rows in ((probing, i), (stored, j))
                for series in gather(frame, [name for name in pair.columns if name in frame.columns], rows)
            }
            columns = [values[name] for name in pair.columns]
            columns += [pl.Series(START, start), pl.Series(END, end), pl.Series(WEIGHT, weight)]
            born = [numbers(frame, BORN)[rows] for frame, rows in ((probing, i), (stored, j)) if BORN in frame.columns]
            if born:
                columns.append(pl.Series(BORN, reduce(np.maximum, born)))
            frame = pl.DataFrame(columns)
            yield frame if pair.condition == TRUE else select_true(frame, pair.condition)

    def _empty(self, join: Join) -> Batch:
        born = any(BORN in self.arrived[source].columns for source in join.inputs)
        return self.tree.pairs[join.number].empty[born]
