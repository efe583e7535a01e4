"""Reading what is committed: the results that edges have shown, and what stopped them. Nobody here waits for epochs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

import numpy as np
import polars as pl

from millstream.engine.admitter import Admitter
from millstream.engine.commits import Commits
from millstream.engine.extents import Extent, Extents, Wanted
from millstream.engine.groups.cells import combined, count_of
from millstream.engine.groups.group import Group
from millstream.engine.groups.groups import Groups
from millstream.engine.groups.many import Numbered, rows_of_many
from millstream.engine.history.backfill import Backfills
from millstream.engine.history.evaluation import Evaluation
from millstream.engine.limits import Limits
from millstream.engine.plans import Plans
from millstream.engine.query_tables import failure_key
from millstream.engine.results import Counts, Currents, Tails, rows_between
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.errors import EvaluationError
from millstream.kernel.batch import INTERVAL_COLUMNS, Batch, concat, empty_batch, value_column
from millstream.kernel.pipeline import Pipeline
from millstream.plan.physical import QUERY
from millstream.state.snapshot import Snapshot
from millstream.types import Schema

_Item = TypeVar("_Item")


class Reader:
    """Reads committed snapshots, and history for those who keep nothing."""

    def __init__(
        self,
        commits: Commits,
        sources: Sources,
        plans: Plans,
        plan: SharedPlan,
        groups: Groups,
        backfills: Backfills,
        admitter: Admitter,
        evaluation: Evaluation,
        limits: Limits,
    ) -> None:
        self.commits, self.sources, self.evaluation, self.limits = commits, sources, evaluation, limits
        self.plans, self.backfills = plans, backfills
        self._plan, self._groups, self._admitter = plan, groups, admitter
        self._extents = Extents()
        self._tails, self.currents = Tails(), Currents()
        self._heights: dict[str, int] = {}
        self._counts = Counts()
        self._inputs: tuple[Pipeline, dict[str, frozenset[str]]] = plan.pipeline, {}

    def read(self, reader: Callable[[Snapshot], _Item]) -> _Item:
        """What a reader makes of the committed snapshot."""
        return self.commits.read(reader)

    def await_admission(self, edge: str) -> None:
        """Have the queries of a group admitted that wait, or the past of an edge worked through that was put off."""
        self._admitter.ask(edge)

    def final(self, sources: Collection[str], snapshot: Snapshot) -> int:
        """The last instant up to which what is made from sources is final; -1 where nothing is, or there are none."""
        return self.sources.final(sources, snapshot)

    def check(self, edge: str, query: int | None = None) -> None:
        """Raise what stopped the edge, or one query of a group, if something did."""
        self.backfills.check(edge, query)
        failures = self.commits.snapshot.failures
        for step in (edge, *([] if query is None else [failure_key(edge, query)])):
            if step in failures:
                raise _error(failures[step])

    def failed(self, edge: str, snapshot: Snapshot) -> dict[int, EvaluationError]:
        """The queries of a group that have failed, each with its error; raises what stopped the whole group."""
        self.check(edge)
        self.backfills.check_queries_of(edge)
        found = ((key.partition("#"), said) for key, said in snapshot.failures.items() if "#" in key)
        return {int(number): _error(said) for (of, _, number), said in found if of == edge}

    def inputs(self, edge: str) -> frozenset[str]:
        """The sources that an edge is made from, but for query tables."""
        # Of a group, a run through the past that has failed for some of its queries has no steps left.
        pipeline = self.backfills.pipeline_of(edge) if edge not in self._groups else None
        if pipeline is not None:
            return self.sources.among(pipeline.edges_below(edge))
        of, known = self._inputs
        if of is not self._plan.pipeline:
            of, known = self._inputs = self._plan.pipeline, {}
        if edge not in known:
            pipeline = self._groups[edge].pipeline if edge in self._groups else of
            known[edge] = self.sources.among(pipeline.edges_below(edge))
        return known[edge]

    # Results

    def segments(
        self, edge: str, snapshot: Snapshot, wanted: Wanted | None = None, after: int = -1
    ) -> list[pl.DataFrame]:
        """What an edge has shown; without segments that have no rows that may be wanted, and perhaps without rows that
        have ended by an instant."""
        names = snapshot.results.get(edge, ())
        found = ((name, self._extents.read(name, self.commits.store.read, wanted)) for name in names)
        kept = ((name, frame) for name, frame in found if frame is not None)
        return [frame for _, frame in kept] if after < 0 else [*self._tails.after(kept, after)]

    def current(self, snapshot: Snapshot, edge: str, schema: Schema, at: int) -> Batch:
        """The rows of an edge as far as they count at an instant or later."""
        self.check(edge)
        store = self.commits.store

        def read(names: Collection[str]) -> list[pl.DataFrame]:
            found = ((name, self._extents.read(name, store.read, lambda extent: extent.end > at)) for name in names)
            return [*self._tails.after(((name, frame) for name, frame in found if frame is not None), at)]

        like = empty_batch(schema)
        frames = self.currents.after(edge, snapshot.results.get(edge, ()), at, read)
        return concat([f if f.columns == like.columns else f.select(like.columns) for f in frames], like)

    def rows(self, edge: str, schema: Schema) -> tuple[Batch, Snapshot]:
        """All rows that an edge has shown, and the snapshot they belong to."""
        return self.read(lambda snapshot: (self.rows_in(snapshot, edge, schema), snapshot))

    def rows_in(
        self,
        snapshot: Snapshot,
        edge: str,
        schema: Schema,
        query: int | None = None,
        wanted: Wanted | None = None,
        after: int = -1,
    ) -> Batch:
        """The rows of an edge in a snapshot, or those of one query of a group; perhaps without those that have ended by
        an instant."""
        self.check(edge, query)
        like = empty_batch(schema)
        if edge in self.sources:
            return self.sources.history_in(edge, snapshot, wanted).select(like.columns)
        frames = self.segments(edge, snapshot, wanted, after)
        if query is None:
            return concat([f if f.columns == like.columns else f.select(like.columns) for f in frames], like)
        return concat(self._groups.rows_of(self._groups[edge], schema, query, frames), like)

    def rows_of_many(
        self, snapshot: Snapshot, edge: str, queries: Numbered, wanted: Wanted, since: int, until: int
    ) -> Batch:
        """The rows of many queries of a group, the place of the query in front, that end after an instant and begin by
        another."""
        group = self._groups[edge]
        if group.lifted.upper is not None:
            return self._combined(snapshot, group, queries, since, until)
        frames = self.segments(edge, snapshot, wanted, since)
        return concat(rows_of_many(group, queries, frames, since, until), empty_batch((QUERY, *group.kept)))

    def combined(self, snapshot: Snapshot, edge: str, query: int, since: int, until: int) -> Batch | None:
        """The rows of one query of a group, right from an instant to another, where totals of cells are kept for it."""
        group = self._groups[edge]
        if group.lifted.upper is None:
            return None
        one = Numbered(np.array([query]), np.zeros(1, np.int64))
        rows = self._combined(snapshot, group, one, since, until)
        own = [rows[value_column(index + 1)].alias(value_column(index)) for index in range(rows.width - 4)]
        return pl.DataFrame([*own, *rows[[*INTERVAL_COLUMNS]].get_columns()])

    def height_of(self, edge: str, snapshot: Snapshot, query: int) -> int:
        """How many rows are kept for a query of a group; of totals of cells those in which it has a part."""
        return self.counted(edge, snapshot, query, partial(self._rows_for, self._groups[edge], query))

    def counted(self, edge: str, snapshot: Snapshot, query: int | None, count: Callable[[pl.DataFrame], int]) -> int:
        """What is counted in the segments of an edge for a query, which is the same for a segment whenever one asks."""
        read = self.commits.store.read
        return self._counts.total((edge, query), snapshot.results.get(edge, ()), lambda name: count(read(name)))

    def _rows_for(self, group: Group, query: int, frame: pl.DataFrame) -> int:
        if group.lifted.upper is not None:
            return count_of([frame], query)
        return sum(rows.height for rows in self._groups.rows_of(group, (), query, [frame]))

    def _combined(self, snapshot: Snapshot, group: Group, queries: Numbered, since: int, until: int) -> Batch:
        def wanted(extent: Extent) -> bool:
            return extent.has_alive(since) or extent.has_changes(since, until)

        frames = self.segments(group.edge, snapshot, wanted, since)
        table = self._groups.tables.admitted(group, snapshot) if group.upper.with_constants else ()
        return combined(group, queries, table, frames, since, until, self.limits.steps)

    def height(self, edge: str) -> int:
        """How many rows an edge has shown, without reading them."""

        def rows(snapshot: Snapshot) -> int:
            if edge in self.sources:
                return sum(file.rows for file in snapshot.history.get(edge, ()))
            return sum(map(self._height, snapshot.results.get(edge, ())))

        return self.read(rows)

    def _height(self, name: str) -> int:
        """The rows of a segment, which never change."""
        found = self._heights.get(name)
        if found is None:
            found = self._heights[name] = self.commits.store.height(name)
        return found

    def held_in(self, edge: str, snapshot: Snapshot, since: int, until: int) -> tuple[int, int]:
        """How many rows of what an edge shows come or go after an instant and begin by another, and their bytes."""
        if edge in self.sources:
            files = [f for f in snapshot.history.get(edge, ()) if f.last > since and f.first <= until]
            return sum(file.rows for file in files), sum(file.bytes for file in files)
        rows, size, store = 0, 0, self.commits.store
        for name in snapshot.results.get(edge, ()):
            segment = self._extents.read(name, store.read, lambda extent: extent.has_changes(since, until))
            if segment is None:
                continue  # what was delivered is not read again
            count, share = rows_between(segment, since, until)
            rows, size = rows + count, size + int(store.size(name) * share)
        return rows, size

    def forget(self, snapshot: Snapshot) -> None:
        """Forget what is remembered of segments that a snapshot does not name."""
        named = {name for names in snapshot.results.values() for name in names}
        self._tails.keep(named)
        self._heights = {name: rows for name, rows in [*self._heights.items()] if name in named}
        self.currents.keep(snapshot.results)


def _error(said: Mapping[str, str]) -> EvaluationError:
    return EvaluationError(said["primary"], detail=said.get("detail"), hint=said.get("hint"))
