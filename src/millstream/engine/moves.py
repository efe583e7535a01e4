"""Moves of queries and groups to other plans: from history, or with the state of the plans that they leave."""

from __future__ import annotations

from contextlib import nullcontext

from millstream.engine.admitter import Admitter
from millstream.engine.commits import Commits
from millstream.engine.epochs.runner import Runner
from millstream.engine.history.backfill import Backfills
from millstream.engine.history.handing_over import HandingOver
from millstream.engine.history.handover import CannotHandOver
from millstream.engine.history.move import GroupMove, LeavingMove, Move, after_move
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.state.faults import reach
from millstream.state.snapshot import Catalog


class Moves:
    """Has queries go on by other plans. Every method is safe from any thread."""

    def __init__(
        self,
        commits: Commits,
        sources: Sources,
        plan: SharedPlan,
        backfills: Backfills,
        admitter: Admitter,
        runner: Runner,
    ) -> None:
        self._commits, self._plan, self._backfills, self._admitter = commits, plan, backfills, admitter
        self._handing_over = HandingOver(commits, sources, plan, runner)

    def move(self, move: Move) -> None:
        """Have a query go on by another plan: at once where that runs already, else when its past is worked through."""
        with self._commits.lock:
            self._backfills.fill_put_off()
            if not all(self._plan.shown[after] for after in move.afters):
                self._backfills.move(move)
            elif any(after in self._backfills for after in move.afters) or (catalog := move.catalog()) is None:
                move.ended(None)
            else:
                with self._commits.as_one() if isinstance(move, LeavingMove) else nullcontext():
                    with self._commits.writing() as written:
                        self._commits.commit(
                            after_move(self._commits.snapshot, move, self._commits.store, written).with_catalog(catalog)
                        )
                    move.moved()

    def hand_over(self, move: Move) -> None:
        """Have a query go on by another plan with the state of the one that it has, without asking history; raises
        CannotHandOver where that does not go."""
        with self._commits.lock:
            self._backfills.fill_put_off()
            if any(self._plan.shown[after] for after in move.afters):
                raise CannotHandOver("another query has a part of that plan")
            catalog = move.catalog()
            if catalog is None:
                move.ended(None)
                return
            if isinstance(move, GroupMove):
                self._backfills.group_moves.hand_over(move, catalog, self._handing_over)
            else:
                self._handing_over.perform(move, catalog)
            reach("plan-moved")
            move.moved()

    def take_over(self, move: Move, catalog: Catalog) -> None:
        """A query that showed some edges shows others, by a commit: nobody needs what was only for the former."""
        with self._commits.lock:
            self._plan.shown.update(move.afters)
            self._admitter.hide(move.befores, catalog)

    def show(self, move: Move) -> None:
        """A query shows the edges that it has moved to as well."""
        with self._commits.lock:
            self._plan.shown.update(move.afters)

    def take_over_group(self, move: GroupMove) -> None:
        """A group goes on by another plan, which is committed, and whose queries read by it: nobody needs what was only
        for the former."""
        group, plan, before = move.group, self._plan, move.group.edge
        with self._commits.lock:
            group.take_over(move.target)
            plan.shown[group.edge] = plan.shown.pop(before)
            gone = plan.steps_only_for(before)
            self._commits.commit(self._commits.snapshot.without_edges((before,), gone))
            plan.remove(gone)
