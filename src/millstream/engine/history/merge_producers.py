"""Queries that come late to a producer that others read: theirs and the one that runs become one (`producers`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from millstream.engine.commits import Commits
from millstream.engine.epochs.commit import after_epoch
from millstream.engine.epochs.runner import Runner
from millstream.engine.epochs.task import EpochOutcome
from millstream.engine.query_tables import admitted_tables
from millstream.engine.shared_plan import SharedPlan
from millstream.engine.sources import Sources
from millstream.engine.tasks import Tasks
from millstream.kernel.just_in_time.consumers import CONSUMER_INPUT
from millstream.kernel.just_in_time.producers import OTHER, Producer
from millstream.kernel.pipeline import Pipeline, Step
from millstream.state.snapshot import Names, Snapshot, state_names
from millstream.state.written import Written

Synopses = Mapping[str, Names]  # by shard and name


@dataclass
class Newcomers:
    """The plans of queries that come, the edges they show, and what they hold and show by what is committed."""

    pipeline: Pipeline
    shown: frozenset[str]
    states: dict[str, Synopses]
    results: dict[str, Names]

    def take(self, outcome: EpochOutcome) -> None:
        self.states |= outcome.states
        for edge, names in outcome.results.items():
            self.results[edge] = (*self.results.get(edge, ()), *names)


@dataclass(frozen=True)
class Merger:
    """Lets plans take part whose past was worked through."""

    commits: Commits
    sources: Sources
    plan: SharedPlan
    tasks: Tasks
    runner: Runner

    def admit(self, new: Newcomers, changed: Callable[[Snapshot], Snapshot]) -> None:
        """Let plans take part that are as far as the committed snapshot, with what else is `changed` in it. Of steps
        that are there already the state stays."""
        known = {step.name for step in new.pipeline.steps if step.name in self.plan}
        with self.commits.writing() as written:
            written.add([*state_names(new.states), *(name for names in new.results.values() for name in names)])
            snapshot = self._merged_states(new, known, written)
            added = {step: names for step, names in new.states.items() if step not in known}
            snapshot = snapshot.with_next_epoch().with_states(added).with_results_of(new.results)
            self.commits.commit(changed(snapshot))
        self.plan.add(new.pipeline.steps)

    def _merged_states(self, new: Newcomers, known: set[str], written: Written) -> Snapshot:
        """The committed snapshot, with producers that have made what they have made for those who come, as these have
        of theirs; a producer that was there holds what its new consumers ask by."""
        snapshot = self.commits.snapshot
        for step in new.pipeline.steps:
            # Where all that reads it is there already, what is there goes on as it is.
            if step.name in known and _has_consumers(step) and new.pipeline.downstream([step.name]) - known:
                snapshot = self._merged(new, step, snapshot, written)
        return snapshot

    def _merged(self, new: Newcomers, theirs: Step, snapshot: Snapshot, written: Written) -> Snapshot:
        plan, name = self.plan, theirs.name
        ours = plan.pipeline.by_name[name]
        our_state, their_state = snapshot.states.get(name, {}), new.states.get(name, {})
        if not our_state and not their_state:
            return snapshot
        of_sources = self.sources.frontiers(snapshot)
        frontiers = plan.pipeline.frontiers(of_sources) | new.pipeline.frontiers(of_sources)
        admitting = "other" if _keep_alike(frontiers, ours, theirs) else "all"
        there = _Merging(self, new.pipeline, theirs, new.shown, admitting)
        here = _Merging(self, plan.pipeline, ours, plan.shown.keys(), admitting)
        states = {**new.states, name: _with_other(their_state, our_state)}
        made = there.run(states, {name, *new.pipeline.downstream([name])}, written)
        new.take(made)
        concerned = {name}
        ours_too = {name: _with_other(our_state, their_state)}
        outcome = here.run(ours_too, concerned, written)
        if outcome.rows.get(name):  # which is seldom, and then others may be many
            concerned |= plan.pipeline.downstream([name])
            outcome = here.run(
                {**snapshot.states, **ours_too}, concerned, written, admitted_tables(snapshot, concerned)
            )
        snapshot = after_epoch(snapshot, outcome, concerned, {})
        consumer_states = {
            each: names
            for each, names in made.states.get(name, {}).items()
            if _synopsis(each).startswith(CONSUMER_INPUT)
        }
        return snapshot.with_states({name: {**consumer_states, **snapshot.states.get(name, {})}})


def _has_consumers(step: Step) -> bool:
    return isinstance(step.operator, Producer) and step.operator.consumer_demand is not None


def _keep_alike(frontiers: Mapping[str, int], ours: Step, theirs: Step) -> bool:
    """Whether both keep rows for as long: until no input can reach them any more, nor what is asked by."""
    furthest = max(frontiers[edge] for edge in ours.inputs)
    least = {min([furthest, *(frontiers[edge] for edge in step.consumer_edges)]) for step in (ours, theirs)}
    return len(least) == 1


def _with_other(state: Synopses, other: Synopses) -> Synopses:
    """A state, with another one beside it under names of its own."""
    other_state = {f"{each.partition('/')[0]}/{OTHER}{_synopsis(each)}": names for each, names in other.items()}
    return {**state, **other_state}


def _synopsis(name: str) -> str:
    """Its name without the shard's."""
    return name.partition("/")[2]


@dataclass(frozen=True)
class _Merging:
    """One of two producers, in the pipeline that it is a step of; `shown` are the edges whose rows are kept there."""

    merger: Merger
    pipeline: Pipeline
    step: Step
    shown: Collection[str]
    admitting: str

    def run(
        self,
        states: Mapping[str, Synopses],
        concerned: set[str],
        written: Written,
        tables: Mapping[str, Names] = MappingProxyType({}),
    ) -> EpochOutcome:
        """A step in which it admits rows, and of others that read it; time does not pass. What is written is noted."""
        if not isinstance(self.step.operator, Producer):
            raise AssertionError(f"{self.step.name} is no producer")
        merging = replace(self.step, operator=self.step.operator.merging_with(self.admitting))
        frontiers = self.merger.sources.frontiers()
        task = replace(
            self.merger.tasks.from_nothing(self.pipeline.replacing((merging,)), {}),
            concerned=frozenset(concerned),
            states={each: synopses for each, synopses in states.items() if each in concerned},
            tables=tables,
            before=frontiers,
            after=frontiers,
            shown=tuple(edge for edge in self.shown if edge in concerned),
        )
        outcome = self.merger.runner.run(task)
        written.add(outcome.names())
        if outcome.failures:
            raise next(iter(outcome.failures.values()))
        return outcome
