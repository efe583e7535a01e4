"""Admission: queries come to groups and go, and wait in between until their past is worked through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.groups.admission import Groups
from millstream.engine.groups.group import Group, Rows, numbers_of
from millstream.engine.history.backfill import Backfills
from millstream.engine.past import WHOLE, Past, Pasts
from millstream.engine.shared_plan import SharedPlan
from millstream.kernel.sharing.parameters import QUERY
from millstream.plan.grouping import Shape
from millstream.state.notes import Record
from millstream.state.snapshot import Catalog


class Admitter:
    """Lets queries into groups: at once, or by a backfill where their past is long."""

    def __init__(self, commits: Commits, plan: SharedPlan, pasts: Pasts, groups: Groups, backfills: Backfills) -> None:
        self._commits, self._plan, self._pasts = commits, plan, pasts
        self._groups, self._backfills = groups, backfills

    def enlist(
        self,
        group: Group,
        shape: Shape,
        rows: pl.DataFrame,
        catalog: Catalog,
        record: Record | None = None,
        past: Past = WHOLE,
    ) -> None:
        """Take queries into a group; they take part from the next epoch, or when they are asked for their answer.

        They are kept by a commit, or (where nothing new is declared) by a record of how they came; the caller commits
        where the record is empty.
        """
        commits = self._commits
        with commits.lock:
            self._groups.open(group, shape)
            self._pasts.note(group.edge, dict.fromkeys(rows[QUERY], past))
            self._groups.hold(group, shape, rows)
            try:
                if record is None or catalog is not commits.snapshot.catalog:
                    commits.declare(catalog)
                elif record:
                    commits.journal.note(record)
            except BaseException:
                self._groups.let_go(group, shape)
                self._pasts.forget(group.edge, rows[QUERY])
                raise
            self._plan.shown[group.edge] += rows.height
            self._hand_over(group)

    def recover(self, group: Group, shapes: Collection[Shape], chosen: pl.Expr) -> Rows:
        """A group as the snapshot has it; gives the rows of its query tables of some shapes that are chosen."""
        with self._commits.lock:
            for shape in shapes:
                self._groups.open(group, shape)
            self._groups.attach(group)
            tables = self._groups.tables(group)
            rows = {shape.name: tables[shape.name].filter(chosen) for shape in shapes}
            self._plan.shown[group.edge] += sum(frame.height for frame in rows.values())
            return rows

    def dismiss(self, edge: str, queries: Sequence[int], catalog: Catalog) -> None:
        """Queries of a group are gone."""
        with self._commits.lock:
            group, remaining = self._groups[edge], self._plan.shown - Counter({edge: len(queries)})
            snapshot = self._groups.without(group, queries)
            group.filling.difference_update(queries)
            self._pasts.forget(edge, queries)
            if edge not in remaining:
                self._backfills.cancel(edge)
                self._groups.close(group)
                needed = self.needed(remaining)
                snapshot = snapshot.only(remaining, needed)
                self._plan.keep_only(needed)
            self._commits.commit(snapshot.with_catalog(catalog))
            self._plan.shown = remaining

    def needed(self, shown: Counter[str]) -> set[str]:
        """What edges are made of, those of groups too of which no query takes part yet."""
        return self._plan.needed(shown, [step for group in self._groups for step in group.pipeline.steps])

    def settle(self, edge: str) -> None:
        """Let the queries of a group that wait take part."""
        if edge in self._groups and self._groups.is_waited_for(self._groups[edge]):
            with self._commits.lock:
                self._let_in(self._groups[edge])

    def let_in(self) -> None:
        """Let all that wait take part; those with a long past once that was worked through."""
        for group in self._groups:
            self._let_in(group)

    def _let_in(self, group: Group) -> None:
        if self._groups.is_waited_for(group) and not self._hand_over(group):
            self._groups.let_in(group)

    def _hand_over(self, group: Group) -> bool:
        """Have the past of those that wait worked through in the background, where it is long."""
        waiting = self._groups.waiting(group)
        if not self._backfills.is_due(group.pipeline, waiting):
            return False
        group.filling |= numbers_of(waiting)
        self._backfills.add_group(group)
        return True
