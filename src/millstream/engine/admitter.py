"""The admitter: queries come to groups and go, and wait in between until their past is worked through.

Coming and going is a note in the journal, and the next commit keeps it. Queries are admitted before the next epoch, or
when somebody asks for an answer of their group; where their past is long, a backfill admits them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import polars as pl

from millstream.engine.background import Background
from millstream.engine.commits import Commits
from millstream.engine.groups.equal_queries import Departure
from millstream.engine.groups.group import Group, RowsByShape, numbers_of
from millstream.engine.groups.groups import Groups
from millstream.engine.groups.new_rows import NewRows
from millstream.engine.history.backfill import Backfills
from millstream.engine.past import WHOLE, Past, Pasts
from millstream.engine.query_tables import NAME, failure_key
from millstream.engine.shared_plan import SharedPlan
from millstream.plan.shapes import Shape
from millstream.state.notes import Record
from millstream.state.snapshot import Catalog


class Admitter:
    """Lets queries into groups: at once, or by a backfill where their past is long."""

    def __init__(
        self,
        commits: Commits,
        plan: SharedPlan,
        pasts: Pasts,
        groups: Groups,
        backfills: Backfills,
        background: Background,
    ) -> None:
        self._commits, self._plan, self._pasts = commits, plan, pasts
        self._groups, self._backfills, self._background = groups, backfills, background

    def enlist(
        self,
        group: Group,
        shape: Shape,
        rows: NewRows,
        catalog: Catalog,
        record: Record | None = None,
        past: Past = WHOLE,
    ) -> None:
        """Take queries into a group, with a catalog that may declare their template.

        They are kept by a commit, or by a record of how they came; the caller commits where the record is empty.
        """
        commits, tables = self._commits, self._groups.tables
        with commits.lock:
            self._groups.open(group, shape)
            own = tables.enqueue(group, shape, rows, past, partial(self._is_over, group.edge))
            queries = [] if own is None else own.queries
            self._pasts.note(group.edge, dict.fromkeys(queries, past))
            try:
                self._keep(catalog, record)
            except BaseException:
                tables.dequeue(group, rows.queries)
                self._pasts.forget(group.edge, queries)
                raise
            self._plan.shown[group.edge] += rows.height
            if own is not None:
                self._hand_over(group, lambda: {shape.name: own.frame()})

    def gather(
        self, group: Group, coming: Sequence[tuple[Shape, NewRows, Past]], edges: Sequence[str], catalog: Catalog
    ) -> None:
        """Queries that showed edges of their own come to a group: all by one commit."""
        tables, pasts, edge = self._groups.tables, self._pasts, group.edge
        with self._commits.lock:
            queries = [number for _, rows, _ in coming for number in rows.queries]
            try:
                for shape, rows, past in coming:
                    self._groups.open(group, shape)
                    own = tables.enqueue(group, shape, rows, past, partial(self._is_over, edge))
                    pasts.note(edge, dict.fromkeys([] if own is None else own.queries, past))
                self.hide(edges, catalog)
            except BaseException:
                tables.dequeue(group, queries)
                pasts.forget(edge, queries)
                raise
            self._plan.shown[edge] += len(queries)

    def hide(self, edges: Sequence[str], catalog: Catalog) -> None:
        """Queries over edges are gone, by one commit; what no other one needs is forgotten."""
        commits, plan = self._commits, self._plan
        with commits.lock:
            hidden = Counter(edges)
            ending = [edge for edge, count in hidden.items() if plan.shown[edge] <= count]
            gone = plan.steps_only_for(*ending)
            commits.commit(commits.snapshot.without_edges(ending, gone).with_catalog(catalog))
            for edge in ending:
                self._backfills.cancel(edge)
                del plan.shown[edge]
                del hidden[edge]
            plan.remove(gone)
            plan.shown.subtract(hidden)

    def _is_over(self, edge: str, row: int) -> bool:
        """Whether a row of a group's query table has failed, or nobody works through its past any more."""
        return failure_key(edge, row) in self._commits.snapshot.failures or self._backfills.is_broken(edge, row)

    def recover(self, group: Group, shapes: Collection[Shape], chosen: pl.Expr) -> RowsByShape:
        """A group as the snapshot has it; gives the rows of its queries of some shapes that are chosen."""
        with self._commits.lock:
            if group.edge not in self._groups:
                self._groups.tables.recover_equal(group)
            for shape in shapes:
                self._groups.open(group, shape)
            self._groups.attach(group)
            tables = self._groups.tables.rows(group)
            named = chosen & pl.col(NAME).is_not_null()
            rows = {shape.name: tables[shape.name].filter(named) for shape in shapes}
            self._plan.shown[group.edge] += sum(frame.height for frame in rows.values())
            return rows

    def dismiss(self, edge: str, queries: Sequence[int], catalog: Catalog, record: Record | None = None) -> None:
        """Queries of a group are gone: kept by a commit, or by a record; the caller commits where that is empty."""
        with self._commits.lock:
            group, remaining = self._groups[edge], self._plan.shown[edge] - len(queries)
            if not remaining:
                self._close(group, catalog)
                return
            departure = group.equal.departure(queries)
            self._groups.tables.take_out(group, departure)
            try:
                self._keep(catalog, record)
            except BaseException:
                self._groups.tables.put_back(group, departure)
                raise
            self._have_gone(group, departure)
            self._plan.shown[edge] = remaining

    def leave_out(self, group: Group, queries: Sequence[int]) -> None:
        """Queries of a group could not be opened, and are there no more; the caller commits."""
        with self._commits.lock:
            departure = group.equal.departure(queries)
            self._groups.tables.take_out(group, departure)
            self._have_gone(group, departure)

    def dismiss_all(self, queries: Mapping[str, Sequence[int]], edges: Counter[str], catalog: Catalog) -> None:
        """Queries of groups are gone, by edge, and queries that show edges of their own: all by one commit."""
        commits, plan, tables = self._commits, self._plan, self._groups.tables
        with commits.lock:
            shown = plan.shown - edges - Counter({edge: len(numbers) for edge, numbers in queries.items()})
            staying = {edge: numbers for edge, numbers in queries.items() if edge in shown}
            ending, needed = {*queries, *edges} - shown.keys(), self.needed(shown)
            departures = {edge: self._groups[edge].equal.departure(numbers) for edge, numbers in staying.items()}
            for edge, departure in departures.items():
                tables.take_out(self._groups[edge], departure)
            forgotten = [tables.forget(self._groups[edge]) for edge in ending if edge in queries]
            try:
                commits.commit(commits.snapshot.only(shown, needed).with_catalog(catalog))
            except BaseException:
                for edge, departure in departures.items():
                    tables.put_back(self._groups[edge], departure)
                for changes in forgotten:
                    tables.remember(changes)
                raise
            for edge in ending:
                self._backfills.cancel(edge)
                if edge in queries:
                    self._groups.close(self._groups[edge])
                    self._pasts.forget_all(edge)
            plan.keep_only(needed)
            plan.shown = shown
            for edge, departure in departures.items():
                self._have_gone(self._groups[edge], departure)

    def _have_gone(self, group: Group, departure: Departure) -> None:
        group.equal.leave(departure)
        group.filling -= departure.gone
        self._pasts.forget(group.edge, departure.gone)

    def _keep(self, catalog: Catalog, record: Record | None) -> None:
        commits = self._commits
        if record is None:
            commits.declare(catalog)
            return
        if record:
            commits.record(record)
        if catalog is not commits.snapshot.catalog:
            commits.carry(commits.snapshot.with_catalog(catalog))

    def _close(self, group: Group, catalog: Catalog) -> None:
        """The last queries of a group are gone."""
        edge, commits, plan = group.edge, self._commits, self._plan
        gone = plan.steps_only_for(edge) | group.above
        changes = self._groups.tables.forget(group)
        try:
            commits.commit(commits.snapshot.without_edges((edge,), gone).with_catalog(catalog))
        except BaseException:
            self._groups.tables.remember(changes)
            raise
        self._backfills.cancel(edge)
        self._groups.close(group)
        plan.remove(gone)
        del plan.shown[edge]
        group.filling.clear()
        self._pasts.forget_all(edge)

    def needed(self, shown: Iterable[str]) -> set[str]:
        """What edges are made of, those of groups too of which no query takes part yet."""
        return self._plan.needed(shown, [step for group in self._groups for step in group.pipeline.steps])

    def ask(self, edge: str) -> None:
        """Have the queries of a group admitted that wait, or the past of an edge worked through: for those who read."""
        if self._backfills.is_put_off(edge):
            self._background.do(self._fill_put_off)
        elif edge in self._groups and self._groups.is_waited_for(self._groups[edge]):
            self._background.do(partial(self._admit_those_of, edge))

    def _fill_put_off(self) -> None:
        with self._commits.lock:
            self._backfills.fill_put_off()

    def _admit_those_of(self, edge: str) -> None:
        with self._commits.lock:
            if edge in self._groups:
                self._admit([self._groups[edge]])

    def admit(self) -> None:
        """Admit all that wait, those with a long past once that was worked through; and let those go that have gone."""
        if self._groups.tables.is_taking_out:
            self._commits.commit_pending()
        self._backfills.fill_put_off()
        self._admit(self._groups)

    def _admit(self, groups: Iterable[Group]) -> None:
        waiting = [(group, self._groups.waiting(group)) for group in groups if self._groups.is_waited_for(group)]
        short = [(group, rows) for group, rows in waiting if not self._hand_over(group, partial(dict, rows))]
        if short:
            self._backfills.admit(short)

    def _hand_over(self, group: Group, waiting: Callable[[], RowsByShape]) -> bool:
        """Have the past of queries worked through in the background, where it is long."""
        if not self._backfills.is_due(group.pipeline, waiting):
            return False
        group.filling |= numbers_of(waiting())
        self._backfills.add_group(group)
        return True
