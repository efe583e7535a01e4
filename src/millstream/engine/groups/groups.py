"""Groups: queries that differ only in what they select, as rows of one query table over one shared plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.groups.equal_queries import EqualQueries
from millstream.engine.groups.group import Group, RowsByShape, numbers_of, only_queries
from millstream.engine.groups.tables import QueryTables, without
from millstream.engine.past import Pasts, by_beginning
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.errors import StateError
from millstream.kernel.batch import END, START, WEIGHT, Batch, value_column
from millstream.kernel.keys import Positions
from millstream.kernel.scalar.expressions import Expression
from millstream.kernel.sharing.by_query import rows_of_query, taken
from millstream.kernel.sharing.lineage import wanted_by
from millstream.kernel.sharing.parameters import QUERY
from millstream.plan import nodes as lo
from millstream.plan.grouping import Split
from millstream.plan.lowering.options import Options
from millstream.plan.shapes import Shape
from millstream.types import Schema

_REMEMBERED = 10_000


class Groups:
    """The groups of a database, and who waits to be admitted to them; changed under the lock of commits."""

    def __init__(self, commits: Commits, sources: Sources, plan: SharedPlan, pasts: Pasts, tables: QueryTables) -> None:
        self._commits, self._sources, self._plan, self._pasts = commits, sources, plan, pasts
        self.tables = tables
        self._groups: dict[str, Group] = {}
        self._former: dict[str, Group] = {}  # by the edges that groups had, or would have, by other plans
        self._known: dict[object, Group] = {}  # by skeleton

    def __getitem__(self, edge: str) -> Group:
        found = self.get(edge)
        if found is None:
            raise StateError("a group of queries is there no more")  # to whoever reads by what a query had before
        return found

    def get(self, edge: str) -> Group | None:
        return self._groups.get(edge, self._former.get(edge))

    def __contains__(self, edge: str) -> bool:
        return edge in self._groups or edge in self._former

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def find(self, split: Split, key: Expression | None, options: Options) -> Group:
        """The group of a skeleton, as it is or as it would be."""
        skeleton = split.skeleton, key, options
        if skeleton not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = Group(split, key, options)
            self._known[skeleton] = self.get(found.edge) or found
        return self._known[skeleton]

    def by_core(self, group: Group, core: lo.Node, said: Mapping[str, Any]) -> Group:
        """A group that an earlier process ran by another plan of its core, and whoever belongs to it from now on."""
        found = group.by_core(core, said)
        found = self._groups.get(found.edge, found)
        self._former[group.identity] = found
        self._known = {skeleton: found if known is group else known for skeleton, known in self._known.items()}
        return found

    def rename(self, group: Group, edge: str) -> None:
        """A group is known by the edge of another plan too, which it is about to go on by."""
        self._former[group.edge] = group
        del self._groups[group.edge]
        self._former.pop(edge, None)
        self._groups[edge] = group

    def open(self, group: Group, shape: Shape) -> None:
        """Have a group, for queries of this shape too; its steps run once a query is admitted."""
        group.add(shape)
        self._groups[group.edge] = group
        self.know_source_of(group)

    def know_source_of(self, group: Group) -> None:
        """Have the query table as a source, where the plan of a group reads it as one."""
        rows = group.query_rows
        if rows is not None:
            self._sources.add_query_rows(rows.group, rows.schema)

    def attach(self, group: Group) -> None:
        """Go on with a group of which the snapshot holds the state."""
        if self._commits.snapshot.query_table(group.selection).admitted:
            self._plan.put(group.pipeline.steps)

    def close(self, group: Group) -> None:
        """The last query is gone."""
        self._groups.pop(group.edge, None)
        self._former = {edge: each for edge, each in self._former.items() if each is not group}
        self._known.clear()
        group.equal = EqualQueries()

    def move(self, selection: str, edge: str, group: Group, chosen: pl.Expr, catalog: tuple[Any, ...]) -> None:
        """Let queries that another version kept under other names wait to be admitted here. What is left there is
        forgotten when nobody is moved any more."""
        snapshot, tables = self._commits.snapshot, self.tables
        own = (rows.filter(chosen) for rows in tables.of_selection(selection).values())
        moved = {group.selection: tables.table_with(snapshot.query_table(group.selection), "waiting", own)}
        number = max(tables.next_query(group), snapshot.queries.get(edge, 0))
        failed = [key for key in snapshot.failures if key.partition("#")[0] == group.edge]
        # What was made under the other names is of no use, even where some of them are the same.
        snapshot = snapshot.without_states({*group.above, selection}).without_results((edge, group.edge))
        snapshot = snapshot.without_runs((edge, group.edge))
        snapshot = snapshot.with_query_tables(moved).with_number_of_queries({group.edge: number})
        self._commits.commit(snapshot.without_failures(failed).with_catalog(catalog))

    # Who waits

    def is_waited_for(self, group: Group) -> bool:
        """Whether queries of a group wait to be admitted that nobody is busy with."""
        if not self.tables.has_waiting(group):
            return False
        try:
            return not group.filling or bool(self.waiting(group))
        except StateError:
            return True  # a commit came between: whoever asks without the lock looks again with it

    def waiting(self, group: Group, *, filling: bool = False) -> RowsByShape:
        """The queries that wait: those that nobody is busy with, or those whose past is worked through."""
        rows = self.tables.rows(group, "waiting")
        if filling:
            return only_queries(rows, group.filling)
        return without(rows, group.filling) if group.filling else rows

    def by_past(self, group: Group, rows: RowsByShape) -> list[RowsByShape]:
        """Queries that may be run over the past together: what one of them sees of it must not depend on others."""
        apart = by_beginning(self._pasts.of(group.edge, sorted(numbers_of(rows))))
        return [only_queries(rows, queries) for queries in apart] if len(apart) > 1 else [rows] if rows else []

    def admitted(self, group: Group) -> list[int]:
        """The queries that take part."""
        return [query for rows in self.tables.rows(group, "admitted").values() for query in rows[QUERY]]

    def broken(self, failures: Iterable[str]) -> list[Group]:
        """The groups that must find out which of their queries failed: a step of their own did."""
        failed = set(failures)
        found = [group for group in self._groups.values() if group.above & failed]
        return [group for group in found if not failed.intersection(step.name for step in group.below)]

    # Reading

    def rows_of(self, group: Group, schema: Schema, query: int, frames: Iterable[pl.DataFrame]) -> list[Batch]:
        """One query's rows of the group's results, with the query's own columns."""
        if group.lifted.upper is not None:
            raise AssertionError("totals of cells are no rows of queries")
        shift = int(group.lifted.expanded)
        columns = {value_column(index + shift): value_column(index) for index in range(len(schema))}
        columns |= {name: name for name in (START, END, WEIGHT)}
        find = rows_of_query if group.lifted.expanded else _wanted_rows
        found = ((frame, find(frame, query)) for frame in frames)
        return [taken(frame, columns, rows) for frame, rows in found if rows.size]


def _wanted_rows(frame: pl.DataFrame, query: int) -> Positions:
    return np.flatnonzero(wanted_by(frame, query))
