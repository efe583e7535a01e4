"""Queries of a group are told apart when one of them fails: the others lose nothing by it.

    state before the epoch ──those of some queries──▶ the epoch again ──▶ fails, or not

What a group holds is kept by query, so that the epoch can be run again for some of them from what was there before it.
By halves it is found which ones fail; in the end it is run for all others together, and that counts. History is not
asked, since it may not have all any more that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from millstream.engine.epochs.parts import Part
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.task import EpochOutcome, EpochTask
from millstream.engine.groups.admission import Admission
from millstream.engine.groups.group import Group, RowsByShape, halves, numbers_of, only_queries
from millstream.engine.groups.groups import Groups
from millstream.engine.sources import Sources
from millstream.engine.tasks import Tasks
from millstream.errors import EvaluationError
from millstream.state.snapshot import Snapshot, state_names
from millstream.state.written import Written


class FailingQueries:
    """Finds out which queries of groups fail, and has the others go on."""

    def __init__(self, groups: Groups, admission: Admission, sources: Sources, tasks: Tasks, runner: Runner) -> None:
        self.groups, self.admission = groups, admission
        self.sources, self.tasks, self.runner = sources, tasks, runner

    def parted(
        self, task: EpochTask, outcome: EpochOutcome, moved: Snapshot, written: Written
    ) -> tuple[EpochOutcome, Snapshot]:
        """What an epoch comes to where groups go on without those of their queries that fail, which are put aside."""
        for group in self.groups.broken(outcome.failures):
            outcome, moved = _Parting(self, group, task, outcome, written).resolved(outcome, moved)
        return outcome, moved


class _Parting:
    def __init__(
        self, failing: FailingQueries, group: Group, task: EpochTask, outcome: EpochOutcome, written: Written
    ) -> None:
        self.failing, self.group, self.before, self.written = failing, group, task, written
        self.rows: RowsByShape = failing.groups.tables.rows(group, "admitted")
        # What was judged and kept the first time is read from there.
        read: dict[str, tuple[Part, ...]] = {
            source: tuple(part for part in parts if part.is_judged) for source, parts in task.arrived.items()
        }
        for source, files in outcome.history.items():
            read[source] = (*read.get(source, ()), *(failing.sources.history_part(source, file) for file in files))
        sources = group.pipeline.sources
        self.arrived = {source: parts for source, parts in read.items() if source in sources}

    def resolved(self, outcome: EpochOutcome, moved: Snapshot) -> tuple[EpochOutcome, Snapshot]:
        group, queries = self.group, numbers_of(self.rows)
        errors = self._found(halves(self.rows)) if len(queries) > 1 else {}
        made = EpochOutcome()
        if len(errors) < len(queries):
            # All of them, where what failed was kept for one that is gone.
            made = self._run(only_queries(self.rows, queries - errors.keys()))
        if made.failures:
            # Not one of them alone: all that is known is that together they do.
            common = next(iter(made.failures.values()))
            errors, made = {query: errors.get(query, common) for query in queries}, EpochOutcome()
        own = group.above
        states = {step: names for step, names in outcome.states.items() if step not in own}
        results = {edge: names for edge, names in outcome.results.items() if edge != group.edge}
        outcome = replace(
            outcome,
            states={**states, **{step: names for step, names in made.states.items() if step in own}},
            results={**results, **made.results},
            failures={step: error for step, error in outcome.failures.items() if step not in own},
        )
        return outcome, self.failing.admission.mark_failed(group, errors, moved)

    def _found(self, parts: Iterable[RowsByShape]) -> dict[int, EvaluationError]:
        """The queries that fail, each with its error."""
        errors: dict[int, EvaluationError] = {}
        for rows in parts:
            failures, queries = self._run(rows).failures, numbers_of(rows)
            if failures and len(queries) == 1:
                errors[queries.pop()] = next(iter(failures.values()))
            elif failures:
                errors |= self._found(halves(rows))
        return errors

    def _run(self, rows: RowsByShape) -> EpochOutcome:
        """The epoch for some queries, of whom there is what was there before it."""
        failing, group = self.failing, self.group
        steps = {step.name for step in group.pipeline.steps}
        shared = (step.name for step in group.below if step.name in self.before.states)
        below = {step: self.before.states[step] for step in shared}
        kept = failing.admission.held_for(group, self.before.states, numbers_of(rows))
        table = failing.groups.tables.written(rows.values())
        self.written.add([*state_names(kept), *table])
        outcome = failing.runner.run(
            replace(
                failing.tasks.from_nothing(group.pipeline, self.arrived),
                epoch=self.before.epoch,
                concerned=self.before.concerned & steps,
                states={**below, **kept},
                tables={group.selection: table},
                before=self.before.before,
                after=self.before.after,
                shown=(group.edge,),
                owner="failures/",
            )
        )
        self.written.add(outcome.names())
        return outcome
