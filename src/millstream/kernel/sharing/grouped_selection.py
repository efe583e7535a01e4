"""Selection for many queries at once: CACQ's grouped filters.

    σ_Q(R) = { (r, block, lineage) : r in R, lineage = bits of the queries q of the block whose condition holds on r },
             without rows that no query of the block wants

Queries are rows of a query table. A row finds its interval on the axis of each
attribute, takes the bitmap of the queries which that interval satisfies, and the AND over the attributes is its
lineage. Clauses over several attributes are an OR of such bitmaps before. What no index can answer is evaluated last,
on the pairs of rows and queries that are left.

Keeps the eddy's statistics, and errors of conditions until their instants are final; the query tables are the
engine's. The index made from them is kept in the process as long as they stay the same, and what is new makes only the
blocks anew that it is in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_

import numpy as np
import polars as pl

from millstream.kernel.batch import Batch
from millstream.kernel.columns import is_small
from millstream.kernel.distribution import Distribution, anywhere, same_columns
from millstream.kernel.eddy.filters import EddyMemory
from millstream.kernel.eddy.policies import policy as routing_policy
from millstream.kernel.operator import NO_STATE, Operator, Progress, Segment, State
from millstream.kernel.pending_errors import ERROR_QUERY, awaited, pending_of_queries
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.eddy import Eddy, passed_through
from millstream.kernel.sharing.index import Index, index_of
from millstream.kernel.sharing.known_lineage import known_lineage
from millstream.kernel.sharing.lineage import WORD_BITS, Bitmaps, any_bit, expand
from millstream.kernel.sharing.parameters import QUERIES
from millstream.kernel.sharing.predicates import ResidualRows
from millstream.kernel.sharing.residual import holds, not_certain
from millstream.kernel.sharing.selected import Room, Selected
from millstream.types import Schema

EDDY = "eddy"  # the synopsis of what the eddy has learnt
_ROWS = 2048  # rows whose bits are taken apart together
_PAIRS = 1 << 18  # pairs of a row and a query that are evaluated together


class GroupedSelection(Operator):
    """Rows with `_block` and `_lineage`: once for each block in which a query wants them.

    >>> above = call(">", [column(0), parameter(0)])
    >>> run = Run(GroupedSelection(integers("v"), {"above": above}), queries(above={1: [5], 2: [8]}))
    >>> run.step(batch((4, 0, 9, +1), (7, 0, 9, +1), (9, 2, 4, +1)), to=2)
    (7, [0, 9), +1, for 1)
    (9, [2, 4), +1, for 1 2)
    """

    def __init__(self, schema: Schema, shapes: Mapping[str, Expression], policy: str = "ticket") -> None:
        self.schema = schema
        self.shapes = shapes
        self.policy = policy
        self.first = 0  # the first instant at which what fails counts
        routing_policy(policy)  # an unknown one is refused at once
        self._last: tuple[tuple[Segment, ...], Index] | None = None

    def __getstate__(self) -> dict[str, object]:
        # What is computed on the way has numbers that mean something in this process only.
        kept = "schema", "policy", "first"
        return {**{name: getattr(self, name) for name in kept}, "shapes": dict(self.shapes), "_last": None}

    @property
    def distribution(self) -> Distribution:
        return anywhere(same_columns(len(self.schema)))

    def step(self, inputs: Sequence[Batch], state: State, progress: Progress) -> tuple[Batch, State]:
        errors: list[Batch] = []
        found, learned = self.select(inputs[0], state, errors)
        return found, {**learned, **self.awaited(state, errors, progress)}

    def awaited(self, state: State, errors: Sequence[Batch], progress: Progress) -> State:
        return awaited(state, errors, self.first, progress.low, [ERROR_QUERY])

    def of_queries(self, state: State, queries: pl.Series) -> State:
        return pending_of_queries(state, queries)

    def select(
        self,
        batch: Batch,
        state: State,
        errors: list[Batch],
        room: Room | None = None,
        carried: pl.DataFrame | None = None,
    ) -> tuple[Batch, State]:
        """The rows, or what is carried in their place, and what the eddy learnt, in memory that is given for it; errors
        are added to those."""
        carried = batch if carried is None else carried
        if not batch.height:
            return Selected(carried, 1, 0).frame(), {EDDY: state[EDDY]} if EDDY in state else NO_STATE
        index = self.index(state.get(QUERIES, ()))
        widest = max((block.members.size for block in index.blocks), default=1)
        selected = Selected(carried, widest, len(index.blocks), room)
        if (known := known_lineage(batch, index)) is not None:
            bits = selected.room(widest)
            known.lineage.take(known.places, axis=0, out=bits, mode="clip")
            selected.add(index.blocks[0].number, bits, any_bit(bits))
            return selected.frame(), {EDDY: state[EDDY]} if EDDY in state else NO_STATE
        ranks = [axis.ranks(batch) for axis in index.axes]
        policy = routing_policy(self.policy)
        # A small batch has nothing to teach: what the eddy has learnt stays, and so does the order of filters.
        is_known = EDDY in state and is_small(batch.height) and policy.is_steady
        eddy = Eddy(policy, EddyMemory(() if is_known else state.get(EDDY, ())))
        for block in index.blocks:
            bits = selected.room(block.members.size)
            wanted = passed_through(block, ranks, bits) if is_known else eddy.route(block, ranks, bits)
            for residual in block.residuals:
                self._apply(residual, batch, bits, errors)
            selected.add(block.number, bits, any_bit(bits) if block.residuals else wanted)
        return selected.frame(), {EDDY: state[EDDY] if is_known else eddy.memory.segments()}

    def index(self, table: tuple[Segment, ...]) -> Index:
        """Of the queries of a query table."""
        # The same segments, in one tuple or another: who loads them need not know what was made of them.
        if self._last is None or len(table) != len(self._last[0]) or not all(map(is_, table, self._last[0])):
            self._last = table, index_of(self.shapes, table)
        return self._last[1]

    def _apply(self, residual: ResidualRows, batch: Batch, lineage: Bitmaps, errors: list[Batch]) -> None:
        """Take the bits of those queries from the rows on which their condition is not true."""
        doubtful = not_certain(residual.condition, batch)
        for low in range(0, doubtful.size, _ROWS):
            rows, bits = expand(lineage[doubtful[low : low + _ROWS]] & residual.mask)
            rows = doubtful[rows + low]
            for first in range(0, rows.size, _PAIRS):
                part = slice(first, first + _PAIRS)
                row, bit = rows[part], bits[part]
                pairs = row, residual.table, residual.row[bit]
                true = holds(residual.condition, batch, *pairs, len(self.schema), errors)
                row, bit = row[~true], bit[~true]
                np.bitwise_xor.at(lineage, (row, bit // WORD_BITS), np.uint64(1) << (bit % WORD_BITS).astype(np.uint64))
