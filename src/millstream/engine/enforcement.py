"""Limits on what one query may hold: rows of its result, and bytes of state.

A query that comes near a limit is noticed; one that passes it is stopped alone, with an error that says so. Counting is
done only where the bytes of an edge let it be possible that one of its queries is near.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.groups.admission import Admission
from millstream.engine.groups.cells import rows_beyond
from millstream.engine.groups.groups import Groups
from millstream.engine.limits import Limits
from millstream.engine.reports import bytes_of, shown_bytes
from millstream.engine.shared_plan import SharedPlan
from millstream.errors import EvaluationError, error_fields
from millstream.kernel.batch import value_column
from millstream.kernel.lazy.matched_selection import MatchedSelection
from millstream.kernel.lazy.matches import Matches
from millstream.kernel.lazy.postings import Postings, is_packed
from millstream.kernel.lazy.ranked_tree import RankedTree
from millstream.kernel.lazy.tree_segments import counts_of, is_tree, size_of
from millstream.kernel.lazy.tree_selection import TreeSelection
from millstream.kernel.sharing.lineage import BLOCK, BLOCK_SIZE, lineage_of

_LEAST_ROW = 24  # bytes of a row's start, end and weight
_LEAST_MATCH = 8  # bytes of an instant
_LEAST_POSTING = 1 / 8  # bytes of a bit
_LEAST_LEAF = 1  # bytes of the place of a row, which may be packed
NEAR = 0.8
CountsByQuery = dict[int | None, int]  # by query of a group, or None for a query of its own


@dataclass(frozen=True)
class Notice:
    """A query that is near a limit, or past it."""

    edge: str
    query: int | None
    held: int
    limit: int
    what: str
    setting: str

    @property
    def is_past(self) -> bool:
        return self.held > self.limit

    def __str__(self) -> str:
        held, limit = (f"{n:,} rows" if self.what == "rows" else shown_bytes(n) for n in (self.held, self.limit))
        return f"holds {held} of {self.what}, of {limit} that {self.setting} allows"

    def error(self) -> EvaluationError:
        return EvaluationError(
            f"the query was stopped: it {self}",
            hint=f"drop it, or raise {self.setting} and register it again",
        )


class Enforcement:
    """Has queries keep to the limits: after an epoch, under the lock."""

    def __init__(
        self, limits: Limits, commits: Commits, plan: SharedPlan, groups: Groups, admission: Admission
    ) -> None:
        self._limits, self._commits, self._plan = limits, commits, plan
        self._groups, self._admission = groups, admission
        self.notices: dict[tuple[str, int | None], Notice] = {}  # per edge and query: of those near a limit

    def enforce(self, concerned: Collection[str]) -> None:
        """Note the queries that are near a limit, and stop those that are past it, among those that show some edges."""
        if not (self._limits.rows or self._limits.state):
            return
        edges = {edge for edge in concerned if self._plan.shown[edge]}
        found = [*self._found({edge for edge in edges if edge not in self._commits.snapshot.failures})]
        kept = {key: notice for key, notice in self.notices.items() if key[0] not in edges}
        self.notices = kept | {(notice.edge, notice.query): notice for notice in found}
        for edge in {notice.edge for notice in found if notice.is_past}:
            errors = {notice.query: notice.error() for notice in found if notice.edge == edge and notice.is_past}
            if None in errors:
                self.stop(edge, errors[None])
            else:
                self._admission.stop(self._groups[edge], {query: e for query, e in errors.items() if query is not None})

    def stop(self, edge: str, error: EvaluationError) -> None:
        """End an edge that one query shows, with what only it needs."""
        own, snapshot = self._plan.steps_only_for(edge), self._commits.snapshot
        self._commits.commit(
            snapshot.without_states(own).without_results((edge,)).with_failures({edge: error_fields(error)})
        )
        self._plan.remove(own)

    def _found(self, edges: set[str]) -> Iterator[Notice]:
        """The queries among those that show some edges that are near a limit."""
        limits, store, results = self._limits, self._commits.store, self._commits.snapshot.results
        for edge in edges if limits.rows else ():
            names = results.get(edge, ())
            if sum(map(store.size, names)) / self._least_row(edge) >= NEAR * limits.rows:
                counts = self._rows(edge, [store.read(name) for name in names])
                yield from _near(edge, counts, limits.rows, "rows", "max_query_rows")
        for edge in edges if limits.state else ():
            held: CountsByQuery = {None: self._own_state(edge)}
            if edge in self._groups:
                # What is kept for all is divided evenly: nothing says whose it is.
                queries = self._groups.admitted(self._groups[edge])
                held = dict.fromkeys(queries, held[None] // max(len(queries), 1))
            yield from _near(edge, held, limits.state, "state", "max_query_state")

    def _least_row(self, edge: str) -> float:
        """The bytes that a row of one query takes at least."""
        step = self._plan.pipeline.by_name.get(edge)
        operator = None if step is None else step.operator
        if isinstance(operator, MatchedSelection):
            return _LEAST_POSTING
        if isinstance(operator, TreeSelection):
            return _LEAST_LEAF
        return _LEAST_MATCH if isinstance(operator, Matches | RankedTree) else _LEAST_ROW

    def _rows(self, edge: str, frames: list[pl.DataFrame]) -> CountsByQuery:
        if edge not in self._groups:
            return {None: sum(size_of(frame) if is_tree(frame) else frame.height for frame in frames)}
        group = self._groups[edge]
        counts = np.zeros(self._groups.tables.next_query(group) + BLOCK_SIZE, np.int64)
        if group.lifted.upper is not None:
            table = self._groups.tables.admitted(group, self._commits.snapshot)
            counts = rows_beyond(group, table, frames, NEAR * self._limits.rows, counts.size, self._limits.steps)
            frames = []
        for frame in frames:
            if is_packed(frame) or is_tree(frame):
                queries, held = counts_of(frame) if is_tree(frame) else Postings(frame).counts()
                counts[queries] += held
                continue
            if group.lifted.expanded:
                counts += np.bincount(frame[value_column(0)].to_numpy(), minlength=counts.size)
                continue
            blocks, lineage = frame[BLOCK].to_numpy(), lineage_of(frame)
            for block in np.unique(blocks):
                bits = np.unpackbits(lineage[blocks == block].view(np.uint8), axis=1, bitorder="little")
                counts[block * BLOCK_SIZE : block * BLOCK_SIZE + bits.shape[1]] += bits.sum(axis=0, dtype=np.int64)
        return {int(query): int(counts[query]) for query in np.flatnonzero(counts)}

    def _own_state(self, edge: str) -> int:
        """The bytes of state of the steps that only this edge needs."""
        states, store = self._commits.snapshot.states, self._commits.store
        return sum(bytes_of(states.get(step, {}), store) for step in self._plan.steps_only_for(edge))


def _near(edge: str, held: CountsByQuery, limit: int, what: str, setting: str) -> Iterator[Notice]:
    for query, count in held.items():
        if count >= NEAR * limit:
            yield Notice(edge, query, count, limit, what, setting)
