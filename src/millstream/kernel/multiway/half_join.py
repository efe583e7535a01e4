"""Joins of several inputs whose rows no one hash brings together: SteMs on different shards, and rows that go from one
to the next by a route (the delta joins of DBSP and Materialize, on CACQ's SteMs).

    S.a = T.a AND T.b = U.b:    change(S) ──▶ T by a ──▶ U by b        change(U) ──▶ T by b ──▶ S by a
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import polars as pl

from millstream.kernel.batch import BORN, Batch, batch_schema, concat, value_column, value_columns
from millstream.kernel.columns import frame_of, numbered
from millstream.kernel.distribution import Distribution, by_key
from millstream.kernel.eddy.stems import StemExperience
from millstream.kernel.joins.graph import JoinGraph
from millstream.kernel.joins.stem import Arrangement, arranged_by
from millstream.kernel.multiway.joined_rows import JoinedRows
from millstream.kernel.multiway.stem_eddy import StemEddy
from millstream.kernel.operator import Horizons, KeptInput, Operator, Progress, State
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.input_lineage import InputSelections
from millstream.kernel.sharing.signature_classes import SIGNATURE
from millstream.kernel.storage.segments import horizon_of
from millstream.kernel.storage.synopsis import Consolidated, Synopsis, lets_go, retained
from millstream.kernel.windows.imposed import Imposed, imposing
from millstream.types import Schema

CHUNK = 8192
_STEM = "stem"  # the synopsis


class HalfJoin(Operator):
    """change(A) half-joins B = {(a b, [max(s1, s2), min(e1, e2)), w1 * w2) : a in change(A), b in B_before,
    the condition true as far as both tell}

    or with B_after, where rows that come in the same step are met. A is made of the rows of some inputs of a join, in
    their order, and so is the result; B is another one of its inputs, the target.

    Keeps the rows of B, in a SteM, and nothing of A. A row of B is forgotten once the frontier of A has reached its
    end - 1. Rows that lack a value which an equality or a comparison needs are not kept. With the `selections` of a
    group's queries only combinations are made that one of these may want (`input_lineage`).

    `_born` of a result is the greatest of its components.

    >>> equal = call("=", [column(0), column(1)])
    >>> run = Run(HalfJoin([integers("k"), integers("k")], equal, joined=(0,), target=1, meets_new=False))
    >>> run.step(batch((1, 0, 9, +1)), batch((1, 2, 7, +1)), to=2)
    nothing
    >>> run.step(batch((1, 3, 5, +2)), None, to=3)
    (1, 1, [3, 5), +2)
    """

    policy, chunk = "fixed", CHUNK

    def __init__(
        self,
        schemas: Sequence[Schema],
        condition: Expression,
        joined: tuple[int, ...],
        target: int,
        *,
        meets_new: bool,
        synopsis: Synopsis | None = None,
        selections: InputSelections | None = None,
        windows: Sequence[Imposed] = (),
    ) -> None:
        self.joined, self.target, self.meets_new = tuple(sorted(joined)), target, meets_new
        self.made = tuple(sorted((*joined, target)))
        self.schema = tuple(chain(*(schemas[source] for source in self.made)))
        self.selections, self.synopsis = selections, synopsis or Consolidated()
        self.windows = imposing(windows, len(schemas))
        self.graph = JoinGraph([len(schema) for schema in schemas], condition)
        self.columns = [value_columns(len(schema)) for schema in schemas]
        self.access = self.graph.access(target, frozenset(joined))
        self.usual = [self.access] * len(schemas)
        self._arrangement = Arrangement(
            tuple(self.columns[target]), tuple(self.graph.never_null(target)), self.access.order
        )
        self._required = [
            value_column(self._place(source, name, self.joined))
            for source in self.joined
            for name in self.graph.never_null(source)
        ]

    def _place(self, source: int, name: str, among: Sequence[int]) -> int:
        """Where a column of an input is in rows that are made of some inputs."""
        starts = (0, *accumulate(len(self.columns[each]) for each in among))
        return starts[among.index(source)] + self.columns[source].index(name)

    @property
    def distribution(self) -> Distribution:
        probing = (self.graph.places[name] for name in self.access.probing)
        own = self.columns[self.target]
        keys = [
            tuple(self._place(source, name, self.joined) for source, name in probing),
            tuple(own.index(name) for name in self.access.stored if self.access.probing),
        ]
        copies = [
            tuple(
                (self._place(source, name, among), self._place(source, name, self.made))
                for source in among
                for name in self.columns[source]
            )
            for among in (self.joined, (self.target,))
        ]
        return by_key(keys, *copies)

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        rows, before = inputs[0], state.get(_STEM, ())
        arrived = arranged_by(inputs[1], self._arrangement)
        pieces: list[Batch] = []
        if rows.height:
            lineage = self.selections.of(state) if self.selections is not None else None
            if any(rows.get_column(name).null_count() for name in self._required):
                rows = rows.drop_nulls(self._required)
            stored = (*before, arrived) if self.meets_new else before
            if lineage is not None:
                stored = tuple(lineage.wanted(self.target, segment) for segment in stored)
            stems = [
                [(segment, None) for segment in stored] if i == self.target else [] for i in range(len(self.columns))
            ]
            eddy = StemEddy(self, self.joined[0], stems, StemExperience.of(len(stems), ()), lineage)
            pieces = [self._side_by_side(found) for found in eddy.probe(rows, self.joined, self.target)]
        born = any(BORN in batch.columns for batch in inputs)
        kept = self.kept_inputs(progress)[1]
        after = {_STEM: retained(self.synopsis, before, arrived, kept, progress.shared.get(1))}
        return concat(pieces, self._empty(born=born)), after

    def is_idle(self, state: State, progress: Progress) -> bool:
        kept = self.kept_inputs(progress)[1]
        return not lets_go(self.synopsis, state.get(_STEM, ()), kept, progress.shared.get(1))

    def kept_inputs(self, progress: Progress) -> dict[int, KeptInput]:
        """A row is of use as long as rows may still come that probe it."""
        horizons = Horizons(horizon_of(progress.before[0]), horizon_of(progress.after[0]))
        arrangement = self._arrangement, self.synopsis
        return {1: KeptInput(_STEM, arrangement, self.windows[self.target].horizons(horizons))}

    def _side_by_side(self, found: JoinedRows) -> Batch:
        """The values of all inputs that are joined, in their order."""
        columns = [
            series.alias(value_column(self._place(source, name, self.made)))
            for source in self.made
            for name, series in zip(self.columns[source], found.values(source, self.columns[source]), strict=True)
        ]
        measures = {name: measure for name, measure in found.measures.items() if not name.startswith(SIGNATURE)}
        return frame_of([*columns, *numbered(measures)])

    def _empty(self, *, born: bool) -> Batch:
        return pl.DataFrame(schema=batch_schema(self.schema) | ({BORN: pl.Int64()} if born else {}))
