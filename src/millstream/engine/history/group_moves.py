"""Groups that go on by another plan: all queries at once, in the order of their numbers and with all they have said.

    the queries that take part ──run over history by the other plan──▶ one commit ──▶ the other group's table, results

The query table is the same under another name. Who came to the group meanwhile is run by the other plan too, under the
lock; who went is left out. Names, numbers and equal queries stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millstream.engine.commits import Commits
from millstream.engine.groups.admission import Admission, NewQueries
from millstream.engine.groups.group import RowsByShape, numbers_of, only_queries
from millstream.engine.groups.groups import Groups
from millstream.engine.groups.tables import without
from millstream.engine.history.handing_over import HandingOver
from millstream.engine.history.handover import CannotHandOver
from millstream.engine.history.move import GroupMove, after_move
from millstream.engine.history.replay import HistoryRun
from millstream.engine.query_tables import failure_key
from millstream.state.faults import reach
from millstream.state.snapshot import Catalog, Snapshot
from millstream.state.written import Written


class GroupMoves:
    """Runs groups by other plans, and has these take their places; under the lock of commits."""

    def __init__(self, commits: Commits, groups: Groups, admission: Admission) -> None:
        self._commits, self._groups, self._admission = commits, groups, admission

    def run(self, move: GroupMove, owner: str) -> HistoryRun:
        """The past of all queries that take part, by the other plan."""
        self._commits.commit_pending()
        self._groups.know_source_of(move.target)
        return self._run_for(move, self._groups.tables.rows(move.group, "admitted"), owner)

    def _run_for(self, move: GroupMove, rows: RowsByShape, owner: str) -> HistoryRun:
        target = move.target
        run = HistoryRun(
            target.fork_pipeline(), frozenset([target.edge]), owner, move.firsts, group=target, queries=rows
        )
        run.tables = {target.selection: self._groups.tables.written(rows.values())}
        run.once = self._admission.query_rows(target, rows)
        return run

    def publish(self, move: GroupMove, run: HistoryRun, catalog: Catalog, finish: Callable[[HistoryRun], None]) -> bool:
        """The other plan is as far as the committed snapshot: commit it. Tells whether that was possible; not while
        queries wait whose past is long."""
        commits, groups, group = self._commits, self._groups, move.group
        commits.commit_pending()
        if group.filling or groups.tables.has_waiting(group):
            return False
        rows = groups.tables.rows(group, "admitted")
        known = numbers_of(run.queries)
        with commits.writing() as written:
            made = [self._new(move, run, only_queries(rows, known))]
            if late := without(rows, known):
                later = self._run_for(move, late, "move/")
                written.add(later.names())
                finish(later)
                written.add(later.names())
                if later.failures:
                    return False
                made.append(self._new(move, later, late))
            snapshot = commits.snapshot.with_next_epoch()
            snapshot = self._admission.taking_part(made, snapshot, written)
            snapshot = after_move(self._renamed(move, snapshot, written), move, commits.store, written)
            reach("group-about-to-move")
            commits.commit(snapshot.with_catalog(catalog))
        self._admission.put(move.target)
        groups.rename(group, move.target.edge)
        return True

    def hand_over(self, move: GroupMove, catalog: Catalog, handing_over: HandingOver) -> None:
        """The same with the state of the plan that runs, without asking history."""
        group, target = move.group, move.target
        self._commits.commit_pending()
        self._groups.know_source_of(target)
        if group.filling or self._groups.tables.has_waiting(group):
            raise CannotHandOver("some of its queries wait for their past", is_early=True)

        def renamed(snapshot: Snapshot) -> Snapshot:
            table = snapshot.query_table(group.selection)
            return self._known(move, snapshot.with_query_tables({target.selection: table}))

        handing_over.perform(move, catalog, renamed)
        self._admission.put(target)
        self._groups.rename(group, target.edge)

    @staticmethod
    def _new(move: GroupMove, run: HistoryRun, rows: RowsByShape) -> NewQueries:
        return NewQueries(move.target, rows, run.states, run.results.get(move.target.edge, ()))

    def _renamed(self, move: GroupMove, snapshot: Snapshot, written: Written) -> Snapshot:
        """With all that is known of the group's queries under the names of the other plan too."""
        group, target = move.group, move.target
        before, table = snapshot.query_table(group.selection), snapshot.query_table(target.selection)
        table = replace(table, failed=before.failed, equal=before.equal)
        written.add(table.names())
        return self._known(move, snapshot.with_query_tables({target.selection: table}))

    def _known(self, move: GroupMove, snapshot: Snapshot) -> Snapshot:
        group, target = move.group, move.target
        failures = {
            failure_key(target.edge, int(key.partition("#")[2])): said
            for key, said in snapshot.failures.items()
            if key.startswith(f"{group.edge}#")
        }
        number = self._groups.tables.next_query(group)
        return snapshot.with_failures(failures).with_number_of_queries({target.edge: number})
