"""Has plans go on with the state of those that run, where history does not have all any more (`handover`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from millstream.engine.commits import Commits
from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.task import EpochTask, StateNames
from millstream.engine.history.handover import CannotHandOver, Comparison, Handover, Held
from millstream.engine.history.move import GroupMove, Move
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.kernel.batch import BORN, Batch, concat, empty_batch
from millstream.kernel.pipeline import Pipeline
from millstream.state.faults import reach
from millstream.state.snapshot import Catalog, Snapshot
from millstream.state.written import Written
from millstream.types import Schema


@dataclass(frozen=True)
class HandingOver:
    """Moves queries by what the plans hold that they leave; under the lock of commits."""

    commits: Commits
    sources: Sources
    plan: SharedPlan
    runner: Runner

    def perform(
        self, move: Move, catalog: Catalog, renamed: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot
    ) -> None:
        """From this commit on a query runs by its new plan, with whatever else is `renamed`; raises CannotHandOver
        where the state that there is does not go with that."""
        plan, commits = self.plan, self.commits
        if isinstance(move, GroupMove):
            old = move.group.fork_pipeline()  # whose steps do not remember what they have made
        else:
            old = plan.pipeline.only(plan.pipeline.edges_below(*move.befores))
        found = Comparison(old, move.pipeline, self.sources.frontiers())
        for before, after in move.edges:
            found.compare(before, after)
        empty = {source: self.sources.empty(source) for source in {*old.sources, *move.pipeline.sources}}
        found.check_places(empty, self.runner.planner.shards)
        with commits.writing() as written:
            states = self._made(found, written)
            snapshot = commits.snapshot.with_next_epoch().with_states(states)
            reach("state-handed-over")
            commits.commit(renamed(_with_results(snapshot, move)).with_catalog(catalog))
        plan.add(move.pipeline.steps)

    def _made(self, found: Comparison, written: Written) -> StateNames:
        """What the steps of the new plan hold that the old one does not have."""
        handover, snapshot = found.handover, self.commits.snapshot
        taken = {
            after: snapshot.states[before]
            for after, before in handover.taken.items()
            if before in snapshot.states and after not in self.plan
        }
        made = Pipeline(tuple(step for step in handover.made if step.name not in self.plan))
        if not made.steps:
            return taken
        return {**taken, **self._run(made, handover, found, written)}

    def _run(self, made: Pipeline, handover: Handover, found: Comparison, written: Written) -> StateNames:
        """Joins over the rows that others hold."""
        rows = {edge: self._rows(edge, handover.held[edge], found.old) for edge in made.sources}
        with self.commits.store.file("handover") as writer:
            parts = {
                edge: (Part("rows", writer.write(batch), batch.height, self._schema(edge, found.old)),)
                for edge, batch in rows.items()
                if batch.height
            }
        written.add(part.name for each in parts.values() for part in each)
        task = EpochTask(
            self.commits.snapshot.epoch + 1,
            made,
            frozenset(step.name for step in made.steps),
            parts,
            {edge: batch.clear() for edge, batch in rows.items()},
            before=dict.fromkeys(rows, -1),
            after={edge: found.frontiers[edge] for edge in rows},
            periods=dict.fromkeys(rows, 1),
            owner="handover/",
        )
        outcome = self.runner.run(task)
        written.add(outcome.names())
        for error in outcome.failures.values():
            raise CannotHandOver(str(error))
        return outcome.states

    def _schema(self, edge: str, pipeline: Pipeline) -> Schema:
        step = pipeline.by_name.get(edge)
        return self.sources.schema(edge) if step is None else step.operator.schema

    def _rows(self, edge: str, holders: Sequence[Held], pipeline: Pipeline) -> Batch:
        """The rows of an edge that joins hold, on all shards, each once."""
        found, states = list[Batch](), self.commits.snapshot.states
        for place, held in enumerate(holders):
            kept = states.get(held.step, {}).items()
            names = [name for key, segments in kept if key.partition("/")[2] == held.synopsis for name in segments]
            for frame in map(self.commits.store.read, names):
                if BORN in frame.columns:
                    raise CannotHandOver("its rows remember when they were generated")
                # What one of those before can hold is there already.
                lacking = (pl.any_horizontal(pl.col(each.required).is_null()) for each in holders[:place])
                found.append(frame.filter(*lacking)[held.columns] if place else frame[held.columns])
        return concat(found, empty_batch(self._schema(edge, pipeline)))


def _with_results(snapshot: Snapshot, move: Move) -> Snapshot:
    return snapshot.with_results_of({after: snapshot.results.get(before, ()) for before, after in move.edges})
